"""Counts how often a simulation exercises each rule; what never happens is not tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordination.keeper.interface import Check, Create, MultiFailed, Op, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.log.log_entry import LogEntry


def count_rules(ensemble: MemoryEnsemble, count: Callable[[str], None]) -> None:
    """Calls ``count`` for every stopped multi, log entry, loss, clone and given up part.

    A multi is counted by the rule whose check stopped it.
    """
    run = ensemble.run

    def watched(session: int, ops: Sequence[Op]) -> list[Any]:
        try:
            results = run(session, ops)
        except MultiFailed as error:
            count(_rule(ops, error.op))
            raise
        for op in ops:
            if done := _done(op):
                count(done)
        return results

    ensemble.run = watched  # type: ignore[method-assign]


def _done(op: Op) -> str:
    """Returns what an operation means to other replicas; empty for others."""
    if isinstance(op, SetData) and op.path.endswith("/is_lost"):
        return "a replica was marked as lost" if op.data == b"1" else "a replica was cloned"
    if isinstance(op, Create) and "/log/log-" in op.path:
        return f"logged {LogEntry.parse(op.data).type.value}"
    if isinstance(op, Create) and "/quorum/failed_parts/" in op.path:
        return "a quorum part was given up"
    return ""


def _rule(ops: Sequence[Op], stopped_by: Op) -> str:
    """Names the rule whose check stopped the multi."""
    if any(isinstance(op, SetData) and op.path.endswith("/is_lost") for op in ops):
        return "marking as lost was stopped"
    if any(isinstance(op, Create) and "/quorum/failed_parts/" in op.path for op in ops) and any(
        isinstance(op, Check) for op in ops
    ):
        return "giving a quorum part up was stopped"
    if isinstance(stopped_by, Check) and stopped_by.path.endswith(("/is_active", "/host")):
        return "a former activation was stopped"
    return "another multi failed"
