"""ALTER of a replicated table: one definition on all replicas, whatever fails and whoever was away."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.nodes.replica_activation import ReplicaAddress
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
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

MakeServers = Callable[..., SimulatedServers]
ALTER = "ALTER TABLE t RENAME COLUMN IF EXISTS v TO w, ADD COLUMN IF NOT EXISTS c UInt64 DEFAULT k * 2"
CREATE = "CREATE TABLE t ({}) ENGINE = ReplicatedMergeTree('/tables/t', '{{replica}}') PARTITION BY p ORDER BY k"


@pytest.fixture
def make_servers(tmp_path: Path) -> Iterator[MakeServers]:
    disks: dict[Path, SimulatedDisk] = {}
    made: list[SimulatedServers] = []

    def make(replicas: int = 2) -> SimulatedServers:
        root = tmp_path / str(len(made))
        made.append(SimulatedServers(root, replicas, len(made), Trace(None), disks, queue_wait_seconds=60.0))
        made[-1].settle()
        return made[-1]

    with record_syncs(disks), run_jobs_inline():
        yield make
        for servers in made:
            servers.end()


def rows(node: SimulatedServer, columns: str = "*") -> list[tuple[object, ...]]:
    return node.sql(f"SELECT {columns} FROM t ORDER BY k")[1]


def defined(node: SimulatedServer) -> str:
    return str(node.sql("SHOW CREATE TABLE t")[1][0][0]).partition("\nENGINE")[0]


def test_all_replicas_follow(make_servers: MakeServers) -> None:
    servers = make_servers(3)
    one, two, three = servers.servers
    one.insert(1, [1])
    servers.settle()
    three.is_frozen = True
    two.sql(ALTER)
    assert rows(two) == [(1, 1, "value 1", 2)]
    two.sql("INSERT INTO t VALUES (1, 2, 'new', 7)")
    two.sql("ALTER TABLE t DROP COLUMN c, COMMENT COLUMN w 'text'")
    two.sql("ALTER TABLE t ADD COLUMN c UInt8 DEFAULT 9 FIRST")
    three.insert(1, [3])  # it has heard of nothing
    assert rows(three) == [(1, 1, "value 1"), (1, 3, "value 3")]
    three.is_frozen = False
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node) == [(9, 1, 1, "value 1"), (9, 1, 2, "new"), (9, 1, 3, "value 3")]
        assert defined(node) == defined(two)
    three.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        node.restart()
    servers.end_zombies()
    servers.settle()
    for node in servers.servers:
        assert rows(node) == [(9, 1, 1, "value 1"), (9, 1, 2, "new"), (9, 1, 3, "value 3")]
        assert "`w` String COMMENT 'text'" in defined(node)


def test_nobody_shows_a_part_of_a_definition_that_he_does_not_have(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    servers.settle()
    one.sql(ALTER)
    one.sql("INSERT INTO t VALUES (1, 2, 'new', 7)")
    task = two.task("take over the definition")
    for _ in range(5):
        servers.now += 7
        for other in list(two.pool.tasks):
            if other is not task:
                two.step(other)
    assert rows(two) == [(1, 1, "value 1")]
    (waiting,) = two.table.replication.queue.list_entries()
    assert "of the table's definition" in waiting.last_exception
    servers.settle()
    assert rows(two) == [(1, 1, "value 1", 2), (1, 2, "new", 7)]


def test_who_joins_later(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    one.sql(ALTER)
    one.sql("INSERT INTO t VALUES (1, 2, 'new', 7)")
    servers.settle()
    two.drop()
    with pytest.raises(PandoError) as caught:
        two.sql(CREATE.format("p UInt8, k UInt64, v String"))
    assert caught.value.code == 342
    two.sql(CREATE.format("p UInt8, k UInt64, w String, c UInt64 DEFAULT k * 2"))
    servers.settle()
    servers.check_equal()
    assert rows(two) == [(1, 1, "value 1", 2), (1, 2, "new", 7)]
    two.sql("ALTER TABLE t DROP COLUMN w")
    servers.settle()
    assert rows(one) == rows(two) == [(1, 1, 2), (1, 2, 7)]


def test_who_lost_his_disk(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    servers.settle()
    two.crash()
    one.sql(ALTER)
    one.sql("INSERT INTO t VALUES (1, 2, 'new', 7)")
    servers.end_zombies()
    two.start()
    servers.settle()
    servers.check_equal()
    assert rows(two) == [(1, 1, "value 1", 2), (1, 2, "new", 7)]


def test_a_start_without_zookeeper(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    one.sql(ALTER)
    servers.settle()
    for node in (one, two):
        node.crash()
        node.start(keeper_is_away=True)
        assert rows(node, "p, k, w, c") == [(1, 1, "value 1", 2)]


def test_the_watch_of_a_new_session(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    servers.ensemble.end_session(two.keeper.session_id)
    two.keeper.reconnect()
    servers.settle()
    one.sql(ALTER)
    for _ in range(3):
        two.step_all()
    assert "`w` String" in defined(two)


def test_what_was_read_first_does_not_come_last(make_servers: MakeServers) -> None:
    """Between a thread's look at ZooKeeper and its turn others change the definition, here and for all."""
    one, two = make_servers().servers
    one.sql(ALTER)
    definitions = two.table.definitions
    change_definition = definitions._change_definition
    done: list[object] = []

    def late(change: object) -> bool:
        if not done:
            done.append(change)
            one.sql("ALTER TABLE t ADD COLUMN d UInt8")
            two.sql("ALTER TABLE t MODIFY SETTING parts_to_throw_insert = 77")
            definitions.adopt(two.keeper)
        return change_definition(change)  # type: ignore[arg-type]

    definitions._change_definition = late  # type: ignore[method-assign]
    definitions.adopt(two.keeper)
    assert done
    assert defined(two) == defined(one)
    assert "`d` UInt8" in defined(two)
    assert "parts_to_throw_insert = 77" in str(two.sql("SHOW CREATE TABLE t")[1])


