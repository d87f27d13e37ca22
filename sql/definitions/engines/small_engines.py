"""The engines of small tables: Memory, Null, Log, TinyLog and StripeLog.

Their rows lie in the same immutable parts as a MergeTree's, in the order in which they came: there are no keys, and of
ClickHouse's settings only those of Memory have an effect. What the engines refuse they refuse as ClickHouse does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from parts.common.errors import UserError
from parts.table.table_description import TableDescription, TableSchema, make_column_key
from sql.definitions.constraints import build_constraints
from sql.grammar.clause_types import ColumnClause
from sql.grammar.statements.alter_commands import (
    AddColumn,
    CommentColumn,
    DefinitionChange,
    DropColumn,
    ModifyColumn,
    ModifyComment,
    ModifySettings,
    RenameColumn,
)
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings, parse_table_setting
from sql.settings.session_settings import suggest_names
from sql.settings.setting_values import parse_setting_value

LOG_ENGINES = ("Log", "TinyLog", "StripeLog")
SMALL_ENGINES = ("Memory", "Null", *LOG_ENGINES)
VIEW_ENGINES = ("View", "MaterializedView")
_MEMORY_LIMITS = ("min_rows_to_keep", "max_rows_to_keep", "min_bytes_to_keep", "max_bytes_to_keep")
_MEMORY_SETTINGS = (*_MEMORY_LIMITS, "compress")
_UNLIMITED = 1 << 62
_COLUMN_CHANGES = (AddColumn, DropColumn, ModifyColumn)
_COMMENTS = (CommentColumn, ModifyComment)
_CHANGES: dict[str, tuple[type, ...]] = {
    "Memory": (*_COLUMN_CHANGES, *_COMMENTS, RenameColumn, ModifySettings),
    "Null": (*_COLUMN_CHANGES, *_COMMENTS),
    "Distributed": (*_COLUMN_CHANGES, *_COMMENTS, RenameColumn),
    "Merge": (*_COLUMN_CHANGES, *_COMMENTS),
    **dict.fromkeys((*LOG_ENGINES, *VIEW_ENGINES), _COMMENTS),
}
"""What ALTER may ask of each."""


@dataclass(frozen=True, slots=True)
class SmallTableSettings(MergeTreeSettings):
    """The limits are those of Memory; 0 is none."""

    min_rows_to_keep: int = 0
    max_rows_to_keep: int = 0
    min_bytes_to_keep: int = 0
    max_bytes_to_keep: int = 0

    @property
    def limits(self) -> bool:
        return bool(self.max_rows_to_keep or self.max_bytes_to_keep)


def is_transient(create: CreateTable) -> bool:
    """Whether there are no rows of it once the server has ended."""
    passing = ("Memory", "Null", "Distributed", "Merge")
    return create.view is not None or (create.engine is not None and create.engine.name in passing)


def find_engine_name(create: CreateTable) -> str:
    """That of a materialized view is not the one of its rows."""
    if create.view is not None:
        return VIEW_ENGINES[create.view.is_materialized]
    assert create.engine is not None
    return create.engine.name


def build_view_description(schema: TableSchema) -> TableDescription:
    no_key = make_column_key(schema, ())
    return TableDescription(schema, no_key, no_key, no_key, no_key, SmallTableSettings(), has_parts=False)


def check_small_engine(create: CreateTable) -> None:
    """Raises 42 for arguments, 36 for clauses that the engine does not have."""
    assert create.engine is not None
    name, arguments = create.engine.name, create.engine.arguments
    if arguments:
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"Engine {name} doesn't support any arguments ({len(arguments)} given)"
        )
    if create.partition_by or create.order_by or create.primary_key or create.sample_by:
        raise _unsupported(name, "PARTITION_BY, PRIMARY_KEY, ORDER_BY or SAMPLE_BY clauses")
    if create.indexes:
        raise _unsupported(name, "skipping indices")
    if not create.attach and (create.ttl or any(column.ttl for column in create.columns)):
        raise _unsupported(name, "TTL clause")  # one that is there already has no effect
    if create.settings and name == "Null":
        raise _unsupported(name, "SETTINGS clause")


def _unsupported(engine: str, what: str) -> UserError:
    return UserError("BAD_ARGUMENTS", f"Engine {engine} doesn't support {what}")


def build_small_table_description(create: CreateTable, schema: TableSchema) -> TableDescription:
    """What memory holds is nobody's after the server's end, so it is not synced; a merged block goes at once; and no
    number of blocks keeps an INSERT out."""
    assert create.engine is not None
    is_durable = create.engine.name in LOG_ENGINES
    settings = replace(
        _settings(create),
        fsync_after_insert=is_durable,
        fsync_part_directory=is_durable,
        old_parts_lifetime=0,
        parts_to_throw_insert=_UNLIMITED,
        max_parts_in_total=_UNLIMITED,
    )
    no_key = make_column_key(schema, ())
    return TableDescription(
        schema, no_key, no_key, no_key, no_key, settings, metadata_version=create.history.version, has_parts=False,
        constraints=build_constraints(create.constraints, schema),
    )  # fmt: skip


def _settings(create: CreateTable) -> SmallTableSettings:
    """Raises 115 for an unknown setting, 452 for limits that contradict each other."""
    assert create.engine is not None
    if create.engine.name != "Memory":
        for name, value in create.settings.items():
            parse_table_setting(name, value)
        return SmallTableSettings()
    _check_memory_settings(create.settings)
    parsed = (int(parse_setting_value("UInt64", name, create.settings.get(name, 0))) for name in _MEMORY_LIMITS)
    settings = SmallTableSettings(**dict(zip(_MEMORY_LIMITS, parsed, strict=True)))  # type: ignore[arg-type]
    for unit in ("rows", "bytes"):
        low, high = getattr(settings, f"min_{unit}_to_keep"), getattr(settings, f"max_{unit}_to_keep")
        if low > high:
            raise UserError(
                "SETTING_CONSTRAINT_VIOLATION",
                f"Setting `min_{unit}_to_keep` cannot be higher than the `max_{unit}_to_keep`: {low} and {high}",
            )
    return settings


def _check_memory_settings(names: Iterable[str]) -> None:
    """Raises 115 for one that Memory does not have."""
    for name in names:
        if name not in _MEMORY_SETTINGS:
            near = suggest_names(name, _MEMORY_SETTINGS)
            raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r}: for storage Memory{near}")


def check_small_alter(create: CreateTable, changes: Sequence[DefinitionChange]) -> None:
    """Raises 48 for what the engine does not change, 36 for a TTL."""
    name = find_engine_name(create)
    for change in changes:
        if isinstance(change, AddColumn | ModifyColumn) and change.column.ttl:
            raise _unsupported(name, "TTL clause")
        if not isinstance(change, _CHANGES[name]) and not _is_comment(change):
            words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(change).__name__).upper().removesuffix("S")
            raise UserError("NOT_IMPLEMENTED", f"Alter of type '{words}' is not supported by storage {name}")


def _is_comment(change: DefinitionChange) -> bool:
    """MODIFY COLUMN that gives a comment and nothing else."""
    if not isinstance(change, ModifyColumn) or change.place is not None or change.remove:
        return False
    return change.column == ColumnClause(change.column.name, "", comment=change.column.comment)
