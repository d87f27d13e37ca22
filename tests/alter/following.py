"""Runs histories here and in ClickHouse, side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from parts.common.errors import PandoError
from parts.common.thread_pool import run_jobs_inline
from parts.format.hashed_file import replace_sync
from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS
from tests.alter.histories import History, Step
from tests.sql.oracle import Oracle

_SETTINGS = re.compile(rb"\\nSETTINGS .*")
_LOGICAL_ERROR = "49"
_UNKNOWN_ELEMENT_OF_ENUM = "691"
_CODE = re.compile(r"Code: (\d+)\.")


class Pando:
    """A server in this process."""

    def __init__(self, path: Path) -> None:
        self._engine = Engine(Config.local(path))
        self._engine.start()

    def stop(self) -> None:
        self._engine.stop()

    def query(self, sql: str) -> bytes:
        return answer(self._engine, sql)


def answer(engine: Engine, sql: str, **settings: int) -> bytes:
    result = engine.execute(sql, Session(settings={**settings}), None)
    text = b"".join(write_blocks("TSV", result.columns, result.batches, settings=DEFAULT_SETTINGS))
    result.on_close()
    return text


class Answering(Protocol):
    """One server, or several that are asked as one. Raises ``PandoError`` for what is refused."""

    def query(self, sql: str) -> bytes: ...


class _OracleFailed(Exception):
    """ClickHouse has a bug there."""


@dataclass
class Follower:
    """``done`` counts steps by the words of their last action: carried out in both, refused by both, and those at which
    a history ended because ClickHouse fails."""

    oracle: Oracle
    pando: Answering
    done: Counter[str] = field(default_factory=Counter)

    def follow(self, seed: int, steps: int) -> str:
        """What differs, after which statements; ``""`` if nothing does."""
        told: list[str] = [f"seed {seed}"]
        for step in History(seed, f"h{seed}").steps(steps):
            told += [*step.actions, *step.questions]
            words = " ".join(re.findall(r"\b[A-Z]{3,}\b", step.actions[-1])[:4])
            try:
                expected, found = self._there(step), self._here(step)
            except _OracleFailed:
                self.done[f"{words} -- given up"] += 1
                return ""
            if found != expected:
                return ";\n".join(told) + _difference(expected, found)
            self.done[f"{words} -- refused" if expected.startswith(b"refused") else words] += 1
        return ""

    def _there(self, step: Step) -> bytes:
        try:
            return _SETTINGS.sub(b"", self.oracle.query("; ".join([*step.actions, *step.questions])))
        except RuntimeError as error:
            if not step.questions or not (code := _CODE.match(str(error))):
                raise
            if code[1] == _LOGICAL_ERROR:
                raise _OracleFailed from error
            answers = self._answers_there(step)
            return b"refused, %s\n" % code[1].encode() + _SETTINGS.sub(b"", answers)

    def _answers_there(self, step: Step) -> bytes:
        try:
            return self.oracle.query("; ".join(step.questions))
        except RuntimeError as error:
            code = _CODE.match(str(error))
            if code and code[1] == _UNKNOWN_ELEMENT_OF_ENUM:  # it writes 0 for values that have expired
                raise _OracleFailed from error
            raise

    def _here(self, step: Step) -> bytes:
        refused = b""
        try:
            for statement in step.actions:
                self.pando.query(statement)
        except PandoError as error:
            refused = f"refused, {error.code}\n".encode()
            if statement != step.actions[-1]:
                return f"{statement}: {error}".encode()
        return refused + _SETTINGS.sub(b"", b"".join(map(self.pando.query, step.questions)))


def _difference(expected: bytes, found: bytes) -> str:
    """The first line that differs, and the next."""
    theirs, ours = expected.split(b"\n"), found.split(b"\n")
    first = next((n for n, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), len(ours) - 1)
    return "".join(
        f"\n-- {name}, line {first}: {b' | '.join(lines[first : first + 2]).decode(errors='replace')}"
        for name, lines in (("ClickHouse", theirs), ("Pando", ours))
    )


@contextmanager
def following(path: Path) -> Iterator[Follower]:
    """A server whose disk makes nothing durable: what a power cut leaves is of other tests."""
    oracle = Oracle()
    with replace_sync(lambda descriptor: None), run_jobs_inline():
        pando = Pando(path)
        try:
            yield Follower(oracle, pando)
        finally:
            pando.stop()
            oracle.close()
