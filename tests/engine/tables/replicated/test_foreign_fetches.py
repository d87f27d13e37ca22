"""FETCH PARTITION and PART: all of it in detached/, whole, or none of it, whatever fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from parts.common.errors import PandoError
from parts.read.part_reader import open_part
from tests.alter.test_alter_on_replicas import MakeServers, make_servers
from tests.engine.conftest import Local, local
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

__all__ = ["local", "make_servers"]
FETCH = "ALTER TABLE t FETCH PARTITION 1 FROM '/tables/t'"


def with_parts(servers: SimulatedServers) -> tuple[SimulatedServer, SimulatedServer]:
    one, two = servers.servers
    one.insert(1, [1, 2])
    one.insert([1, 2], [3, 4])
    servers.settle()
    return one, two


def fetched(node: SimulatedServer) -> list[str]:
    return node.table.store.list_detached()


def verify(node: SimulatedServer) -> int:
    """Reads every byte of what is there; returns its rows."""
    rows = 0
    for name in fetched(node):
        part = open_part(node.table.store.path / "detached" / name)
        part.verify(lambda: None)
        rows += part.rows
    return rows


def code(run: Callable[[], object]) -> int:
    with pytest.raises(PandoError) as caught:
        run()
    return caught.value.code


def test_parts_come_and_can_be_attached(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = with_parts(servers)
    two.sql(FETCH)
    assert verify(two) == 3
    assert fetched(one) == []
    assert two.keys() == [1, 2, 3, 4]
    assert code(lambda: two.sql(FETCH)) == 256
    two.sql("ALTER TABLE t DROP PARTITION 1")
    two.sql("ALTER TABLE t ATTACH PARTITION 1")
    servers.settle()
    servers.check_equal()
    assert one.keys() == two.keys() == [1, 2, 3, 4]
    assert fetched(two) == []


def test_a_part_and_what_is_not_there(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, _ = with_parts(servers)
    (name,) = one.sql("SELECT name FROM system.parts WHERE table = 't' AND active AND partition_id = '2'")[1][0]
    one.sql(f"ALTER TABLE t FETCH PART '{name}' FROM '/tables/t/'")
    assert fetched(one) == [name]
    assert code(lambda: one.sql(f"ALTER TABLE t FETCH PART '{name}' FROM '/tables/t'")) == 235
    assert code(lambda: one.sql("ALTER TABLE t FETCH PART '2_7_7_0' FROM '/tables/t'")) == 234
    assert code(lambda: one.sql("ALTER TABLE t FETCH PARTITION 9 FROM '/tables/t'")) == 255
    assert code(lambda: one.sql("ALTER TABLE t FETCH PARTITION 1 FROM '/tables/nope'")) == 999
    assert code(lambda: one.sql("ALTER TABLE t FETCH PARTITION ALL FROM '/tables/t'")) == 344
    assert code(lambda: one.sql("ALTER TABLE t FETCH PARTITION 1")) == 62
    assert fetched(one) == [name]


def test_a_part_that_is_merged_meanwhile(make_servers: MakeServers) -> None:
    servers = make_servers()
    one, two = with_parts(servers)
    done: list[object] = []

    def on_copy(*_: object) -> None:
        if not done:
            done.append(True)
            one.sql("OPTIMIZE TABLE t PARTITION 1 FINAL")

    servers.on_copy = on_copy  # type: ignore[method-assign]
    two.sql(FETCH)
    assert done
    assert verify(two) == 3


def test_of_a_table_of_one_server(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt8) ENGINE = MergeTree ORDER BY k")
    assert code(lambda: local.run("ALTER TABLE t FETCH PARTITION tuple() FROM '/tables/t'")) == 48


@pytest.mark.parametrize("fault", one_in(3, FAULTS), ids=str)
@pytest.mark.long
def test_one_that_is_hit_at_any_request(make_servers: MakeServers, fault: Fault | str) -> None:
    servers = make_servers()
    _, two = with_parts(servers)
    seen = hit_request(servers, 0, fault)
    two.sql(FETCH)
    total = len(seen)
    assert total > 5
    servers.end()
    for number in range(1 + FAULTS.index(fault) % 2, total + 1, 2):
        servers = make_servers()
        _, two = with_parts(servers)
        hit_request(servers, number, fault)
        with contextlib.suppress(PandoError, Crash):
            two.sql(FETCH)
        servers.calm()
        servers.heal()
        servers.settle()
        assert verify(two) in (0, 3), number
        if not fetched(two):
            two.sql(FETCH)
        assert verify(two) == 3
        assert sorted(two.keys()) == [1, 2, 3, 4]
        servers.check_equal()
        servers.end()
