"""Parameters of a test of which ``make test`` runs some and ``make test-all`` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
