"""Nodes that may be gone already are deleted, many at once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordination.keeper.interface import KeeperConnectionLoss, Op, Stat
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.deletion import delete_all_present, delete_if_present

_MANY = 450
"""More than fit into two multis."""


def test_a_node_tells_whether_it_was_there() -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    keeper.create("/a", b"")
    assert [delete_if_present(keeper, "/a") for _ in range(2)] == [True, False]


@pytest.mark.parametrize("gone", [(), (0,), (199, 200, 449)])
def test_all_are_deleted_though_some_are_gone(gone: tuple[int, ...]) -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    for number in range(_MANY):
        if number not in gone:
            keeper.create(f"/n{number:03}", b"")
    delete_all_present(keeper, [f"/n{number:03}" for number in range(_MANY)])
    assert [name for name in keeper.children("/") if name != "zookeeper"] == []


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_lost_multi_is_done_again(is_applied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    for number in range(3):
        keeper.create(f"/n{number}", b"")
    multi = keeper.multi

    def lose(ops: Sequence[Op]) -> list[str | Stat | None]:
        if is_applied:
            multi(ops)
        raise KeeperConnectionLoss("the answer was lost")

    monkeypatch.setattr(keeper, "multi", lose)
    delete_all_present(keeper, [f"/n{number}" for number in range(3)])
    assert [name for name in keeper.children("/") if name != "zookeeper"] == []
