"""How the rows of a replica differ from those that ``tests.cluster.chaos_links`` expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.cluster.link_clients import Rows

Row = tuple[int, int, int]
"""Partition, key and value."""


@dataclass(frozen=True)
class Difference:
    """How the rows of a replica differ from what they must be."""

    lost: Sequence[tuple[int, int]] = ()
    doubled: Sequence[tuple[int, int]] = ()
    more: Sequence[tuple[int, int]] = ()
    different: Sequence[tuple[int, int]] = ()
    problem: str = ""
    """Why nothing is known of the rows."""

    @classmethod
    def of(cls, found: Sequence[Row], expected: Rows) -> Difference:
        """Compares rows (partition, key, value) with what is expected."""
        times = Counter((p, k) for p, k, _ in found)
        values = {(p, k): v for p, k, v in found}
        return cls(
            sorted(expected.keys() - times.keys()),
            sorted(key for key, count in times.items() if count > 1),
            sorted(times.keys() - expected.keys()),
            sorted(key for key in expected.keys() & times.keys() if expected[key] != values[key]),
        )

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.more or self.different or self.problem)

    def __str__(self) -> str:
        parts = {"lost": self.lost, "doubled": self.doubled, "too many": self.more, "different": self.different}
        return self.problem or ", ".join(f"{what} {len(keys)} {keys[:5]}" for what, keys in parts.items())


Compare = Callable[[Sequence[Row]], Difference]
