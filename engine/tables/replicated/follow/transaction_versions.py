"""The versions and places of rows that a transaction inserts.

Rows are staged before their commit, so they have neither then. In a ``last_writer_wins`` table the commit's log entry
has one commit time and one origin for all of them, taken behind the numbers of its blocks: what was acknowledged before
is older, what begins later is later. Where parts keep the places of rows, the entry has the origin of all its parts,
and the pull adds its zxid. Every replica gives its parts these before they become active, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from coordination.log.log_entry import LogEntry
from engine.tables.replicated.replica_state import INSERTED_STAGING_PREFIX
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.table.row_version import NO_ROW_VERSION, RowVersion, make_place
from parts.table.table_description import PartSettings
from parts.write.part_stamp import stamp_part


def give_versions(entries: Collection[LogEntry], arrivals: Mapping[PartName, Path], settings: PartSettings) -> None:
    """Gives the parts that arrive and have no version theirs. May be repeated."""
    for entry in (entry for entry in entries if entry.place_origin):
        place = make_place(entry.place_origin, entry.position)
        for staged in entry.replace_parts:
            if (directory := arrivals.get(staged.part)) is not None and open_part(directory).row_version != place:
                stamp_part(directory, place, settings)
    for entry in (entry for entry in entries if entry.origin):
        for staged in entry.replace_parts:
            directory = arrivals.get(staged.part)
            if directory is None or not staged.place.startswith(INSERTED_STAGING_PREFIX):
                continue
            if open_part(directory).row_version == NO_ROW_VERSION:
                stamp_part(directory, RowVersion(entry.commit_time, entry.origin, staged.part.min_block), settings)
