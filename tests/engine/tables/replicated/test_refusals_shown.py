"""A replica that was refused at its start says so wherever an operator looks."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

import engine.system_tables.replication as replication_tables
from engine.simulator.simulated_node import SimulatedNode
from tests.engine.tables.replicated.mutations import MakeColony
from tests.engine.tables.replicated.owner_context import make_owner_context


def row_of(node: SimulatedNode, *columns: str) -> dict[str, object]:
    """Of ``system.replicas``: the columns, or all."""
    server = SimpleNamespace(services=node.table.services, catalog=SimpleNamespace(tables=lambda: [node.table]))
    shown = replication_tables.TABLES[0]
    names = columns or [column.name for column in shown.schema.columns]
    (row,) = shown.rows(make_owner_context(server), names)
    return dict(zip(names, row, strict=True))


@pytest.mark.parametrize(
    ("columns", "requests"),
    [
        (("table", "is_readonly", "queue_size", "absolute_delay", "last_queue_update_exception", "warning"), 0),
        (("log_pointer",), 2),
        (("active_replicas", "replica_is_active"), 3),
        ((), 6),
    ],
)
def test_zookeeper_is_asked_only_for_what_it_alone_knows(
    make_colony: MakeColony, columns: tuple[str, ...], requests: int
) -> None:
    colony = make_colony(2)
    one, _ = colony
    one.insert(1, [1])
    colony.settle()
    before = colony.ensemble.requests
    row = row_of(one, *columns)
    assert colony.ensemble.requests - before == requests
    if not columns:
        assert (row["log_max_index"], row["log_pointer"]) == (0, 1)
        assert (row["total_replicas"], row["active_replicas"]) == (2, 2)
        assert sorted(row["replica_is_active"]) == [("r1", 1), ("r2", 1)]  # type: ignore[call-overload]


def test_without_zookeeper_all_columns_are_shown(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    one.keeper.disconnect()
    row = row_of(one)
    assert (row["is_readonly"], row["log_pointer"], row["total_replicas"]) == (1, 0, 0)
    assert row["zookeeper_exception"] == "There is no connection to ZooKeeper"
    assert row_of(one, "zookeeper_exception") == {"zookeeper_exception": row["zookeeper_exception"]}


def test_refusal_is_shown_until_the_replica_starts(make_colony: MakeColony, caplog: pytest.LogCaptureFixture) -> None:
    colony = make_colony(2)
    one, two = colony
    for key in range(10):
        one.insert(1, [key])
    colony.settle()
    two.crash()
    for directory in two.directories()[:6]:
        shutil.rmtree(directory)
    two.start()
    for _ in range(2):
        shown = row_of(two)
        assert "231" in str(shown["zookeeper_exception"])
        assert "231" in (two.table.replication.problem() or "")
        two.step_all()
    assert len(two.keys()) == len(two.keys()) == 4
    told = [record.message for record in caplog.records if "may lack rows" in record.message]
    assert len(told) == 1
    assert "231" in told[0]
    two.force_restore_all = True
    two.restart()
    colony.settle()
    assert row_of(two)["zookeeper_exception"] == ""
    assert two.table.replication.problem() is None
