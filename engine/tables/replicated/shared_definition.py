"""The part of a table's definition that all replicas must agree on, as the texts kept in ZooKeeper.

The columns of a table that was never altered are a line each, for people. Once it was, the first line is the history
of the columns (``parts.schema_history``) as JSON, and each column a JSON list: name, type, kind and text of the
default, codec, comment. Every replica makes its definition of these.
"""

from __future__ import annotations

import json

from coordination.table_nodes import SharedDefinition
from parts.errors import CorruptionError
from parts.schema import Column, TableDescription, TableSchema
from parts.schema_history import SchemaHistory
from sql.grammar.plain_clauses import ColumnClause

METADATA_VERSION = 1


def shared_definition(description: TableDescription) -> SharedDefinition:
    """Canonical: equal definitions give equal texts."""
    metadata = {
        "version": METADATA_VERSION,
        "merge_mode": description.merge_mode.name,
        "partition_key": list(description.partition_key.expressions),
        "sorting_key": list(description.sorting_key.expressions),
        "primary_key": list(description.primary_key.expressions),
        "sampling_key": list(description.sampling_key.expressions),
        "index_granularity": description.settings.index_granularity,
    }
    if description.settings.enable_block_number_column:
        metadata["enable_block_number_column"] = True
    return SharedDefinition(json.dumps(metadata, sort_keys=True), _columns_text(description.schema))


def _columns_text(schema: TableSchema) -> str:
    if not schema.history.version:
        return "\n".join(_column_line(column) for column in schema.columns)
    columns = [
        [column.name, column.type.name, column.default_kind, column.default_expression, column.codec, column.comment]
        for column in schema.columns
    ]
    return "\n".join(json.dumps(line, sort_keys=True) for line in (schema.history.to_json(), *columns))


def _column_line(column: Column | ColumnClause) -> str:
    default = f" {column.default_kind} {column.default_expression}" if column.default_kind else ""
    codec = f" CODEC({column.codec})" if column.codec else ""
    return f"{json.dumps(column.name)} {column.type}{default}{codec}"


def parse_columns(text: str) -> tuple[tuple[ColumnClause, ...], SchemaHistory] | None:
    """The columns of a table that was altered; ``None`` for one that was not. Raises ``CorruptionError``."""
    if not text.startswith("{"):
        return None
    try:
        history, *columns = [json.loads(line) for line in text.splitlines()]
        clauses = [
            ColumnClause(name, type_, kind, expression, codec, comment)
            for name, type_, kind, expression, codec, comment in columns
        ]
        return tuple(clauses), SchemaHistory.from_json(history)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(
            f"Cannot read the columns {text[:200]!r} in ZooKeeper: {error}", name="CORRUPTED_DATA"
        ) from error


def has_equal_columns(columns: tuple[ColumnClause, ...], description: TableDescription) -> bool:
    """Whether somebody who writes the table down anew wrote these columns."""
    return [*map(_column_line, columns)] == [*map(_column_line, description.schema.columns)]
