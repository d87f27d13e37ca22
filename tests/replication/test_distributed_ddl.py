"""ON CLUSTER on whole servers: who carries out what, in which order, and how often."""

from __future__ import annotations

import pytest

from coordination.ddl.ddl_queue import DdlQueue
from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from parts.common.errors import CancelledError, PandoError
from tests.replication.clusters import (
    PLAIN,
    REPLICATED,
    STATUS,
    MakeCluster,
    has_table,
    make_cluster,
    port_of,
    refusal,
    rows,
    work,
)

__all__ = ["make_cluster"]
ASYNC = {"distributed_ddl_task_timeout": 0}


def _names(servers: SimulatedServers) -> list[str]:
    return DdlQueue("/ddl", "/ddl_replicas").names(servers.ensemble.connect())


def _carried_out(servers: SimulatedServers, statement: str) -> list[object]:
    """The codes of the servers, when all is done that follows from the statement."""
    first = servers.servers[0]
    rows(first, statement, **ASYNC)
    work(servers)
    servers.settle()
    return [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))]


def _crash_at(servers: SimulatedServers, server: SimulatedServer, point: str) -> None:
    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is server and name == point:
            servers.on_failpoint = lambda node, name: None
            node.crash_here()

    servers.on_failpoint = on_failpoint


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


def test_columns_and_types_of_the_answer(make_cluster: MakeCluster) -> None:
    servers = make_cluster(1)
    result, _ = servers.servers[0].sql(PLAIN.format("a"))
    assert [(name, str(type_)) for name, type_ in result.columns] == [
        ("host", "String"), ("port", "UInt16"), ("status", "Int64"), ("error", "String"),
        ("num_hosts_remaining", "UInt64"), ("num_hosts_active", "UInt64"),
    ]  # fmt: skip
    result, _ = servers.servers[0].sql(PLAIN.format("b"), distributed_ddl_output_mode="null_status_on_timeout")
    assert [str(type_) for _, type_ in result.columns][2:4] == ["Nullable(Int64)", "Nullable(String)"]
    result, _ = servers.servers[0].sql(PLAIN.format("e"), distributed_ddl_output_mode="none")
    assert result.columns == ()
    assert has_table(servers.servers[0], "e")


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
    _crash_at(servers, second, point)
    rows(first, statement, **ASYNC)
    work(servers)
    assert not second.is_up
    second.start()
    work(servers)
    for server in servers.servers:
        found = rows(server, "SELECT name FROM system.tables WHERE database = 'default' AND name IN ('a', 'b')")
        assert sorted(name for (name,) in found) == expected
    name = _names(servers)[-1]
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
    _crash_at(servers, second, point)
    rows(first, statement, **ASYNC)
    work(servers)
    second.start()
    rows(second, "INSERT INTO a VALUES (2, 10)")
    work(servers)
    name = _names(servers)[-1]
    assert [row[2:] for row in rows(first, STATUS.format(name))] == [("Finished", 0), ("Finished", 341)]
    assert rows(second, "SELECT v FROM a WHERE k = 2") == [(10,)]  # came after it


def test_a_table_that_was_made_again_is_not_dropped(make_cluster: MakeCluster) -> None:
    """The server ended behind DROP, and somebody made the table anew before the queue was read."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    _crash_at(servers, second, "distributed_ddl.after_execution")
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    work(servers)
    second.start()
    second.sql("CREATE TABLE a (k UInt64) ENGINE = MergeTree ORDER BY k")
    work(servers)
    assert has_table(second, "a")
    assert [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))] == [0, 341]


def test_a_table_that_was_made_again_before_another_crash_is_not_dropped(make_cluster: MakeCluster) -> None:
    """It was there at the last start, but not at the end of the process that began the DROP."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, PLAIN.format("a"))
    _crash_at(servers, second, "distributed_ddl.after_execution")
    rows(first, "DROP TABLE a ON CLUSTER c", **ASYNC)
    work(servers)
    second.start(keeper_is_away=True)
    second.sql("CREATE TABLE a (k UInt64) ENGINE = MergeTree ORDER BY k")
    second.restart()
    work(servers)
    assert has_table(second, "a")
    assert [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))] == [0, 341]


