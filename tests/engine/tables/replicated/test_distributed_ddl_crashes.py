"""ON CLUSTER when servers end or ZooKeeper loses an answer: what it reports as done was done once."""

from __future__ import annotations

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_node import SimulatedNode
from parts.common.errors import CancelledError
from tests.engine.tables.replicated.clusters import (
    ASYNC,
    PLAIN,
    REPLICATED,
    STATUS,
    MakeCluster,
    crash_at,
    entry_names,
    has_table,
    make_cluster,
    rows,
    work,
)

__all__ = ["make_cluster"]


@pytest.mark.parametrize("point", ["distributed_ddl.before_execution", "distributed_ddl.after_execution"])
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (PLAIN.format("b"), ["a", "b"]),
        ("DROP TABLE a ON CLUSTER c", []),
        ("DETACH TABLE a ON CLUSTER c", []),
        ("RENAME TABLE a TO b ON CLUSTER c", ["b"]),
        ("CREATE DATABASE d ON CLUSTER c", ["a"]),
        ("CREATE VIEW b ON CLUSTER c AS SELECT 1", ["a", "b"]),
    ],
)
def test_a_crash_around_it_is_not_seen(
    make_cluster: MakeCluster, point: str, statement: str, expected: list[str]
) -> None:
    """What the tables tell of: it is carried out once, whether the server ended before or after it."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    crash_at(servers, second, point)
    rows(first, statement, **ASYNC)
    work(servers)
    assert not second.is_up
    second.start()
    work(servers)
    for server in servers.servers:
        found = rows(server, "SELECT name FROM system.tables WHERE database = 'default' AND name IN ('a', 'b')")
        assert sorted(name for (name,) in found) == expected
    name = entry_names(servers)[-1]
    assert [row[2:] for row in rows(first, STATUS.format(name))] == [("Finished", 0), ("Finished", 0)]


@pytest.mark.parametrize("point", ["distributed_ddl.before_execution", "distributed_ddl.after_execution"])
@pytest.mark.parametrize(
    "statement", ["TRUNCATE TABLE a ON CLUSTER c", "ALTER TABLE a ON CLUSTER c UPDATE v = v + 1 WHERE 1"]
)
def test_what_must_not_be_done_twice_is_unknown_after_a_crash(
    make_cluster: MakeCluster, point: str, statement: str
) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    rows(second, "INSERT INTO a VALUES (1, 1)")
    crash_at(servers, second, point)
    rows(first, statement, **ASYNC)
    work(servers)
    second.start()
    rows(second, "INSERT INTO a VALUES (2, 10)")
    work(servers)
    name = entry_names(servers)[-1]
    assert [row[2:] for row in rows(first, STATUS.format(name))] == [("Finished", 0), ("Finished", 341)]
    assert rows(second, "SELECT v FROM a WHERE k = 2") == [(10,)]  # came after it


def test_a_table_that_was_made_again_is_not_dropped(make_cluster: MakeCluster) -> None:
    """The server ended behind DROP, and somebody made the table anew before the queue was read."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    crash_at(servers, second, "distributed_ddl.after_execution")
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    work(servers)
    second.start()
    second.sql("CREATE TABLE a (k UInt64) ENGINE = MergeTree ORDER BY k")
    work(servers)
    assert has_table(second, "a")
    assert [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))] == [0, 341]


def test_a_table_that_was_made_again_before_another_crash_is_not_dropped(make_cluster: MakeCluster) -> None:
    """It was there at the last start, but not at the end of the process that began the DROP."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    crash_at(servers, second, "distributed_ddl.after_execution")
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    work(servers)
    second.start(keeper_is_away=True)
    second.sql("CREATE TABLE a (k UInt64) ENGINE = MergeTree ORDER BY k")
    second.restart()
    work(servers)
    assert has_table(second, "a")
    assert [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))] == [0, 341]


def test_a_statement_that_failed_half_way_is_not_repeated(make_cluster: MakeCluster) -> None:
    """The mutation is kept, and fails: to try the statement again would make it twice."""
    servers = make_cluster(1)
    (server,) = servers.servers
    rows(server, PLAIN.format("a"))
    rows(server, "INSERT INTO a VALUES (1, 1)")
    rows(server, "ALTER TABLE a ON CLUSTER c UPDATE v = throwIf(v = 1, 'no') WHERE 1", mutations_sync=1, **ASYNC)
    work(servers)
    assert [row[3] for row in rows(server, STATUS.format(entry_names(servers)[-1]))] == [341]
    assert rows(server, "SELECT count() FROM system.mutations WHERE table = 'a'") == [(1,)]


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE a ON CLUSTER c", "ALTER TABLE a ON CLUSTER c DROP PARTITION 1"])
@pytest.mark.parametrize("definition", [PLAIN + " PARTITION BY k", REPLICATED])
def test_a_crash_behind_the_note_is_not_seen(make_cluster: MakeCluster, statement: str, definition: str) -> None:
    """What the server has noted on its disk it knows, whatever it is."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, definition.format("a"))
    servers.settle()
    crash_at(servers, second, "distributed_ddl.after_note")
    first.is_frozen = definition is REPLICATED
    rows(first, statement, **ASYNC)
    work(servers)
    assert not second.is_up
    servers.end_zombies()
    second.start()
    work(servers)
    first.is_frozen = False
    work(servers)
    assert [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))] == [0, 0]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_nothing_is_done_again_for_a_zookeeper_that_was_put_back(make_cluster: MakeCluster, is_restarted: bool) -> None:
    servers = make_cluster(2)
    first = servers.servers[0]
    rows(first, PLAIN.format("a"))
    for server in servers.servers:
        server.is_frozen = True
    rows(first, "TRUNCATE TABLE a ON CLUSTER c", **ASYNC)
    saved = servers.ensemble.snapshot()
    for server in servers.servers:
        server.is_frozen = False
    work(servers)
    for server in servers.servers:
        rows(server, "INSERT INTO a VALUES (1, 1)")
    for owner in servers.ensemble.restore(saved):
        servers.ensemble.end_session(owner)
    for server in servers.servers:
        server.keeper.reconnect()
        if is_restarted:
            server.restart()
    work(servers)
    assert [rows(server, "SELECT k FROM a") for server in servers.servers] == [[(1,)], [(1,)]]
    assert [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))] == [0, 0]


