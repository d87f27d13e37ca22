"""Portions of all tests: together they are all, and none is in two."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

import pytest

from tests.portions import is_in_portion

NAMES = [f"tests/test_{number}.py::test" for number in range(3000)]


def test_portions_are_all_tests_once_and_of_about_one_size() -> None:
    portions = [[name for name in NAMES if is_in_portion(name, f"{number}/3")] for number in range(3)]
    assert sorted(chain.from_iterable(portions)) == sorted(NAMES)
    assert all(900 < len(portion) < 1100 for portion in portions)
    assert all(is_in_portion(name, "0/1") for name in NAMES)


@pytest.mark.parametrize("portion", ["3/3", "-1/3"])
def test_a_portion_that_is_none(portion: str) -> None:
    with pytest.raises(ValueError, match="no portion"):
        is_in_portion("a", portion)


def test_a_portion_without_tests_is_no_failure() -> None:
    """Of 1,000 portions most have none of this file's tests."""
    own = [f"tests/documents/test_portions.py::{name}" for name in globals() if name.startswith("test_")]
    empty = next(
        f"{number}/1000" for number in range(1000) if not any(is_in_portion(name, f"{number}/1000") for name in own)
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--portion", empty, __file__],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "deselected" in ran.stdout
