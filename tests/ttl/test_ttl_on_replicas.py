"""Rows that expire on replicas: all of them come to the same rows, at the time that the log says.

The key of a row is the time when it expires.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.gate import Bar, KeptOut
from coordination.nodes.replica_activation import ReplicaAddress
from coordination.nodes.table_gate import move_gate
from engine.simulator.simulated_disk import (
    SimulatedDisk,
    record_syncs,
)
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from engine.simulator.trace import Trace
from parts.common.errors import PandoError
from parts.common.thread_pool import (
    run_jobs_inline,
)
from tests.portions import one_in

MakeServers = Callable[..., SimulatedServers]
FAULTS = [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER, "crash", "crash at an fsync"]
SETTINGS = "merge_with_ttl_timeout = 0, merge_with_recompression_ttl_timeout = 0"


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[MakeServers]:
    disks: dict[Path, SimulatedDisk] = {}
    made: list[SimulatedServers] = []

    def make(replicas: int = 2, ttl: str = "toDateTime(k)") -> SimulatedServers:
        root = tmp_path / str(len(made))
        servers = SimulatedServers(root, replicas, len(made), Trace(None), disks)
        made.append(servers)
        servers.settle()
        servers.servers[0].sql(f"ALTER TABLE t MODIFY TTL {ttl} SETTINGS alter_sync = 2")
        for node in servers.servers:
            node.sql(f"ALTER TABLE t MODIFY SETTING {SETTINGS}")
            node.table.merge_steps.is_enabled = True
        servers.selects_merges = True
        return servers

    with record_syncs(disks), run_jobs_inline():
        yield make
        for servers in made:
            servers.end()


def rows(node: SimulatedServer, columns: str = "k") -> list[tuple[object, ...]]:
    return node.sql(f"SELECT {columns} FROM t ORDER BY k")[1]


def in_(servers: SimulatedServers, seconds: int) -> int:
    """The key of a row that expires then."""
    return int(servers.now) + seconds


def test_rows_go_when_it_is_time(make_servers: MakeServers) -> None:
    servers = make_servers(3)
    one, two, _ = servers.servers
    soon, later = in_(servers, 3000), in_(servers, 90_000)
    one.insert(1, [soon, later])
    two.insert(2, [soon + 1])
    servers.settle()
    for node in servers.servers:
        assert rows(node) == [(soon,), (soon + 1,), (later,)]
    servers.now += 4000
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node) == [(later,)]
        assert set(node.parts()) == {"1_0_0_1"}  # the other is dropped, and was not read
    servers.now += 90_000
    servers.settle()
    for node in servers.servers:
        assert not node.parts()
        node.restart()
    servers.end_zombies()
    servers.settle()
    for node in servers.servers:
        assert not rows(node)


def test_who_comes_late_applies_the_time_of_the_log(
    make_servers: MakeServers, caplog: pytest.LogCaptureFixture
) -> None:
    """By its own clock more rows would have expired meanwhile, and its part would be another."""
    servers = make_servers()
    one, two = servers.servers
    one.table.merge_steps.is_enabled = two.table.merge_steps.is_enabled = False
    keys = [in_(servers, 1000), in_(servers, 50_000), in_(servers, 900_000)]
    for key in keys:
        one.insert(1, [key])
    servers.settle()
    two.is_frozen = True
    servers.now += 2000
    one.sql("OPTIMIZE TABLE t FINAL")
    assert rows(one) == [(key,) for key in keys[1:]]
    one.is_frozen, two.is_frozen = True, False
    servers.now += 60_000
    for _ in range(10):
        two.step_all()
    assert rows(two) == [(key,) for key in keys[1:]]
    one.is_frozen = False
    servers.settle()
    servers.check_equal()
    assert "differs from another replica's" not in caplog.text


def test_one_row_of_many_on_all_replicas(make_servers: MakeServers) -> None:
    servers = make_servers(ttl="toDateTime(k) WHERE k % 2 = 0, toDateTime(k + 50000)")
    one, two = servers.servers
    old = in_(servers, 100) // 2 * 2
    for key in range(old, old + 6):
        one.insert(1, [key])
    servers.settle()
    servers.now += 1000
    servers.settle()
    two.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    assert rows(one) == rows(two) == [(old + 1,), (old + 3,), (old + 5,)]
    one.sql("ALTER TABLE t REMOVE TTL SETTINGS alter_sync = 2")
    servers.now += 100_000
    two.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    assert rows(one) == rows(two) == [(old + 1,), (old + 3,), (old + 5,)]


def test_groups_are_the_same_everywhere(make_servers: MakeServers) -> None:
    servers = make_servers(ttl="toDateTime(intDiv(k, 10)) GROUP BY k SET v = max(v)")
    one, two = servers.servers
    old = in_(servers, 100) * 10
    one.insert(1, [old])
    two.sql(
        f"INSERT INTO t VALUES (1, {old}, 'z'), (1, {old}, 'a'), (1, {old + 900_000}, 'x'), (1, {old + 900_000}, 'y')"
    )
    servers.settle()
    servers.now += 1000
    two.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        assert rows(node, "k, v") == [(old, "z"), (old + 900_000, "x"), (old + 900_000, "y")]


def test_parts_of_before_on_all_replicas(make_servers: MakeServers) -> None:
    servers = make_servers(ttl="toDateTime(k + 1000000000)")
    one, two = servers.servers
    old = in_(servers, -100)
    one.insert(1, [old, old + 100_000])
    two.insert(2, [old + 1])
    servers.settle()
    two.sql("ALTER TABLE t MODIFY TTL toDateTime(k) SETTINGS alter_sync = 2, mutations_sync = 2")
    servers.settle()
    servers.check_equal()
    for node in (one, two):
        assert rows(node) == [(old + 100_000,)]
    one.sql("ALTER TABLE t MODIFY TTL toDateTime(k) WHERE k > 1 SETTINGS materialize_ttl_after_modify = 0")
    servers.now += 200_000
    servers.settle()
    assert len(rows(one)) == 1
    one.sql("ALTER TABLE t MATERIALIZE TTL IN PARTITION 2 SETTINGS mutations_sync = 2")
    assert len(rows(one)) == 1
    one.sql("ALTER TABLE t MATERIALIZE TTL IN PARTITION 1 SETTINGS mutations_sync = 2")
    servers.settle()
    servers.check_equal()
    assert rows(one) == rows(two) == []
    commands = "SELECT DISTINCT command FROM system.mutations WHERE table = 't' ORDER BY command"
    assert one.sql(commands)[1] == [
        ("(MATERIALIZE TTL IN PARTITION ID '1')",),
        ("(MATERIALIZE TTL IN PARTITION ID '2')",),
        ("(MATERIALIZE TTL)",),
    ]


def test_stopped(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [in_(servers, 100), in_(servers, 90_000)])
    servers.settle()
    for node in (one, two):
        node.sql("SYSTEM STOP TTL MERGES t")
    servers.now += 1000
    servers.settle()
    one.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    assert len(rows(one)) == len(rows(two)) == 2
    two.sql("SYSTEM START TTL MERGES t")  # it decides; the other takes what came of it, later
    for _ in range(10):
        servers.now += 7
        for node in (one, two):
            node.step_all()
    assert (len(rows(one)), len(rows(two))) == (2, 1)
    assert "Merges with TTL are cancelled" in str(one.table.replication.queue.list_entries())
    one.sql("SYSTEM START TTL MERGES t")
    servers.settle()
    servers.check_equal()
    assert len(rows(one)) == 1


def test_the_definition_of_the_merge(make_servers: MakeServers) -> None:
    """A replica that has not heard of a TTL does not merge without it."""
    servers = make_servers(ttl="toDateTime(k + 1000000)")
    one, two = servers.servers
    one.insert(1, [in_(servers, 100)])
    servers.settle()
    two.is_frozen = True
    one.sql("ALTER TABLE t MODIFY TTL toDateTime(k) WHERE k > 5 SETTINGS materialize_ttl_after_modify = 0")
    servers.now += 1000
    one.sql("OPTIMIZE TABLE t FINAL")
    two.sql("SYSTEM STOP FETCHES t")
    task = two.task("take over the definition")
    for _ in range(5):
        servers.now += 7
        for other in list(two.pool.tasks):
            if other is not task:
                two.step(other)
    (waiting,) = two.table.replication.queue.list_entries()
    assert "of the table's definition" in waiting.postpone_reason
    assert len(rows(two)) == 1
    assert not rows(one)
    two.is_frozen = False
    two.sql("SYSTEM START FETCHES t")
    servers.settle()
    assert not rows(two)


def test_what_not_all_replicas_know_is_refused(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    host = servers.ensemble.connect()
    path = two.table.replication.replica.host
    address = ReplicaAddress.parse(host.get(path)[0])
    known = tuple(feature for feature in address.features if feature != "ttl")
    host.set(path, ReplicaAddress(address.host, address.interserver_port, features=known).to_bytes())
    with pytest.raises(PandoError, match="'r2' runs a version that does not know it") as caught:
        one.sql("ALTER TABLE t MODIFY TTL toDateTime(k + 1)")
    assert caught.value.code == 48
    host.set(path, address.to_bytes())


def test_who_joins_has_the_same_ttl(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    shown = str(one.sql("SHOW CREATE TABLE t")[1][0][0])
    assert "\nTTL toDateTime(k)\n" in shown
    two.drop()
    create = "CREATE TABLE t (p UInt8, k UInt64, v String{}) ENGINE = ReplicatedMergeTree('/tables/t', '{{replica}}') "
    for column, ttl in (("", ""), ("", " TTL toDateTime(k + 1)"), (" TTL toDateTime(k)", " TTL toDateTime(k)")):
        with pytest.raises(PandoError) as caught:
            two.sql(f"{create.format(column)}PARTITION BY p ORDER BY k{ttl}")
        assert caught.value.code == 342
    two.sql(f"{create.format('')}PARTITION BY p ORDER BY k TTL toDateTime(k)")
    servers.settle()
    settings = "\nSETTINGS index_granularity = 8192"
    assert str(two.sql("SHOW CREATE TABLE t")[1][0][0]) == shown.partition("\nSETTINGS")[0] + settings


# -- faults ------------------------------------------------------------------------------------------------------------


def scenario(servers: SimulatedServers) -> list[tuple[object, ...]]:
    """A part that goes as a whole, one that loses rows, one that stays. The rows that stay."""
    one, two = servers.servers
    soon, later = in_(servers, 100_000), in_(servers, 300_000)
    one.insert(1, [soon, soon + 1])
    two.insert(2, [soon, later])
    two.insert(2, [later + 1])
    servers.settle()
    assert len(rows(one)) == len(rows(two)) == 5
    servers.now += 101_000
    return [(later,), (later + 1,)]


def work(servers: SimulatedServers) -> None:
    for _ in range(6):
        for node in servers.servers:
            if node.is_up:
                servers.now += 7
                with contextlib.suppress(PandoError, OSError, Crash):
                    node.step_all()


def finish(servers: SimulatedServers, expected: list[tuple[object, ...]]) -> None:
    servers.heal()
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node) == expected
        node.restart()
    servers.end_zombies()
    servers.settle()
    for node in servers.servers:
        assert rows(node) == expected


def hit(servers: SimulatedServers, number: int, fault: Fault | str) -> int:
    """How many requests (or fsyncs) there were until the fault."""
    expected = scenario(servers)
    count = 0

    def passed(node: SimulatedNode) -> bool:
        nonlocal count
        count += 1
        return count == number

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if not passed(node):
            return None
        if isinstance(fault, Fault):
            return fault
        node.crash_here()
        return None

    def on_sync(node: SimulatedServer) -> None:
        if passed(node):
            node.crash_here()

    if fault == "crash at an fsync":
        servers.on_sync = on_sync
    else:
        servers.on_request = on_request
    work(servers)
    servers.calm()
    servers.on_sync = lambda node: None
    finish(servers, expected)
    servers.end()
    return count


@pytest.mark.parametrize("fault", one_in(6, FAULTS), ids=str)
@pytest.mark.long
def test_ttl_that_is_hit_at_any_request(make_servers: MakeServers, fault: Fault | str) -> None:
    total = hit(make_servers(), 0, fault)
    assert total > 5
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else max(1, total // 12)
    for number in range(1 + FAULTS.index(fault) % step, total + 1, step):
        hit(make_servers(), number, fault)


def logged_types(servers: SimulatedServers) -> set[EntryType]:
    keeper, paths = servers.ensemble.connect(), servers.servers[0].table.replication.paths
    entries = [LogEntry.parse(keeper.get(f"{paths.log}/{name}")[0]) for name in keeper.children(paths.log)]
    keeper.close()
    return {entry.type for entry in entries}


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_closed_table_drops_no_expired_part(make_servers: MakeServers, is_closed: bool) -> None:
    servers = make_servers()
    one = servers.servers[0]
    one.insert(1, [in_(servers, 3000)])
    servers.settle()
    if is_closed:
        close(servers)
    servers.now += 4000
    servers.settle()
    assert (EntryType.DROP_PART in logged_types(servers)) != is_closed


def test_a_table_that_is_closed_at_the_last_moment_drops_no_expired_part(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, path = servers.servers[0], servers.servers[0].table.replication.paths.log_prefix
    one.insert(1, [in_(servers, 3000)])
    servers.settle()
    tried: list[str] = []

    def on_request(node: SimulatedNode, kind: str, asked: str) -> None:
        if kind == "multi" and asked == path and not tried:
            tried.append(asked)
            close(servers)

    servers.on_request = on_request
    servers.now += 4000
    servers.settle()
    assert tried
    assert EntryType.DROP_PART not in logged_types(servers)


def close(servers: SimulatedServers) -> None:
    keeper = servers.ensemble.connect()
    bar = Bar("a test", KeptOut.ALL, reason="closed by a test")
    move_gate(keeper, servers.servers[0].table.replication.paths, lambda gate: gate.with_bar(bar))
    keeper.close()
