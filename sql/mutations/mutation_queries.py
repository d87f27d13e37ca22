"""Builds the queries that find the rows which an UPDATE or a DELETE changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parts.common.command_reach import CommandReach
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.table_description import Column, TableDescription
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import DeleteRows, MutationCommand, UpdateRows
from sql.grammar.syntax_tree import Function, Literal, Node, Subquery, walk
from sql.grammar.tokens import quote_identifier, quote_identifier_if_needed, quote_string
from sql.mutations.changed_rows import ChangedRows
from sql.relations import (
    ArrowRelation,
    BlockRelation,
    PartsRelation,
    RelationCatalog,
    StreamedRelation,
    TablePositions,
    ViewRelation,
)
from sql.run.query_engine import QueryEngine
from sql.settings.session_settings import (
    make_settings,
)

_PART, _BLOCK = "\0part", "\0block"
"""The names of the part or block in the queries; no user can give them."""


@dataclass(frozen=True)
class MutationStep:
    """A command, with the database of tables without one and the zone of times without one.

    With a ``reach`` it changes only the rows that this covers.
    """

    command: MutationCommand
    database: str
    timezone: str
    reach: CommandReach | None = None


def find_changed_rows(
    engine: QueryEngine,
    step: MutationStep,
    relation: PartsRelation | BlockRelation,
    description: TableDescription,
    table: str,
    others: RelationCatalog,
) -> ChangedRows:
    """Finds the rows of ``relation`` that an UPDATE or a DELETE changes, with their new values.

    ``relation`` is a part of the table that ``description`` describes, or a block of some of its columns with
    ``_part_offset``.
    """
    result = engine.select(
        build_changes_query(description, table, step.command, _BLOCK if isinstance(relation, BlockRelation) else _PART),
        catalog=_WithPart(others, relation, step.database),
        settings=make_settings({}, step.timezone),
        database=step.database,
        constants={"currentDatabase": step.database, "timezone": step.timezone},
    )
    return ChangedRows(result.batches)


def check_step(
    engine: QueryEngine,
    step: MutationStep,
    table: PartsRelation,
    name: str,
    others: RelationCatalog,
    status: QueryStatus,
) -> None:
    """Raises the errors of a command's expressions that show without reading rows."""
    if isinstance(step.command, UpdateRows | DeleteRows):
        engine.describe(
            build_changes_query(table.description, name, step.command),
            catalog=_WithPart(others, table, step.database),
            settings=make_settings({}, step.timezone),
            database=step.database,
            constants={"currentDatabase": step.database, "timezone": step.timezone},
            status=status,
        )
    for name, expression in step.command.assignments if isinstance(step.command, UpdateRows) else ():
        node = parse_expression(expression)
        type_ = find_updated_column(table.description, name).type
        if isinstance(node, Literal) and node.value is None and not type_.is_nullable:
            raise UserError("CANNOT_CONVERT_TYPE", f"Cannot convert NULL to a non-nullable type: {name} is {type_}")
        if isinstance(node, Literal):
            query = f"SELECT CAST({_in_brackets(expression)}, {quote_string(type_.name)})"
            engine.select(query, catalog=others, status=status).read_all()


def build_changes_query(
    description: TableDescription, table: str, command: MutationCommand, source: str = _PART
) -> str:
    """Builds the query for the number and the new values of each row that a command changes."""
    assert isinstance(command, UpdateRows | DeleteRows), command
    values = [PART_OFFSET]
    aliases = [column.default_expression for column in description.schema.columns if column.default_kind == "ALIAS"]
    texts = [command.condition, *aliases]  # the query may read any of them
    for name, expression in command.assignments if isinstance(command, UpdateRows) else ():
        type_ = find_updated_column(description, name).type
        values.append(f"CAST({_in_brackets(expression)}, {quote_string(type_.name)})")
        texts.append(expression)
    query = (
        f"SELECT {', '.join(values)} FROM {quote_identifier(source)} AS {quote_identifier_if_needed(table)} "
        f"WHERE {_in_brackets(command.condition)}"
    )
    if any(_may_join(node) for text in texts for node in walk(parse_expression(text))):
        query += f" ORDER BY {PART_OFFSET}"
    return query


_SETS = ("in", "notIn", "globalIn", "globalNotIn", "nullIn")


def _may_join(node: Node) -> bool:
    """Returns whether DuckDB may make a join of it, which loses the order of the rows; it does so of IN too."""
    return isinstance(node, Subquery) or (isinstance(node, Function) and node.name in _SETS)


def find_updated_column(description: TableDescription, name: str) -> Column:
    """Returns the column that an assignment names; ``_row_exists`` counts as one."""
    return ROW_EXISTS_COLUMN if name == ROW_EXISTS else description.schema.column(name)


def _in_brackets(expression: str) -> str:
    """Puts an expression in brackets, behind a line break in case it ends with a comment."""
    return f"({expression}\n)"


# What the queries read ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnePart:
    """A relation of one part. Implements ``sql.relations.PartsRelation``."""

    part: Part
    description: TableDescription

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot:
        """Holds the part."""
        return Snapshot([self.part], lambda _: None)


@dataclass(frozen=True)
class _WithPart:
    """A catalog in which the part has a name of its own. Implements ``sql.relations.RelationCatalog``."""

    others: RelationCatalog
    part: PartsRelation | BlockRelation
    database: str

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation:
        """Returns the part, or another catalog's relation."""
        if table not in (_PART, _BLOCK):
            return self.others.relation(database or self.database, table)
        if isinstance(self.part, BlockRelation) or self.part.description.has_parts:
            return self.part  # every part has the same definition object, so that plans over it are cached
        # Rows are numbered here, also those of a small table.
        return replace(self.part, description=replace(self.part.description, has_parts=True))  # type: ignore[type-var]

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Returns the relation of the table function ``file``."""
        return self.others.find_file(path, format, structure)

    def find_function_tables(self, function: object) -> object:
        """Returns the tables that a table function reads."""
        return self.others.find_function_tables(function)

    @property
    def positions(self) -> TablePositions:
        """Returns the answers to functions that ask for positions of tables."""
        return self.others.positions
