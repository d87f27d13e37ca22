"""Conditions on keys: AND, OR and NOT over ranges of key expressions, made from WHERE.

A term that is not understood is *unknown*: it can be true and false everywhere, and prunes nothing. A comparison of an
expression with a constant is understood in three cases:

- The expression is a key.
- A key is a monotonic function of the expression. The function is applied to the constant.
- The expression is a monotonic function of a key. The function is applied to the key's values.
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
"""Facts about a key at many places: its ranges, or filters that show which values are missing."""


class Condition:
    """Base class of conditions on numbered keys."""

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        """Returns two masks over ``size`` places: where it can be true, and where it can be false.

        ``keys`` holds what is known of the keys at each place.
        """
        raise NotImplementedError

    @property
    def key_numbers(self) -> frozenset[int]:
        """The numbers of the keys that it reads."""
        return frozenset()

    def can_exclude(self, *, negated: bool = False) -> bool:
        """Returns whether there are ranges for which it cannot be true.

        With ``negated`` it asks that of its opposite.
        """
        return True

    def describe(self, names: Sequence[str]) -> str:
        """Returns the condition as EXPLAIN shows it; ``names`` are the keys' names."""
        return "unknown"


@dataclass(frozen=True)
class Unknown(Condition):
    """A term that is not understood."""

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return np.ones(size, bool), np.ones(size, bool)

    def can_exclude(self, *, negated: bool = False) -> bool:
        return False


@dataclass(frozen=True)
class Constant(Condition):
    """A condition that is always true or always false."""

    value: bool

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return np.full(size, self.value), np.full(size, not self.value)

    def can_exclude(self, *, negated: bool = False) -> bool:
        return self.value is negated

    def describe(self, names: Sequence[str]) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class InRange(Condition):
    """A key lies in a range.

    ``change`` is the monotonic function from the key to the compared expression. ``exact`` says that the range is not
    wider than the term.
    """

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

    def can_exclude(self, *, negated: bool = False) -> bool:
        return self.exact or not negated

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset((self.key,))

    def describe(self, names: Sequence[str]) -> str:
        low = f"[{_format_value(self.wanted.low)}" if self.wanted.low_closed else f"({_format_value(self.wanted.low)}"
        high = (
            f"{_format_value(self.wanted.high)}]" if self.wanted.high_closed else f"{_format_value(self.wanted.high)})"
        )
        low = low if self.wanted.low is not None else "(-Inf"
        high = high if self.wanted.high is not None else "+Inf)"
        return f"({self.label or names[self.key]} in {low}, {high})"


@dataclass(frozen=True)
class ContainsText(Unknown):
    """A string key contains all ``needles``. Ranges of the key say nothing of it."""

    key: int
    needles: tuple[bytes, ...]

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset((self.key,))


@dataclass(frozen=True)
class InSet(Condition):
    """A key is one of some values.

    ``exact`` says that the key, after ``change``, is the compared expression itself.
    """

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
        if (
            bounds.is_point and bounds.low.type == type_ and not pa.types.is_floating(type_)
        ):  # 0 equals -0, is_in says otherwise
            sure = pc.is_in(bounds.low, pa.array(self.values, type_)).to_numpy(zero_copy_only=False)
            found = sure | bounds.low_infinite
            sure = sure & ~bounds.low_infinite
        elif len(self.values) > _LARGE_SET:
            ends = pc.min_max(pa.array(self.values, type_))
            found = WantedRange(ends["min"], ends["max"]).intersects(bounds)
        else:
            for value in self.values:
                wanted = WantedRange(value, value)
                found |= wanted.intersects(bounds)
                sure |= wanted.contains(bounds)
        return found, ~sure if self.exact else np.ones(size, bool)

    def can_exclude(self, *, negated: bool = False) -> bool:
        return self.exact or not negated

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset((self.key,))

    def describe(self, names: Sequence[str]) -> str:
        return f"({self.label or names[self.key]} in {len(self.values)}-element set)"


_LARGE_SET = 256


@dataclass(frozen=True)
class Combination(Condition):
    """AND of the terms, or OR with ``either``."""

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

    def can_exclude(self, *, negated: bool = False) -> bool:
        some = [term.can_exclude(negated=negated) for term in self.terms]
        return any(some) if self.either is negated else bool(some) and all(some)

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset().union(*(term.key_numbers for term in self.terms))

    def describe(self, names: Sequence[str]) -> str:
        known = [term for term in self.terms if self.either or not isinstance(term, Unknown)]
        if len(known) == 1:
            return known[0].describe(names)
        return f"{'or' if self.either else 'and'}({', '.join(term.describe(names) for term in known)})"


@dataclass(frozen=True)
class IndexHint(Condition):
    """``indexHint``: limits which granules are read, and says nothing about their rows."""

    term: Condition

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        return self.term.evaluate(keys, size)[0], np.ones(size, bool)

    def can_exclude(self, *, negated: bool = False) -> bool:
        return not negated and self.term.can_exclude()

    @property
    def key_numbers(self) -> frozenset[int]:
        return self.term.key_numbers

    def describe(self, names: Sequence[str]) -> str:
        return self.term.describe(names)


@dataclass(frozen=True)
class Negated(Condition):
    """NOT of a term."""

    term: Condition

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        true, false = self.term.evaluate(keys, size)
        return false, true

    def can_exclude(self, *, negated: bool = False) -> bool:
        return self.term.can_exclude(negated=not negated)

    @property
    def key_numbers(self) -> frozenset[int]:
        return self.term.key_numbers

    def describe(self, names: Sequence[str]) -> str:
        return f"not({self.term.describe(names)})"


def apply_monotonic_function(bounds: KeyRanges, change: MonotonicFunction | None) -> KeyRanges:
    """Applies a function that never decreases to the bounds."""
    if change is None:
        return bounds
    low = change(bounds.low)
    high = low if bounds.is_point else change(bounds.high)
    return KeyRanges(low, high, bounds.low_infinite, bounds.high_infinite)


def _format_value(value: pa.Scalar | None) -> str:
    if value is None:
        return ""
    item = to_python_value(value)
    return f"'{item}'" if isinstance(item, str) else str(item)
