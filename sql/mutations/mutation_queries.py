"""The queries that find the rows which an UPDATE or a DELETE changes, and what they read."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from parts.table.row_exists_column import PART_OFFSET, ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.table_description import Column, TableDescription
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import DeleteRows, MutationCommand, UpdateRows
from sql.grammar.syntax_tree import Literal, Subquery, walk
from sql.grammar.tokens import quote_identifier, quote_identifier_if_needed, quote_string
from sql.mutations.changed_rows import ChangedRows
from sql.relations import (
    ArrowRelation,
    BlockRelation,
    PartsRelation,
    RelationCatalog,
    StreamedRelation,
    ViewRelation,
)
from sql.run.query_engine import QueryEngine
from sql.settings.session_settings import (
    make_settings,
)

_PART, _BLOCK = "\0part", "\0block"
"""The names of what the queries look at; no user can give them."""


@dataclass(frozen=True)
class MutationStep:
    """A command with the database of tables that it names without one, and the time zone of times without one."""

    command: MutationCommand
    database: str
    timezone: str


def found_rows(
    engine: QueryEngine,
    step: MutationStep,
    relation: PartsRelation | BlockRelation,
    description: TableDescription,
    table: str,
    others: RelationCatalog,
) -> ChangedRows:
    """The rows of ``relation`` that an UPDATE or a DELETE changes, with their new values. ``relation`` is a part of the
    table that ``description`` describes, or a block of some of its columns with ``_part_offset``."""
    result = engine.select(
        changes_query(description, table, step.command, _BLOCK if isinstance(relation, BlockRelation) else _PART),
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
    """Raises what is wrong with the expressions of a command, as far as no row must be looked at."""
    if isinstance(step.command, UpdateRows | DeleteRows):
        engine.describe(
            changes_query(table.description, name, step.command),
            catalog=_WithPart(others, table, step.database),
            settings=make_settings({}, step.timezone),
            database=step.database,
            constants={"currentDatabase": step.database, "timezone": step.timezone},
            status=status,
        )
    for name, expression in step.command.assignments if isinstance(step.command, UpdateRows) else ():
        node = parse_expression(expression)
        type_ = updated_column(table.description, name).type
        if isinstance(node, Literal) and node.value is None and not type_.is_nullable:
            raise UserError("CANNOT_CONVERT_TYPE", f"Cannot convert NULL to a non-nullable type: {name} is {type_}")
        if isinstance(node, Literal):
            query = f"SELECT CAST({_whole(expression)}, {quote_string(type_.name)})"
            engine.select(query, catalog=others, status=status).read_all()


def changes_query(description: TableDescription, table: str, command: MutationCommand, source: str = _PART) -> str:
    """The number and the new values of each row that an UPDATE or a DELETE changes."""
    assert isinstance(command, UpdateRows | DeleteRows), command
    values = [PART_OFFSET]
    texts = [command.condition]
    for name, expression in command.assignments if isinstance(command, UpdateRows) else ():
        type_ = updated_column(description, name).type
        values.append(f"CAST({_whole(expression)}, {quote_string(type_.name)})")
        texts.append(expression)
    query = (
        f"SELECT {', '.join(values)} FROM {quote_identifier(source)} AS {quote_identifier_if_needed(table)} "
        f"WHERE {_whole(command.condition)}"
    )
    if any(isinstance(node, Subquery) for text in texts for node in walk(parse_expression(text))):
        query += f" ORDER BY {PART_OFFSET}"  # a join may mix what it reads
    return query


def updated_column(description: TableDescription, name: str) -> Column:
    return ROW_EXISTS_COLUMN if name == ROW_EXISTS else description.schema.column(name)


def _whole(expression: str) -> str:
    """In brackets, behind a comment that it may end with."""
    return f"({expression}\n)"


# What the queries read ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnePart:
    """Implements ``sql.relations.PartsRelation``."""

    part: Part
    description: TableDescription

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot:
        return Snapshot([self.part], lambda _: None)


@dataclass(frozen=True)
class _WithPart:
    """Implements ``sql.relations.RelationCatalog``."""

    others: RelationCatalog
    part: PartsRelation | BlockRelation
    database: str

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation:
        if table not in (_PART, _BLOCK):
            return self.others.relation(database or self.database, table)
        if isinstance(self.part, BlockRelation) or self.part.description.has_parts:
            return self.part  # of the same definition for every part, so that plans over it are kept
        # Rows have numbers here, those of a small table too.
        return replace(self.part, description=replace(self.part.description, has_parts=True))  # type: ignore[type-var]

    def files(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        return self.others.files(path, format, structure)

    def other_tables(self, function: object) -> object:
        return self.others.other_tables(function)
