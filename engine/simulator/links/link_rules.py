"""Counts how often a simulation exercises each rule of links; what never happens is not tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordination.keeper.interface import Create, MultiFailed, Op, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.stream.carried_changes import is_batch, read_carried_changes
from coordination.links.stream.change import Change
from coordination.log.log_entry import LogEntry
from engine.simulator.simulated_table import TABLE


def count_link_rules(ensemble: MemoryEnsemble, count: Callable[[str], None]) -> None:
    """Calls ``count`` for every batch and lead, and every multi that a link's rule stopped."""
    run = ensemble.run

    def watched(session: int, ops: Sequence[Op]) -> list[Any]:
        try:
            results = run(session, ops)
        except MultiFailed as error:
            if rule := _stopped_by(error.op):
                count(rule)
            raise
        for op in ops:
            for done in _done(op):
                count(done)
        return results

    ensemble.run = watched  # type: ignore[method-assign]


def _stopped_by(op: Op) -> str:
    """Names the rule of links whose check stopped a multi; "" for another one."""
    path = getattr(op, "path", "")
    if path == TABLE.linked.vector:
        return "a batch came second"
    if path == TABLE.gate:
        return "a commit met a moved gate"
    return ""


def _done(op: Op) -> list[str]:
    """Returns what an operation means to links."""
    if isinstance(op, Create) and op.path.startswith(f"{TABLE.log}/"):
        entry = LogEntry.parse(op.data)
        if is_batch(entry):
            return _describe(read_carried_changes(entry, 0))
    if isinstance(op, Create) and op.path.startswith(TABLE.linked.incoming) and op.path.endswith("/leader"):
        return ["a server took the lead of a link"]
    if isinstance(op, SetData) and op.path == TABLE.gate:
        return ["the gate moved"]
    return []


def _describe(changes: Sequence[Change]) -> list[str]:
    found = ["a batch"]
    found += ["a batch of several changes"] * (len(changes) > 1)
    found += ["a batch of several origins"] * (len({change.position.origin for change in changes}) > 1)
    found += ["a batch with a drop"] * any(change.drops for change in changes)
    found += ["a batch with a mutation"] * any(change.mutations for change in changes)
    found += ["a batch with a lost block"] * any(block.is_lost for change in changes for block in change.blocks)
    return found
