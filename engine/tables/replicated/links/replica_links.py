"""The two ends of links at one replica, as its table shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordination.links.positions import Position
from coordination.links.stream.change import Block
from coordination.links.stream.own_origins import list_former
from engine.tables.replicated.follow.log_pull import LogPull
from engine.tables.replicated.follow.part_fetcher import PartFetcher
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.links.bootstrap.replica_bootstrap import ReplicaBootstrap
from engine.tables.replicated.links.link_target import ReplicaLinkTarget
from engine.tables.replicated.links.source.block_keeping import BlockKeeping
from engine.tables.replicated.links.source.block_rebuilding import BlockRebuilding
from engine.tables.replicated.links.source.block_source import BlockSource
from engine.tables.replicated.links.source.change_keeping import ChangeKeeping
from engine.tables.replicated.links.source.change_search import find_blocks
from engine.tables.replicated.links.source.link_source import ReplicaLinkSource
from engine.tables.replicated.links.source.outgoing_nodes import find_released_position, read_outgoing
from engine.tables.replicated.links.source.source_description import SourceDescription
from engine.tables.replicated.links.source.stream_reading import StreamReading
from engine.tables.replicated.links.staged_copies import StagedCopies
from engine.tables.replicated.links.switching.replica_switching import ReplicaSwitching
from engine.tables.replicated.links.tombstone_marks import TombstoneMarks
from engine.tables.replicated.replica_state import ReplicaState


class ReplicaLinks:
    """Keeps and does what one replica has to for the links of its table."""

    def __init__(
        self,
        state: ReplicaState,
        log: LogPull,
        fetcher: PartFetcher,
        definitions: Callable[[], DefinitionChanges],
        wake_execution: Callable[[], None],
    ) -> None:
        self._state = state
        self.blocks = BlockKeeping(state, log.resting)
        self.blocks.find_released = self._find_released
        self.keeping = ChangeKeeping(state, log, self.blocks)
        block_source = BlockSource(state, self.blocks.outbox, fetcher)
        self.blocks.bring = block_source.bring
        block_source.rebuild = BlockRebuilding(state, self.keeping).rebuild
        self.open_here = block_source.open_here
        reading = StreamReading(state, self.keeping, block_source, log.pull)
        self.source = ReplicaLinkSource(state, self.keeping, reading, block_source)
        self.copies = StagedCopies(state, fetcher)
        self.target = ReplicaLinkTarget(state, log, definitions, wake_execution, self.copies)
        block_source.find_blocks = self._find_blocks
        block_source.ask_sources = self.target.lost.ask_sources
        self.bootstrap = ReplicaBootstrap(state, log.pull, wake_execution, definitions)
        self.switching = ReplicaSwitching(state, reading, block_source, log.pull)
        self.marks = TombstoneMarks(state)
        self.source.count_marks = lambda: self.marks.news

    @property
    def cuts(self) -> ReplicaLinkSource:
        """Gives changes to groups of links."""
        return self.source

    def _find_blocks(self, position: Position) -> Sequence[Block]:
        with self._state.hold_write_access() as (keeper, _):
            source = SourceDescription(self._state).describe(keeper)
        own = list_former(source.origin, source.lineage.epochs)
        epoch = own.find(position.zxid) if own.has(position.origin) else own.present
        return find_blocks(self.keeping.require_journal(), epoch, position)

    def _find_released(self) -> int | None:
        with self._state.hold_write_access() as (keeper, _):
            return find_released_position(read_outgoing(keeper, self._state.paths))
