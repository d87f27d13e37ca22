"""Block history: which blocks of a table a stream can read, and which are dropped or lost.

``engine.scan`` asks for it; each kind of table answers in its own way. Rows are told apart by ``_block_number``, which
merges keep, so nothing has to be stored for a reader. Rows can be missed only if they are dropped, or the table is.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.format.durable_files import replace_file_durably
from sql.relations import PartsSnapshot

_FILE = "block_history.json"
_VERSION = 1


@dataclass(frozen=True)
class BlockHistory:
    """The readable, dropped and lost blocks of a table. Numbers are by partition."""

    identity: str
    """Identifies the table: a new table under the same name has another identity."""
    decided: Mapping[str, int] = field(default_factory=dict)
    """The number up to which every block is either here or will never exist."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The largest dropped block number."""
    lost: Sequence[PartName] = ()
    """Parts that no replica had any more."""


@dataclass(frozen=True)
class WantedBlocks:
    """The blocks that a stream reads. ``ranges``: (partition, number after which to begin, last number)."""

    identity: str
    ranges: tuple[tuple[str, int, int], ...]
    may_lack_rows: bool = False
    """Whether dropped rows are left out without an error."""

    def of(self, partition_id: str) -> tuple[int, int]:
        """Returns the number after which to begin in the partition, and the last number."""
        return self._by_partition.get(partition_id, (0, -1))

    @cached_property
    def _by_partition(self) -> dict[str, tuple[int, int]]:
        return {partition_id: (after, until) for partition_id, after, until in self.ranges}

    def overlaps(self, part: PartName) -> bool:
        """Tells whether the part may hold wanted blocks, judged by its name."""
        after, until = self.of(part.partition_id)
        return part.min_block <= until and part.max_block > after


class TableBlocks(Protocol):
    """The blocks of one table in their order, as streams read them."""

    def history(self) -> BlockHistory:
        """Returns which blocks can be read."""

    def snapshot_of_blocks(self, wanted: WantedBlocks) -> PartsSnapshot:
        """Returns active parts that contain all wanted blocks, held until released.

        Raises 33 (CANNOT_READ_ALL_DATA).
        """


def require_block_numbers(definition: TableDefinition) -> None:
    """Raises 36 for a table whose merges do not keep block numbers."""
    if not definition.settings.enable_block_number_column:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Table {definition.full_name} cannot be read as a stream: its merges do not keep the block numbers of "
            "rows. Make a table with SETTINGS enable_block_number_column = 1, and insert into that",
        )


def require_readable_blocks(definition: TableDefinition, history: BlockHistory, wanted: WantedBlocks) -> None:
    """Raises 33 if the table was made anew, or wanted rows were dropped or lost."""
    name = definition.full_name
    if history.identity != wanted.identity:
        raise UserError(
            "CANNOT_READ_ALL_DATA",
            f"Table {name} was dropped and made again since the stream began to read it, and its block numbers began "
            "anew. Begin anew with another checkpoint, or go on at the new table's first block with the option "
            "'failOnDataLoss' = 'false'",
        )
    for partition_id, after, _ in () if wanted.may_lack_rows else wanted.ranges:
        dropped = history.dropped.get(partition_id, -1)
        if dropped > after:
            raise UserError(
                "CANNOT_READ_ALL_DATA",
                f"Rows of table {name} were dropped before the stream had read them: of partition {partition_id!r} it "
                f"has read the blocks up to {after}, and those up to {dropped} were dropped. Go on without them with "
                "the option 'failOnDataLoss' = 'false', or begin anew with another checkpoint",
            )
    lost = next(filter(wanted.overlaps, history.lost), None) if not wanted.may_lack_rows else None
    if lost is not None:
        raise UserError(
            "CANNOT_READ_ALL_DATA",
            f"Part {lost} of table {name} was lost with the disks of the replicas that had it, before the stream had "
            "read its blocks. Go on without them with the option 'failOnDataLoss' = 'false'",
        )


class MergeTreeBlockHistory:
    """The identity and dropped blocks of a table of one server, kept in a file.

    The file is written before a drop takes effect.
    """

    def __init__(self, directory: Path, new_uuid: Callable[[], uuid.UUID]) -> None:
        self._directory = directory
        self._new_uuid = new_uuid
        self._lock = threading.Lock()

    def read(self) -> BlockHistory:
        """Returns the history; creates it at the first call."""
        with self._lock:
            return self._found() or self._write(BlockHistory(self._new_uuid().hex))

    def dropped(self) -> Mapping[str, int]:
        """Returns the largest dropped block number of each partition."""
        found = self._found()
        return found.dropped if found is not None else {}

    def record_dropped(self, names: Iterable[PartName]) -> None:
        """Records that the parts are dropped, before they go; it is durable when this returns."""
        last: dict[str, int] = {}
        for name in names:
            last[name.partition_id] = max(name.max_block, last.get(name.partition_id, 0))
        if not last:
            return
        known = self.read()
        for partition_id, number in known.dropped.items():
            last[partition_id] = max(number, last.get(partition_id, -1))
        with self._lock:
            self._write(BlockHistory(known.identity, dropped=last))

    def _found(self) -> BlockHistory | None:
        try:
            document = json.loads((self._directory / _FILE).read_bytes())
        except FileNotFoundError:
            return None
        return BlockHistory(document["identity"], dropped=document["dropped"])

    def _write(self, history: BlockHistory) -> BlockHistory:
        document = {"version": _VERSION, "identity": history.identity, "dropped": dict(history.dropped)}
        replace_file_durably(self._directory / _FILE, json.dumps(document, separators=(",", ":")).encode())
        return history
