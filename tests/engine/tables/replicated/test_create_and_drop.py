"""CREATE, ATTACH and DROP of a replica: whose nodes in ZooKeeper are whose, and what is left on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulated_table import TABLE
from engine.simulator.step_pool import Crash
from engine.simulator.trace import Trace
from parts.common.errors import PandoError
from tests.portions import one_in

CREATE = f"CREATE TABLE t (p UInt8, k UInt64, v String) ENGINE = ReplicatedMergeTree('{TABLE.root}', '{{replica}}')"
DROP = f"SYSTEM DROP REPLICA 'r2' FROM ZKPATH '{TABLE.root}'"
KEYS = "PARTITION BY p ORDER BY k"


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[SimulatedServers]:
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks):
        made = SimulatedServers(tmp_path, 2, 0, Trace(None), disks)
        made.power_cut_rate = 0.0
        made.settle()
        yield made
        made.end()


def code(action: Callable[[], object]) -> int:
    try:
        action()
    except PandoError as error:
        return error.code
    return 0


def directory(server: SimulatedServer) -> Path:
    return server.path / "data" / "default" / "t"


def start_without_table(server: SimulatedServer, create: Callable[[], object]) -> None:
    """``create`` makes it."""
    server.cluster.end_zombies()
    server.create = create  # type: ignore[method-assign, assignment]
    server.start()


def test_a_replica_that_is_only_down_is_not_taken_over(servers: SimulatedServers) -> None:
    """What only it has stays, and is there when it comes back."""
    one, two = servers.servers
    servers.cuts.add(frozenset(("r1", "r2")))
    two.insert(1, [1, 2])
    two.crash()
    servers.end_zombies()
    one.sql("DETACH TABLE t")
    other = CREATE.replace("TABLE t", "TABLE u").replace("{replica}", "r2")
    assert code(lambda: one.sql(f"{other} {KEYS}")) == 253
    assert not (one.path / "data" / "default" / "u").exists()
    one.sql("ATTACH TABLE t")
    servers.cuts.clear()
    two.start()
    servers.settle()
    assert one.keys() == two.keys() == [1, 2]


@pytest.mark.parametrize("way", ["ATTACH", "DROP REPLICA"])
def test_a_server_that_lost_everything(servers: SimulatedServers, way: str) -> None:
    """The page's two ways: the definition is attached, or the replica is taken away and created again."""
    one, two = servers.servers
    two.insert(1, [1, 2])
    servers.settle()
    two.crash()
    two.wipe()

    def create() -> None:
        assert code(lambda: two.sql(f"{CREATE} {KEYS}")) == 253
        if way == "ATTACH":
            two.sql(f"{CREATE.replace('CREATE', 'ATTACH')} {KEYS}")
        else:
            one.sql(DROP)
            two.sql(f"{CREATE} {KEYS}")

    start_without_table(two, create)
    servers.settle()
    assert two.keys() == [1, 2]
    two.crash()
    servers.end_zombies()
    two.start()
    servers.settle()
    assert two.keys() == [1, 2]


@pytest.mark.parametrize("fault", one_in(3, [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST, Fault.EXPIRE_AFTER]))
@pytest.mark.parametrize("number", range(1, 24, 2))
def test_create_is_repeated_until_it_is_answered(servers: SimulatedServers, number: int, fault: Fault) -> None:
    two = servers.servers[1]
    two.drop()
    left = [number]

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        left[0] -= 1
        return fault if left[0] == 0 else None

    servers.on_request = on_request
    answer = code(lambda: two.sql(f"{CREATE} {KEYS}"))
    servers.on_request = lambda node, kind, path: None
    two.keeper.reconnect()
    if answer:
        assert not directory(two).exists()
        assert code(lambda: two.sql(f"{CREATE} {KEYS}")) == 0
    servers.settle()
    two.insert(1, [1])


@pytest.mark.parametrize("number", range(1, 40, 3))
def test_create_after_a_crash_in_the_midst_of_it(servers: SimulatedServers, number: int) -> None:
    two = servers.servers[1]
    two.drop()
    left = [number]

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            node.crash_here()

    servers.on_request = on_request
    try:
        two.sql(f"{CREATE} {KEYS}")
        two.crash()
    except Crash:
        pass
    servers.on_request = lambda node, kind, path: None
    start_without_table(two, lambda: two.sql(f"{CREATE} {KEYS}"))
    servers.settle()
    two.insert(1, [1])


def test_create_without_zookeeper_leaves_nothing(servers: SimulatedServers) -> None:
    two = servers.servers[1]
    two.drop()
    assert not directory(two).exists()
    two.keeper.disconnect()
    assert code(lambda: two.sql(f"{CREATE} {KEYS}")) == 999
    assert not directory(two).exists()
    two.keeper.reconnect()
    two.sql(f"{CREATE} {KEYS}")


def test_drop_takes_the_whole_directory(servers: SimulatedServers) -> None:
    two = servers.servers[1]
    two.insert(1, [1, 2])
    two.insert(1, [3])
    two.sql("ALTER TABLE t DETACH PART '1_0_0_0'")
    two.sql("INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1, 4, 'v')")
    assert {"detached", "staged", "replica_identity"} <= {entry.name for entry in directory(two).iterdir()}
    two.drop()
    assert not directory(two).exists()


def test_table_is_restored_with_the_last_alter(servers: SimulatedServers) -> None:
    """That the first replica has missed."""
    one, two = servers.servers
    one.insert(1, [1])
    servers.settle()
    one.is_frozen = True
    two.sql("ALTER TABLE t ADD COLUMN w UInt8 DEFAULT 7 SETTINGS alter_sync = 1")
    two.insert(1, [2])
    for server in servers.servers:
        server.crash()
    servers.end_zombies()
    one.is_frozen = False
    servers.ensemble.connect().delete_tree(TABLE.root)
    for server in servers.servers:
        server.start()
    for server in servers.servers:
        server.sql("SYSTEM RESTORE REPLICA t")
    servers.settle()
    for server in servers.servers:
        assert server.sql("SELECT k, w FROM t ORDER BY k")[1] == [(1, 7), (2, 7)]
