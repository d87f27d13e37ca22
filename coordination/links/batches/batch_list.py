"""A batch that no request holds: its entry is written in pieces first, and the log entry names them.

A transaction of thousands of parts has no cut inside. Its entry is cut into pieces, each the content of a node
(``coordination.nodes.list_nodes``). So the commit stays one multi of a few hundred bytes. Until it, the pieces are
nothing; the block ids of the batch are set after it, in their order, before the next batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from coordination.keeper.request_limits import MAX_MULTI_BYTES, operation_bytes
from coordination.links.batches.batch_ops import BatchCommit
from coordination.links.batches.batch_plan import BatchLimits, BatchPlan
from coordination.log.entry_list import describe_list
from coordination.log.log_entry import LINK_KEY, LIST_KEY

MAX_PIECE_BYTES = MAX_MULTI_BYTES // 2


@dataclass(frozen=True, slots=True)
class BatchList:
    """The plan whose entry names the pieces, and the pieces to write before its commit."""

    plan: BatchPlan
    pieces: tuple[bytes, ...]


def must_be_list(commit: BatchCommit, limits: BatchLimits) -> bool:
    """Tells whether the commit is too large for a log entry or a request."""
    if commit.size_bytes > limits.request_bytes:
        return True
    return commit.entry is not None and operation_bytes(commit.ops[0]) > limits.entry_bytes


def make_list(plan: BatchPlan, name: str, piece_bytes: int = MAX_PIECE_BYTES) -> BatchList:
    """Cuts the plan's entry into pieces. ``name`` is the list's, unique in the table."""
    assert plan.entry is not None
    data = plan.entry.to_bytes()
    pieces = tuple(data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes))
    told = (LIST_KEY, describe_list(name, data, len(pieces)))
    marks = [each for each in plan.entry.extra if each[0] != LINK_KEY]
    entry = replace(plan.entry, drop_ranges=(), replace_parts=(), has_leftovers=bool(plan.drops), extra=(*marks, told))
    return BatchList(replace(plan, entry=entry), pieces)
