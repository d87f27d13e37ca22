"""What switching over needs of one replica: its stream as a whole, and blocks for ``detached/``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.positions import MAX_ZXID, Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.kept_changes import read_kept_changes
from coordination.links.switching.stream_place import find_follower_place
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.tables.capabilities.table_switching import TableTail
from engine.tables.replicated.links.source.block_source import BlockSource
from engine.tables.replicated.links.source.stream_reading import StreamOfTable, StreamReading
from engine.tables.replicated.replica_state import LINK_STAGING_PREFIX, ReplicaState
from parts.common.errors import CorruptionError, UnavailableError, convert_resource_error
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import link_files
from parts.read.part_reader import open_part
from parts.store.detached_parts import parse_detached_name

logger = logging.getLogger(__name__)

_DECIDED_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


class ReplicaSwitching:
    """Implements :class:`engine.tables.capabilities.table_switching.TableSwitching` for one replica."""

    def __init__(
        self, state: ReplicaState, reading: StreamReading, blocks: BlockSource, pull: Callable[[Keeper], None]
    ) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self._reading = reading
        self._blocks = blocks

    def read_known_gate(self) -> Gate | None:
        """Returns the gate as this server knows it: it costs no request."""
        return self._state.gate.gate

    def find_last_own(self) -> Position | None:
        """Returns the last change of the table's present epoch; ``None`` if the journal knows of none."""
        with self._state.hold_write_access() as (keeper, _):
            return self._reading.find_last_own(keeper)

    def find_place(self, vector: VersionVector, follower: Origin | None = None) -> Position | None:
        """Returns the last place in the table's stream up to which a follower with this vector has everything.

        ``follower`` is its own origin. ``None`` if no replica's journal reaches back so far. Raises 33
        (CANNOT_READ_ALL_DATA) if another replica's may.
        """
        with self._state.hold_write_access() as (keeper, _):
            found = self._reading.read_stream(keeper)
            if not _reaches_back(found, vector, follower):
                self._refer_elsewhere(keeper)
                return None
        own = found.origin
        place = find_follower_place(
            found.begin, found.end, found.changes, found.cuts, found.vector, own, vector, follower
        )
        return Position(own, place) if place is not None else None

    def _refer_elsewhere(self, keeper: Keeper) -> None:
        """Raises 33 (CANNOT_READ_ALL_DATA) if another replica began earlier to keep changes."""
        paths, name = self._state.paths, self._state.replica.name
        kept = read_kept_changes(keeper, paths, keeper.children(paths.replicas))
        since = {replica: each.since for replica, each in kept.items() if each.since}
        first = min(since, key=lambda replica: since[replica], default=name)
        if since.get(first, 0) < since.get(name, MAX_ZXID):
            raise UnavailableError(
                "CANNOT_READ_ALL_DATA",
                f"Replica {name} of {self._state.definition.full_name} began to keep changes later than replica "
                f"{first}, which must be asked: start it, or SYSTEM DROP REPLICA '{first}' if it is gone for good",
            )

    def read_tail(self, vector: VersionVector) -> TableTail:
        """Returns the table's changes that this vector does not cover. The table is closed.

        Raises 159 (TIMEOUT_EXCEEDED) while something that was under way when it was closed is not decided.
        """
        state, deadline = self._state, self._state.services.monotonic() + _DECIDED_SECONDS
        while True:
            with state.hold_write_access() as (keeper, _):
                found = self._reading.read_stream(keeper)
            if not found.waits:
                break
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"It is not decided yet what the last changes of {state.definition.full_name} are: "
                    f"{found.waits[0]}; repeat the statement",
                )
            state.sleep(_PAUSE_SECONDS)
        tail = tuple(change for change in found.changes if not vector.covers(change.position))
        return TableTail(tail, _reaches_back(found, vector))

    def detach_blocks(self, changes: Sequence[Change], name: str, status: QueryStatus) -> list[str]:
        """Links the blocks of these changes into ``detached/``, durably; may be repeated.

        Returns the directories. Raises 232 (NO_SUCH_DATA_PART) for a block that no replica has.
        """
        made = list[str]()
        there = set(self._state.store.list_detached())
        for change in changes:
            for block in change.blocks:
                if block.is_lost:
                    continue
                status.check()
                wanted = f"{name}_{block.part}"
                assert parse_detached_name(wanted)[1] == block.part
                made.append(wanted)
                if wanted in there:  # of an attempt that died
                    continue
                snapshot, path = self._blocks.open(change.position, block.part)
                with snapshot:
                    self._detach(path, wanted)
                self._state.services.failpoint("rejoin.after_block")
        return made

    def _detach(self, path: Path, name: str) -> None:
        store = self._state.store
        directory = store.create_temporary("tmp_tail_")
        try:
            link_files(path, directory, should_sync=True)
            with store.lock:
                store.detached_parts.move_in(directory, name=name)
                store.detached_parts.sync()
        finally:
            store.drop_temporary(directory)

    def detach_staged(self) -> tuple[int, int]:
        """Links the blocks that links have staged here and not committed into ``detached/``; may be repeated.

        The table is closed. Returns how many blocks and rows they are.
        """
        state, store, blocks, rows = self._state, self._state.store, 0, 0
        with state.hold_write_access() as (keeper, _):
            keeper.sync(state.paths.root)
            self._pull(keeper)
        there = set(store.list_detached())
        for name in store.staged.list_transactions():
            if not name.startswith(LINK_STAGING_PREFIX) or state.queue.is_queued(name):
                continue
            try:
                places = list(store.staged.list_places(name))
            except FileNotFoundError:  # it is removed just now
                continue
            for place in places:
                part = PartName.try_parse(place.partition("-")[2])
                path, wanted = store.staged.path(name, place), f"staged-{name.removeprefix(LINK_STAGING_PREFIX)}_{part}"
                try:
                    found = open_part(path, name=part).rows if part is not None else 0
                    if part is not None and wanted not in there:
                        self._detach(path, wanted)
                except CorruptionError as error:  # it was not staged whole, or is removed just now
                    logger.info("%s of %s is not detached: %s", place, name, error)
                    continue
                except OSError as error:
                    if path.exists():
                        raise convert_resource_error(error) from error
                    continue  # it is removed just now
                blocks, rows = blocks + (part is not None), rows + found
        return blocks, rows


def _reaches_back(found: StreamOfTable, vector: VersionVector, follower: Origin | None = None) -> bool:
    """Tells whether the journal has everything that lies behind the vector."""
    own, known, place = found.own, found.vector, found.origin
    if find_follower_place(found.begin, found.end, found.changes, found.cuts, known, place, vector, follower) is None:
        return False
    start, needed = 0, list[tuple[Origin, int]]()
    for end in own.former:  # an epoch in which the table made changes is in its vector
        is_settled = found.lineage.find_end(end.origin) is not None
        if end.origin in known.entries and not known.entries[end.origin].is_place and not is_settled:
            needed.append((end.origin, start))
        start = end.zxid
    is_source = found.lineage.find(str(own.present)) is not None  # perhaps its changes lie before the journal
    if is_source or not len(known) or any(change.position.origin == own.present for change in found.changes):
        needed.append((own.present, start))
    return all(
        found.begin <= max(vector.applied(origin), begin) or 0 < known.last_change(origin) <= vector.applied(origin)
        for origin, begin in needed
    )
