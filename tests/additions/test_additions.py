"""A new function, engine, statement, format, setting, system table or type touches three files at most, and works.

A patch begins with what it adds, and with ``query:`` lines, each followed by its ``answer:`` or the code of its
``error:``. ``ARCHITECTURE.md`` names the same places.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT

pytestmark = pytest.mark.long

PATCHES = sorted(Path(__file__).parent.glob("*.patch"))
_PACKAGES = ("engine", "coordination", "parts", "sql", "recovery", "spark_connector")
_MOST_FILES = 3


def _expected(head: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """The queries that are answered, their answers, and the queries that are refused with their codes."""
    queries: list[str] = []
    answers: list[str] = []
    refused: list[tuple[str, str]] = []
    for line in head.splitlines():
        kind, _, text = line.partition(": ")
        if kind == "query":
            queries.append(text)
        elif kind == "answer":
            answers.append(text)
        elif kind == "error":
            refused.append((queries.pop(), text))
    return queries, answers, refused


def _run(tree: Path, data: Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "engine.cli", "local", "--path", str(data), "--query", text]
    return subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_toy_touches_few_files_and_works(patch: Path, tmp_path: Path) -> None:
    head, _, changes = patch.read_text().partition("diff --git")
    assert len(re.findall(r"^\+\+\+ ", changes, re.MULTILINE)) <= _MOST_FILES
    tree = tmp_path / "tree"
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, tree / package)  # with what is compiled: times of files are kept
    no_repository = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    subprocess.run(["git", "apply", str(patch)], cwd=tree, env=no_repository, check=True)
    queries, answers, refused = _expected(head)
    told = _run(tree, tmp_path / "data", "; ".join(queries))
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == answers
    for query, code in refused:
        assert f"Code: {code}." in _run(tree, tmp_path / "data", query).stderr


def test_there_is_a_toy_of_each_kind() -> None:
    assert {patch.stem for patch in PATCHES} >= {
        "engine", "format", "function", "setting", "statement", "system_table", "type",
    }  # fmt: skip
