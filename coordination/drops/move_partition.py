"""MOVE PARTITION: plan the source table's half of the transaction by which the target gets the rows.

The transaction's commit (:mod:`coordination.transactions.transaction_commit`) is one multi of both tables, so the rows
are in exactly one of them whatever is interrupted. The drop here must remove exactly the rows that were staged there:

1. A block number n is taken: the drop is of the blocks below it, and merges do not reach over it.
2. The drop is planned (``drop_partition.plan_drop``): it reads the version of the partition's guard and the numbers
   being committed.
3. The version of ``mutations`` is read.
4. Parts whose quorum is open; the log is pulled; the mutations.
5. A snapshot of the active parts. These and the queue's virtual parts must have the same blocks below n
   (:func:`why_parts_are_incomplete`); merges of them may be queued, and nothing else.

A block below n that is not among the parts had its lock at step 2, which the multi deletes, or was in the log at step
4. A drop that is logged later changes the guard, a new mutation the version of ``mutations``: the multi expects both,
or everything is planned again. Merges change no rows: they may be logged meanwhile, and are dropped with the sources.
(Merges that deduplicate do change rows. If one is logged meanwhile, the moved rows are those from before it.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from coordination.drops.drop_partition import LastBlocks, plan_drop
from coordination.inserts.block_numbers import BlockLock
from coordination.keeper.interface import Check, Create, Keeper, Op
from coordination.keeper.request_limits import MAX_MULTI_BYTES
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.part_set import PartSet
from coordination.merges_mutations.mutation_set import MutationSet
from coordination.nodes.gate import CommitKind
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import Activation
from coordination.nodes.table_gate import TableGate
from parts.common.part_name import PartName

_MAX_BYTES = MAX_MULTI_BYTES // 2
"""Byte budget of our half of the multi. The other table's log entry may take ``MAX_MULTI_BYTES``."""


def plan_source_drop(
    keeper: Keeper,
    table: TablePaths,
    lock: BlockLock,
    activation: Activation,
    *,
    gate: TableGate,
    clock: Callable[[], float],
    last_blocks: LastBlocks,
) -> tuple[Op, ...]:
    """Returns the operations of steps 2 and 3, for the other table's multi.

    That multi checks this table's gate too.
    """
    drop = plan_drop(keeper, table, [lock], last_blocks)
    ops, has_leftovers = drop.ops(_MAX_BYTES)
    mutations = keeper.get(table.mutations)[1].version
    entry = LogEntry(
        EntryType.DROP_RANGE, drop.ranges[0], clock(), activation.replica.name, has_leftovers=has_leftovers
    )
    logged = Create(table.log_prefix, entry.to_bytes(), sequential=True)
    checks = (*gate.checks(keeper, CommitKind.OTHER), *activation.checks)
    return (logged, *ops, Check(table.mutations, mutations), *checks)


def why_parts_are_incomplete(
    active: Sequence[PartName],
    virtual: Collection[PartName],
    entries: Sequence[LogEntry],
    unconfirmed: Collection[PartName],
    mutations: MutationSet,
) -> str | None:
    """Returns why the active parts are not all rows of the blocks to move, or not in their final state.

    ``None`` if they are. ``active`` and ``virtual``: the parts of these blocks. ``entries``: those of the queue, after
    a pull.
    """
    partition_ids = {part.partition_id for part in (*active, *virtual)}
    for entry in entries:
        if any(gone.partition_id in partition_ids for gone in entry.removed_ranges):
            return f"a log entry {entry.type.value} has not been executed here"
    here, to_be = PartSet(active), PartSet(virtual)
    merges = {
        entry.new_part: entry for entry in entries if entry.type is EntryType.MERGE_PARTS and not entry.deduplicate
    }

    def is_here(part: PartName) -> bool:
        """Tells whether the part is active or can be merged from active ones."""
        if here.find_covering(part) is not None:
            return True
        return part in merges and all(map(is_here, merges[part].source_parts))

    for part in virtual:
        if not is_here(part):
            return f"part {part} is not here"
    for part in active:
        if to_be.find_covering(part) is None:
            return f"part {part} is about to go"
        if part in unconfirmed:
            return f"the quorum of part {part} is not satisfied"
        if ahead := [mutation for mutation in mutations.mutations if mutation.must_change(part)]:
            return f"mutation {ahead[0].mutation_id} of part {part} is not done"
    return None
