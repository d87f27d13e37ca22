"""A link brings the changes of every replicated engine; reading its target asks ZooKeeper nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.simulator.simulated_node import SimulatedNode
from tests.links.linked_tables import SOURCE, LinkedTables, linked_tables
from tests.portions import one_in

COLUMNS = "p UInt16, k UInt64, v UInt64, sign Int8"
ENGINES = {
    "MergeTree": "",
    "ReplacingMergeTree": ", v",
    "SummingMergeTree": "",
    "AggregatingMergeTree": "",
    "CollapsingMergeTree": ", sign",
    "VersionedCollapsingMergeTree": ", sign, v",
}


@contextmanager
def equal_tables(root: Path, engine: str) -> Iterator[LinkedTables]:
    """A source and a target of one engine."""
    kind, columns = f"Replicated{engine}", COLUMNS
    if engine == "AggregatingMergeTree":
        columns = "p UInt16, k UInt64, v SimpleAggregateFunction(max, UInt64), sign SimpleAggregateFunction(sum, Int64)"
    with linked_tables(root) as tables:
        for server in tables.servers:
            server.sql("DROP TABLE costs SYNC")
        for name, path in (("source", SOURCE.root), ("costs", "/tables/costs")):
            for server in tables.servers[: 1 if name == "source" else None]:
                server.sql(
                    f"CREATE TABLE {name} ({columns}) ENGINE = {kind}('{path}', '{{replica}}'{ENGINES[engine]}) "
                    "PARTITION BY p ORDER BY k"
                )
        tables.source.merge_steps.is_enabled = False
        tables.table.select_merges(False)
        tables.begin()
        yield tables


@pytest.mark.parametrize("engine", one_in(2, ENGINES))
def test_a_copy_of_every_engine(tmp_path: Path, engine: str) -> None:
    """Blocks, a mutation and a drop arrive; merged to the end, source and target have the same rows."""
    with equal_tables(tmp_path, engine) as tables:
        tables.first.sql("INSERT INTO source VALUES (1, 1, 5, 1), (1, 2, 6, 1), (2, 9, 1, 1)")
        tables.first.sql("INSERT INTO source VALUES (1, 1, 5, -1), (1, 2, 7, 1)")
        assert tables.apply().rows == 5
        tables.first.sql("ALTER TABLE source DELETE WHERE v = 7", mutations_sync=0)
        tables.first.sql("INSERT INTO source VALUES (1, 2, 8, 1), (1, 3, 8, 1)")
        tables.first.sql("ALTER TABLE source DROP PARTITION 2")
        tables.apply()
        tables.must_be_equal()
        for name in ("source", "costs"):
            tables.first.sql(f"OPTIMIZE TABLE {name} PARTITION 1 FINAL")
        tables.must_be_equal()
        assert len(tables.source.store.list_active()) == len(tables.table.table.store.list_active()) == 1


def test_truncate_and_replacements(tmp_path: Path) -> None:
    """TRUNCATE, REPLACE, ATTACH … FROM, DETACH and ATTACH at the source, each as what it does to the rows."""
    with equal_tables(tmp_path, "MergeTree") as tables:
        tables.first.sql(
            f"CREATE TABLE more ({COLUMNS}) ENGINE = ReplicatedMergeTree('/tables/more', '{{replica}}') "
            "PARTITION BY p ORDER BY k"
        )
        tables.first.sql("INSERT INTO more VALUES (1, 70, 0, 1)")
        tables.first.sql("INSERT INTO source VALUES (1, 1, 0, 1), (2, 2, 0, 1), (3, 3, 0, 1)")
        for statement in (
            "ALTER TABLE source REPLACE PARTITION 1 FROM more",
            "ALTER TABLE source ATTACH PARTITION 1 FROM more",
            "ALTER TABLE source DETACH PARTITION 2",
            "ALTER TABLE source ATTACH PARTITION 2",
        ):
            tables.first.sql(statement)
            tables.settle()
            tables.apply()
            tables.must_be_equal("p, k")
        assert tables.rows(columns="p, k") == [(1, 70), (1, 70), (2, 2), (3, 3)]
        tables.first.sql("TRUNCATE TABLE source")
        tables.first.sql("INSERT INTO source VALUES (4, 4, 0, 1)")
        tables.apply()
        tables.must_be_equal("p, k")
        assert tables.rows(columns="p, k") == [(4, 4)]


def test_a_select_at_a_target_asks_no_zookeeper(tmp_path: Path) -> None:
    with equal_tables(tmp_path, "MergeTree") as tables:
        tables.keep_definition()
        tables.first.sql("INSERT INTO source VALUES (1, 1, 0, 1)")
        tables.apply()
        tables.settle()
        asked: list[str] = []

        def on_request(node: SimulatedNode, kind: str, path: str) -> None:
            asked.append(f"{kind} {path}")

        tables.table.servers.on_request = on_request
        assert tables.rows(columns="k") == [(1,)]
        assert asked == []
