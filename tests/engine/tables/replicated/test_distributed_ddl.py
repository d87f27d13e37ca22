"""ON CLUSTER on whole servers: who carries out what, in which order, and how often."""

from __future__ import annotations

from engine.simulator.simulated_servers import SimulatedServers
from tests.engine.tables.replicated.clusters import (
    ASYNC,
    PLAIN,
    REPLICATED,
    STATUS,
    MakeCluster,
    entry_names,
    has_table,
    make_cluster,
    port_of,
    refusal,
    rows,
    work,
)

__all__ = ["make_cluster"]


def _carried_out(servers: SimulatedServers, statement: str) -> list[object]:
    """The codes of the servers, when all is done that follows from the statement."""
    first = servers.servers[0]
    rows(first, statement, **ASYNC)
    work(servers)
    servers.settle()
    return [row[3] for row in rows(first, STATUS.format(entry_names(servers)[-1]))]


def test_every_server_carries_it_out(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2, 1)
    first = servers.servers[0]
    answer = rows(first, PLAIN.format("a"))
    assert sorted(row[:4] for row in answer) == [("127.0.0.1", port_of(f"r{n}"), 0, "") for n in (1, 2, 3)]
    assert [row[4] for row in answer] == [2, 1, 0]
    assert all(has_table(server, "a") for server in servers.servers)
    rows(first, "RENAME TABLE a TO b ON CLUSTER '{cluster}'")
    assert all(has_table(server, "b") and not has_table(server, "a") for server in servers.servers)
    rows(first, "DROP TABLE b ON CLUSTER c SYNC")
    assert not any(has_table(server, "b") for server in servers.servers)


def test_macros_are_those_of_each_server(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2, 1)
    first = servers.servers[0]
    rows(first, REPLICATED.format("a"))
    places = "SELECT zookeeper_path, replica_name FROM system.replicas WHERE table = 'a'"
    found = [rows(server, places) for server in servers.servers]
    assert found == [[("/tables/1/a", "r1")], [("/tables/1/a", "r2")], [("/tables/2/a", "r3")]]
    rows(first, "INSERT INTO a VALUES (1, 1, 1)")
    servers.settle()
    assert [rows(server, "SELECT k FROM a") for server in servers.servers] == [[(1,)], [(1,)], []]


def test_the_initiators_database_and_settings_are_used(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, "CREATE DATABASE other ON CLUSTER c")
    first.sql("CREATE TABLE a ON CLUSTER c (k UInt64) ORDER BY k", default_table_engine="MergeTree")
    assert has_table(second, "default.a")
    assert not has_table(second, "other.a")
    assert refusal(first, "CREATE TABLE e ON CLUSTER c (k UInt64) ORDER BY k", default_table_engine="None").code == 119


def test_two_initiators_and_one_order(make_cluster: MakeCluster) -> None:
    servers = make_cluster(3)
    first, second, third = servers.servers
    rows(first, PLAIN.format("a"))
    third.is_frozen = True
    rows(first, "RENAME TABLE a TO b ON CLUSTER c", **ASYNC)
    rows(second, "RENAME TABLE b TO e ON CLUSTER c", **ASYNC)
    rows(first, "ALTER TABLE e ON CLUSTER c ADD COLUMN w UInt8", **ASYNC)
    work(servers)
    assert has_table(first, "e")
    assert not has_table(third, "e")
    third.is_frozen = False
    work(servers)
    for server in servers.servers:
        assert rows(server, "SELECT name FROM system.columns WHERE table = 'e'") == [("k",), ("v",), ("w",)]


