"""Some cases of file operations that fail; ``python -m tests.recovery disk`` runs all."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.alter.fault_matrix import Case, Matrix, matrix
from tests.portions import one_in
from tests.recovery.disk_matrix import DISK_OPERATIONS

_CASES = 3


def _check(faults: Matrix, case: Case) -> None:
    try:
        faults.check_disk(case)
    except AssertionError as error:
        raise AssertionError(f"{case}: {error}") from error


@pytest.mark.parametrize("name", one_in(8, DISK_OPERATIONS))
@pytest.mark.long
def test_some_file_operations_fail(tmp_path: Path, name: str) -> None:
    with matrix(tmp_path, DISK_OPERATIONS) as faults:
        cases = list(faults.disk_cases(name))
        assert len(cases) >= 20 or name == "forget partition"  # which needs no file
        step = max(len(cases) // _CASES, 1)
        for case in cases[list(DISK_OPERATIONS).index(name) % step :: step]:
            _check(faults, case)


def _of(*kinds: str) -> Callable[[Case], bool]:
    return lambda case: case.kind in kinds and case.fault == errno.EROFS


@pytest.mark.parametrize(
    ("name", "which"),
    [
        # A part that a full or read-only disk does not let go blocks its name until it is deleted, not for ever.
        ("insert", _of("rename", "sync")),
        # A good copy that did not get its place gets it by the next attempt.
        ("repair", _of("rename", "sync")),
        # A part that is on its way back to staged/ is neither brought a second time nor lost.
        ("replace partition", _of("write")),
    ],
    ids=["a part keeps its name", "a copy does not get its place", "a part is not back in its place"],
)
def test_a_disk_that_becomes_read_only(tmp_path: Path, name: str, which: Callable[[Case], bool]) -> None:
    with matrix(tmp_path, DISK_OPERATIONS) as faults:
        cases = list(filter(which, faults.disk_cases(name)))
        assert len(cases) > 3
        for case in cases:
            _check(faults, case)
