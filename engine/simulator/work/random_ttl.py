"""Rows that expire, by clocks that jump and differ: which must be gone, and that no other ever goes.

The time of a row stands in its key, so that everybody can tell: ``k`` is seconds times a million, plus a number. Keys
of no time, which all others have, are of 1970, and never expire. A block has one time. From some while before the first
clock may have shown it nothing is promised of the block; once the replicas have healed and settled after all clocks
show it, none of its rows may be left.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulation import Block, Expectation
from engine.simulator.work.random_transactions import TransactionWork

_UNIT = 1_000_000
TTL = f"toDateTime(intDiv(k, {_UNIT}))"
_MARGIN_SECONDS = 10_000
"""No statement takes so long."""
_SHORTEST, _LONGEST = 12_000, 40_000
_JUMPS = (3_000, 15_000)
_ALL_JUMPS = 60_000
"""A transaction that nobody touches for a day is rolled back."""


class _Keys:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.expiry = 0

    def __iter__(self) -> _Keys:
        return self

    def __next__(self) -> int:
        return self.expiry * _UNIT + next(self._numbers)


@dataclass
class TtlWork(TransactionWork):
    """The nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keys = self._next_key = _Keys()  # type: ignore[assignment]
        self._jumped = 0
        first = next(iter(self.colony))
        assert isinstance(first, SimulatedServer)
        first.sql(f"ALTER TABLE t MODIFY TTL {TTL} SETTINGS alter_sync = 2")
        self.colony.settle()

    def act(self) -> None:
        self._promise_nothing_of_old()
        super().act()

    def _do_insert(self) -> None:
        if self.random.random() < 0.4:
            self._keys.expiry = int(self._latest()) + self.random.randint(_SHORTEST, _LONGEST)
        super()._do_insert()

    def _insert(self, block: Block) -> None:
        self._keys.expiry = 0  # the block has its keys
        super()._insert(block)

    def _do_pass_time(self) -> None:
        jump = self.random.randint(*_JUMPS)
        if not self.colony.stack and self._jumped + jump <= _ALL_JUMPS:
            self._jumped += jump
            self.colony.now += jump

    def _latest(self) -> float:
        """No server has seen a later time."""
        return self.colony.now + max(node.clock.largest_skew for node in self.colony)

    def _earliest(self) -> float:
        """No server shows an earlier time now."""
        return min(node.clock.wall() for node in self.colony)

    def _expired(self, by: float) -> list[Block]:
        return [block for block in self.blocks if 0 < block.keys[0] // _UNIT <= by]

    def _promise_nothing_of_old(self) -> None:
        old = self._expired(self._latest() + _MARGIN_SECONDS)
        for block in old:
            block.is_retired = True
            if block.expected is Expectation.ONCE:
                block.expected = Expectation.MAYBE
        self._promise_nothing(old)

    def check(self) -> None:
        self._promise_nothing_of_old()
        super().check()
        gone = self._expired(self._earliest() - _MARGIN_SECONDS // 10)
        for node in self.colony:
            found = Counter(node.keys())
            left = [block for block in gone if found[block.keys[0]]]
            assert not left, f"{node.name} still has expired {left}, {node.explain()}"
        self.counts["expired blocks gone"] += len(gone)
