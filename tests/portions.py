"""Which tests run: parameters that ``make test`` leaves to ``make test-all``, and portions of all tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """For ``pytest.mark.parametrize``: the first of each ``step`` values is quick, the others are marked ``long``.

    A tuple stands for several arguments.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[pytest.mark.long] if number % step else ()
        )
        for number, value in enumerate(values)
    ]


def is_in_portion(name: str, portion: str) -> bool:
    """Tells whether a name is in one portion of all names: ``"2/3"`` is the last of three of about one size."""
    number, of = map(int, portion.split("/"))
    if not 0 <= number < of:
        raise ValueError(f"there is no portion {portion!r}: of three portions the first is 0/3, the last 2/3")
    return crc32(name.encode()) % of == number