def test_a_statement_that_failed_half_way_is_not_repeated(make_cluster: MakeCluster) -> None:
    """The mutation is kept, and fails: to try the statement again would make it twice."""
    servers = make_cluster(1)
    (server,) = servers.servers
    rows(server, PLAIN.format("a"))
    rows(server, "INSERT INTO a VALUES (1, 1)")
    rows(server, "ALTER TABLE a ON CLUSTER c UPDATE v = throwIf(v = 1, 'no') WHERE 1", mutations_sync=1, **ASYNC)
    work(servers)
    assert [row[3] for row in rows(server, STATUS.format(_names(servers)[-1]))] == [341]
    assert rows(server, "SELECT count() FROM system.mutations WHERE table = 'a'") == [(1,)]


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE a ON CLUSTER c", "ALTER TABLE a ON CLUSTER c DROP PARTITION 1"])
@pytest.mark.parametrize("definition", [PLAIN + " PARTITION BY k", REPLICATED])
def test_a_crash_behind_the_note_is_not_seen(make_cluster: MakeCluster, statement: str, definition: str) -> None:
    """What the server has noted on its disk it knows, whatever it is."""
    servers = make_cluster(2)
    first, second = servers.servers
    rows(first, definition.format("a"))
    servers.settle()
    _crash_at(servers, second, "distributed_ddl.after_note")
    first.is_frozen = definition is REPLICATED
    rows(first, statement, **ASYNC)
    work(servers)
    assert not second.is_up
    servers.end_zombies()
    second.start()
    work(servers)
    first.is_frozen = False
    work(servers)
    assert [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))] == [0, 0]


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
    assert [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))] == [0, 0]


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
    assert _names(servers) == ["query-0000000000"]
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
    name = _names(servers)[-1]
    assert [row[3] for row in rows(first, STATUS.format(name))] == [0, None]
    servers.on_failpoint = lambda node, name: None
    second.restart()
    work(servers)
    assert [row[3] for row in rows(first, STATUS.format(name))] == [0, 0]
    assert not has_table(second, "a")


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
        assert [row[3] for row in rows(first, STATUS.format(_names(servers)[-1]))] == [0, 0]


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
    assert [row[3] for row in rows(second, STATUS.format(_names(servers)[-1]))] == [0, 0]


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
    _crash_at(servers, first, point)
    rows(second, f"ALTER TABLE a ON CLUSTER c {statement}", **ASYNC)
    work(servers)
    assert not first.is_up
    servers.end_zombies()
    work(servers)
    first.start()
    work(servers)
    servers.settle()
    assert [row[3] for row in rows(second, STATUS.format(_names(servers)[-1]))] == [code, code]
    was_done = point.endswith("after_execution")
    assert rows(first, "SELECT v FROM a") == rows(second, "SELECT v FROM a") == [(2 if code and was_done else 1,)]


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DROP TABLE t ON CLUSTER nowhere", 701),
        ("DROP TABLE t ON CLUSTER '{nothing}'", 139),
        ("CREATE TABLE x ON CLUSTER c ENGINE = MergeTree ORDER BY k AS SELECT 1 AS k", 48),
        ("CREATE MATERIALIZED VIEW x ON CLUSTER c ENGINE = Memory POPULATE AS SELECT k FROM t", 48),
        ("CREATE TEMPORARY TABLE x ON CLUSTER c (k UInt64) ENGINE = Memory", 80),
        ("CREATE TABLE x ON CLUSTER c (k UInt64) ENGINE = ReplicatedMergeTree('/x', 'r1') ORDER BY k", 36),
        ("CREATE TABLE x ON CLUSTER c (k UInt64) ENGINE = ReplicatedMergeTree('/x', '{replica}') ORDER BY k", 36),
        ("ALTER TABLE t ON CLUSTER c MODIFY COMMENT 'x', ADD COLUMN w UInt8", 36),
    ],
)
def test_what_no_cluster_can_do(make_cluster: MakeCluster, statement: str, code: int) -> None:
    servers = make_cluster(1, 1)
    assert refusal(servers.servers[0], statement).code == code
    assert _names(servers) == []


def test_a_profile_that_is_not_there(make_cluster: MakeCluster) -> None:
    with pytest.raises(PandoError) as caught:
        make_cluster(1, profile="nobody")
    assert caught.value.code == 180


