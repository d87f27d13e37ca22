"""ATTACH TABLE … AS NOT REPLICATED: a replica becomes a plain table where it has all rows, and nobody needs it."""

from __future__ import annotations

import pytest

from tests.engine.tables.replicated.converted import (
    PLAIN,
    ROOT,
    MakeServers,
    PlainServer,
    files,
    make_servers,
    names,
    work_on,
)

__all__ = ["make_servers"]


def test_the_way_there_and_back(make_servers: MakeServers) -> None:
    (one,) = make_servers()
    keys = work_on(one)
    parts, inodes = names(one), files(one)
    created = one.rows("SHOW CREATE TABLE t")
    one.convert()
    one.convert("NOT REPLICATED")
    assert one.rows("SHOW CREATE TABLE t") == created
    assert (one.keys(), names(one), files(one)) == (keys, parts, inodes)
    assert one.keeper.exists(f"{ROOT}/replicas/r1") is not None  # stays, as in ClickHouse
    one.insert(1, [10])
    one.sql("ALTER TABLE t UPDATE v = 'plain' WHERE k = 4 SETTINGS mutations_sync = 2")
    one.sql("DETACH TABLE t")
    code, message = one.refusal("ATTACH TABLE t AS REPLICATED")
    assert code == 253
    assert "SYSTEM DROP REPLICA 'r1' FROM ZKPATH" in message
    one.sql(f"SYSTEM DROP REPLICA 'r1' FROM ZKPATH '{ROOT}'")
    one.sql("ATTACH TABLE t AS REPLICATED")
    one.restart()
    one.cluster.settle()
    assert one.keys() == sorted([*keys, 10])
    assert one.rows("SELECT v FROM t WHERE k = 4") == [("plain",)]
    one.cluster.check_equal()


def two_replicas(make_servers: MakeServers) -> tuple[PlainServer, PlainServer]:
    one, two = make_servers(2)
    one.insert(1, [1])
    one.convert()
    two.convert()
    one.cluster.settle()
    return one, two


def refused_back(server: PlainServer) -> str:
    server.sql("DETACH TABLE t")
    code, message = server.refusal("ATTACH TABLE t AS NOT REPLICATED")
    assert code == 80
    server.sql("ATTACH TABLE t")
    return message


def test_a_replica_that_lacks_rows_is_no_plain_table(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP FETCHES t")
    one.insert(1, [2])
    two.step_all()
    assert "GET_PART of 1_2_2_0 is not carried out here" in refused_back(two)
    two.sql("SYSTEM START FETCHES t")
    one.cluster.settle()
    two.convert("NOT REPLICATED")
    assert two.keys() == [1, 2]


def test_a_replica_that_others_must_fetch_from_stays_one(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP FETCHES t")
    one.insert(1, [2])
    assert "replica r2 has not fetched part 1_2_2_0" in refused_back(one)
    two.sql("SYSTEM START FETCHES t")
    one.cluster.settle()
    one.convert("NOT REPLICATED")
    two.insert(1, [3])
    assert (one.keys(), two.keys()) == ([1, 2], [1, 2, 3])


def test_a_mutation_that_is_not_done_here_is_awaited(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    two.sql("SYSTEM STOP REPLICATION QUEUES t")
    two.sql("SYSTEM STOP MERGES t")
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE 1 SETTINGS mutations_sync = 0")
    one.step_all()
    assert "1_1_1_0" in refused_back(two)
    one.cluster.settle()
    two.convert("NOT REPLICATED")
    assert two.rows("SELECT v FROM t") == [("new",)]


def test_a_table_that_was_made_replicated_becomes_a_plain_one(make_servers: MakeServers) -> None:
    """Its block numbers begin with 0, and partitions have the same ones."""
    (one,) = make_servers()
    one.sql("DROP TABLE t")
    one.sql(PLAIN.replace("MergeTree", f"ReplicatedMergeTree('{ROOT}', 'r1')"))
    for partition in (1, 2):
        one.insert(partition, [partition])
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE k = 1 SETTINGS mutations_sync = 2")
    one.convert("NOT REPLICATED")
    one.insert(1, [3])
    one.sql("ALTER TABLE t UPDATE v = 'newer' WHERE 1 SETTINGS mutations_sync = 2")
    one.insert(2, [4])
    one.sql("OPTIMIZE TABLE t FINAL")
    one.restart()
    assert one.rows("SELECT k, v FROM t ORDER BY k") == [(1, "newer"), (2, "newer"), (3, "newer"), (4, "value 4")]


def test_merges_that_are_not_done_change_no_rows(make_servers: MakeServers) -> None:
    one, two = two_replicas(make_servers)
    one.insert(1, [2])
    one.cluster.settle()
    two.sql("SYSTEM STOP MERGES t")
    one.sql("OPTIMIZE TABLE t FINAL")
    two.convert("NOT REPLICATED")
    assert two.keys() == [1, 2]


@pytest.mark.parametrize("how", ["away", "empty", "not configured"])
def test_zookeeper_that_is_away_or_lost_its_data(make_servers: MakeServers, how: str) -> None:
    (one,) = make_servers()
    one.insert(1, [1])
    one.convert()
    one.insert(1, [2])
    one.sql("DETACH TABLE t")
    if how == "away":
        one.keeper.disconnect()
        code, message = one.refusal("ATTACH TABLE t AS NOT REPLICATED")
        assert (code, "'zookeeper' out of the server's configuration" in message) == (999, True)
        one.keeper.reconnect()
    elif how == "empty":
        one.keeper.delete_tree(ROOT)
    else:
        one.replication._keeper = None
    one.sql("ATTACH TABLE t AS NOT REPLICATED")
    one.insert(1, [3])
    assert one.keys() == [1, 2, 3]
