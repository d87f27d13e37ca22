"""``system.data_skipping_indices`` and ``constraints``."""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    define_owner_table,
)
from engine.tables.owned_table import OwnedTable
from sql.definitions.definition_text import render_shown_expression


def _indexes(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        definition = table.definition
        for index in definition.description.indexes:
            is_list = len(index.key.expressions) > 1
            expression = render_shown_expression(index.expression)
            expression = expression[1:-1] if is_list and expression.startswith("(") else expression
            stored, uncompressed = _sum_sizes(table, index.name)
            yield (
                definition.database, definition.name, index.name, index.kind, index.type_text, expression,
                0, index.granularity, stored, uncompressed, 0,
            )  # fmt: skip


def _constraints(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        definition = table.definition
        for constraint in definition.description.constraints:
            expression = render_shown_expression(constraint.expression)
            yield (definition.database, definition.name, constraint.name, int(constraint.is_assumed), expression)


def _sum_sizes(table: OwnedTable, name: str) -> tuple[int, int]:
    """Returns the index's bytes in the active parts, compressed and uncompressed."""
    files = [part.skip_index_file for part in table.active_parts()]
    found = [index for file in files if file is not None for index in file if index.name == name]
    return sum(index.size for index in found), sum(index.uncompressed_bytes for index in found)


TABLES = (
    define_owner_table(
        "data_skipping_indices",
        """
        database String
        table String
        name String
        type String
        type_full String
        expr String
        creation Enum8('Explicit' = 0, 'Implicit' = 1)
        granularity UInt64
        data_compressed_bytes UInt64
        data_uncompressed_bytes UInt64
        marks_bytes UInt64
        """,
        _indexes,
    ),
    define_owner_table(
        "constraints",
        """
        database String
        table String
        name String
        type Enum8('CHECK' = 0, 'ASSUME' = 1)
        expression String
        """,
        _constraints,
    ),
)
