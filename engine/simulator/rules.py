"""Counts how often a rule had its say in a simulation: one that never fires is not tested by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordination.keeper import Check, Create, MultiFailed, Op, SetData
from coordination.memory_keeper import MemoryEnsemble


def watch_rules(ensemble: MemoryEnsemble, count: Callable[[str], None]) -> None:
    """Tells ``count`` whenever a multi was stopped by the check that a rule stands on."""
    run = ensemble.run

    def watched(session: int, ops: Sequence[Op]) -> list[Any]:
        try:
            return run(session, ops)
        except MultiFailed as error:
            count(_rule(ops, error.op))
            raise

    ensemble.run = watched  # type: ignore[method-assign]


def _rule(ops: Sequence[Op], stopped_by: Op) -> str:
    if any(isinstance(op, SetData) and op.path.endswith("/is_lost") for op in ops):
        return "marking as lost was stopped"
    if any(isinstance(op, Create) and "/quorum/failed_parts/" in op.path for op in ops) and any(
        isinstance(op, Check) for op in ops
    ):
        return "giving a quorum part up was stopped"
    if isinstance(stopped_by, Check) and stopped_by.path.endswith(("/is_active", "/host")):
        return "a former activation was stopped"
    return "another multi failed"
