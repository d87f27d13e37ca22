"""Finds what has changed in a replicated table since a client read it.

See ``coordination.transactions.read_state``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordination.inserts.block_numbers import BlockLock
from coordination.inserts.quorum import read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.transactions.read_state import FindChange, ReadState, find_change
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.part_name import PartName


def make_find_change(state: ReplicaState, pull: Callable[[Keeper], None]) -> FindChange:
    """Returns a function that compares what was read with what this replica has, or will have.

    ``pull`` reads the log.
    """

    def find(keeper: Keeper, read: ReadState, locks: Sequence[BlockLock]) -> str | None:
        unconfirmed = read_unconfirmed_parts(keeper, state.paths)
        keeper.sync(state.paths.log)
        pull(keeper)
        mutations = state.mutations.load(keeper)
        if read.metadata_version != state.description.metadata_version:
            return "its definition was altered"

        def find_obstacle(part: PartName) -> str | None:
            if part in unconfirmed:
                return f"the quorum of part {part} is not satisfied"
            ahead = next((each for each in mutations.mutations if each.must_change(part)), None)
            return f"mutation {ahead.mutation_id} is to change part {part}" if ahead is not None else None

        below = {lock.partition_id: lock.number for lock in locks}
        virtual = [part for partition_id in below for part in state.queue.list_virtual_parts(partition_id)]
        current = [part for part in virtual if part.max_block < below[part.partition_id]]
        return find_change(read, current, find_obstacle)

    return find
