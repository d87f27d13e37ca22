"""A bounded number of cases of every kind; ``make fuzz`` runs more."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import KINDS
from tests.fuzz.runner import findings

CASES = int(os.environ.get("PANDO_FUZZ_CASES", "600"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_is_answered(kind: str) -> None:
    found = list(findings(kind, 0, CASES))
    assert not found, "\n\n".join(map(str, found[:5]))
