"""What CREATE TABLE leaves to another table, or to the settings of the statement: the engine, an empty key, the
deprecated syntax."""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from sql.definitions.engines.deprecated_syntax import check_syntax, is_deprecated, is_merge_tree
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.settings.supported_settings import (
    Settings,
)

_NO_ENGINE = "None"
_GRANULARITY = "index_granularity"
_KEYS = ("partition_by", "order_by", "primary_key", "sample_by")


def complete_from_table(source: CreateTable, create: CreateTable, settings: Settings) -> CreateTable:
    """``CREATE TABLE … AS source``, of which ``create`` is what was written. Every table takes the columns, the
    constraints and the comment; one without an engine of its own the engine, the settings and the TTL too; a MergeTree
    of another the indexes and each key that it does not give. TTL is a MergeTree's alone. Raises 119 as
    :func:`complete_create_table`."""
    if create.engine is None and not create.is_temporary:
        create = replace(
            create, engine=source.engine, settings=create.settings or source.settings, ttl=create.ttl or source.ttl
        )
    create = _with_engine(create, settings)
    columns = source.columns
    if not is_merge_tree(create):
        columns = tuple(replace(column, ttl="") for column in columns)
    elif is_merge_tree(source):
        keys = {key: getattr(create, key) or getattr(source, key) for key in _KEYS}
        create = replace(create, indexes=source.indexes, **keys)
    return replace(create, columns=columns, constraints=source.constraints, comment=create.comment or source.comment)


def complete_create_table(create: CreateTable, settings: Settings, granularity: int) -> CreateTable:
    """``granularity`` is the server's ``index_granularity``, which stands in the definition as ClickHouse writes it: a
    table keeps the one that it was made with. Raises 119 where no engine is meant, 36 (BAD_ARGUMENTS) for the
    deprecated syntax, unless it is allowed, 42 for arguments that would be of it."""
    create = _with_engine(create, settings)
    assert create.engine is not None
    if not is_merge_tree(create):
        return create
    if is_deprecated(create):
        if not settings.allow_deprecated_syntax_for_merge_tree:
            raise UserError(
                "BAD_ARGUMENTS",
                f"The keys of {create.engine.name} as arguments are a deprecated syntax: use ORDER BY and PRIMARY KEY, "
                "or set allow_deprecated_syntax_for_merge_tree = 1",
            )
        return create
    check_syntax(create)
    if not create.order_by and (create.primary_key or settings.create_table_empty_primary_key_by_default):
        create = replace(create, order_by=create.primary_key or "tuple()")
    if create.is_temporary or _GRANULARITY in create.settings:
        return create
    return replace(create, settings={**create.settings, _GRANULARITY: granularity})


def _with_engine(create: CreateTable, settings: Settings) -> CreateTable:
    if create.engine is not None:
        return create
    default = settings.default_temporary_table_engine if create.is_temporary else settings.default_table_engine
    if default == _NO_ENGINE:
        raise UserError(
            "ENGINE_REQUIRED",
            f"CREATE TABLE {create.table.table} names no engine, and default_table_engine = 'None'; add ENGINE = "
            "MergeTree",
        )
    return replace(create, engine=EngineClause(default))