def test_who_may_not(make_cluster: MakeCluster) -> None:
    servers = make_cluster(1)
    (server,) = servers.servers
    for statement in ("DROP TABLE t ON CLUSTER c", "KILL QUERY ON CLUSTER c WHERE query_id = 'x'"):
        assert refusal(server, statement, readonly=1).code == 164
    assert refusal(server, "DROP TABLE t ON CLUSTER c", allow_distributed_ddl=0).code == 392
    assert _names(servers) == []


# How it is answered ---------------------------------------------------------------------------------------------------


def test_an_error_of_a_server(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    second.sql("CREATE TABLE a (k UInt64) ENGINE = MergeTree ORDER BY k")
    for mode in ("throw", "none", "null_status_on_timeout", "throw_only_active"):
        failed = refusal(first, PLAIN.format("a"), distributed_ddl_output_mode=mode)
        assert failed.code == 57
        assert "127.0.0.1:8002" in failed.message
        rows(first, "DROP TABLE a")
    answer = rows(first, PLAIN.format("a"), distributed_ddl_output_mode="never_throw")
    assert sorted((row[1], row[2]) for row in answer) == [(8001, 0), (8002, 57)]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("throw", 159),
        ("none", 159),
        ("null_status_on_timeout", [(8001, 0, 1), (8002, None, 1)]),
        ("never_throw", [(8001, 0, 1), (8002, None, 1)]),
        ("throw_only_active", [(8001, 0, 1)]),
        ("none_only_active", []),
        ("null_status_on_timeout_only_active", [(8001, 0, 1), (8002, None, 1)]),
    ],
)
def test_a_server_that_is_down(make_cluster: MakeCluster, mode: str, expected: object) -> None:
    """Where only those are waited for that read the queue nobody waits for the time-out."""
    servers = make_cluster(2)
    first, second = servers.servers
    second.crash()
    servers.end_zombies()
    before = servers.now
    settings = {"distributed_ddl_output_mode": mode, "distributed_ddl_task_timeout": 60}
    if isinstance(expected, int):
        assert refusal(first, PLAIN.format("a"), **settings).code == expected
    else:
        assert [(row[1], row[2], row[4]) for row in rows(first, PLAIN.format("a"), **settings)] == expected
    assert (servers.now - before < 30) == mode.endswith("only_active")
    assert has_table(first, "a")


def test_a_negative_time_out_waits_for_everybody(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    second.is_frozen = True
    until = servers.now + 1000

    def on_wait() -> None:
        second.is_frozen = servers.now < until
        servers.step_others()

    servers.on_wait = on_wait
    answer = rows(first, PLAIN.format("a"), distributed_ddl_task_timeout=-1)
    assert len(answer) == 2
    assert servers.now >= until


def test_the_table_of_the_queue(make_cluster: MakeCluster) -> None:
    servers = make_cluster(2)
    first, second = servers.servers
    second.is_frozen = True
    rows(first, PLAIN.format("a"), mutations_sync=2, **ASYNC)
    work(servers)
    (name,) = _names(servers)
    assert rows(
        first,
        "SELECT entry, entry_version, initiator_host, initiator_port, cluster, query, settings['mutations_sync'], "
        "host, port, toString(status), exception_code, exception_text FROM system.distributed_ddl_queue ORDER BY port",
    ) == [
        (name, 1, "127.0.0.1", 8001, "c", PLAIN.format("a").replace(" ON CLUSTER c", ""), "2", "127.0.0.1", 8001,
         "Finished", 0, ""),
        (name, 1, "127.0.0.1", 8001, "c", PLAIN.format("a").replace(" ON CLUSTER c", ""), "2", "127.0.0.1", 8002,
         "Inactive", None, None),
    ]  # fmt: skip
    assert rows(first, "SELECT count() FROM system.distributed_ddl_queue WHERE query_finish_time IS NULL") == [(1,)]


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
    assert [int(name[-2:]) for name in _names(servers)] == [4, 5, 6]  # 6 is not finished
    for number in range(1, 5):
        rows(first, f"DROP TABLE a{number} ON CLUSTER c", **ASYNC)
    servers.now += 100
    work(servers)
    assert [int(name[-2:]) for name in _names(servers)] == [6, 7, 8, 9, 10]  # nor are these
    servers.now += 2000
    work(servers)
    assert _names(servers) == []
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
