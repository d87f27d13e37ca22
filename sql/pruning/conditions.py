"""A WHERE as a condition on keys: AND, OR, NOT over ranges of key expressions.

What is not understood is *unknown*: it can be true and false everywhere, and prunes nothing. A comparison of an
expression with a constant is understood when the expression is a key, when a key is a monotonic function of it (the
function is applied to the constant), or when it is a monotonic function of a key (it is applied to the key's
values).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.format.columns_file import to_python_value
from parts.skip_indexes.bloom_filters import StoredFilters
from parts.skip_indexes.text_index import StoredPostings
from sql.pruning.key_ranges import KeyRanges, Mask, WantedRange

MonotonicFunction = Callable[[pa.Array], pa.Array]
KeyFacts = KeyRanges | StoredFilters | StoredPostings
"""What is known of a key in many places: its ranges, or which values are not there."""


class Condition:
    """``evaluate`` gives (can be true, can be false) for the ranges of the keys by number."""

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        raise NotImplementedError

    @property
    def used(self) -> frozenset[int]:
        """The keys it reads."""
        return frozenset()

    def tells(self, *, negated: bool = False) -> bool:
        """Whether, for some ranges, it (``negated``: its opposite) cannot be true."""
        return True

    def describe(self, names: Sequence[str]) -> str:
        return "unknown"


@dataclass(frozen=True)
class Unknown(Condition):
    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return np.ones(size, bool), np.ones(size, bool)

    def tells(self, *, negated: bool = False) -> bool:
        return False


@dataclass(frozen=True)
class Constant(Condition):
    value: bool

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return np.full(size, self.value), np.full(size, not self.value)

    def tells(self, *, negated: bool = False) -> bool:
        return self.value is negated

    def describe(self, names: Sequence[str]) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class InRange(Condition):
    """``change`` is the monotonic function between the key and what is compared; ``exact``: the test is no wider."""

    key: int
    wanted: WantedRange
    change: MonotonicFunction | None = None
    exact: bool = True
    label: str = ""

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        known = keys.get(self.key)
        if not isinstance(known, KeyRanges):
            return np.ones(size, bool), np.ones(size, bool)
        bounds = apply_monotonic_function(known, self.change)
        can_be_true = self.wanted.intersects(bounds)
        can_be_false = ~self.wanted.contains(bounds) if self.exact else np.ones(size, bool)
        return can_be_true, can_be_false

    def tells(self, *, negated: bool = False) -> bool:
        return self.exact or not negated

    @property
    def used(self) -> frozenset[int]:
        return frozenset((self.key,))

    def describe(self, names: Sequence[str]) -> str:
        low = f"[{_shown(self.wanted.low)}" if self.wanted.low_closed else f"({_shown(self.wanted.low)}"
        high = f"{_shown(self.wanted.high)}]" if self.wanted.high_closed else f"{_shown(self.wanted.high)})"
        low = low if self.wanted.low is not None else "(-Inf"
        high = high if self.wanted.high is not None else "+Inf)"
        return f"({self.label or names[self.key]} in {low}, {high})"


@dataclass(frozen=True)
class ContainsText(Unknown):
    """A text in which all ``needles`` stand: its range says nothing."""

    key: int
    needles: tuple[bytes, ...]

    @property
    def used(self) -> frozenset[int]:
        return frozenset((self.key,))


@dataclass(frozen=True)
class InSet(Condition):
    """``exact``: the key, after ``change``, is the very expression that is looked for."""

    key: int
    values: tuple[pa.Scalar, ...]
    change: MonotonicFunction | None = None
    exact: bool = False
    label: str = ""

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        known = keys.get(self.key)
        if not isinstance(known, KeyRanges):
            return np.ones(size, bool), np.ones(size, bool)
        bounds = apply_monotonic_function(known, self.change)
        type_ = self.values[0].type
        found, sure = np.zeros(size, bool), np.zeros(size, bool)
        if bounds.is_point and bounds.low.type == type_ and not pa.types.is_floating(type_):  # 0 is -0 too
            sure = pc.is_in(bounds.low, pa.array(self.values, type_)).to_numpy(zero_copy_only=False)
            found = sure | bounds.low_infinite
            sure = sure & ~bounds.low_infinite
        elif len(self.values) > _MANY:
            ends = pc.min_max(pa.array(self.values, type_))
            found = WantedRange(ends["min"], ends["max"]).intersects(bounds)
        else:
            for value in self.values:
                wanted = WantedRange(value, value)
                found |= wanted.intersects(bounds)
                sure |= wanted.contains(bounds)
        return found, ~sure if self.exact else np.ones(size, bool)

    def tells(self, *, negated: bool = False) -> bool:
        return self.exact or not negated

    @property
    def used(self) -> frozenset[int]:
        return frozenset((self.key,))

    def describe(self, names: Sequence[str]) -> str:
        return f"({self.label or names[self.key]} in {len(self.values)}-element set)"


_MANY = 256


@dataclass(frozen=True)
class Combination(Condition):
    """AND, or with ``either`` OR."""

    terms: tuple[Condition, ...]
    either: bool = False

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        can_be_true, can_be_false = np.full(size, not self.either), np.full(size, self.either)
        for term in self.terms:
            true, false = term.evaluate(keys, size)
            if self.either:
                can_be_true, can_be_false = can_be_true | true, can_be_false & false
            else:
                can_be_true, can_be_false = can_be_true & true, can_be_false | false
        return can_be_true, can_be_false

    def tells(self, *, negated: bool = False) -> bool:
        some = [term.tells(negated=negated) for term in self.terms]
        return any(some) if self.either is negated else bool(some) and all(some)

    @property
    def used(self) -> frozenset[int]:
        return frozenset().union(*(term.used for term in self.terms))

    def describe(self, names: Sequence[str]) -> str:
        known = [term for term in self.terms if self.either or not isinstance(term, Unknown)]
        if len(known) == 1:
            return known[0].describe(names)
        return f"{'or' if self.either else 'and'}({', '.join(term.describe(names) for term in known)})"


@dataclass(frozen=True)
class IndexHint(Condition):
    """``indexHint``: tells which granules are read, and nothing of their rows."""

    term: Condition

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return self.term.evaluate(keys, size)[0], np.ones(size, bool)

    def tells(self, *, negated: bool = False) -> bool:
        return not negated and self.term.tells()

    @property
    def used(self) -> frozenset[int]:
        return self.term.used

    def describe(self, names: Sequence[str]) -> str:
        return self.term.describe(names)


@dataclass(frozen=True)
class Negated(Condition):
    term: Condition

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        true, false = self.term.evaluate(keys, size)
        return false, true

    def tells(self, *, negated: bool = False) -> bool:
        return self.term.tells(negated=not negated)

    @property
    def used(self) -> frozenset[int]:
        return self.term.used

    def describe(self, names: Sequence[str]) -> str:
        return f"not({self.term.describe(names)})"


def apply_monotonic_function(bounds: KeyRanges, change: MonotonicFunction | None) -> KeyRanges:
    """The bounds after a function that never decreases."""
    if change is None:
        return bounds
    low = change(bounds.low)
    high = low if bounds.is_point else change(bounds.high)
    return KeyRanges(low, high, bounds.low_infinite, bounds.high_infinite)


def _shown(value: pa.Scalar | None) -> str:
    if value is None:
        return ""
    item = to_python_value(value)
    return f"'{item}'" if isinstance(item, str) else str(item)