def test_a_server_that_was_down_catches_up_once(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    for server in servers.servers:
        rows(server, "INSERT INTO a VALUES (1, 1)")
    second.crash()
    late = refusal(
        first, "ALTER TABLE a ON CLUSTER c UPDATE v = v + 1 WHERE 1", distributed_ddl_task_timeout=3, mutations_sync=0
    )
    assert late.code == 159
    assert "127.0.0.1:8002" in late.message
    second.start()
    work(servers)
    second.restart()
    work(servers)
    assert [rows(server, "SELECT v FROM a") for server in servers.servers] == [[(2,)], [(2,)]]


# Replicated tables ----------------------------------------------------------------------------------------------------


def test_one_replica_of_each_shard_changes_rows(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2, 1)
    first, _, third = servers.servers
    rows(first, REPLICATED.format("a"))
    rows(first, "INSERT INTO a VALUES (1, 1, 1), (2, 2, 2)")
    rows(third, "INSERT INTO a VALUES (1, 3, 3)")
    servers.settle()
    assert _carried_out(servers, "ALTER TABLE a ON CLUSTER c UPDATE v = v + 1 WHERE 1") == [0, 0, 0]
    assert [sorted(rows(s, "SELECT v FROM a")) for s in servers.servers] == [[(2,), (3,)], [(2,), (3,)], [(4,)]]
    assert rows(first, "SELECT count() FROM system.mutations WHERE table = 'a'") == [(1,)]
    assert _carried_out(servers, "ALTER TABLE a ON CLUSTER c DROP PARTITION 1") == [0, 0, 0]
    assert [rows(s, "SELECT v FROM a") for s in servers.servers] == [[(3,)], [(3,)], []]
    assert _carried_out(servers, "ALTER TABLE a ON CLUSTER c ADD COLUMN w UInt8") == [0, 0, 0]
    assert _carried_out(servers, "OPTIMIZE TABLE a ON CLUSTER c FINAL") == [0, 0, 0]
    assert _carried_out(servers, "TRUNCATE TABLE a ON CLUSTER c") == [0, 0, 0]
    assert [rows(s, "SELECT count() FROM a") for s in servers.servers] == [[(0,)]] * 3
    assert _carried_out(servers, "ALTER TABLE a ON CLUSTER c MODIFY COMMENT 'text'") == [0, 0, 0]  # on each replica
    assert [rows(s, "SELECT comment FROM system.tables WHERE name = 'a'") for s in servers.servers] == [[("text",)]] * 3


# How it is answered ---------------------------------------------------------------------------------------------------


def test_old_entries_are_removed(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2, task_max_lifetime=1000, max_tasks_in_queue=3, cleanup_delay_period=60)
    first, second = servers.servers
    for number in range(6):
        rows(first, PLAIN.format(f"a{number}"))
    second.crash()
    servers.end_zombies()
    rows(first, "DROP TABLE a0 ON CLUSTER c", **ASYNC)
    servers.now += 100
    work(servers)
    assert [int(name[-2:]) for name in entry_names(servers)] == [4, 5, 6]  # 6 is not finished
    for number in range(1, 5):
        rows(first, f"DROP TABLE a{number} ON CLUSTER c", **ASYNC)
    servers.now += 100
    work(servers)
    assert [int(name[-2:]) for name in entry_names(servers)] == [6, 7, 8, 9, 10]  # nor are these
    servers.now += 2000
    work(servers)
    assert entry_names(servers) == []
    second.start()
    work(servers)
    assert has_table(second, "a0")


def test_a_replica_that_is_read_only_for_a_while(make_cluster: MakeCluster) -> None:
    """It is tried again, not failed."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, REPLICATED.format("a"))
    servers.settle()
    for server in servers.servers:
        table = server.engine.catalog.table("default", "a")
        table.state.set_readonly("A test")  # type: ignore[attr-defined]
    tried: list[str] = []
    servers.on_failpoint = lambda node, name: tried.append(name)

    def on_wait() -> None:
        if len(tried) >= 3:
            for server in servers.servers:
                server.engine.catalog.table("default", "a").replication.restart()  # type: ignore[union-attr]
        servers.step_others()

    servers.on_wait = on_wait
    rows(first, "ALTER TABLE a ON CLUSTER c ADD COLUMN w UInt8")
    assert ("w",) in rows(second, "SELECT name FROM system.columns WHERE table = 'a'") or servers.settle() is None
