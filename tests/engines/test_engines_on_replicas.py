"""Replicated tables of the engines that reduce rows: all come to the same content, whatever is hit meanwhile."""

from __future__ import annotations

import contextlib
import os
from itertools import product

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulated_table import TABLE
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from tests.alter.test_alter_on_replicas import MakeServers, make_servers
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

__all__ = ["make_servers"]
COLUMNS = "k UInt8, s Int8, v UInt8, n UInt8, x SimpleAggregateFunction(max, UInt8)"
ENGINES = {
    "Replacing": "v",
    "Summing": "(n)",
    "Aggregating": "",
    "Collapsing": "s",
    "VersionedCollapsing": "s, v",
}
STEP = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 41
LOST = [fault for fault in FAULTS if isinstance(fault, Fault)]
CASES = list(product(ENGINES, LOST) if STEP == 1 else zip(ENGINES, LOST, strict=False))


def create(node: SimulatedServer, engine: str, arguments: str) -> None:
    given = ", ".join([f"'{TABLE.root}'", "'{replica}'", *([arguments] if arguments else [])])
    node.sql(f"CREATE TABLE t ({COLUMNS}) ENGINE = Replicated{engine}MergeTree({given}) ORDER BY k")


def scenario(make_servers: MakeServers, engine: str) -> SimulatedServers:
    servers = make_servers()
    for node in servers.servers:
        node.drop()
    for node in servers.servers:
        create(node, engine, ENGINES[engine])
    one, two = servers.servers
    one.sql("INSERT INTO t VALUES (1, 1, 2, 1, 0), (2, 1, 1, 2, 0)")
    two.sql("INSERT INTO t VALUES (1, 1, 2, 6, 7), (2, -1, 1, 5, 3)")
    servers.settle()
    one.sql("INSERT INTO t VALUES (1, 1, 3, 6, 0), (3, 1, 0, 4, 9)")
    return servers


def rows(node: SimulatedServer) -> list[tuple[object, ...]]:
    return node.sql("SELECT * FROM t FINAL ORDER BY ALL")[1]


@pytest.mark.parametrize(("engine", "fault"), one_in(4, CASES), ids=str)
@pytest.mark.long
def test_a_merge_that_is_hit(make_servers: MakeServers, engine: str, fault: Fault) -> None:
    servers = scenario(make_servers, engine)
    requests = hit_request(servers, 0, "crash")
    servers.servers[1].sql("OPTIMIZE TABLE t FINAL")
    wanted = rows(servers.servers[0])
    assert 2 <= len(wanted) <= 4
    assert len(requests) > 10
    for number in range(5 + 2 * LOST.index(fault), len(requests) + 1, STEP):
        servers = scenario(make_servers, engine)
        hit_request(servers, number, fault)
        with contextlib.suppress(PandoError, Crash):
            servers.servers[1].sql("OPTIMIZE TABLE t FINAL")
        servers.heal()
        servers.settle()
        servers.check_equal()
        assert [rows(node) for node in servers.servers] == [wanted, wanted]
        servers.servers[0].sql("OPTIMIZE TABLE t FINAL")
        servers.settle()
        servers.check_equal()
        for node in servers.servers:
            assert rows(node) == wanted
            assert len(node.parts()) == 1
        servers.end()


@pytest.mark.parametrize(
    ("engine", "arguments"),
    [("", ""), ("Replacing", ""), ("Replacing", "n"), ("Replacing", "v, n"), ("Collapsing", "s"), ("Summing", "n")],
)
def test_replicas_agree_on_the_engine_and_its_columns(make_servers: MakeServers, engine: str, arguments: str) -> None:
    servers = scenario(make_servers, "Replacing")
    two = servers.servers[1]
    two.drop()
    with pytest.raises(PandoError) as caught:
        create(two, engine, arguments)
    assert caught.value.code == 342
    create(two, "Replacing", "v")
    servers.settle()
    assert rows(two) == rows(servers.servers[0])


def test_a_block_that_becomes_nothing(make_servers: MakeServers) -> None:
    servers = scenario(make_servers, "Collapsing")
    one, two = servers.servers
    servers.settle()
    before = one.parts()
    one.sql("INSERT INTO t VALUES (7, 1, 0, 0, 0), (7, -1, 0, 0, 0)")
    two.sql("INSERT INTO t VALUES (8, 1, 0, 0, 0)")
    servers.settle()
    servers.check_equal()
    assert len(one.parts()) == len(before) + 1
