"""What CREATE TABLE leaves to the settings of the statement: the engine, an empty key, the deprecated syntax."""

from __future__ import annotations

from dataclasses import replace

from parts.errors import UserError
from sql.definitions.engine import ENGINES, is_deprecated
from sql.grammar.statements import CreateTable, EngineClause
from sql.settings.session import Settings

_NO_ENGINE = "None"
_GRANULARITY = "index_granularity"


def completed(create: CreateTable, settings: Settings, granularity: int) -> CreateTable:
    """``granularity`` is the server's ``index_granularity``, which stands in the definition as ClickHouse writes it: a
    table keeps the one that it was made with. Raises 119 where no engine is meant, 36 (BAD_ARGUMENTS) for the
    deprecated syntax, unless it is allowed."""
    default = settings.default_temporary_table_engine if create.is_temporary else settings.default_table_engine
    if create.engine is None:
        if default == _NO_ENGINE:
            raise UserError(
                "ENGINE_REQUIRED",
                f"CREATE TABLE {create.table.table} names no engine, and default_table_engine = 'None'; add ENGINE = "
                "MergeTree",
            )
        create = replace(create, engine=EngineClause(default))
    assert create.engine is not None
    if create.engine.name not in ENGINES:
        return create
    if is_deprecated(create):
        if not settings.allow_deprecated_syntax_for_merge_tree:
            raise UserError(
                "BAD_ARGUMENTS",
                f"The keys of {create.engine.name} as arguments are a deprecated syntax: use ORDER BY and PRIMARY KEY, "
                "or set allow_deprecated_syntax_for_merge_tree = 1",
            )
        return create
    if not create.order_by and (create.primary_key or settings.create_table_empty_primary_key_by_default):
        create = replace(create, order_by=create.primary_key or "tuple()")
    if create.is_temporary or _GRANULARITY in create.settings:
        return create
    return replace(create, settings={**create.settings, _GRANULARITY: granularity})
