"""Three tables that take INSERTs, and links between any two of them: every change arrives once at each.

A link may begin "now", without what was before. Then whoever lacks that must not take what follows by this way.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.links.positions import Position
from coordination.links.stream import gap_check
from coordination.links.stream.frontier import Frontier, find_frontier
from coordination.links.version_vector import VersionVector
from tests.links.source_model import make_origin
from tests.links.target_model import ModelTarget

LINKS = tuple(permutations(range(3), 2))


class Mesh:
    def __init__(self) -> None:
        self.tables = [ModelTarget(make_origin(digit)) for digit in (1, 2, 3)]
        self.inserted: list[list[tuple[int, str]]] = [[], [], []]
        """By table: the zxid and the name of each of its own INSERTs."""

    def actions(self) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = [lambda i=i: self._insert(i) for i in range(3) if len(self.inserted[i]) < 3]
        for giver, taker in LINKS:
            found += [
                lambda a=giver, b=taker, cut=cut: self._pull(a, b, cut) for cut in self._stream(giver, taker).cuts
            ]
        if 0 < len(self.inserted[0]) < 3 and self.tables[2].applied(self.tables[0].origin) == 0:
            found += [self._begin_now] * 2
        return found

    def _begin_now(self) -> None:
        """Table 2 takes what table 0 commits from now on."""
        giver, taker = self.tables[0], self.tables[2]
        taker.vector = VersionVector.parse(taker.vector).begin_at(Position(giver.origin, giver.zxid)).to_bytes()

    def _insert(self, index: int) -> None:
        name = f"own{index}-{len(self.inserted[index])}"
        self.tables[index].insert(name)
        self.inserted[index].append((self.tables[index].zxid, name))

    def _stream(self, giver: int, taker: int) -> Frontier:
        table = self.tables[giver]
        place = self.tables[taker].applied(table.origin)
        return find_frontier(table.observe(), table.origin, after=place, previous=table.last_own(place))

    def _pull(self, giver: int, taker: int, cut: int) -> None:
        changes = [change for change in self._stream(giver, taker).changes if change.place <= cut]
        if self.tables[taker].is_stopped(changes):
            return
        self.tables[taker].take(changes, Position(self.tables[giver].origin, cut))

    def violation(self) -> str | None:
        for index, table in enumerate(self.tables):
            have = sorted(name for name, _ in table.rows()["p"])
            want = sorted(
                name
                for origin, inserted in zip(self.tables, self.inserted, strict=True)
                for zxid, name in inserted
                if origin is table or table.begin(origin.origin) < zxid <= table.applied(origin.origin)
            )
            if have != want:
                return f"table {index} has {have}, and its vector says {want}"
        return None

    def settle(self) -> str | None:
        for _ in range(3):
            for giver, taker in LINKS:
                cuts = self._stream(giver, taker).cuts
                if cuts:
                    self._pull(giver, taker, cuts[-1])
        rows = [sorted(name for name, _ in table.rows()["p"]) for table in self.tables]
        if rows[0] != rows[1] or (rows[1] != rows[2] and not self.tables[2].begin(self.tables[0].origin)):
            return f"the tables differ: {rows}"
        return self.violation()


def run_mesh(choices: list[int]) -> str | None:
    mesh = Mesh()
    for choice in choices:
        actions = mesh.actions()
        if not actions:
            break
        actions[choice % len(actions)]()
        if problem := mesh.violation():
            return problem
    return mesh.settle()


@given(st.lists(st.integers(0, 9_999), max_size=30))
@settings(max_examples=100, deadline=None)
@pytest.mark.long
def test_a_full_mesh_has_every_insert_once(choices: list[int]) -> None:
    assert run_mesh(choices) is None


def find_violation(runs: int) -> str | None:
    for seed in range(runs):
        chance = random.Random(seed)
        problem = run_mesh([chance.randrange(10_000) for _ in range(30)])
        if problem is not None:
            return f"seed {seed}: {problem}"
    return None


def test_many_histories_of_a_mesh() -> None:
    assert find_violation(60) is None


def test_own_changes_that_come_back_in_a_ring_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_check, "is_known", lambda vector, own, position: vector.covers(position))
    assert find_violation(200) is not None


@pytest.mark.long
def test_a_hole_that_is_passed_over_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_check, "_find_gap", lambda vector, change: None)
    assert find_violation(200) is not None
