"""Gives a table's parts, as of a place F of its change stream, to the target of a link.

The replica rests its pull until what it has pulled is carried out, and holds its active parts if they are the table as
of F (``coordination.links.bootstrap_place``). Otherwise it pulls on and tries again. A held part stays on the disk
while the target copies it; everything else goes on.

Invariants:

- A link has one hold at most. A new one replaces it; parts that both have are not given up in between.
- A hold ends with :meth:`BootstrapGiver.release`, some minutes after its last use, or when the link is not registered
  any more.
- The vector, the ids and the fingerprint of a hold are those of F: nothing newer than F was read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.bootstrap_place import explain_unfinished, find_places, select_held_parts
from coordination.links.bootstrap_plan import HeldPart, HeldTable
from engine.tables.replicated.follow.row_positions import fill_own_positions_in
from engine.tables.replicated.links.bootstrap.giver_reads import GiverReading, GiverReads, read_block_ids_up_to
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from sql.definitions.definition_text import render_create

logger = logging.getLogger(__name__)

LEASE_SECONDS = 300.0
"""A hold that nobody used for so long ends."""
_HOLD_SECONDS = 20.0
"""How long :meth:`BootstrapGiver.hold` looks for a place. The target asks again."""
_REST_SECONDS = 5.0
"""How long the pull rests in one attempt."""
_POLL_SECONDS = 0.02
_PAUSE_SECONDS = 0.2
"""Between two attempts, so that the replica pulls and works meanwhile."""


@dataclass(slots=True)
class _Hold:
    """The parts that one link holds."""

    lease: str
    snapshot: Snapshot
    used_at: float


class BootstrapGiver:
    """Implements :class:`engine.tables.capabilities.table_bootstrap.BootstrapGiver` for one replica."""

    def __init__(
        self,
        state: ReplicaState,
        pull: Callable[[Keeper], None],
        wake_execution: Callable[[], None],
        on_hold: Callable[[], object],
    ) -> None:
        """``pull`` reads the log into the queue. ``on_hold`` is called when there is a new hold."""
        self._state = state
        self._pull = pull
        self._wake_execution = wake_execution
        self._on_hold = on_hold
        self._reads = GiverReads(state)
        self._lock = threading.Lock()
        self._holds: dict[str, _Hold] = {}

    def hold(self, link: str, status: QueryStatus) -> HeldTable:
        """Holds the table as of a place of its change stream."""
        state, reason = self._state, ""
        deadline = state.services.monotonic() + _HOLD_SECONDS
        while True:
            with state.hold_write_access() as (keeper, _):
                found = self._try_to_hold(keeper, link, status)
            if not isinstance(found, str):
                return found
            reason = found
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"Table {state.definition.full_name} cannot be copied at this moment: {reason}; ask again",
                )
            state.sleep(_PAUSE_SECONDS)
            status.check()

    def _try_to_hold(self, keeper: Keeper, link: str, status: QueryStatus) -> HeldTable | str:
        """Makes one attempt. Returns what kept it from success otherwise."""
        state = self._state
        self._reads.require_registered(keeper, link)
        keeper.sync(state.paths.root)
        self._pull(keeper)
        with state.pull_rest.hold() as has_pulled, ExitStack() as stack:
            self._wait_until_carried_out(has_pulled, status)
            reading = self._reads.read(keeper, link, stack)
            places = find_places(reading.replica)
            if has_pulled() or not places:
                return "entries of its log keep arriving"
            is_ordered = self._reads.is_ordered()
            reasons = [explain_unfinished(reading.replica, place, is_ordered=is_ordered) for place in places]
            if all(reasons):
                return reasons[-1]
            place = places[reasons.index("")]
            state.services.failpoint("bootstrap.before_hold")
            held = self._make_held(keeper, reading, place)
            self._keep(link, held.lease, reading, stack)
        return held

    def _wait_until_carried_out(self, has_pulled: Callable[[], bool], status: QueryStatus) -> None:
        """Waits, not too long, until entries that change rows have left the queue."""
        state = self._state
        deadline = state.services.monotonic() + _REST_SECONDS
        self._wake_execution()
        while self._reads.list_unfinished_entries() and not has_pulled() and not state.is_cancelled():
            if state.services.monotonic() >= deadline:
                return
            state.sleep(_POLL_SECONDS)
            status.check()

    def _make_held(self, keeper: Keeper, reading: GiverReading, place: int) -> HeldTable:
        held = set(select_held_parts(reading.replica))
        parts = fill_own_positions_in(
            self._state, keeper, [part for part in reading.snapshot.parts if part.name in held]
        )
        return HeldTable(
            self._state.services.new_uuid().hex,
            reading.origin,
            place,
            reading.vector_with_own(place),
            reading.fingerprint,
            tuple(map(_describe_part, parts)),
            read_block_ids_up_to(keeper, self._state.paths, place),
            self._state.description.metadata_version,
            render_create(self._state.definition.create),
            reading.columns,
            self._state.commit_times.read_largest(keeper) if self._state.description.merge_mode.has_row_versions else 0,
        )

    def _keep(self, link: str, lease: str, reading: GiverReading, stack: ExitStack) -> None:
        """Makes the hold the link's only one."""
        stack.pop_all()  # the snapshot is the hold's from now on
        hold = _Hold(lease, reading.snapshot, self._state.services.monotonic())
        with self._lock:
            former = self._holds.get(link)
            self._holds[link] = hold
        if former is not None:
            former.snapshot.release()
        self._on_hold()

    def open_held_part(self, link: str, lease: str, part: PartName) -> tuple[Snapshot, Path]:
        """Returns the files of a held part, and prolongs the hold."""
        with self._lock:
            hold = self._holds.get(link)
            if hold is None or hold.lease != lease or all(each.name != part for each in hold.snapshot.parts):
                raise UserError(
                    "NO_SUCH_DATA_PART",
                    f"Part {part} of {self._state.definition.full_name} is not held for link {link!r} here (any more)",
                )
            hold.used_at = self._state.services.monotonic()
            held = self._state.store.hold([part])
        return held, held.parts[0].path

    def release(self, link: str) -> bool:
        """Ends the hold; tells whether there was one."""
        with self._lock:
            hold = self._holds.pop(link, None)
        if hold is not None:
            hold.snapshot.release()
        return hold is not None

    # -- in the background --------------------------------------------------------------------------------------------

    def end_holds(self, keeper: Keeper) -> bool:
        """Ends holds that nobody uses, or whose link is not registered. Tells whether others are left."""
        state = self._state
        with self._lock:
            limit = state.services.monotonic() - LEASE_SECONDS
            late = [link for link, hold in self._holds.items() if hold.used_at <= limit]
            others = [link for link in self._holds if link not in late]
        for link in (*late, *self._reads.list_unregistered(keeper, others)):
            logger.info("the parts of %s are not held for link %s any more", state.definition.full_name, link)
            self.release(link)
        return bool(self._holds)


def _describe_part(part: Part) -> HeldPart:
    version = part.row_version
    place = (version.origin, version.position or 0) if version.has_places and not version.is_mixed else ()
    size_bytes = part.data_uncompressed_bytes
    return HeldPart(part.name, part.content_hash, part.rows, size_bytes, part.bytes_on_disk, *place)
