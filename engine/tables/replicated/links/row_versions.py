"""The versions and places of rows that a link brings.

See ``parts.table.row_version``. A block keeps the version that it got where it was inserted: it travels with the files
of its part, and a rewritten part is given it again. A block of a table without versions gets that of its change: the
time of its first commit, its origin, and its zxid there, which are the same on every way that the change takes.

Where parts keep the places of rows, a block's place is its change's position. Rows that come with a place get it in any
table: that in their file may not be filled in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from coordination.links.stream.change import Change
from engine.tables.replicated.replica_state import ReplicaState
from parts.read.part_reader import open_part
from parts.table.row_version import NO_ROW_VERSION, RowVersion, make_place
from parts.write.part_stamp import stamp_part


def read_row_version(state: ReplicaState, fetched: Path) -> RowVersion:
    """Returns the version or place of a block's rows as it was fetched, if it counts here."""
    version = open_part(fetched).row_version
    return version if state.description.merge_mode.has_row_versions or version.has_places else NO_ROW_VERSION


def keep_row_version(state: ReplicaState, version: RowVersion, change: Change, directories: Iterable[Path]) -> None:
    """Gives parts that were made of a block, whose ``version`` was read, the version of its rows."""
    if not state.description.merge_mode.has_row_versions:
        keeps_places = version.has_places or bool(state.gate.own_origin)
        for directory in directories if keeps_places else ():
            place = make_place(str(change.position.origin), change.position.zxid)
            stamp_part(directory, place, state.description.settings)
        return
    if version == NO_ROW_VERSION or version.is_mixed or version.has_places:
        version = RowVersion(change.commit_ms * 1000, str(change.position.origin), change.position.zxid)
    for directory in directories:
        if open_part(directory).row_version == NO_ROW_VERSION:
            stamp_part(directory, version, state.description.settings)


def find_largest_commit_time(state: ReplicaState, directories: Iterable[Path]) -> int:
    """Returns the largest commit time among the rows of staged parts; 0 if rows have no versions."""
    if not state.description.merge_mode.has_row_versions:
        return 0
    return max((open_part(directory).row_version.commit_time for directory in directories), default=0)
