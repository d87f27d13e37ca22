"""What an ON CLUSTER statement answers, what it refuses, and what ``system.distributed_ddl_queue`` shows."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.engine.tables.replicated.clusters import (
    ASYNC,
    PLAIN,
    MakeCluster,
    entry_names,
    has_table,
    make_cluster,
    refusal,
    rows,
    work,
)

__all__ = ["make_cluster"]


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
    assert entry_names(servers) == []


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
    assert entry_names(servers) == []


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


@pytest.mark.long
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
    (name,) = entry_names(servers)
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
