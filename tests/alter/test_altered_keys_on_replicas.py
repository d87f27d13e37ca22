"""MODIFY ORDER BY of a replicated table: all replicas sort by one key, whatever fails and whoever was away."""

from __future__ import annotations

import contextlib
import os

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.nodes.replica_activation import ReplicaAddress
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from tests.alter.test_alter_on_replicas import CREATE, MakeServers, make_servers
from tests.faults import FAULTS, hit_request

__all__ = ["make_servers"]
ALTER = "ALTER TABLE t ADD COLUMN a UInt8, MODIFY ORDER BY (k, a)"


def rows(node: SimulatedServer) -> list[tuple[object, ...]]:
    return node.sql("SELECT k, v, a FROM t ORDER BY k, a")[1]


def keys(node: SimulatedServer) -> tuple[object, ...]:
    return node.sql("SELECT sorting_key, primary_key, sampling_key FROM system.tables WHERE name = 't'")[1][0]


def altered(node: SimulatedServer) -> None:
    """As a client that repeats it until it is told."""
    try:
        node.sql(f"{ALTER} SETTINGS alter_sync = 2")
    except PandoError as error:
        if error.code != 15:  # the column is there
            raise


def test_parts_of_both_keys_merge_to_the_same(make_servers: MakeServers) -> None:
    servers = make_servers(3)
    one, two, three = servers.servers
    one.insert(1, [3, 1, 2])
    servers.settle()
    three.is_frozen = True
    two.sql(ALTER)
    two.sql("INSERT INTO t VALUES (1, 2, 'new', 7), (1, 2, 'new', 1), (1, 4, 'new', 0)")
    three.insert(1, [5])  # it has heard of nothing
    three.is_frozen = False
    servers.settle()
    servers.check_equal()
    expected = [(1, "value 1", 0), (2, "value 2", 0), (2, "new", 1), (2, "new", 7), (3, "value 3", 0), (4, "new", 0),
                (5, "value 5", 0)]  # fmt: skip
    for node in servers.servers:
        assert keys(node) == ("k, a", "k", "")
        assert rows(node) == expected
        assert node.sql("SELECT count() FROM t WHERE k = 2 AND a = 0")[1] == [(1,)]
    three.sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    assert one.sql("SELECT k, v, a FROM t")[1] == expected
    for node in servers.servers:
        node.restart()
    servers.end_zombies()
    servers.settle()
    for node in servers.servers:
        assert keys(node) == ("k, a", "k", "")
        assert rows(node) == expected


def test_who_was_away_and_who_joins(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    two.crash()
    one.sql(ALTER)
    one.sql("ALTER TABLE t MODIFY ORDER BY k")
    one.sql("ALTER TABLE t ADD COLUMN b UInt8, MODIFY ORDER BY (k, b), MODIFY SAMPLE BY k")
    servers.end_zombies()
    two.start()
    servers.settle()
    assert keys(two) == keys(one) == ("k, b", "k", "k")
    two.drop()
    with pytest.raises(PandoError) as caught:
        two.sql(CREATE.format("p UInt8, k UInt64, v String, a UInt8, b UInt8"))
    assert caught.value.code == 342
    create = CREATE.format("p UInt8, k UInt64, v String, a UInt8, b UInt8")
    two.sql(create.replace("ORDER BY k", "PRIMARY KEY k ORDER BY (k, b) SAMPLE BY k"))
    two.sql("ALTER TABLE t REMOVE SAMPLE BY")
    servers.settle()
    assert keys(one) == keys(two) == ("k, b", "k", "")


def test_what_not_all_replicas_know_is_refused(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = servers.servers
    host = servers.ensemble.connect()
    path = two.table.replication.replica.host
    address = ReplicaAddress.parse(host.get(path)[0])
    features = tuple(feature for feature in address.features if feature != "keys")
    host.set(path, ReplicaAddress(address.host, address.interserver_port, features=features).to_bytes())
    with pytest.raises(PandoError, match="'r2' runs a version that does not know it"):
        one.sql(ALTER)
    assert keys(one) == ("k", "k", "")


def scenario(servers: SimulatedServers) -> SimulatedServer:
    one, two = servers.servers
    one.insert(1, [2, 1])
    servers.settle()
    two.insert(1, [3])
    return one


def finish(servers: SimulatedServers) -> None:
    servers.heal()
    for node in servers.servers:
        altered(node)
    servers.servers[1].sql("INSERT INTO t VALUES (1, 2, 'new', 5)")
    servers.settle()
    for _ in range(2):
        servers.check_equal()
        for node in servers.servers:
            assert keys(node) == ("k, a", "k", "")
            assert rows(node) == [(1, "value 1", 0), (2, "value 2", 0), (2, "new", 5), (3, "value 3", 0)]
        servers.servers[1].sql("OPTIMIZE TABLE t FINAL")
        servers.settle()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_one_that_is_hit_at_any_request(make_servers: MakeServers, fault: Fault | str) -> None:
    counted = make_servers()
    one = scenario(counted)
    total = 0

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        nonlocal total
        total += 1

    counted.on_request = on_request
    altered(one)
    finish(counted)
    assert total > 15
    step = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 3
    for number in range(1 + FAULTS.index(fault) % 3, total + 1, step):
        servers = make_servers()
        one = scenario(servers)
        hit_request(servers, number, fault)
        with contextlib.suppress(PandoError, Crash):
            altered(one)
        servers.calm()
        finish(servers)
        servers.end()
