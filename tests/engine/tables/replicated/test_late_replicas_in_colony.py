"""Replicas that were away for long, or are added late: how they catch up, and the delay that they report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import engine.system_tables.replication as replication_tables
from coordination.replicas.table_nodes import drop_dead_replica
from engine.engine import Engine
from engine.front.http.status_pages import make_replicas_status_page
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import OptimizeOptions
from tests.engine.tables.replicated.filled import MakeColony, delete_parts, filled
from tests.engine.tables.replicated.owner_context import make_owner_context


def delay(node: SimulatedNode) -> int:
    return node.table.state.queue.compute_delay_seconds(node.cluster.now)


def test_who_fetches_what_it_should_have_had_is_as_far_behind_as_the_table_is_old(make_colony: MakeColony) -> None:
    """Else a scan that allows some delay would take the rows that have come so far for all of them."""
    colony = filled(make_colony)
    one, two = colony
    one.optimize()
    colony.settle()
    colony.now += 1000.0
    for harm in (two.wipe, lambda: delete_parts(two, 1)):
        two.crash()
        harm()
        colony.end_zombies()
        two.start()
        assert two.table.state.has_started
        assert two.keys() != one.keys()
        assert delay(two) >= 1000
        colony.settle()
        assert two.keys() == one.keys()
        assert delay(two) == 0


def test_replica_that_slept_too_long_is_cloned(make_colony: MakeColony) -> None:
    colony = make_colony(
        2, max_replicated_logs_to_keep=5, min_replicated_logs_to_keep=2, cleanup_delay_period=1, old_parts_lifetime=1
    )
    one, two = colony
    for key in range(5):
        two.insert(1, [key])
    colony.settle()
    two.crash()
    colony.end_zombies()
    one.call(lambda table: table.truncate())
    for key in range(100, 115):
        one.insert(1, [key])
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    for _ in range(5):
        colony.now += 100
        one.step_all()
    assert one.keeper.get(two.table.replication.replica.is_lost)[0] == b"1"
    two.start()
    colony.settle()
    colony.check_equal()
    assert two.keys() == one.keys() == list(range(100, 115))
    assert all(name.startswith("clone_") for name in two.table.store.list_detached())


def shown_of(node: SimulatedNode) -> tuple[str, str]:
    """``warning`` in ``system.replicas``, and the answer of ``/replicas_status?verbose=1``."""
    server = SimpleNamespace(
        services=node.table.services,
        catalog=SimpleNamespace(tables=lambda: [node.table]),
        config=SimpleNamespace(max_replica_delay_for_distributed_queries=0),
        link_statuses=list,
        link_start=SimpleNamespace(explain_refusal=lambda table: "", warn=lambda table: ""),
    )
    server.replicas_status = lambda: list(Engine._loaded_replicas(server))  # type: ignore[arg-type]
    names = [column.name for column in replication_tables.TABLES[0].schema.columns]
    (row,) = replication_tables.TABLES[0].rows(make_owner_context(server), names)
    page = make_replicas_status_page(server, verbose=True)  # type: ignore[arg-type]
    return str(row[names.index("warning")]), page.body.decode()


def test_dead_sole_holder_keeps_the_log_and_that_is_said(
    make_colony: MakeColony, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its server is back, or somebody drops it: then the log is trimmed and the queue drains."""
    colony = make_colony(2, max_replicated_logs_to_keep=5, min_replicated_logs_to_keep=2)
    one, two = colony
    colony.settle()
    one.is_frozen = True
    two.insert(1, [100])
    two.crash()
    colony.end_zombies()
    one.is_frozen = False
    for key in range(15):
        one.insert(1, [key])
    for _ in range(3):
        colony.now += 100
        one.step_all()
    paths = one.table.replication.paths
    assert len(one.keeper.children(paths.log)) == 16
    for shown in (*shown_of(one), caplog.text):
        assert "Replica r2 is not active and 16 log entries behind, and it alone has part 1_0_0_0" in shown
        assert "SYSTEM DROP REPLICA 'r2'" in shown
    assert one.table.replication.problem() is None
    drop_dead_replica(one.keeper, paths, "r2")
    colony.settle(300)
    assert len(one.keeper.children(paths.log)) == 2
    assert not any("Replica r2" in shown for shown in shown_of(one))
    assert one.keys() == list(range(15))


def test_trimmed_log_is_noticed_by_a_live_replica(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    two.is_frozen = True
    for key in range(2, 6):
        one.insert(1, [key])
    for _ in range(3):
        one.step_all()
    log = one.table.replication.paths.log
    for name in one.keeper.children(log)[:-1]:
        one.keeper.delete(f"{log}/{name}")
    colony.settle()
    colony.check_equal()
    assert two.keys() == [1, 2, 3, 4, 5]


def test_replica_added_late(make_colony: MakeColony) -> None:
    colony = filled(make_colony, 1)
    colony.nodes["r1"].call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.nodes["r1"].insert(2, [77])
    two = colony.add_node("r2")
    colony.settle()
    colony.check_equal()
    assert two.keys() == colony.nodes["r1"].keys()
