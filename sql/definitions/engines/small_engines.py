"""The engines of small tables: Memory, Null, Log, TinyLog and StripeLog.

Their rows lie in the same immutable parts as a MergeTree's, in the order in which they came: there are no keys, and of
ClickHouse's settings only those of Memory have an effect. What the engines refuse they refuse as ClickHouse does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from parts.common.errors import UserError
from parts.table.table_description import TableDescription, TableSchema, make_column_key
from sql.definitions.constraints import build_constraints
from sql.definitions.engines.table_engine import (
    COLUMN_CHANGES,
    COMMENT_CHANGES,
    EngineFeatures,
    ServerDefaults,
    TableEngine,
    unsupported,
)
from sql.grammar.statements.alter_commands import ModifySettings, RenameColumn
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings, parse_table_setting
from sql.settings.session_settings import suggest_names
from sql.settings.setting_values import parse_setting_value

_MEMORY_LIMITS = ("min_rows_to_keep", "max_rows_to_keep", "min_bytes_to_keep", "max_bytes_to_keep")
_MEMORY_SETTINGS = (*_MEMORY_LIMITS, "compress")
_UNLIMITED = 1 << 62
_LOGS = ("Log", "TinyLog", "StripeLog")


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


def _check(create: CreateTable) -> None:
    """Raises 42 for arguments, 36 for clauses that the engine does not have."""
    assert create.engine is not None
    name, arguments = create.engine.name, create.engine.arguments
    if arguments:
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"Engine {name} doesn't support any arguments ({len(arguments)} given)"
        )
    if create.partition_by or create.order_by or create.primary_key or create.sample_by:
        raise unsupported(name, "PARTITION_BY, PRIMARY_KEY, ORDER_BY or SAMPLE_BY clauses")
    if create.indexes:
        raise unsupported(name, "skipping indices")
    if not create.attach and (create.ttl or any(column.ttl for column in create.columns)):
        raise unsupported(name, "TTL clause")  # one that is there already has no effect
    if create.settings and name == "Null":
        raise unsupported(name, "SETTINGS clause")


def describe_small_table(create: CreateTable, schema: TableSchema, _: ServerDefaults) -> TableDescription:
    """Describes a table without keys.

    Memory is lost with the server, so it is not synced. A merged block is deleted at once, and no number of blocks
    keeps an INSERT out.
    """
    assert create.engine is not None
    is_durable = create.engine.name in _LOGS
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


SMALL_ENGINES = (
    TableEngine(
        name="Memory", kind="Memory", check=_check, describe=describe_small_table, is_durable=False,
        alter_changes=(*COLUMN_CHANGES, *COMMENT_CHANGES, RenameColumn, ModifySettings),
        features=EngineFeatures(settings=True, parallel_insert=True),
    ),
    TableEngine(
        name="Null", kind="Null", check=_check, describe=describe_small_table, is_durable=False, keeps_rows=False,
        alter_changes=(*COLUMN_CHANGES, *COMMENT_CHANGES), features=EngineFeatures(parallel_insert=True),
    ),
    *(
        TableEngine(
            name=name, kind="Log", check=_check, describe=describe_small_table, alter_changes=COMMENT_CHANGES,
            features=EngineFeatures(settings=True),
        )
        for name in _LOGS
    ),
)  # fmt: skip
