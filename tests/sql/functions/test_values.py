"""The comparison of columns tells what is the same, and finds the first row that is not."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from tests.sql.functions.known import merged
from tests.sql.functions.values import first_difference, same

_NESTED = pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())]))
_ROWS = [[{"x": 1.0, "y": "a"}], [], [{"x": math.nan, "y": None}, {"x": -0.0, "y": ""}]]


@pytest.mark.parametrize(
    ("type_", "a", "b", "ulps", "is_same"),
    [
        (pa.float64(), [1.0, None, math.nan], [1.0, None, math.nan], 0, True),
        (pa.float64(), [0.0], [-0.0], 0, False),
        (pa.float64(), [1.0], [1.0000000000000002], 0, False),
        (pa.float64(), [1.0], [1.0000000000000002], 1, True),
        (pa.float64(), [1.0], [math.nan], 64, False),
        (pa.float64(), [0.0], [None], 0, False),
        (pa.string(), ["a", None], ["a", ""], 0, False),
        (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], ["a", "b"], 0, True),
        (_NESTED, _ROWS, _ROWS, 0, True),
        (_NESTED, _ROWS, [[], *_ROWS[::2]], 0, False),
        (_NESTED, _ROWS, [*_ROWS[:2], [{"x": math.nan, "y": ""}, {"x": -0.0, "y": ""}]], 0, False),
        (pa.map_(pa.string(), pa.float32()), [[("a", 1.0)], []], [[("a", 1.0)], []], 0, True),
        (pa.map_(pa.string(), pa.float32()), [[("a", 1.0)], []], [[("a", 2.0)], []], 0, False),
    ],
)
def test_same(type_: pa.DataType, a: list[Any], b: list[Any], ulps: int, is_same: bool) -> None:
    assert same(pa.array(a, type_), pa.array(b, type_), ulps) is is_same


def test_the_first_difference_is_found() -> None:
    values = list(range(1000))
    other = [*values[:617], -1, *values[618:]]
    assert first_difference(pa.array(values), pa.array(other)) == (617, 617, -1)
    assert first_difference(pa.array([1]), pa.array([1, 2])) == (-1, 1, 2)


@pytest.mark.parametrize(
    ("old", "kind", "many", "new"),
    [
        (("same", "same"), "differs", True, ("same", "differs")),
        (("same", "same"), "differs", False, ("differs", "differs")),
        (("differs", "differs"), "same", True, ("same", "same")),
        (("differs", "differs"), "fails", True, ("differs", "fails")),
        (("differs", "fails"), "same", False, ("same", "fails")),
        (("same", "differs"), "same", False, ("same", "differs")),
    ],
)
def test_what_was_compared_again_replaces_what_was_known(
    old: tuple[str, str], kind: str, many: bool, new: tuple[str, str]
) -> None:
    assert merged(old, kind, many) == new
