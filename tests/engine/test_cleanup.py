"""OPTIMIZE … FINAL CLEANUP: rows that say that they are deleted go, of whole partitions alone."""

from __future__ import annotations

import pyarrow as pa

from engine.simulator.simulated_table import TABLE
from parts.merge import mode_of_engine
from tests.alter.test_alter_on_replicas import MakeServers, make_servers
from tests.engine.conftest import Local
from tests.engine.test_partition_commands import answer, answer_of_clickhouse, clickhouse
from tests.parts.generated import description_of

__all__ = ["clickhouse", "make_servers"]
SCRIPT = """
CREATE TABLE r (k Int8, v Int8, n UInt8, gone UInt8) ENGINE = ReplacingMergeTree(n, gone) PARTITION BY k % 2 ORDER BY k
INSERT INTO r VALUES (1, 1, 1, 0), (2, 2, 1, 0), (3, 3, 1, 0)
INSERT INTO r VALUES (1, 1, 2, 1), (2, 5, 2, 0), (3, 3, 2, 1), (3, 9, 3, 0)
OPTIMIZE TABLE r FINAL CLEANUP
OPTIMIZE TABLE r CLEANUP SETTINGS optimize_throw_if_noop = 0
SELECT * FROM r FINAL ORDER BY ALL
ALTER TABLE r MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1
OPTIMIZE TABLE r PARTITION 1 CLEANUP
SELECT * FROM r WHERE k % 2 = 1 ORDER BY ALL
OPTIMIZE TABLE r PARTITION 1 FINAL CLEANUP
SELECT * FROM r WHERE k % 2 = 1 ORDER BY ALL
INSERT INTO r VALUES (2, 5, 2, 1), (2, 6, 1, 0), (4, 1, 0, 1)
OPTIMIZE TABLE r FINAL CLEANUP
SELECT * FROM r ORDER BY ALL
INSERT INTO r VALUES (5, 1, 0, 1)
OPTIMIZE TABLE r FINAL
OPTIMIZE TABLE r FINAL CLEANUP SETTINGS optimize_skip_merged_partitions = 1
SELECT * FROM r ORDER BY ALL
OPTIMIZE TABLE r FINAL DEDUPLICATE CLEANUP
SELECT * FROM r ORDER BY ALL
INSERT INTO r VALUES (3, 1, 3, 1)
OPTIMIZE TABLE r FINAL CLEANUP
SELECT count() FROM r
INSERT INTO r VALUES (3, 1, 1, 0)
SELECT * FROM r ORDER BY ALL
OPTIMIZE TABLE r FINAL CLEANUP DEDUPLICATE
CREATE TABLE w (k Int32, n UInt8) ENGINE = ReplacingMergeTree(n) ORDER BY k
ALTER TABLE w MODIFY SETTING allow_experimental_replacing_merge_with_cleanup = 1
INSERT INTO w VALUES (1, 1), (1, 2)
OPTIMIZE TABLE w FINAL CLEANUP
SELECT * FROM w
CREATE TABLE c (k Int32, s Int8) ENGINE = CollapsingMergeTree(s) ORDER BY k
OPTIMIZE TABLE c FINAL CLEANUP
OPTIMIZE TABLE c CLEANUP
"""


def test_as_in_clickhouse(local: Local, clickhouse: object) -> None:
    for sql in filter(None, SCRIPT.splitlines()):
        assert answer(local, sql) == answer_of_clickhouse(clickhouse, sql), sql


def test_replicas_take_the_same_rows_away(make_servers: MakeServers) -> None:
    servers = make_servers()
    columns, arguments = "k Int32, n UInt8, gone UInt8", f"'{TABLE.root}', '{{replica}}', n, gone"
    settings = "allow_experimental_replacing_merge_with_cleanup = 1"
    for node in servers.servers:
        node.drop()
    for node in servers.servers:
        engine = f"ReplicatedReplacingMergeTree({arguments})"
        node.sql(f"CREATE TABLE t ({columns}) ENGINE = {engine} ORDER BY k SETTINGS {settings}")
    one, two = servers.servers
    one.sql("INSERT INTO t VALUES (1, 1, 0), (2, 1, 0)")
    two.sql("INSERT INTO t VALUES (1, 2, 1)")
    servers.settle()
    two.sql("OPTIMIZE TABLE t FINAL CLEANUP SETTINGS alter_sync = 2")
    servers.settle()
    servers.check_equal()
    assert [node.sql("SELECT * FROM t")[1] for node in servers.servers] == [[(2, 1, 0)]] * 2


def test_a_deleted_row_is_above_older_ones_in_later_blocks() -> None:
    """Of a key with more rows than fit into one block."""
    description = description_of([("k", "UInt8"), ("n", "UInt8"), ("gone", "UInt8")], ("k",))
    mode = mode_of_engine("ReplacingMergeTree", ("n", "gone"), description.schema).for_final()

    def found(*rows: tuple[int, int]) -> list[dict[str, int]]:
        blocks = [pa.table([[1], [n], [gone]], schema=description.schema.arrow) for n, gone in rows]
        return [row for block in mode.reduce_one_key(iter(blocks)) for row in block.to_pylist()]

    assert found((3, 1), (1, 0)) == []
    assert found((3, 1), (1, 0), (4, 0)) == [{"k": 1, "n": 4, "gone": 0}]