def test_an_alter_waits_while_another_statement_changes_the_servers_tables(make_servers: MakeServers) -> None:
    one, two = make_servers().servers
    definitions = one.table.definitions
    change_definition, tries = definitions._change_definition, iter([False, False, False])
    definitions._change_definition = lambda change: next(tries, None) is None and change_definition(change)  # type: ignore[method-assign]
    one.sql(f"{ALTER} SETTINGS alter_sync = 2")
    assert defined(one) == defined(two)


def test_two_at_once(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    one.insert(1, [1])
    servers.settle()
    done: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if node is one and kind == "multi" and not done:
            done.append(path)
            two.sql("ALTER TABLE t ADD COLUMN d UInt8 DEFAULT 5, RENAME COLUMN v TO w")

    servers.on_request = on_request
    one.sql("ALTER TABLE t ADD COLUMN e UInt8 DEFAULT 6")
    assert done
    servers.settle()
    assert rows(one, "p, k, w, d, e") == rows(two, "p, k, w, d, e") == [(1, 1, "value 1", 5, 6)]
    done.clear()
    with pytest.raises(PandoError) as caught:
        one.sql("ALTER TABLE t ADD COLUMN f UInt8, RENAME COLUMN v TO u")
    assert caught.value.code == 10
    assert defined(one) == defined(two)


def test_what_not_all_replicas_know_is_refused(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    host = servers.ensemble.connect()
    path = two.table.replication.replica.host
    address = ReplicaAddress.parse(host.get(path)[0])
    host.set(path, ReplicaAddress(address.host, address.interserver_port, features=("exchange",)).to_bytes())
    before = defined(one)
    with pytest.raises(PandoError, match="'r2' runs a version that does not know it"):
        one.sql(ALTER)
    assert defined(one) == defined(two) == before


def test_waiting_for_all(make_servers: MakeServers) -> None:
    servers = make_servers(3)
    one, two, three = servers.servers
    one.sql(f"{ALTER} SETTINGS alter_sync = 2")
    assert defined(one) == defined(two) == defined(three)
    three.is_frozen = True
    with pytest.raises(PandoError, match="replicas r3 have not followed yet") as caught:
        one.sql("ALTER TABLE t DROP COLUMN c SETTINGS alter_sync = 2")
    assert caught.value.code == 341
    three.is_frozen = False
    servers.settle()
    assert defined(one) == defined(three)


def requests_of_an_alter(make_servers: MakeServers) -> int:
    servers = make_servers()
    one = scenario(servers)
    count = 0

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        nonlocal count
        count += 1

    servers.on_request = on_request
    one.sql(f"{ALTER} SETTINGS alter_sync = 2")
    finish(servers)
    return count


def scenario(servers: SimulatedServers) -> SimulatedServer:
    one, two = servers.servers
    one.insert(1, [1])
    two.insert(2, [2])
    servers.settle()
    one.insert(1, [3])
    return one


OLD = [(1, 1, "value 1"), (2, 2, "value 2"), (1, 3, "value 3")]
NEW = [(*row, 2 * row[1]) for row in OLD]


def finish(servers: SimulatedServers) -> None:
    servers.heal()
    for node in servers.servers:
        node.sql(ALTER)  # the client repeats it until it is told
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node, "p, k, w, c") == NEW
    assert defined(servers.servers[0]) == defined(servers.servers[1])
    servers.servers[1].sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node, "p, k, w, c") == NEW


@pytest.mark.parametrize("fault", one_in(5, FAULTS), ids=str)
@pytest.mark.long
def test_an_alter_that_is_hit_at_any_request(make_servers: MakeServers, fault: Fault | str) -> None:
    total = requests_of_an_alter(make_servers)
    assert total > 15
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 4
    for number in range(1 + FAULTS.index(fault) % 2, total + 1, step):
        hit(make_servers(), number, fault)


def hit(servers: SimulatedServers, number: int, fault: Fault | str) -> None:
    one = scenario(servers)
    hit_request(servers, number, fault)
    with contextlib.suppress(PandoError, Crash):
        one.sql(f"{ALTER} SETTINGS alter_sync = 2")
    servers.calm()
    finish(servers)
    servers.end()


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST], ids=str)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("command", ["ADD COLUMN c UInt64", "RENAME COLUMN v TO w"])
def test_another_alter_comes_before_a_lost_answer_is_looked_for(
    make_servers: MakeServers, command: str, fault: Fault, is_first: bool
) -> None:
    servers = make_servers()
    one, two = servers.servers
    if not is_first:
        one.sql("ALTER TABLE t ADD COLUMN first UInt8")
    lost: list[str] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one and kind == "multi" and path == two.table.replication.paths.columns and not lost:
            lost.append(path)
            return fault
        return None

    def on_wait() -> None:
        if len(lost) == 1:
            lost.append("altered")
            two.sql("ALTER TABLE t ADD COLUMN other UInt8")
            one.keeper.reconnect()
        servers.step_others()

    servers.on_wait = on_wait
    servers.on_request = on_request
    one.sql(f"ALTER TABLE t {command}")
    assert len(lost) == 2
    servers.heal()
    servers.check_equal()
    assert defined(one) == defined(two)
    assert ("`c` UInt64" if "ADD" in command else "`w` String") in defined(one)
    assert "`other` UInt8" in defined(one)
