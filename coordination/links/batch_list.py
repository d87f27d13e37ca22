"""A batch that no request holds: its entry is written in pieces first, and the log entry names them.

A transaction of thousands of parts has no cut inside. Its entry is cut into pieces, each the content of a node. The log
entry that the multi creates has the key ``list``::

    "list": {"name": "<name>", "pieces": 3, "size": 1200000, "sha256": "<of all pieces together>"}

So the commit stays one multi of a few hundred bytes. Until it, the pieces are nothing; the block ids of the batch are
set after it, in their order, before the next batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coordination.keeper.request_limits import MAX_MULTI_BYTES, operation_bytes
from coordination.links.batch_ops import BatchCommit
from coordination.links.batch_plan import BatchLimits, BatchPlan
from coordination.log.log_entry import LIST_KEY, LogEntry
from parts.common.errors import CorruptionError

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
    told = {"name": name, "pieces": len(pieces), "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    entry = replace(
        plan.entry, drop_ranges=(), replace_parts=(), has_leftovers=bool(plan.drops), extra=((LIST_KEY, told),)
    )
    return BatchList(replace(plan, entry=entry), pieces)


def list_name(entry: LogEntry) -> str | None:
    """Returns the name of the list that the entry stands for; ``None`` if it is whole."""
    told: Any = dict(entry.extra).get(LIST_KEY)
    return None if told is None else str(told["name"])


def read_list(entry: LogEntry, pieces: Sequence[bytes]) -> LogEntry:
    """Returns the whole entry.

    Raises ``CorruptionError`` if the pieces are not those that the entry names.
    """
    told: Any = dict(entry.extra)[LIST_KEY]
    data = b"".join(pieces)
    if len(pieces) != told["pieces"] or hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise CorruptionError(
            f"List {told['name']} has {len(pieces)} pieces of {len(data)} bytes in all, and its log entry names "
            f"{told['pieces']} of {told['size']} bytes, or other ones",
            name="CHECKSUM_DOESNT_MATCH",
        )
    return replace(LogEntry.parse(data), has_leftovers=entry.has_leftovers)
