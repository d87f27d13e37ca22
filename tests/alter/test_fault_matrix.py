"""Some cases of the matrix of operations and faults; ``python -m tests.alter faults`` runs all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alter.fault_matrix import OPERATIONS, matrix
from tests.portions import one_in

_CASES = 8


@pytest.mark.parametrize("name", one_in(24, OPERATIONS))
@pytest.mark.long
def test_some_faults(tmp_path: Path, name: str) -> None:
    with matrix(tmp_path) as faults:
        cases = list(faults.cases(name))
        assert len(cases) > 500
        step = len(cases) // _CASES - 1  # in turn another fault
        for case in cases[list(OPERATIONS).index(name) % 5 :: step]:
            try:
                faults.check(case)
            except AssertionError as error:
                raise AssertionError(f"{case}: {error}") from error
