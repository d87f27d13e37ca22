"""Whole servers in one thread: a seed replays, promises hold under faults, and a broken rule is found."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordination.keeper.interface import ANY_VERSION, Delete
from engine.commands.simulate import command
from engine.simulator.scenario import Scale, simulate
from engine.tables.replicated.follow.log_pull import LogPull
from parts.format.hashed_file import SharedSync
from tests.portions import one_in

SMALL = Scale(rounds=1, steps=80)


@pytest.mark.long
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


@pytest.mark.long
def test_seeds_differ_and_a_run_leaves_nothing_to_the_next() -> None:
    digests = [simulate(seed, SMALL).digest for seed in (7, 8, 7)]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_promises_hold(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


KINDS = {
    "insert ok", "insert unknown", "optimize ok", "truncate ok", "read ok", "check ok", "sync ok", "begin anew ok",
    "reattach ok", "drop ok", "restart", "crash", "power cut", "wipe", "LOSE_ANSWER", "LOSE_REQUEST", "EXPIRE", "LAG",
    "logged GET_PART", "logged MERGE_PARTS", "logged DROP_RANGE", "a replica was marked as lost",
    "a replica was cloned", "a quorum part was given up", "fsync failed",
    "fetch broken off", "rot", "broken parts found", "stage ok", "stage failed", "stage unknown", "rollback ok",
    "alter ADD ok", "alter RENAME ok", "alter DROP ok", "alter CLEAR ok", "look at columns ok",
    "stage ok beside a COMMIT", "look ok", "a transaction seen", "logged REPLACE_RANGE", "commit plain: committed",
    "commit plain: committed before", "commit plain: unknown", "commit OVERWRITE: committed",
    "commit OVERWRITE PARTITIONS: committed", "commit plain: skipped: the application had committed this version",
    "drop partition ok", "detach partition ok", "detach part ok", "logged DROP_PART", "attach ok",
    "ADD INDEX ok", "DROP INDEX ok", "MATERIALIZE INDEX ok", "CLEAR INDEX ok", "look by index ok",
    "update ok", "lightweight delete ok", "look at rows ok", "logged MUTATE_PART",
    "own work between two requests of a statement",
}  # fmt: skip


@pytest.mark.long
def test_statements_and_faults_of_every_kind_happen() -> None:
    counts: Counter[str] = Counter()
    for seed in sorted(range(120), key=lambda seed: seed % 3 != 1):  # those with losses first: these are rare
        counts += simulate(seed).counts
        if counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_a_rename_that_is_not_made_durable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fsync of the directory a power cut takes acknowledged rows."""
    monkeypatch.setattr(SharedSync, "__call__", lambda sync: None)
    assert any(simulate(seed).failure for seed in range(20))


@pytest.mark.long
def test_a_replica_that_says_it_is_in_sync_and_is_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogPull, "sync", lambda log, *_: None)
    assert any("is in sync and lacks" in simulate(seed).failure for seed in range(0, 90, 3))


def test_without_its_checks_it_refuses_to_run() -> None:
    command = [sys.executable, "-O", "-m", "engine.cli", "simulate", "--seed", "7"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "leave out the checks" in result.stderr


@pytest.mark.long
def test_a_commit_that_leaves_out_what_was_inserted_beside_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the version of the node that every INSERT writes."""
    monkeypatch.setattr(
        "coordination.transactions.transaction_commit.Delete", lambda path, version=ANY_VERSION: Delete(path)
    )
    assert any(simulate(seed).failure for seed in range(60))


def test_options_of_other_scenarios_are_refused() -> None:
    both = CliRunner().invoke(command, ["--switches", "--moves"])
    assert (both.exit_code, "different scenarios" in both.output) == (2, True)
    alone = CliRunner().invoke(command, ["--sync"])
    assert (alone.exit_code, "--sync goes with --switches" in alone.output) == (2, True)


def test_switches_are_run_from_the_command_line() -> None:
    options = ["--switches", "--sync", "--replicas", "2", "--rounds", "1", "--steps", "10"]
    try:
        one = CliRunner().invoke(command, options)
    finally:
        logging.disable(logging.NOTSET)
    assert (one.exit_code, "seed 1: ok" in one.output) == (0, True)
