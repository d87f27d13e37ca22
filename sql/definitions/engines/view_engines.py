"""Views: names and columns, and a query. A materialized view has its rows in another table."""

from __future__ import annotations

from parts.table.table_description import TableDescription, TableSchema, make_column_key
from sql.definitions.engines.small_engines import SmallTableSettings
from sql.definitions.engines.table_engine import COMMENT_CHANGES, ServerDefaults, TableEngine
from sql.grammar.statements.statement import CreateTable


def _check(_: CreateTable) -> None:
    """A view has no arguments; the engine of a materialized view is that of its inner table."""


def _describe(_: CreateTable, schema: TableSchema, __: ServerDefaults) -> TableDescription:
    no_key = make_column_key(schema, ())
    return TableDescription(schema, no_key, no_key, no_key, no_key, SmallTableSettings(), has_parts=False)


VIEW, MATERIALIZED_VIEW = VIEW_ENGINES = tuple(
    TableEngine(
        name=name, kind="View", check=_check, describe=_describe, alter_changes=COMMENT_CHANGES, is_durable=False,
        is_view=True,
    )
    for name in ("View", "MaterializedView")
)  # fmt: skip
