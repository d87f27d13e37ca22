"""The position up to which streams can read each partition in block order.

Up to the position everything is decided and active here, so a reader up to it misses nothing that comes later.

The order of the reads is the proof (:func:`read_stream_positions`), as in ``merge_predicate``:

1. the log is pulled  2. a snapshot of the virtual parts, whose largest number is the bound
3. block numbers being committed  4. parts whose quorum is pending or failed  5. the log is pulled again.

A number at or below the bound was taken before step 3. There are three cases. Its lock still exists at step 3: the
position stays below it. Its block will never be committed. Or its block is in the log by step 5, and so among the
virtual parts: the position stays below the first of those that is not active here, or whose quorum may still fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from coordination.inserts.block_numbers import read_committing_numbers
from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.log.part_set import PartSet
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.paths import TablePaths
from parts.common.part_name import PartName


def compute_stream_positions(
    known: PartSet,
    committing: Mapping[str, Sequence[int]],
    unconfirmed: Collection[PartName],
    current: PartSet,
    is_here: Callable[[PartName], bool],
) -> dict[str, int]:
    """Returns the position by partition, -1 for nothing. The arguments are the results of the steps above."""
    positions = {}
    for partition_id in known.partition_ids():
        bound = known.parts(partition_id)[-1].max_block
        bound = min([bound, *(number - 1 for number in committing.get(partition_id, ()))])
        waiting = (
            part for part in current.parts(partition_id) if part in unconfirmed or not is_here(part)
        )  # in the order of their blocks
        first = next(waiting, None)
        positions[partition_id] = bound if first is None else min(bound, first.min_block - 1)
    return positions


def read_stream_positions(
    keeper: Keeper,
    table: TablePaths,
    queue: ReplicationQueue,
    pull: Callable[[], object],
    is_here: Callable[[PartName], bool],
) -> dict[str, int]:
    """Reads the position by partition.

    ``pull`` brings the queue up to the log. ``is_here`` tells whether a part, or its cover, is active.
    """
    keeper.sync(table.root)
    pull()
    known = queue.copy_virtual_parts()
    committing = read_committing_numbers(keeper, table, known.partition_ids())
    unconfirmed = read_unconfirmed_parts(keeper, table)
    pull()
    return compute_stream_positions(known, committing, unconfirmed, queue.copy_virtual_parts(), is_here)
