"""Putting merges into the log: multi{create log/log-…; set log expecting the version the predicate read}.

The version makes assignments of all replicas one sequence: whoever assigned a merge or a drop since the predicate was
built wins, and the loser builds a new predicate. Plain inserts do not move it.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper import BadVersion, Create, Keeper, KeeperConnectionLoss, MultiFailed, SetData
from coordination.log_entry import EntryType, LogEntry
from coordination.paths import TablePaths
from parts.part_name import PartName, merged_name

MAX_IN_ONE_MULTI = 100


def merge_entry(
    sources: Sequence[PartName],
    replica_name: str,
    now: float,
    *,
    size_bytes: int = 0,
    rows: int = 0,
    merge_type: str = "Regular",
    deduplicate: bool = False,
    deduplicate_by: Sequence[str] = (),
) -> LogEntry:
    """The entry that merges ``sources`` (in block order). ``merge_type``: ``Regular`` or ``Optimize``."""
    return LogEntry(
        type=EntryType.MERGE_PARTS,
        new_part=merged_name(list(sources)),
        create_time=now,
        source_replica=replica_name,
        source_parts=tuple(sources),
        rows=rows,
        size_bytes=size_bytes,
        deduplicate=deduplicate,
        deduplicate_by=tuple(deduplicate_by),
        merge_type=merge_type,
    )


def assign_merges(keeper: Keeper, table: TablePaths, log_version: int, entries: Sequence[LogEntry]) -> bool:
    """Logs the merges, all or none. They must be disjoint, and chosen by one predicate of that ``log_version``.

    ``False``: somebody else assigned meanwhile, or the answer was lost; pull, build a new predicate, choose again
    (merges that were logged after all are then among the virtual parts).
    """
    assert len(entries) <= MAX_IN_ONE_MULTI
    if not entries:
        return True
    ops = [Create(table.log_prefix, entry.to_bytes(), sequential=True) for entry in entries]
    try:
        keeper.multi([*ops, SetData(table.log, b"", log_version)])
        return True
    except MultiFailed as error:
        if isinstance(error.cause, BadVersion):
            return False
        raise error.cause from error
    except KeeperConnectionLoss:
        return False
