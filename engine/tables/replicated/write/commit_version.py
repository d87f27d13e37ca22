"""The version of the rows of a transaction on a table with ``last_writer_wins``."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.inserts.block_numbers import BlockLock
from coordination.keeper.interface import Keeper
from coordination.links.stream.commit_times import CommitVersion
from coordination.log.log_entry import StagedPart
from coordination.transactions.transaction_commit import MakeVersion
from engine.tables.replicated.replica_state import INSERTED_STAGING_PREFIX, ReplicaState
from parts.read.part_reader import open_part


def find_version_maker(state: ReplicaState, staging: str) -> MakeVersion | None:
    """Returns what makes the version of a commit; ``None`` if the table's rows have none.

    The version is later than those of all rows here, and than those that parts in the staging have already.
    """
    if not state.description.merge_mode.has_row_versions:
        return None

    def make_version(keeper: Keeper, lock: BlockLock, parts: Sequence[StagedPart]) -> CommitVersion:
        floor = state.store.get_largest_commit_time()
        for part in parts:
            if part.replica == state.replica.name and not part.place.startswith(INSERTED_STAGING_PREFIX):
                floor = max(floor, open_part(state.store.staged.path(staging, part.place)).row_version.commit_time)
        return state.commit_times.make_version(keeper, lock, floor)

    return make_version
