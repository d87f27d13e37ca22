"""Whole servers in one thread: a seed replays, promises hold under faults, and a broken rule is found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import parts.store as store
from engine.simulator.run import Scale, simulate

SMALL = Scale(rounds=1, steps=80)


def test_a_seed_replays_byte_for_byte(tmp_path: Path) -> None:
    """In processes of their own, whose sets have other orders."""
    for number in range(2):
        command = [sys.executable, "-m", "engine.cli", "simulate", "--seed", "7", "--rounds", "1", "--trace"]
        result = subprocess.run(
            [*command, str(tmp_path / f"{number}")],
            env={**os.environ, "PYTHONHASHSEED": str(number)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr
        assert re.fullmatch(
            r"seed 7: ok, \d+ requests to ZooKeeper, \d+ lines of trace \w{32}, [\d.]+ s\n", result.stdout
        )
    first, second = ((tmp_path / name).read_bytes() for name in "01")
    assert first == second
    assert first.count(b"\n") > 500


def test_seeds_differ_and_a_run_leaves_nothing_to_the_next() -> None:
    digests = [simulate(seed, SMALL).digest for seed in (7, 8, 7)]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("seed", range(4))
def test_promises_hold(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


def test_statements_and_faults_of_every_kind_happen() -> None:
    counts = simulate(7).counts + simulate(20).counts
    for kind in ("insert ok", "insert unknown", "restart", "crash", "read ok", "LOSE_ANSWER", "EXPIRE"):
        assert counts[kind], (kind, counts)


def test_a_rename_that_is_not_made_durable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fsync of the directory a power cut takes acknowledged rows."""
    monkeypatch.setattr(store, "sync_directory", lambda path: None)
    failures = [simulate(seed).failure for seed in range(8)]
    assert any(failures)


def test_without_its_checks_it_refuses_to_run() -> None:
    command = [sys.executable, "-O", "-m", "engine.cli", "simulate", "--seed", "7"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "leave out the checks" in result.stderr