def test_a_zookeeper_that_lost_its_data_gives_names_again(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    for server in servers.servers:
        server.keeper.expire()
    for path in [path for path in servers.ensemble.tree if path.startswith("/ddl")]:
        del servers.ensemble.tree[path]  # type: ignore[attr-defined]
    for server in servers.servers:
        server.keeper.reconnect()
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    assert entry_names(servers) == ["query-0000000000"]
    work(servers)
    assert not has_table(first, "a")
    assert not has_table(second, "a")


def test_a_statement_that_runs_when_the_server_stops_has_no_outcome(make_cluster: MakeCluster) -> None:
    """It is a matter of the next start; what the statement ended with tells only of the stop."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is second and name == "distributed_ddl.before_execution":
            assert second.engine._ddl_worker is not None
            second.engine._ddl_worker.stop()
            raise CancelledError

    servers.on_failpoint = on_failpoint
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    work(servers)
    name = entry_names(servers)[-1]
    assert [row[3] for row in rows(first, STATUS.format(name))] == [0, None]
    servers.on_failpoint = lambda node, name: None
    second.restart()
    work(servers)
    assert [row[3] for row in rows(first, STATUS.format(name))] == [0, 0]
    assert not has_table(second, "a")


@pytest.mark.long
def test_the_answer_of_zookeeper_is_lost(make_cluster: MakeCluster) -> None:
    """Wherever an answer is lost the statement is carried out once."""
    for place in range(1, 12):
        servers = make_cluster(2)
        first, second = servers.servers
        rows(first, PLAIN.format("a"))
        for server in servers.servers:
            rows(server, "INSERT INTO a VALUES (1, 1)")
        count = 0

        def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
            nonlocal count
            if node is second and path.startswith("/ddl") and kind != "read":  # noqa: B023
                count += 1
                if count == place:  # noqa: B023
                    return Fault.LOSE_ANSWER
            return None

        servers.on_request = on_request
        rows(first, "ALTER TABLE a ON CLUSTER c UPDATE v = v + 1 WHERE 1", **ASYNC)
        work(servers)
        second.keeper.reconnect()
        work(servers)
        assert rows(second, "SELECT v FROM a") == [(2,)]
        assert [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))] == [0, 0]


def test_another_replica_takes_over_from_one_that_ended_before_it_began(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, REPLICATED.format("a"))
    servers.settle()
    second.is_frozen = True

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is first and path.startswith("/ddl/") and path.endswith("/shards/0/executed") and kind == "read":
            servers.on_request = lambda node, kind, path: None
            node.crash_here()

    servers.on_request = on_request
    rows(second, "ALTER TABLE a ON CLUSTER c ADD COLUMN w UInt8", **ASYNC)
    work(servers)
    assert not first.is_up
    second.is_frozen = False
    servers.end_zombies()
    work(servers)
    assert ("w",) in rows(second, "SELECT name FROM system.columns WHERE table = 'a'")
    first.start()
    work(servers)
    assert [row[3] for row in rows(second, STATUS.format(entry_names(servers)[-1]))] == [0, 0]


@pytest.mark.parametrize("point", ["distributed_ddl.before_execution", "distributed_ddl.after_execution"])
@pytest.mark.parametrize(("statement", "code"), [("ADD COLUMN w UInt8", 0), ("UPDATE v = v + 1 WHERE 1", 341)])
def test_a_replica_ends_while_it_works_for_its_shard(
    make_cluster: MakeCluster, point: str, statement: str, code: int
) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, REPLICATED.format("a"))
    rows(first, "INSERT INTO a VALUES (1, 1, 1)")
    servers.settle()
    crash_at(servers, first, point)
    rows(second, f"ALTER TABLE a ON CLUSTER c {statement}", **ASYNC)
    work(servers)
    assert not first.is_up
    servers.end_zombies()
    work(servers)
    first.start()
    work(servers)
    servers.settle()
    assert [row[3] for row in rows(second, STATUS.format(entry_names(servers)[-1]))] == [code, code]
    was_done = point.endswith("after_execution")
    assert rows(first, "SELECT v FROM a") == rows(second, "SELECT v FROM a") == [(2 if code and was_done else 1,)]
