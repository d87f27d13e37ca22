"""The definition of a link's source, rebuilt from its texts, and what of it the target does not cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.tables.capabilities.table_links import SourceTable
from engine.tables.replicated.life.shared_definition import parse_altered_columns
from engine.tables.replicated.links.widened_types import goes_into
from parts.common.errors import CorruptionError, PandoError
from parts.table.table_description import TableDescription
from sql.definitions.table_description import build_description
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """The source's table as its parts are read."""

    create: CreateTable
    description: TableDescription

    @classmethod
    def of(cls, source: SourceTable) -> SourceDefinition:
        """Parses the source's texts. Raises ``CorruptionError`` for what this version does not understand."""
        try:
            create = parse_statement(source.create_query).statement
            if not isinstance(create, CreateTable):
                raise CorruptionError(f"{source.create_query[:200]!r} makes no table", name="CORRUPTED_DATA")
            altered = parse_altered_columns(source.columns) if source.columns else None
            create = replace(altered.over(create) if altered is not None else create, attach=True)
            return cls(create, build_description(create))
        except PandoError as error:
            raise CorruptionError(
                f"Cannot read the definition of the source {source.database}.{source.table}: {error}",
                name="CORRUPTED_DATA",
            ) from error


def list_uncovered(source: TableDescription, target: TableDescription) -> Sequence[str]:
    """Says which columns of the source the target cannot hold, in one sentence each."""
    reasons = []
    for column in source.schema.stored.columns:
        if column.name not in target.schema:
            reasons.append(f"Column {column.name} {column.type} of the source is missing at the target")
            continue
        own = target.schema.column(column.name)
        if not own.is_stored:
            reasons.append(f"Column {column.name} of the source is an ALIAS at the target, which stores no values")
        elif not goes_into(column.type, own.type):
            reasons.append(
                f"Column {column.name} is a {column.type} at the source, and not every value of it goes into the "
                f"target's {own.type}"
            )
    return reasons


def has_same_partitions(source: TableDescription, target: TableDescription) -> bool:
    """Tells whether both tables put equal rows into equal partitions."""
    own, other = target.partition_key, source.partition_key
    if tuple(own.expressions) != tuple(other.expressions):
        return False
    return [type_.name for type_ in own.types] == [type_.name for type_ in other.types]
