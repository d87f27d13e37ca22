"""Which neighbouring parts may be merged without ever creating intersecting parts on any replica.

The order of the reads is the proof (:func:`read_merge_predicate`):

1. the log's version  2. a snapshot of the virtual parts  3. parts whose quorum is pending or failed
4. block numbers being committed  5. the log is pulled, giving the current virtual parts  6. the mutations.

A and B may merge only if all of this is true. Both are in the snapshot of step 2, each is still its own virtual part
after step 5, and no quorum is open on either. Between them lies neither a number being committed (step 4), nor a
virtual part (step 5), nor a mutation that one of them lacks (step 6). A block that is inserted between A and B either
still had its lock at step 4, or was in the log by step 5; one that takes its number later gets one above B's. The same
is true of the number of a mutation.

The assignment then expects the log's version of step 1, which every merge and drop assigned since has moved.

Step 4 costs a request for each partition. So merges are first chosen by what this replica knows
(:func:`guess_predicate`), and only the chosen partitions are read. Parts of other partitions are not merged. A single
part may be replaced, by a mutation or a drop of it alone, whatever is being committed beside it: that needs no step 4.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from coordination.inserts.block_numbers import read_committing_numbers
from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.log.part_set import PartSet
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.mutation_set import MutationSet
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError
from parts.common.part_name import PartName


@dataclass(frozen=True)
class MergePredicate:
    """The data read in the order above, and the decisions made from it without further reads."""

    log_version: int
    snapshot: PartSet
    unconfirmed: frozenset[PartName]
    committing: Mapping[str, list[int]]
    """Block numbers being committed, for the partitions that were read."""
    current: PartSet
    mutations: MutationSet
    stable_time: int = 0
    """The table's stable time before the reads (``coordination.links.stream.stable_times``): ``current`` has all parts
    with rows up to there."""

    @cached_property
    def _given_up(self) -> list[PartName]:
        """The merged parts that no replica has any more, and that some replica may still wait for."""
        return [part for part in self.unconfirmed if part.min_block < part.max_block]

    def why_not_mergeable(self, part: PartName) -> str | None:
        """Returns why the part may not be merged, not even alone; ``None`` if it may."""
        if part not in self.snapshot:
            return f"part {part} was not yet known when selection began"
        if part in self.unconfirmed:
            return f"quorum for part {part} is not satisfied"
        for lost in self._given_up:
            if not lost.is_disjoint(part):
                return f"part {lost}, of which {part} is a remnant, was lost, and some replica does not know it yet"
        cover = self.current.find_covering(part)
        if cover is None:
            return f"part {part} was dropped"
        if cover != part:
            return f"part {part} has already been assigned a merge into {cover}"
        return None

    def why_not_together(self, left: PartName, right: PartName) -> str | None:
        """Returns why the two neighbours may not be merged together; ``None`` if they may.

        Each must pass :meth:`why_not_mergeable` too.
        """
        if left.partition_id != right.partition_id or left.max_block >= right.min_block:
            return f"parts {left} and {right} are not neighbours"
        versions = self.mutations.find_version(left), self.mutations.find_version(right)
        if versions[0] != versions[1]:
            return f"current mutation versions of parts {left} and {right} differ: {versions[0]} and {versions[1]}"
        numbers = self.committing.get(left.partition_id)
        if numbers is None:
            return f"nobody has asked what is being inserted into partition {left.partition_id}"
        index = bisect_right(numbers, left.max_block)
        if index < len(numbers) and numbers[index] < right.min_block:
            return f"block number {numbers[index]} is still being inserted between parts {left} and {right}"
        between = self.current.between(left, right)
        if between:
            return f"there is part {between[0]} between parts {left} and {right} that is not here yet"
        return None

    def can_merge(self, left: PartName, right: PartName) -> str | None:
        """Returns the reason why the two parts may not be merged; ``None`` if they may."""
        return self.why_not_mergeable(left) or self.why_not_mergeable(right) or self.why_not_together(left, right)

    def list_mergeable_runs(
        self, partition_id: str, is_here: Callable[[PartName], bool] = lambda part: True
    ) -> list[list[PartName]]:
        """Returns the partition's parts in runs, within which any neighbours may be merged.

        ``is_here`` limits the choice to parts this replica has, whose sizes it knows.
        """
        runs: list[list[PartName]] = []
        previous: PartName | None = None
        for part in self.snapshot.parts(partition_id):
            if not is_here(part) or self.why_not_mergeable(part) is not None:
                previous = None
                continue
            if previous is not None and self.why_not_together(previous, part) is None:
                runs[-1].append(part)
            else:
                runs.append([part])
            previous = part
        return runs

    def list_whole_partition(self, partition_id: str, rewrites: Callable[[PartName], bool]) -> list[PartName]:
        """Returns all parts of the partition for OPTIMIZE … FINAL; empty if there is nothing to do.

        ``rewrites`` tells whether a single part is worth a merge. Raises ``ConflictError`` 388 (CANNOT_ASSIGN_OPTIMIZE)
        with the reason when some may not be merged now; retry.
        """
        parts = self.current.parts(partition_id)
        if not parts or (len(parts) == 1 and not rewrites(parts[0])):
            return []
        reasons = [self.why_not_mergeable(part) for part in parts]
        reasons += [self.why_not_together(left, right) for left, right in itertools.pairwise(parts)]
        for reason in filter(None, reasons):
            raise ConflictError("CANNOT_ASSIGN_OPTIMIZE", f"Cannot select parts for optimization: {reason}")
        return parts

    def partition_ids(self) -> list[str]:
        """Lists the partitions of the snapshot."""
        return self.snapshot.partition_ids()


_NO_VERSION = -2
"""A version that the log never has, so that nothing can be assigned by a guess."""


def guess_predicate(queue: ReplicationQueue, mutations: MutationSet) -> MergePredicate:
    """Returns what may be merged if nothing is being inserted, as far as this replica knows.

    Sends no request. Nothing can be assigned by it: it only selects the partitions worth reading.
    """
    parts = queue.copy_virtual_parts()
    nothing: dict[str, list[int]] = {partition_id: [] for partition_id in parts.partition_ids()}
    return MergePredicate(_NO_VERSION, parts, frozenset(), nothing, parts, mutations)


def read_merge_predicate(
    keeper: Keeper,
    table: TablePaths,
    queue: ReplicationQueue,
    pull: Callable[[], object],
    load_mutations: Callable[[Keeper], MutationSet],
    partition_ids: Collection[str],
) -> MergePredicate:
    """Reads the predicate in the order that makes it right.

    ``pull`` brings the queue up to the log. ``load_mutations`` is
    :meth:`coordination.merges_mutations.mutation_nodes.KnownMutations.load`. Only parts of ``partition_ids`` can be
    merged; each costs a request.
    """
    stat = keeper.exists(table.log)
    snapshot = queue.copy_virtual_parts()
    unconfirmed = read_unconfirmed_parts(keeper, table)
    committing = read_committing_numbers(keeper, table, sorted(partition_ids)) if partition_ids else {}
    pull()
    return MergePredicate(
        log_version=stat.version if stat is not None else 0,
        snapshot=snapshot,
        unconfirmed=unconfirmed,
        committing=committing,
        current=queue.copy_virtual_parts(),
        mutations=load_mutations(keeper),
    )
