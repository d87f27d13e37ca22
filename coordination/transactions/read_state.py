"""Tells whether the rows that a client has read, and that its commit replaces, have changed since.

An UPDATE of a client reads rows, and commits others in their place. What others changed in between would be lost. So
its commit names the parts that it read, and is refused if the blocks below its numbers have other rows by then:

1. The commit takes its numbers. Numbers below that are still being committed are given up by its multi.
2. The version of ``mutations``, which the multi expects.
3. Parts whose quorum is open or failed; the log is pulled; the mutations.
4. The parts of the blocks are compared (:func:`find_change`). A drop that is logged later changes the guard of its
   partition.

Merges change no rows: a merge of parts that were read is no change, if it has no block beside them. A number between
them may be unused for ever, or its block may have come later. It is known to be unused if all blocks before them were
decided when they were read (``ReadState.is_settled``); otherwise the merge counts as a change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from coordination.inserts.block_numbers import BlockLock, read_committing_numbers
from coordination.inserts.partition_nodes import partition_node_of_lock
from coordination.keeper.interface import Check, Delete, Keeper, Op
from coordination.log.part_set import PartSet
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError
from parts.common.part_name import PartName


@dataclass(frozen=True)
class ReadState:
    """The parts that a client read, of the partitions in which nothing may have changed."""

    parts: frozenset[PartName]
    metadata_version: int
    """The version of the definition under which they were read."""
    partition_ids: frozenset[str] | None = None
    """The partitions; ``None``: all."""
    is_settled: bool = False
    """Whether every block before those of the parts was committed or given up when they were read."""

    @classmethod
    def of(
        cls,
        parts: Iterable[PartName],
        metadata_version: int,
        partition_ids: frozenset[str] | None,
        *,
        is_settled: bool = False,
    ) -> ReadState:
        """Selects the parts of these partitions."""
        state = cls(frozenset(), metadata_version, partition_ids, is_settled)
        return replace(state, parts=frozenset(part for part in parts if state.includes(part.partition_id)))

    def includes(self, partition_id: str) -> bool:
        """Tells whether nothing may have changed in the partition."""
        return self.partition_ids is None or partition_id in self.partition_ids


FindChange = Callable[[Keeper, ReadState, Sequence[BlockLock]], str | None]
"""Returns what has changed in the blocks below the locks, as this replica sees it after a pull."""


def find_change(
    state: ReadState,
    current: Collection[PartName],
    find_obstacle: Callable[[PartName], str | None],
) -> str | None:
    """Returns what has changed since the parts were read, ``None`` for nothing.

    ``current``: the parts that these blocks have, or will have once the log is carried out. ``find_obstacle`` returns
    why the rows of a part that was read do not stay as they are.
    """
    before, now = PartSet(state.parts), PartSet(current)
    for part in now:
        sources = before.list_covered_by(part)
        if not _is_made_of(part, sources, may_have_gaps=state.is_settled):
            return f"part {part} has rows that were not read"
        if part.mutation > max(source.mutation for source in sources):
            return f"a mutation has changed part {part}"
    for part in before:
        if now.find_covering(part) is None:
            return f"part {part} has gone"
        if (obstacle := find_obstacle(part)) is not None:
            return obstacle
    return None


def _is_made_of(part: PartName, sources: Sequence[PartName], *, may_have_gaps: bool) -> bool:
    """Tells whether the sources, in block order, have the first and the last number of the part, and those between."""
    if not sources or (sources[0].min_block, sources[-1].max_block) != (part.min_block, part.max_block):
        return False
    return may_have_gaps or all(a.max_block + 1 == b.min_block for a, b in itertools.pairwise(sources))


def plan_unchanged(
    keeper: Keeper,
    table: TablePaths,
    state: ReadState | None,
    drops: Sequence[BlockLock],
    kept: Sequence[BlockLock],
    find: FindChange | None,
) -> list[Op]:
    """Returns the operations by which a multi fails if something changes in the blocks below the locks.

    Call it after the drops were planned; the blocks below ``kept`` stay. Raises 650 (SERIALIZATION_ERROR) if something
    has changed already.
    """
    if state is None:
        return []
    assert find is not None
    numbers = read_committing_numbers(keeper, table, sorted(lock.partition_id for lock in kept))
    mutations_version = keeper.get(table.mutations)[1].version
    change = find(keeper, state, [*drops, *kept])
    if change is not None:
        raise changed_error(change)
    given_up = [
        Delete(partition_node_of_lock(table, lock.path).lock(number))
        for lock in kept
        for number in numbers[lock.partition_id]
        if number < lock.number
    ]
    return [*given_up, Check(table.mutations, mutations_version)]


def changed_error(change: str) -> ConflictError:
    """Returns the error of a commit whose rows have changed since they were read."""
    return ConflictError(
        "SERIALIZATION_ERROR",
        f"The table has changed since the rows to replace were read: {change}. Nothing was committed; run the "
        "statement again",
    )
