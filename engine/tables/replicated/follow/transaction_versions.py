"""The versions of rows that a transaction inserts into a ``last_writer_wins`` table.

Rows are staged before their commit, so they have no version then. The commit's log entry has one commit time and one
origin for all of them, taken behind the numbers of its blocks: what was acknowledged before is older, what begins later
is later. Every replica gives its parts the version before they become active, the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from coordination.log.log_entry import LogEntry
from engine.tables.replicated.replica_state import INSERTED_STAGING_PREFIX
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.table.row_version import NO_ROW_VERSION, RowVersion
from parts.table.table_description import PartSettings
from parts.write.part_stamp import stamp_part


def give_versions(entries: Iterable[LogEntry], arrivals: Mapping[PartName, Path], settings: PartSettings) -> None:
    """Gives the parts that arrive and have no version theirs. May be repeated."""
    for entry in (entry for entry in entries if entry.origin):
        for staged in entry.replace_parts:
            directory = arrivals.get(staged.part)
            if directory is None or not staged.place.startswith(INSERTED_STAGING_PREFIX):
                continue
            if open_part(directory).row_version == NO_ROW_VERSION:
                stamp_part(directory, RowVersion(entry.commit_time, entry.origin, staged.part.min_block), settings)
