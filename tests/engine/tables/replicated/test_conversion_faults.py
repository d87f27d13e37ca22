"""ATTACH TABLE … AS REPLICATED under faults: a start or the same statement again repairs what was interrupted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from engine.simulator.step_pool import Crash
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from tests.engine.tables.replicated.converted import (
    MakeServers,
    PlainServer,
    copy_table,
    make_servers,
    making_servers,
    work_on,
)
from tests.faults import FAULTS, hit_request
from tests.portions import one_in

__all__ = ["make_servers"]


def convert_hit_at(server: PlainServer, request: int, fault: Fault | str) -> bool:
    """Whether there were so many requests to ZooKeeper; the last is hit. Afterwards the table is replicated."""
    seen = hit_request(server.cluster, request, fault)
    with suppress(Crash, PandoError):
        server.convert()
    server.cluster.on_request = lambda node, kind, path: None
    if not server.is_up:
        server.cluster.end_zombies()
        server.start()
    server.keeper.reconnect()
    if server.engine.catalog.find("default", "t") is None:
        server.sql("ATTACH TABLE t AS REPLICATED")
    elif not isinstance(server.any_table, ReplicatedTable):
        server.convert()
    return len(seen) >= request


@pytest.mark.parametrize("is_second", one_in(2, [False, True]))
@pytest.mark.long
def test_a_fault_at_any_request_is_repaired_by_the_start_or_the_same_statement(tmp_path: Path, is_second: bool) -> None:
    """Every fault in turn, at one request after the other."""
    for number, request in enumerate(range(1, 400, 13 if is_second else 9)):
        with making_servers(tmp_path / str(request)) as make:
            one, two = make(2)
            keys = work_on(one)
            if is_second:
                copy_table(one, two)
                two.insert(1, [50])
                one.convert()
            victim = two if is_second else one
            came_so_far = convert_hit_at(victim, request, FAULTS[number % len(FAULTS)])
            victim.cluster.settle()
            if is_second:
                assert two.detached() == ["4_5_5_0_7", "clone_1_9_9_0"], request
            assert victim.keys() == keys, request
            victim.cluster.check_equal()
        if not came_so_far:
            assert request > 20
            return
    raise AssertionError("the conversion never ends")


@pytest.mark.parametrize("point", ["conversion.after_nodes", "conversion.after_decisions"])
def test_a_crash_between_zookeeper_and_disk(make_servers: MakeServers, point: str) -> None:
    """The table is as it was, goes on, and is converted with what it has then."""
    (one,) = make_servers()
    keys = work_on(one)
    one.sql("DETACH TABLE t")
    one.cluster.on_failpoint = lambda node, name: one.crash_here() if name == point else None  # type: ignore[func-returns-value]
    with pytest.raises(Crash):
        one.sql("ATTACH TABLE t AS REPLICATED")
    one.cluster.on_failpoint = lambda node, name: None
    one.cluster.end_zombies()
    one.start()
    assert one.any_table.definition.engine_name == "MergeTree"
    for number in range(20, 25):
        one.insert(1, [number])
    one.convert()
    one.insert(1, [30])
    one.restart()
    one.cluster.settle()
    assert one.keys() == sorted([*keys, *range(20, 25), 30])
    one.cluster.check_equal()
