"""A mutation that is hit at any request to ZooKeeper, or any fsync, of whoever creates it or carries it out.

With ``PANDO_SIMULATION_SEEDS`` at every one, else at some.
"""

from __future__ import annotations

import os

import pytest

from coordination.memory_keeper import Fault
from engine.simulator.servers import Server, Servers
from engine.simulator.steps import Crash
from parts.errors import PandoError, UnknownOutcomeError
from tests.alter.test_alter_on_replicas import MakeServers, make_servers, rows
from tests.faults import FAULTS, SYNC_FAULTS, hit_request, hit_sync

__all__ = ["make_servers"]
STATEMENTS = {
    "update": "ALTER TABLE t UPDATE v = concat(v, '+') WHERE k != 2 SETTINGS mutations_sync = 2",
    "delete": "ALTER TABLE t DELETE WHERE k = 3 SETTINGS mutations_sync = 2",
    "lightweight delete": "DELETE FROM t WHERE k = 3 SETTINGS lightweight_deletes_sync = 2",
}
OLD = [(1, 1, "value 1"), (2, 2, "value 2"), (1, 3, "value 3"), (1, 4, "value 4")]
NEW = {
    "update": [(1, 1, "value 1+"), (2, 2, "value 2"), (1, 3, "value 3+"), (1, 4, "value 4+")],
    "delete": [OLD[0], OLD[1], OLD[3]],
    "lightweight delete": [OLD[0], OLD[1], OLD[3]],
}
STEP = 1 if "PANDO_SIMULATION_SEEDS" in os.environ else 9


def scenario(servers: Servers) -> Server:
    one, two = servers.servers
    one.insert(1, [1])
    two.insert(2, [2])
    servers.settle()
    one.insert(1, [3, 4])
    return one


def run(servers: Servers, name: str) -> None:
    """The statement, while it is hit; and what must be true afterwards."""
    one = servers.servers[0]
    try:
        one.sql(STATEMENTS[name])
        allowed = [NEW[name]]
        assert rows(one) == NEW[name]
    except (UnknownOutcomeError, Crash):
        allowed = [OLD, NEW[name]]
    except PandoError:
        allowed = [OLD]
    servers.heal()
    servers.settle()
    servers.check_equal()
    found = rows(one)
    assert found in allowed
    for node in servers.servers:
        assert rows(node) == found
        assert all(shown.is_done for shown in node.table.mutations.shown())
    servers.servers[1].sql("OPTIMIZE TABLE t FINAL")
    servers.settle()
    servers.check_equal()
    for node in servers.servers:
        assert rows(node) == found
        assert len(node.parts()) == 2
    servers.end()


def count(make_servers: MakeServers, name: str) -> tuple[int, int]:
    """Requests and fsyncs until the statement has its answer."""
    servers = make_servers()
    one = scenario(servers)
    requests, syncs = hit_request(servers, 0, "crash"), hit_sync(servers, 0, "crash")
    one.sql(STATEMENTS[name])
    return len(requests), len(syncs)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("name", STATEMENTS)
def test_at_any_request(make_servers: MakeServers, name: str, fault: Fault | str) -> None:
    total, _ = count(make_servers, name)
    assert total > 60
    numbers = range(1 + FAULTS.index(fault) % STEP, total + 1, STEP)
    for number in numbers:
        servers = make_servers()
        scenario(servers)
        hit_request(servers, number, fault)
        run(servers, name)
    print(f"{name}, {fault}: {len(numbers)} cases of {total} requests")


@pytest.mark.parametrize("fault", SYNC_FAULTS, ids=str)
@pytest.mark.parametrize("name", STATEMENTS)
def test_at_any_fsync(make_servers: MakeServers, name: str, fault: int | str) -> None:
    _, total = count(make_servers, name)
    assert total >= 4
    step = min(STEP, 3)
    numbers = range(1 + SYNC_FAULTS.index(fault) % step, total + 1, step)
    for number in numbers:
        servers = make_servers()
        scenario(servers)
        hit_sync(servers, number, fault)
        run(servers, name)
    print(f"{name}, {fault}: {len(numbers)} cases of {total} fsyncs")
