"""Settings that are sent to a shard with its query, and the depth of nested distributed queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.queries.context import Context
from engine.queries.session import QueryStatistics
from engine.remote.server_clusters import Address
from parts.common.errors import UserError
from sql.settings.supported_settings import SUPPORTED_SETTINGS, Settings

_DEPTH = "_distributed_depth"
_INITIATOR_PREFIXES = (
    "output_format_",
    "http_",
    "max_result_",
    "insert_",
    "min_insert_",
    "add_http_",
    "send_progress_",
)
"""Prefixes of settings that concern only the initiator's own response or INSERT."""
_INITIATOR_SETTINGS = frozenset(
    {
        "readonly", "dialect", "default_format", "result_overflow_mode", "max_insert_block_size", "compatibility",
        "max_memory_usage_for_user", "distributed_foreground_insert", "default_table_engine", "mutations_sync",
        "alter_sync", "connect_timeout_with_failover_ms", "format_csv_delimiter",
    }
)  # fmt: skip
_INSERT_SETTINGS = (
    "insert_quorum", "insert_quorum_parallel", "insert_quorum_timeout", "insert_deduplicate",
    "max_partitions_per_insert_block", "insert_allow_materialized_columns",
)  # fmt: skip


def make_shard_context(context: Context, address: Address) -> Context:
    """Returns the context of the query to a shard, one level deeper.

    Raises 581 (TOO_LARGE_DISTRIBUTED_DEPTH).
    """
    depth = _get_depth(context) + 1
    most = context.settings.max_distributed_depth
    if most and depth > most:
        raise UserError(
            "TOO_LARGE_DISTRIBUTED_DEPTH",
            f"Maximum distributed depth exceeded: tables in shards lie {depth} deep behind each other, and "
            f"max_distributed_depth is {most}",
        )
    session = replace(
        context.session,
        database=address.default_database or context.session.database,
        external_tables={},
        temporary_tables={},
    )
    return replace(
        context,
        session=session,
        settings=_make_nested_settings(context.settings),
        parameters={**context.parameters, _DEPTH: str(depth)},
        statistics=QueryStatistics(),
        body=None,
    )


def _make_nested_settings(settings: Settings) -> Settings:
    """Returns the settings for the next level.

    The settings ``…_nesting`` say down to which level shards may or must be skipped; 0 means all levels.
    """
    changes: dict[str, Any] = {}
    for name in ("optimize_skip_unused_shards", "force_optimize_skip_unused_shards"):
        nesting = getattr(settings, f"{name}_nesting")
        if nesting == 1:
            changes[name] = 0
        elif nesting > 1:
            changes[f"{name}_nesting"] = nesting - 1
    return replace(settings, changes={**settings.changes, **changes}, **changes) if changes else settings


def collect_forwarded_settings(context: Context) -> dict[str, str]:
    """Returns the URL parameters of a query to a shard."""
    changed = {
        name: _format_value(value)
        for name, value in context.settings.changes.items()
        if name in SUPPORTED_SETTINGS and name not in _INITIATOR_SETTINGS and not name.startswith(_INITIATOR_PREFIXES)
    }
    if context.settings.max_memory_usage == context.server.config.default_max_memory_usage:
        changed.pop("max_memory_usage", None)  # the default of this server, not the user's choice
    return {**changed, f"param_{_DEPTH}": context.parameters[_DEPTH]}


def collect_insert_settings(context: Context, token: str) -> dict[str, str]:
    """Returns the URL parameters of an INSERT into a shard."""
    changes = context.settings.changes
    passed = {name: _format_value(changes[name]) for name in _INSERT_SETTINGS if name in changes}
    if token:
        passed["insert_deduplication_token"] = token
    return {**passed, f"param_{_DEPTH}": context.parameters[_DEPTH]}


def _get_depth(context: Context) -> int:
    text = context.parameters.get(_DEPTH, "0")
    return int(text) if text.isdigit() else 0


def _format_value(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
