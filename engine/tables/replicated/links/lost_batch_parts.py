"""Brings back parts of batches that every replica of a target has lost.

They are asked for at the sources of the table's links: by the position of their change and their content, since another
source may have given their number to other rows.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from coordination.links.positions import Position
from coordination.links.stream.carried_changes import read_carried_changes
from coordination.links.stream.change import Block, Change
from coordination.log.log_entry import LogEntry, StagedPart
from engine.tables.capabilities.incoming_blocks import RefetchBlock
from engine.tables.capabilities.table_links import SourceTable
from engine.tables.replicated.links.row_rewriting import RowRewriter
from engine.tables.replicated.links.row_versions import keep_row_version
from engine.tables.replicated.links.source_definition import SourceDefinition
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CorruptionError, PandoError, UnavailableError
from parts.common.part_name import PartName
from parts.read.part_reader import open_part

logger = logging.getLogger(__name__)


class LostBatchParts:
    """The lost parts of one replica's table. Thread-safe."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._refetches: dict[str, RefetchBlock] = {}
        self._sources: dict[str, SourceTable] = {}
        """By link, the source as the last batch named it."""

    def note_source(self, link: str, source: SourceTable) -> None:
        """Notes what the source of a link is now."""
        self._sources[link] = source

    def set_refetch(self, link: str, refetch: RefetchBlock | None) -> None:
        """Sets how a part of this link's batches is asked for again; ``None`` takes it back."""
        if refetch is None:
            self._refetches.pop(link, None)
        else:
            self._refetches[link] = refetch

    def refetch_part(self, entry: LogEntry, staged: StagedPart, directory: Path) -> None:
        """Asks the sources of the links that run here for a part of a batch.

        The part has the number that one of the sources gave it, which another source may have given to other rows.
        Raises 234 (NO_REPLICA_HAS_PART) if no link runs here, and what the last one raises.
        """
        changes = (change for change in read_carried_changes(entry, 0) for block in change.blocks)
        change = next((c for c in changes if any(block.part == staged.part for block in c.blocks)), None)
        part = PartName.try_parse(staged.place.partition("-")[2])
        failure: PandoError = UnavailableError(
            "NO_REPLICA_HAS_PART", f"No replica has part {staged.part}, and no link that brought it runs here"
        )
        if change is None or part is None or "." in staged.place.partition("-")[0]:
            raise failure
        for link, refetch in list(self._refetches.items()):
            _empty(directory)
            try:
                asked = Change(change.position, change.place, change.commit_ms, change.previous)
                refetch(asked, Block(part, staged.content_hash, staged.rows), directory)
                if self._rewrite(link, part, staged, directory):
                    keep_row_version(self._state, open_part(directory).row_version, change, [directory])
                    return
                failure = CorruptionError(
                    f"The source of link {link} has other rows than were committed", part=str(staged.part)
                )
            except PandoError as error:
                failure = error
        raise failure

    def ask_sources(self, position: Position, block: Block, directory: Path) -> bool:
        """Asks the sources of the links that run here for a block; tells whether one had it.

        Another cluster asks for it, so they do not ask further: clusters in a ring would ask each other for ever.
        """
        change = Change(position, 0, 0, 0)
        for refetch in list(self._refetches.values()):
            _empty(directory)
            try:
                refetch(change, block, directory, may_ask=False)
                part = open_part(directory, name=block.part, table_schema=self._state.description.schema)
                if part.content_hash == block.content_hash:
                    return True
            except PandoError as error:
                logger.info("block %s of %s: %s", block.part, self._state.definition.full_name, error)
        return False

    def _rewrite(self, link: str, part: PartName, staged: StagedPart, directory: Path) -> bool:
        """Writes a block of other content than was committed anew, as it was when the batch came.

        Tells whether the directory has the committed content.
        """
        source, schema = self._sources.get(link), self._state.description.schema
        is_same = open_part(directory, name=part, table_schema=schema).content_hash == staged.content_hash
        if is_same or source is None:
            return is_same
        rewriter = RowRewriter(self._state, source, SourceDefinition.of(source))
        for written in rewriter.take(directory, Block(part)):
            shutil.rmtree(directory)
            written.directory.rename(directory)
            self._state.store.drop_temporary(written.directory)
        return open_part(directory, name=part, table_schema=schema).content_hash == staged.content_hash


def _empty(directory: Path) -> None:
    for leftover in directory.iterdir():
        leftover.unlink()
