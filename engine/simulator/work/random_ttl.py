"""Random rows with TTL, under clocks that jump and differ: checks which must be gone and which stay.

The expiry time of a row is in its key: ``k`` is seconds times a million, plus a number. The keys of all other rows have
time 0 (1970), and never expire. A block has one time. Nothing is promised of a block from some while before the first
clock may have shown its time. Once the replicas have settled after all clocks show it, none of its rows may be left.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulation_model import Block, Expectation
from engine.simulator.work.random_transactions import TransactionWork

_UNIT = 1_000_000
TTL = f"toDateTime(intDiv(k, {_UNIT}))"
_MARGIN_SECONDS = 10_000
"""Longer than any statement takes."""
_SHORTEST, _LONGEST = 12_000, 40_000
_JUMPS = (3_000, 15_000)
_ALL_JUMPS = 60_000
"""All jumps of a run together: a transaction that is idle for a day is rolled back."""


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
    """Random rows that expire; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keys = self._next_key = _Keys()  # type: ignore[assignment]
        self._jumped = 0
        first = next(iter(self.cluster))
        assert isinstance(first, SimulatedServer)
        first.sql(f"ALTER TABLE t MODIFY TTL {TTL} SETTINGS alter_sync = 2")
        self.cluster.settle()

    def act(self) -> None:
        """Withdraws promises for old rows, and runs one random action."""
        self._withdraw_old_promises()
        super().act()

    def _do_insert(self) -> None:
        if self.random.random() < 0.4:
            self._keys.expiry = int(self._latest()) + self.random.randint(_SHORTEST, _LONGEST)
        super()._do_insert()

    def _insert(self, block: Block) -> None:
        self._keys.expiry = 0  # the block's keys are drawn already
        super()._insert(block)

    def _do_pass_time(self) -> None:
        jump = self.random.randint(*_JUMPS)
        if not self.cluster.stack and self._jumped + jump <= _ALL_JUMPS:
            self._jumped += jump
            self.cluster.now += jump

    def _latest(self) -> float:
        """Returns a time that no server's clock has passed."""
        return self.cluster.now + max(node.clock.largest_skew for node in self.cluster)

    def _earliest(self) -> float:
        """Returns a time that every server's clock has reached."""
        return min(node.clock.wall() for node in self.cluster)

    def _expired(self, by: float) -> list[Block]:
        return [block for block in self.blocks if 0 < block.keys[0] // _UNIT <= by]

    def _withdraw_old_promises(self) -> None:
        old = self._expired(self._latest() + _MARGIN_SECONDS)
        for block in old:
            block.is_retired = True
            if block.expected is Expectation.ONCE:
                block.expected = Expectation.MAYBE
        self._withdraw_promises(old)

    def check(self) -> None:
        """Checks every invariant, and that expired rows are gone."""
        self._withdraw_old_promises()
        super().check()
        gone = self._expired(self._earliest() - _MARGIN_SECONDS // 10)
        for node in self.cluster:
            found = Counter(node.keys())
            left = [block for block in gone if found[block.keys[0]]]
            assert not left, f"{node.name} still has expired {left}, {node.explain()}"
        self.counts["expired blocks gone"] += len(gone)
