"""``system.graphite_retentions``: the rollup rules of GraphiteMergeTree tables."""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    define_owner_table,
)
from parts.merge.modes.graphite import Graphite, Rollup

_PRIORITY_OF_DEFAULT = (1 << 16) - 1


def _retentions(server: OwnerServer) -> Iterator[Row]:
    tables: dict[Rollup, list[tuple[str, str]]] = {}
    for table in server.catalog.tables():
        mode = table.description.merge_mode
        if isinstance(mode, Graphite):
            tables.setdefault(mode.rollup, []).append((table.definition.database, table.definition.name))
    for rollup, names in sorted(tables.items(), key=lambda item: item[0].section):
        for number, pattern in enumerate(rollup.patterns, 1):
            for age, precision in pattern.retentions or ((0, 0),):
                yield (
                    rollup.section,
                    pattern.kind,
                    pattern.regexp,
                    pattern.function,
                    age,
                    precision,
                    number if pattern.regexp else _PRIORITY_OF_DEFAULT,
                    int(not pattern.regexp),
                    [database for database, _ in names],
                    [name for _, name in names],
                )


TABLES = (
    define_owner_table(
        "graphite_retentions",
        """
        config_name String
        rule_type String
        regexp String
        function String
        age UInt64
        precision UInt64
        priority UInt16
        is_default UInt8
        Tables.database Array(String)
        Tables.table Array(String)
        """,
        _retentions,
    ),
)
