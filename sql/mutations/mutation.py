"""A mutation as it is stored: its commands' text, the columns and tables it needs, and its checks.

A table of one server writes a :class:`Mutation` beside its parts, a replicated one into ZooKeeper.
``sql.mutations.part_mutation`` applies the commands to a part. Nothing here reads rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from parts.common.command_reach import REACH_LINE, CommandReach, add_reach, find_reach
from parts.common.errors import UserError
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS
from parts.table.table_description import TableDescription
from sql.compile.names.column_names import canonical_text
from sql.compile.passes.query_parameters import parameter_value
from sql.functions.determinism import is_changing
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import (
    ClearColumnData,
    DeleteRows,
    MaterializeColumn,
    MaterializeTtl,
    MutationCommand,
    PartitionRef,
    UpdateRows,
)
from sql.grammar.statements.mutate_table import format_mutations, parse_stored_mutations
from sql.grammar.syntax_tree import Function, Identifier, NamedTable, Node, Parameter, Query, walk
from sql.grammar.tokens import TokenStream
from sql.mutations.mutation_queries import MutationStep

_VERSION, _VERSION_WITH_REACH = 1, 2
_DROP_LINE = "kind: drop\n"
ALL_ROWS = "1"
"""The condition of a command that touches every row."""


@dataclass(frozen=True)
class Mutation:
    """Commands of one mutation, which name partitions by id.

    ``database`` is that of tables without one, ``timezone`` that of times without one. ``reach`` limits the commands
    to rows of certain commits (``parts.common.command_reach``). ``is_drop``: it stands for DROP PARTITION or TRUNCATE.
    """

    commands: tuple[MutationCommand, ...]
    database: str
    timezone: str = "UTC"
    reach: CommandReach | None = None
    is_drop: bool = False

    @cached_property
    def text(self) -> str:
        """The commands as SQL."""
        return format_mutations(self.commands)

    def encode(self) -> str:
        """Returns the text to store: lines, of which the commands are the last."""
        text = (
            f"format version: {_VERSION}\n"
            f"database: {_escape(self.database)}\n"
            f"timezone: {self.timezone}\n"
            f"{_DROP_LINE if self.is_drop else ''}"
            f"commands: {_escape(format_mutations(self.commands, is_kept=True))}\n"
        )
        return add_reach(text, self.reach) if self.reach is not None else text

    @classmethod
    def decode(cls, text: str) -> Mutation:
        """Reads a text of :meth:`encode`.

        Raises ``ValueError`` for anything else, ``UserError`` 62 for unknown commands.
        """
        reach = find_reach(text)
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(REACH_LINE)]
        is_drop = _DROP_LINE in lines
        rest = (line.rstrip("\n").partition(": ") for line in lines if line != _DROP_LINE)
        version, database, timezone, commands = rest
        known = _VERSION if reach is None else _VERSION_WITH_REACH
        if version != ("format version", ": ", str(known)):
            raise ValueError(f"format version {version[2]!r} of a mutation, {_VERSION_WITH_REACH} is known")
        parsed = parse_stored_mutations(_unescape(commands[2]))
        return cls(parsed, _unescape(database[2]), timezone[2], reach, is_drop)

    def steps(self, partition_id: str) -> tuple[MutationStep, ...]:
        """Returns the steps for parts of the partition, in order.

        ``sql.mutations.part_mutation.PartMutator.apply`` carries them out.
        """
        wanted = [c for c in self.commands if c.partition is None or c.partition.id == partition_id]
        return tuple(map(self.make_step, wanted))

    def make_step(self, command: MutationCommand) -> MutationStep:
        """Returns the step for one command."""
        return MutationStep(command, self.database, self.timezone, self.reach)

    @property
    def partition_ids(self) -> frozenset[str] | None:
        """The only partitions that it may change; ``None``: all."""
        ids = [command.partition.id if command.partition is not None else None for command in self.commands]
        return None if None in ids else frozenset(id_ for id_ in ids if id_ is not None)

    @property
    def tables(self) -> frozenset[tuple[str, str]]:
        """Database and name of the tables that subqueries may read; some may be names of WITH."""
        return frozenset(
            (database or self.database, name) for node in self._nodes() for database, name in _tables_of(node)
        )

    @property
    def names(self) -> frozenset[str]:
        """The columns that it changes, and all names that may be columns in its expressions."""
        found = {part for node in self._nodes() if isinstance(node, Identifier) for part in node.parts}
        for command in self.commands:
            if isinstance(command, UpdateRows):
                found.update(name for name, _ in command.assignments)
            elif isinstance(command, MaterializeColumn | ClearColumnData):
                found.add(command.name)
        return frozenset(found)

    def find_command_without_rows(self) -> str:
        """Names a command that does not find the rows that it changes by a condition; "" for none."""
        others = (command for command in self.commands if not isinstance(command, UpdateRows | DeleteRows))
        return next((format_mutations((command,)) for command in others), "")

    def find_nondeterminism(self) -> str:
        """Names what makes the result depend on more than the rows of a part.

        That is ``function f``, ``a subquery``, or ``""`` for nothing.
        """
        for node in self._nodes():
            if isinstance(node, Function) and is_changing(node.name):
                return f"function {node.name}"
            if isinstance(node, Query) or any(_tables_of(node)):
                return "a subquery"
        return ""

    def check(self, description: TableDescription) -> None:
        """Checks the commands against the table's definition.

        Raises 16, 36, 420 and 524 for columns that cannot be changed like this. Raises 183 for what makes several rows
        of one, 184 for window functions: they would see the rows of one part, which merges change.
        """
        for node in self._nodes(into_queries=False):
            if isinstance(node, Function) and node.name.lower() == "arrayjoin":
                raise UserError("UNEXPECTED_EXPRESSION", "arrayJoin is not allowed in mutations")
            if isinstance(node, Function) and node.window is not None:
                raise UserError("ILLEGAL_AGGREGATION", f"Window function {node.name} is not allowed in mutations")
        if PART_OFFSET in description.schema:
            raise UserError("NOT_IMPLEMENTED", f"Mutations of a table with a column `{PART_OFFSET}` are not supported")
        for command in self.commands:
            match command:
                case UpdateRows(assignments, _, _):
                    for name, _ in assignments:
                        _check_updated(name, description)
                case MaterializeColumn(name, _):
                    if not description.schema.column(name).default_kind:
                        raise UserError(
                            "BAD_ARGUMENTS",
                            f"Cannot materialize column `{name}` because it doesn't have default expression",
                        )
                    _check_not_in_key(name, description, "MATERIALIZE", "BAD_ARGUMENTS")
                case MaterializeTtl() if not description.ttl:
                    raise UserError("INCORRECT_QUERY", "Cannot MATERIALIZE TTL as there is no TTL set for the table")
                case ClearColumnData(name, _):
                    description.schema.column(name)
                    _check_not_in_key(name, description, "CLEAR", "ALTER_OF_COLUMN_IS_FORBIDDEN")

    def _nodes(self, *, into_queries: bool = True) -> Iterator[Node]:
        for command in self.commands:
            if isinstance(command, UpdateRows | DeleteRows):
                for text in (command.condition, *_values(command)):
                    yield from walk(parse_expression(text), into_queries=into_queries)


def make_drop(partition_id: str | None, database: str) -> Mutation:
    """Returns the mutation that stands for DROP PARTITION, or without a partition for TRUNCATE."""
    partition = PartitionRef(id=partition_id) if partition_id is not None else None
    return Mutation((DeleteRows(ALL_ROWS, partition),), database, is_drop=True)


def substitute_parameters(text: str, given: Mapping[str, str]) -> str:
    """Writes the values of query parameters into the expression. Raises 456 for a missing one."""
    stream = TokenStream(text)
    pieces, end = [], 0
    while (token := stream.peek()).kind != "end":
        if token.text != "{" or token.kind != "mark":
            stream.next()
            continue
        stream.skip_group()
        node = parse_expression(text[token.start : stream.position])
        if isinstance(node, Parameter):
            pieces += [text[end : token.start], canonical_text(parameter_value(node, given))]
            end = stream.position
    return "".join([*pieces, text[end:]])


def _values(command: UpdateRows | DeleteRows) -> list[str]:
    return [value for _, value in command.assignments] if isinstance(command, UpdateRows) else []


def _tables_of(node: Node) -> Iterator[tuple[str | None, str]]:
    if isinstance(node, NamedTable):
        yield node.database, node.table
    if isinstance(node, Function) and node.name.lower().endswith("in") and len(node.args) == 2:
        right = node.args[1]
        if isinstance(right, Identifier) and len(right.parts) <= 2:
            yield (right.parts[0] if len(right.parts) == 2 else None), right.parts[-1]


def _check_updated(name: str, description: TableDescription) -> None:
    if name == ROW_EXISTS:
        return
    column = next((c for c in description.schema.columns if c.name == name and c.is_stored), None)
    if column is None:
        raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"There is no column `{name}` in table")
    if column.default_kind == "MATERIALIZED":
        raise UserError("CANNOT_UPDATE_COLUMN", f"Cannot UPDATE materialized column `{name}`")
    _check_not_in_key(name, description, "UPDATE", "CANNOT_UPDATE_COLUMN")
    for other in description.schema.columns:
        depends = other.default_kind == "MATERIALIZED" and other.default and name in other.default.columns
        if depends and other.name in _key_columns(description):
            raise UserError(
                "CANNOT_UPDATE_COLUMN",
                f"Updated column `{name}` affects MATERIALIZED column `{other.name}`, which is a key column. "
                "Cannot UPDATE it.",
            )


def _check_not_in_key(name: str, description: TableDescription, verb: str, code: str) -> None:
    if name in _key_columns(description):
        raise UserError(code, f"Cannot {verb} key column `{name}`: parts are sorted and divided by it")


def _key_columns(description: TableDescription) -> set[str]:
    keys = (description.sorting_key, description.partition_key, description.sampling_key)
    return {name for key in keys for name in key.columns} | set(description.merge_mode.columns)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _unescape(text: str) -> str:
    return "\\".join(piece.replace("\\n", "\n") for piece in text.split("\\\\"))
