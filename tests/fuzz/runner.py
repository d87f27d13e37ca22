"""Runs the seeds of a kind in a process that may crash or hang: both are findings, and the next seed goes on.

The child writes a line before a case (``seed``), one behind it that says what became of it, and one for every finding
(``seed`` and its text as JSON); the parent reads them with a deadline, put off as much as others use the machine. A
case that misses it is run once more, alone, before it counts.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection

_START_SECONDS = 120.0
COMPARED = "compared"
"""What became of a case whose function of a seed says nothing."""


@dataclass(frozen=True)
class Finding:
    kind: str
    seed: int
    problem: str

    def __str__(self) -> str:
        text = import_module(f"tests.fuzz.{self.kind}").shown(self.seed)
        return (
            f"seed {self.seed}: {self.problem}\n{text[:3000]}\n(again: python -m tests.fuzz {self.kind} 1 {self.seed})"
        )


def findings(kind: str, first_seed: int, count: int, outcomes: Counter[str] | None = None) -> Iterator[Finding]:
    """The faults of the seeds ``first_seed`` to ``first_seed + count - 1``; ``outcomes`` counts what became of cases
    without one."""
    seed, end = first_seed, first_seed + count
    while seed < end:
        with contextlib.closing(_Child(kind, seed, end)) as child:
            yield from child.findings()
            if outcomes is not None:
                outcomes.update(child.outcomes)
        if child.is_late:
            with contextlib.closing(_Child(kind, child.seed, child.seed + 1)) as alone:
                yield from alone.findings()
            if alone.is_late:
                yield Finding(kind, alone.seed, f"no end after {alone.seconds:g} seconds and more, alone neither")
        seed = child.seed + 1


def _busyness() -> float:
    """How many want each processor, at least 1: so much longer does everything take."""
    return max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


class _Child:
    """``seed`` is the case that runs, or the last one that ran; ``is_late`` when it was given up."""

    def __init__(self, kind: str, seed: int, end: int) -> None:
        self._kind = kind
        self._first = seed
        self.seed = seed - 1
        self.is_late = False
        self.outcomes: Counter[str] = Counter()
        self.seconds = float(import_module(f"tests.fuzz.{kind}").SECONDS)
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        # Not forked: threads of this process would not be there.
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_run, args=(kind, seed, end, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def findings(self) -> Iterator[Finding]:
        wait = _START_SECONDS
        while True:
            try:
                if not self._pipe.poll(wait):
                    self.seed = max(self.seed, self._first)
                    self.is_late = True
                    return
                message = json.loads(self._pipe.recv())
            except EOFError:
                self._process.join()
                yield Finding(self._kind, self.seed, _ending(self._process.exitcode))
                return
            wait = self.seconds * _busyness()
            if message is None:
                return
            if isinstance(message, int):
                self.seed = message
            elif isinstance(message, str):
                self.outcomes[message] += 1
            else:
                yield Finding(self._kind, *message)

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"the process died of {signal.Signals(-exit_code).name}"
    return f"the process ended with {exit_code}"


def _run(kind: str, seed: int, end: int, pipe: Connection) -> None:
    with import_module(f"tests.fuzz.{kind}").opened() as case:
        for current in range(seed, end):
            pipe.send(json.dumps(current))
            try:
                outcome = case(current)
            except Exception:
                pipe.send(json.dumps([current, traceback.format_exc(limit=-6)]))
            else:
                pipe.send(json.dumps(outcome or COMPARED))
        pipe.send(json.dumps(None))
