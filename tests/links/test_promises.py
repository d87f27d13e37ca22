"""Every promise of ``tests.links.promises`` is shown by tests that exist, or stands among what is open."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.documents.blocks import ROOT
from tests.links.promises import LATER, OPEN, PROMISES

_LINES = [(page, line, tests) for page, lines in PROMISES.items() for line, tests in lines.items()]


@cache
def list_tests(file: str) -> frozenset[str]:
    """The test functions of a file, whose name is as in ``promises``."""
    folder = "tests" if "/" in file else "tests/links"
    tree = ast.parse((ROOT / folder / f"{file}.py").read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("page", "line", "tests"), _LINES, ids=[f"{page}-{line}" for page, line, _ in _LINES])
def test_a_promise_is_shown(page: str, line: str, tests: tuple[str, ...]) -> None:
    assert tests, f"{page}: {line}: name a test, or say in OPEN why there is none"
    for file, _, name in (test.partition("::") for test in tests):
        assert name.startswith("test_")
        assert name in list_tests(file), f"{page}: {line}: {file} has no {name}"


def test_no_promise_is_forgotten() -> None:
    """A line that is closed leaves ``OPEN``; none may join it without a change here."""
    assert len(_LINES) == 214
    assert not OPEN
    assert len(set(LATER)) == len(LATER)
    assert not {line.partition(":")[0] for line in OPEN} - set(PROMISES)
