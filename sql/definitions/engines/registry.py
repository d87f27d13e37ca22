"""All table engines by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from parts.common.errors import UserError
from sql.definitions.engines.merge_tree_engines import MERGE_TREE_ENGINES
from sql.definitions.engines.proxy_engines import DISTRIBUTED, MERGE
from sql.definitions.engines.small_engines import SMALL_ENGINES
from sql.definitions.engines.table_engine import TableEngine
from sql.definitions.engines.view_engines import MATERIALIZED_VIEW, VIEW
from sql.grammar.statements.statement import CreateTable
from sql.grammar.tokens import not_implemented

TABLE_ENGINES: Mapping[str, TableEngine] = MappingProxyType(
    {
        engine.name: engine
        for engine in (*MERGE_TREE_ENGINES, *SMALL_ENGINES, VIEW, MATERIALIZED_VIEW, DISTRIBUTED, MERGE)
    }
)
"""In the order of ``system.table_engines``."""
_FAMILY = re.compile(
    r"(?:Replicated|Shared)?"
    r"(?:Replacing|Summing|Aggregating|Collapsing|VersionedCollapsing|Graphite|Coalescing)?MergeTree\Z"
)
_OTHERS_OF_CLICKHOUSE = frozenset(
    [
        "Set",
        "Join",
        "Buffer",
        "Dictionary",
        "File",
        "URL",
        "View",
        "MaterializedView",
        "Kafka",
        "MySQL",
        "PostgreSQL",
        "S3",
        "HDFS",
        "MongoDB",
        "Redis",
        "EmbeddedRocksDB",
        "KeeperMap",
        "GenerateRandom",
        "Iceberg",
        "DeltaLake",
    ]
)


def find_engine(create: CreateTable) -> TableEngine:
    """Returns the engine of a table or view.

    Raises 119 without one, 48 for another engine of ClickHouse, 56 for others.
    """
    if create.view is not None:
        return MATERIALIZED_VIEW if create.view.is_materialized else VIEW
    if create.engine is None:
        names = ", ".join(engine.name for engine in MERGE_TREE_ENGINES)
        raise UserError("ENGINE_REQUIRED", f"ENGINE is missing; the engines are: {names}")
    name = create.engine.name
    engine = TABLE_ENGINES.get(name)
    if engine is not None and not engine.is_view:
        return engine
    known = ", ".join(engine.name for engine in TABLE_ENGINES.values() if not engine.is_view)
    if _FAMILY.match(name) or name in _OTHERS_OF_CLICKHOUSE:
        raise not_implemented(f"Engine {name} (the engines are: {known})")
    raise UserError("UNKNOWN_STORAGE", f"Unknown table engine {name}; the engines are: {known}")
