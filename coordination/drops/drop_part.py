"""DROP PART: remove one part and keep its neighbours; later merges reach over the gap.

A ``MergePredicate`` must allow the part to be merged: it is known to the log, and part of no merge and no open quorum.
The drop expects the log's version that the predicate read, so no merge of the part can be logged at the same time. As
in ``drop_partition``, the same multi deletes the block ids of its rows and records the drop for streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordination.drops.drop_partition import DropPlan, find_logged_entry
from coordination.inserts.block_ids import select_block_ids
from coordination.inserts.quorum import forget_dropped_parts_ops
from coordination.keeper.interface import (
    BadVersion,
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    SetData,
)
from coordination.keeper.request_limits import MAX_MULTI_BYTES
from coordination.log.log_entry import TTL_DROP, EntryType, LogEntry
from coordination.nodes.gate import CommitKind
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_DROP_PART, require_feature
from coordination.nodes.table_gate import TableGate
from coordination.reads.dropped_blocks import record_drop_ops
from parts.common.part_name import PartName


def log_drop_part(
    keeper: Keeper,
    table: TablePaths,
    replica_name: str,
    part: PartName,
    log_version: int,
    *,
    gate: TableGate,
    detach: bool = False,
    is_expiry: bool = False,
    clock: Callable[[], float],
) -> bool:
    """Logs the drop.

    Returns ``False`` if others changed the log, or the gate moved: build a new predicate.

    ``is_expiry``: all rows of the part have expired, which is each cluster's own matter. Raises 48 beside replicas of
    an older version, and for a client's drop in a table with links; ``GateBarred``.
    """
    require_feature(keeper, table, FEATURE_DROP_PART, "Dropping one part")
    ids = select_block_ids(keeper, table, part.partition_id, part.covers)
    must = [
        ids.guard_op,
        SetData(table.log, b"", log_version),
        *record_drop_ops(keeper, table, {part.partition_id: part.max_block}),
        *forget_dropped_parts_ops(keeper, table, part),
    ]
    drop = DropPlan((part,), tuple(must), tuple([op] for op in ids.deletes))
    ops, has_leftovers = drop.ops(MAX_MULTI_BYTES)
    kind = TTL_DROP if is_expiry else ""
    entry = LogEntry(EntryType.DROP_PART, part, clock(), replica_name, detach=detach, merge_type=kind)
    logged = Create(table.log_prefix, replace(entry, has_leftovers=has_leftovers).to_bytes(), sequential=True)
    what = "DETACH PART" if detach else "DROP PART"
    if is_expiry:
        checks = gate.checks(keeper, CommitKind.UPKEEP)
    else:
        checks = gate.checks(keeper, CommitKind.OTHER, unlinked_for=what)
    try:
        keeper.multi([logged, *ops, *checks])
    except MultiFailed as error:
        if gate.has_moved(keeper, error):
            return False
        if not isinstance(error.cause, NoNode | NodeExists | BadVersion):
            raise error.cause from error
        return False
    except KeeperConnectionLoss:
        return find_logged_entry(keeper, table, entry) is not None
    return True
