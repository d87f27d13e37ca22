"""Counts how often a simulation exercises each rule of links; what never happens is not tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coordination.keeper.interface import Create, MultiFailed, Op, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.stream.carried_changes import is_batch, read_carried_changes
from coordination.links.stream.change import Change
from coordination.log.log_entry import LogEntry
from coordination.nodes.gate import Gate
from engine.simulator.simulated_table import TABLE
from engine.tables.capabilities.link_status import LinkProgress


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
        bars = Gate.parse(op.data).bars
        return ["the gate moved"] + ["a table was closed for a copy"] * any("bootstrap" in bar.owner for bar in bars)
    if isinstance(op, Create | SetData) and op.path.startswith(TABLE.linked.incoming) and op.path.endswith("/status"):
        return [f"a link was {LinkProgress.parse(op.data).upstream_status.value}"]
    return []


def _describe(changes: Sequence[Change]) -> list[str]:
    if any(change.previous == change.position.zxid for change in changes):
        return ["a copy was committed"]
    found = ["a batch"]
    found += ["a batch with an ALTER"] * any(change.definitions for change in changes)
    found += ["a batch of several changes"] * (len(changes) > 1)
    found += ["a batch of several origins"] * (len({change.position.origin for change in changes}) > 1)
    found += ["a batch with a drop"] * any(change.drops for change in changes)
    found += ["a batch with a mutation"] * any(change.mutations for change in changes)
    found += ["a batch with a lost block"] * any(block.is_lost for change in changes for block in change.blocks)
    return found
