"""What the fuzzers found once, and a bounded number of cases of every kind; ``make fuzz`` runs more."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.fuzz import KINDS
from tests.fuzz.differences import accepted
from tests.fuzz.runner import findings
from tests.fuzz.server import Server, opened_server
from tests.fuzz.statements import FOUND, Case, run_case
from tests.portions import one_in

CASES = int(os.environ.get("PANDO_FUZZ_CASES", "600"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with opened_server() as server:
        yield server


@pytest.mark.parametrize("text", one_in(8, FOUND))
def test_what_was_found_is_answered(server: Server, text: str) -> None:
    for format_name in ("JSON", "Native", "Arrow"):
        run_case(server, Case(text, {}, {"x": "1", "n": "1"}, format_name))


@pytest.mark.parametrize("name", ["differences", "definitions"])
def test_accepted_differences_have_a_reason(name: str) -> None:
    assert all(reason for reason, _ in accepted(name))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_input_is_answered(kind: str) -> None:
    found = list(findings(kind, 0, CASES))
    assert not found, "\n\n".join(map(str, found[:5]))
