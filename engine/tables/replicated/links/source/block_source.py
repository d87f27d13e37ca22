"""Finds the files of a block.

They are in this replica's outbox, among its parts, at another replica, or inside a merged part.

A block that is nowhere is *lost* if the table has recorded the loss of a part that held it, and no replica lists a
part with its rows; its place is then sent without its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.positions import Position
from coordination.links.stream.change import Block, Change
from coordination.nodes.replica_activation import read_addresses, read_replica_activity
from coordination.reads.dropped_blocks import read_lost_parts
from engine.link_store.outbox import OUTBOX_FOLDER, Outbox
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.store.part_states import Snapshot

logger = logging.getLogger(__name__)

_GONE = ("NO_SUCH_DATA_PART", "NO_REPLICA_HAS_PART")


class BlockSource:
    """The blocks of one replica's table."""

    def __init__(self, state: ReplicaState, outbox: Outbox, fetcher: PartFetcher) -> None:
        self._state = state
        self.outbox = outbox
        self._fetcher = fetcher
        self.rebuild: Callable[[int, PartName], Path | None] = lambda zxid, part: None
        """Makes the block of a commit anew, in a temporary directory; ``None`` if that is not possible."""
        self.find_blocks: Callable[[Position], Sequence[Block]] = lambda position: ()
        """Returns the blocks of a change, with this table's numbers."""
        self.ask_sources: Callable[[Position, Block, Path], bool] = lambda position, block, directory: False
        """Brings a block of a change from a source of this table into an empty directory; tells whether one had it."""

    def open_here(self, part: PartName) -> tuple[Snapshot, Path] | None:
        """Returns the files of a block that this replica has; ``None`` if it has none."""
        if (kept := self.outbox.hold(part)) is not None:
            block, let_go = kept
            if block.folder.exists():
                return Snapshot([], lambda _: let_go()), block.folder
            let_go()
        if self._state.store.get(part) is None:
            return None
        try:
            held = self._state.store.hold([part])
        except UserError:  # it has just gone
            return None
        return held, held.parts[0].path

    def open(
        self, position: Position, part: PartName, content_hash: str = "", *, may_ask: bool = False
    ) -> tuple[Snapshot, Path]:
        """Returns the files of a block, which may be fetched from another replica first, or made anew.

        With a content hash, the block of the change that has it is meant, whatever its number here: ``part`` may be
        its name in another cluster. ``may_ask``: whether the table's own sources are asked, too.

        Raises 232 (NO_SUCH_DATA_PART) if no replica has it, and names block and position; 33 (CANNOT_READ_ALL_DATA) if
        it was given up, so that no replica will have it any more.
        """
        blocks = self.find_blocks(position) if content_hash else ()
        part = next((block.part for block in blocks if block.content_hash == content_hash), part)
        if (found := self.open_here(part)) is not None:
            return found
        directory = self.bring(part) or self.rebuild(position.zxid, part)
        if directory is None and may_ask:
            directory = self._ask_sources(position, part)
        if directory is None and self._is_given_up(part):
            raise UnavailableError(
                "CANNOT_READ_ALL_DATA",
                f"No replica of {self._state.definition.full_name} keeps block {part}, which was committed at "
                f"{position}: it was given up (the settings link_log_… say how much is kept), or the disk that kept it "
                "was lost after it had been merged",
            )
        if directory is None:
            raise UserError(
                "NO_SUCH_DATA_PART",
                f"No replica of {self._state.definition.full_name} has block {part}, which was committed at {position}",
            )
        drop = self._state.store.drop_temporary
        return Snapshot([], lambda _: drop(directory)), directory

    def _ask_sources(self, position: Position, part: PartName) -> Path | None:
        """Asks the sources of this table's links for a block that one of them brought."""
        block = next((block for block in self.find_blocks(position) if block.part == part), None)
        if block is None or block.is_lost:
            return None
        store = self._state.store
        directory = store.create_temporary("tmp_link_block_")
        try:
            if self.ask_sources(position, block, directory):
                return directory
        except BaseException:
            store.drop_temporary(directory)
            raise
        store.drop_temporary(directory)
        return None

    def _is_given_up(self, part: PartName) -> bool:
        """Tells whether no replica will have a block that none has now: none is away, and it is not on its way.

        This outbox gave up needed blocks, or the block was merged, and a replica that kept it has lost its disk.
        """
        if self.outbox.get_statistics().lost is None and self._state.store.covering_active(part) is None:
            return False
        with self._state.hold_write_access() as (keeper, _):
            return all(read_replica_activity(keeper, self._state.paths).values())

    def bring(self, part: PartName) -> Path | None:
        """Fetches a block from another active replica.

        Returns a temporary directory, or ``None`` if none has it. Raises what keeps one from being asked.
        """
        with self._state.hold_write_access() as (keeper, _):
            return self._bring(keeper, part)

    def find_holders(self, keeper: Keeper, part: PartName) -> Sequence[str]:
        """Returns the HTTP addresses of other active replicas; those that list the part come first."""
        paths, own = self._state.paths, self._state.replica.name
        names = [name for name, is_up in read_replica_activity(keeper, paths).items() if is_up and name != own]
        listed = keeper.exists_many([paths.replica(name).part(str(part)) for name in names])
        holders = {name for name, stat in zip(names, listed, strict=True) if stat is not None}
        known = read_addresses(keeper, paths, sorted(names, key=lambda name: name not in holders))
        return [f"http://{a.url_host}:{a.http_port}" for a in known.values() if a.http_port]

    def mark_lost(self, keeper: Keeper, changes: Iterable[Change]) -> list[Change]:
        """Returns the changes with the mark of those blocks of which no rows are left anywhere."""
        found = list(changes)
        missing = [b.part for c in found for b in c.blocks if not b.is_lost and not self._is_here(b.part)]
        if not missing:
            return found
        lost = read_lost_parts(keeper, self._state.paths)
        suspects = [part for part in missing if any(given_up.covers(part) for given_up in lost)]
        if parts := [part for part in suspects if part not in lost]:  # of those the source of a merge may be left
            listed = self._select_listed(keeper, parts)
            suspects = [part for part in suspects if part not in listed]
        gone = {part for part in suspects if self._is_nowhere(keeper, part)}
        return [replace(c, blocks=tuple(_mark(block, gone) for block in c.blocks)) for c in found] if gone else found

    def _select_listed(self, keeper: Keeper, parts: Sequence[PartName]) -> set[PartName]:
        """Selects the parts that a replica lists, even one that is away, or of which it lists a part that covers them.

        Their rows may be left.
        """
        paths = self._state.paths
        listings = keeper.children_many([paths.replica(name).parts for name in keeper.children(paths.replicas)])
        listed = {PartName.try_parse(name) for names in listings for name in names or ()}
        return {part for part in parts if any(other is not None and other.covers(part) for other in listed)}

    def _is_here(self, part: PartName) -> bool:
        return self.outbox.find_part(part) is not None or self._state.store.get(part) is not None

    def _is_nowhere(self, keeper: Keeper, part: PartName) -> bool:
        """Tells whether no replica has the block. Raises what keeps one from being asked."""
        directory = self._bring(keeper, part)
        if directory is not None:
            self._state.store.drop_temporary(directory)
        return directory is None

    def _bring(self, keeper: Keeper, part: PartName) -> Path | None:
        """Fetches a block from another replica's parts or outbox; returns ``None`` if none has it.

        Raises the error of a replica that may have it and did not answer.
        """
        state, failure = self._state, None
        for source in [*self._fetcher.find_holders(keeper, part), *self._list_outboxes(keeper)]:
            try:
                with ExitStack() as slot:
                    if not slot.enter_context(state.services.fetches.try_take()):
                        raise UserError("ABORTED", "background_fetches_pool_size parts are being fetched already")
                    return self._fetcher.fetch_from(part, [source], state.is_cancelled)[0]
            except PandoError as error:
                failure = failure if error.name in _GONE else error
                logger.info("block %s of %s: %s", part, state.definition.full_name, error)
        if failure is not None:
            raise failure
        return None

    def _list_outboxes(self, keeper: Keeper) -> list[FetchSource]:
        paths, own = self._state.paths, self._state.replica.name
        names = [name for name, is_up in read_replica_activity(keeper, paths).items() if is_up and name != own]
        addresses = read_addresses(keeper, paths, names)
        return [
            FetchSource(name, address.interserver_url, staged=f"{OUTBOX_FOLDER}/block")
            for name, address in addresses.items()
        ]


def _mark(block: Block, gone: set[PartName]) -> Block:
    return replace(block, is_lost=True) if block.part in gone else block
