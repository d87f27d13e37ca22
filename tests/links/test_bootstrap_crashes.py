"""A copy whose servers crash, or whose answers are lost, is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.links.bootstrap_plan import HeldPart
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.replicated.links.bootstrap import taker as bootstrap_taker
from parts.common.errors import ConflictError, PandoError, UserError
from tests.links.bootstrap_tables import (
    TARGET,
    BootstrapTables,
    DirectSource,
    bootstrap_tables,
    crash_once,
    late_target,
)
from tests.portions import one_in


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        yield made


LOSSES = [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER]
FAILPOINTS = ["after_hold", "after_part", "after_copy", "after_bar", "before_commit", "after_commit"]


@pytest.mark.parametrize("failpoint", one_in(3, FAILPOINTS))
@pytest.mark.parametrize("is_late", [False, True])
def test_after_a_crash_there_is_all_or_nothing(
    tables: BootstrapTables, failpoint: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    former: list[tuple[object, ...]] = []
    if is_late:
        former = late_target(tables)
    else:
        tables.insert(1, 2)
        tables.insert(3)
        tables.insert(4, partition=2)
        tables.settle()
    crash_once(tables, failpoint)
    with pytest.raises(Crash):
        tables.run(replaces=is_late)
    tables.table.servers.on_failpoint = lambda node, name: None
    tables.start(1)
    tables.settle()
    is_done = failpoint == "after_commit"
    tables.must_be(tables.rows("source") if is_done else former)
    tables.clean_up(0)
    assert not tables.gate().bars
    source = DirectSource(tables)
    if is_late or not is_done:
        tables.run(source, replaces=is_late)
    if failpoint in ("after_copy", "after_bar", "before_commit"):
        assert not source.fetched, "what was copied before the crash is kept"
    tables.must_be_equal()
    assert tables.read_link().is_begun
    tables.table.servers.now += 700
    tables.table.work_until(lambda: not tables.staged())


def test_a_giver_that_restarts_is_asked_anew(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.insert(2)
    tables.settle()
    source = DirectSource(tables)

    def restart(part: HeldPart) -> None:
        if not source.fetched:
            tables.servers[0].crash()
            tables.start(0)

    source.before_fetch = restart
    with pytest.raises(UserError, match="not held"):
        tables.run(source)
    source.before_fetch = lambda part: None
    tables.run(source)
    tables.must_be_equal()


@pytest.mark.parametrize("fault", [*LOSSES])
def test_a_commit_without_an_answer_is_settled(tables: BootstrapTables, fault: Fault) -> None:
    tables.insert(1)
    tables.settle()
    lost: list[bool] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if kind == "multi" and path == TARGET.log_prefix and not lost:
            lost.append(True)
            return fault
        return None

    tables.table.servers.on_request = on_request
    with pytest.raises(PandoError):
        tables.run()
    assert lost
    server = tables.servers[1]
    server.keeper.reconnect()
    if not server.keeper.session_id or fault in (Fault.EXPIRE, Fault.EXPIRE_AFTER):
        former = tables.target().state.activation
        tables.table.work_until(lambda: tables.target().state.activation not in (None, former))
    tables.table.work_until(lambda: tables.target().replication.problem() is None)
    is_done = fault in (Fault.LOSE_ANSWER, Fault.EXPIRE_AFTER)
    assert tables.read_link().is_begun is is_done
    tables.settle()
    tables.must_be(tables.rows("source") if is_done else [])
    tables.clean_up()
    if is_done:
        with pytest.raises(ConflictError, match="has its place already"):
            tables.run()
    else:
        tables.run()
    tables.must_be_equal()
    assert not tables.gate().bars
    tables.table.servers.now += 700
    tables.table.work_until(lambda: not tables.staged())
