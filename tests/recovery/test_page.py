"""The table in README.md names a test for every sentence of the page: each must exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_LINES = (Path(__file__).parent / "README.md").read_text().splitlines()
_ROWS = [line for line in _LINES if line.startswith("| ") and not line.endswith("| |")][1:]
"""Without the head of the table and the names of chapters."""
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@cache
def _functions(file: Path) -> frozenset[str]:
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", _ROWS)
def test_a_sentence_names_tests_that_exist(row: str) -> None:
    tests = _TEST.findall(row)
    assert tests, "no test is named"
    for file, function in tests:
        assert not function or function in _functions(_ROOT / file), f"{file} has no {function}"


def test_no_chapter_is_missing() -> None:
    assert len(_ROWS) >= 40
