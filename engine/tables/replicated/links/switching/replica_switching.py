"""What switching over needs of one replica: its stream as a whole, and blocks for ``detached/``."""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.switching.stream_place import find_follower_place
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.tables.capabilities.table_switching import TableTail
from engine.tables.replicated.links.source.block_source import BlockSource
from engine.tables.replicated.links.source.stream_reading import StreamOfTable, StreamReading
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import link_files
from parts.store.detached_parts import parse_detached_name

_DECIDED_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


class ReplicaSwitching:
    """Implements :class:`engine.tables.capabilities.table_switching.TableSwitching` for one replica."""

    def __init__(self, state: ReplicaState, reading: StreamReading, blocks: BlockSource) -> None:
        self._state = state
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

        ``follower`` is its own origin. ``None`` if the journal does not reach back so far.
        """
        with self._state.hold_write_access() as (keeper, _):
            found = self._reading.read_stream(keeper)
        own = found.origin
        place = find_follower_place(
            found.begin, found.end, found.changes, found.cuts, found.vector, own, vector, follower
        )
        return Position(own, place) if place is not None else None

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
        state, store, made = self._state, self._state.store, list[str]()
        there = set(store.list_detached())
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
                directory = store.create_temporary("tmp_tail_")
                try:
                    with snapshot:
                        link_files(path, directory, should_sync=True)
                    with store.lock:
                        store.detached_parts.move_in(directory, name=wanted)
                        store.detached_parts.sync()
                finally:
                    store.drop_temporary(directory)
                state.services.failpoint("rejoin.after_block")
        return made


def _reaches_back(found: StreamOfTable, vector: VersionVector) -> bool:
    """Tells whether the journal has everything that lies behind the vector."""
    own, known = found.own, found.vector
    if find_follower_place(found.begin, found.end, found.changes, found.cuts, known, found.origin, vector) is None:
        return False
    start, needed = 0, list[tuple[Origin, int]]()
    for end in own.former:  # an epoch in which the table made changes is in its vector
        is_settled = found.lineage.find_end(end.origin) is not None
        if end.origin in known.entries and not known.entries[end.origin].is_place and not is_settled:
            needed.append((end.origin, start))
        start = end.zxid
    if not len(known) or any(change.position.origin == own.present for change in found.changes):
        needed.append((own.present, start))
    return all(found.begin <= max(vector.applied(origin), begin) for origin, begin in needed)
