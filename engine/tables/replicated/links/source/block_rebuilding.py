"""Makes a block that no outbox has any more anew, out of a merged part that has its rows.

That is possible where merges keep every row and its block's number (``enable_block_number_column``), and no mutation of
later blocks went through the part. What comes out must have the content hash that the block's log entry names, so other
rows are never sent. The merged part is read once for each block: this is a way out, not a way of work.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from coordination.log.log_entry import LogEntry
from engine.link_store.journal_segment import RecordKind
from engine.tables.replicated.links.source.block_keeping import list_blocks
from engine.tables.replicated.links.source.change_keeping import ChangeKeeping
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER, has_known_block_numbers
from parts.table.row_version import make_place
from parts.write.block_preparation import split_by_partition
from parts.write.part_stamp import stamp_part
from parts.write.part_writer import write_part

logger = logging.getLogger(__name__)

_KEEPS_ROWS = "Ordinary"
"""The merge mode that keeps every row."""


class BlockRebuilding:
    """Rebuilds blocks of one replica's table."""

    def __init__(self, state: ReplicaState, keeping: ChangeKeeping) -> None:
        self._state = state
        self._keeping = keeping

    def rebuild(self, zxid: int, part: PartName) -> Path | None:
        """Returns a temporary directory with the block that was committed at ``zxid``.

        Returns ``None`` if the journal does not have its log entry, or no active part gives its rows.
        """
        content_hash = self._find_content_hash(zxid, part)
        cover = self._state.store.covering_active(part)
        if not content_hash or cover is None or not self._has_rows(cover, part):
            return None
        with self._state.store.hold_active([cover.name]) as held:
            return self._write(held.parts[0], part, content_hash) if held.parts else None

    def _has_rows(self, cover: Part, part: PartName) -> bool:
        keeps_rows = self._state.description.merge_mode.name == _KEEPS_ROWS
        has_numbers = has_known_block_numbers(cover.name, cover.schema)
        return keeps_rows and has_numbers and cover.name.mutation <= part.max_block

    def _find_content_hash(self, zxid: int, part: PartName) -> str:
        journal = self._keeping.require_journal()
        if zxid <= journal.first_position:
            return ""
        for record in journal.read(zxid - 1, 1).records:
            if record.zxid == zxid and record.kind is RecordKind.LOG_ENTRY:
                for name, content_hash in list_blocks(LogEntry.parse(record.content)):
                    if name == part:
                        return content_hash
        return ""

    def _write(self, source: Part, part: PartName, content_hash: str) -> Path | None:
        state, description = self._state, self._state.description
        adapted = source.adapt_to_schema(description.schema)
        names = [column.name for column in description.schema.stored.columns]
        found = []
        for batch in adapted.read([*names, BLOCK_NUMBER]):
            own = pc.equal(batch.column(BLOCK_NUMBER), pa.scalar(part.min_block, pa.uint64()))
            if (rows := batch.filter(own)).num_rows:
                found.append(rows.select(names))
        pieces = list(split_by_partition(pa.Table.from_batches(found), description)) if found else []
        if len(pieces) != 1:
            return None
        directory = state.store.create_temporary("tmp_link_block_")
        try:
            written = write_part(directory, pieces[0].block, description, pieces[0].values)
        except BaseException:
            state.store.drop_temporary(directory)
            raise
        if written.content_hash != content_hash:
            logger.info("%s of %s does not have the rows of block %s", source.name, state.definition.full_name, part)
            state.store.drop_temporary(directory)
            return None
        if origin := state.gate.own_origin:  # the target gives it its own place then
            stamp_part(directory, make_place(origin), description.settings)
        logger.info("block %s of %s was read out of %s", part, state.definition.full_name, source.name)
        return directory
