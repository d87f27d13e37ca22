"""The source of links at one replica: what other clusters ask of its table.

Every replica answers for the table: it pulls the log, reads what may still change, and gives what is decided
(:mod:`engine.tables.replicated.links.source.stream_reading`). A link is registered in the gate, so that it begins at a
moment in the order of commits. What its target acknowledges is noted in the link's node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.positions import Origin, Position
from coordination.links.stream.kept_changes import list_not_keeping, read_kept_changes
from coordination.links.sync.mode_changes import GateChange, GateMoved, move_gates
from coordination.links.sync.sync_states import find_source_link, finish_disabling, sync_bar_owner
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState
from coordination.nodes.replica_activation import FEATURE_LINKS, FEATURE_SYNC_LINKS, read_replica_activity
from coordination.nodes.table_gate import move_gate
from coordination.nodes.table_lists import create_lists
from engine.tables.capabilities.link_status import OutboxStatus
from engine.tables.capabilities.sync_answer import SyncAnswer
from engine.tables.capabilities.table_links import (
    ChangesAnswer,
    ChangesRequest,
    OutgoingLink,
    SourceTable,
    TableNodes,
)
from engine.tables.replicated.links.source.block_source import BlockSource
from engine.tables.replicated.links.source.change_keeping import ChangeKeeping
from engine.tables.replicated.links.source.link_progress import LinkProgress
from engine.tables.replicated.links.source.outgoing_nodes import (
    find_outgoing_path,
    make_gate_link,
    read_outgoing,
    register_ops,
    unregister_ops,
)
from engine.tables.replicated.links.source.source_description import SourceDescription, TableLook, list_described_nodes
from engine.tables.replicated.links.source.stream_reading import StreamReading
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.store.part_states import Snapshot

_MOST_LINKS = 1000
"""All of them stand in the gate, a node of at most a megabyte."""
_KEEPING_SECONDS = 30.0
"""How long a registration waits for the active replicas."""
_KEEPING_PAUSES = (0.02, 0.5)
_HELD_BACK_SECONDS = 0.1
"""The pause between two readings while something undecided holds the frontier back: no watch tells of its end."""
_WAIT_SECONDS = 1.0
"""The longest wait without a look at the statement's status."""


class ReplicaLinkSource:
    """Implements ``engine.tables.capabilities.table_links.LinkSource``."""

    def __init__(
        self,
        state: ReplicaState,
        keeping: ChangeKeeping,
        reading: StreamReading,
        blocks: BlockSource,
    ) -> None:
        self._state = state
        self._keeping = keeping
        self._reading = reading
        self._blocks = blocks
        self._description = SourceDescription(state)
        self._progress = LinkProgress(state)
        self.count_marks: Callable[[], int] = int
        """Returns how often the table's marks have moved."""

    # -- registration ---------------------------------------------------------------------------------------------

    def describe(self) -> SourceTable:
        """Returns what the table is now. Raises 48 (NOT_IMPLEMENTED) for a table without a gate."""
        with self._state.hold_write_access() as (keeper, _):
            return self._description.describe(keeper)

    def register(self, link: OutgoingLink) -> SourceTable:
        """Makes every replica keep changes and blocks from now on, and returns when those that are active do.

        ``newest`` of the answer is a place at which a link may begin ("now"), and ``vector`` the table's vector there.
        May be repeated; a link of the same name and another UUID is refused (36). Raises 159 (TIMEOUT_EXCEEDED), which
        names the replicas that do not keep changes yet.
        """
        state = self._state
        find_outgoing_path(state.paths, link.name)
        with state.hold_write_access() as (keeper, _):
            self._description.describe(keeper)
            create_lists(keeper, state.paths, state.paths.linked.outgoing, state.paths.linked.definitions)
            gate = move_gate(
                keeper,
                state.paths,
                lambda gate: _with_registered(gate, link),
                along=lambda gate: register_ops(keeper, state.paths, link),
                feature=FEATURE_LINKS if link.mode is LinkMode.ASYNC else FEATURE_SYNC_LINKS,
                what="A replication link",
            )
            state.gate.load(keeper)
            self._keeping.follow_gate(keeper)
        self._wait_until_kept(gate.periods, link.name)
        return self._find_beginning()

    def _wait_until_kept(self, period: int, name: str) -> None:
        """Waits until all active replicas keep the changes of the period."""
        state = self._state
        deadline = state.services.monotonic() + _KEEPING_SECONDS
        pause, longest = _KEEPING_PAUSES
        while True:
            with state.hold_write_access() as (keeper, _):
                active = [name for name, is_up in read_replica_activity(keeper, state.paths).items() if is_up]
                late = list_not_keeping(read_kept_changes(keeper, state.paths, active), active, period)
            if not late:
                return
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"Link {name} is registered, but replicas {', '.join(late)} of table {state.definition.full_name} "
                    "do not keep their changes yet: see their logs, then repeat it",
                )
            state.sleep(pause)
            pause = min(2 * pause, longest)

    def _find_beginning(self) -> SourceTable:
        """Returns the table at a place where a link may begin.

        A block or command that was under way when the first replica began to keep may belong before or behind what
        nobody kept. So the place lies behind all of them.
        """
        state = self._state
        deadline = state.services.monotonic() + _KEEPING_SECONDS
        with state.hold_write_access() as (keeper, _):
            undecided = self._reading.list_locks(keeper)
        least: int | None = None
        while True:
            with state.hold_write_access() as (keeper, _):
                if least is None and not undecided & self._reading.list_locks(keeper):
                    replicas = keeper.children(state.paths.replicas)
                    kept = read_kept_changes(keeper, state.paths, replicas).values()
                    least = max(self._description.describe(keeper).newest, *(each.since for each in kept))
                if least is not None:
                    end = self._reading.read_frontier(keeper, least)
                    vector, written = self._description.read_vector(keeper)
                    if end >= max(least, written):
                        return self._description.describe_at(keeper, end, vector)
                    least = max(least, written)  # another link has moved it, perhaps without a change
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"Table {state.definition.full_name} keeps its changes, but INSERTs or commands that were under "
                    "way do not end, so no link can begin yet; repeat it",
                )
            state.sleep(_KEEPING_PAUSES[0])

    def unregister(self, name: str, uuid: str = "") -> None:
        """Ends the keeping for a link.

        Does nothing if it is not registered, or has another UUID than the given one.
        """
        state = self._state
        with state.hold_write_access() as (keeper, _):
            move_gate(
                keeper,
                state.paths,
                lambda gate: _without_registered(gate, name, uuid),
                along=lambda gate: unregister_ops(keeper, state.paths, name),
                feature=FEATURE_LINKS,
                what="A replication link",
            )
            state.gate.load(keeper)
            self._keeping.follow_gate(keeper)

    def list_outgoing(self) -> Sequence[OutgoingLink]:
        """Lists the registered links."""
        gate = self._state.gate.gate
        if gate is not None and not gate.links_of(LinkDirection.OUT):
            return []
        alone = {link.name for link in gate.links if not link.is_tracked} if gate is not None else ()
        links = read_outgoing(self._state.require_writable(), self._state.paths)
        return [replace(link, is_tracked=link.name not in alone) for link in links]

    def list_gate_links(self) -> Sequence[GateLink]:
        """Lists the outgoing links as the gate had them when it was read last."""
        gate = self._state.gate.gate
        return gate.links_of(LinkDirection.OUT) if gate is not None else ()

    def measure_tail(self, name: str) -> int:
        """Returns the bytes that the target of a link lacks, as it last told."""
        with self._state.hold_write_access() as (keeper, _):
            applied = max((link.applied for link in self.list_outgoing() if link.name == name), default=0)
            return self._reading.measure_behind(keeper, applied)

    def describe_outbox(self) -> OutboxStatus | None:
        """Returns what this replica keeps for links; ``None`` if it keeps nothing."""
        if not self._keeping.is_keeping:
            return None
        journal, outbox = self._keeping.require_journal().get_statistics(), self._blocks.outbox.get_statistics()
        with self._state.hold_write_access() as (keeper, _):
            origin = self._description.describe(keeper).origin
        return OutboxStatus(
            self._state.definition.database,
            self._state.definition.name,
            str(Position(origin, journal.first_position)),
            str(Position(origin, journal.last_position)),
            str(Position(origin, outbox.trimmed_position)) if outbox.trimmed_position else "",
            outbox.blocks,
            outbox.size_bytes,
            journal.size_bytes,
            tuple(link.name for link in self.list_outgoing() if link.trim < journal.last_position),
            self._keeping.missing_blocks,
        )

    # -- changes --------------------------------------------------------------------------------------------------

    def read_changes(self, request: ChangesRequest, status: QueryStatus) -> ChangesAnswer:
        """Returns the next changes. Waits at most ``wait_seconds`` for one.

        Raises ``PositionTrimmedError`` if this replica's journal begins later, 36 (BAD_ARGUMENTS) for a link that is
        not registered, or whose UUID differs, and for a place at which no batch ends.
        """
        services = self._state.services
        deadline = services.monotonic() + request.wait_seconds
        while True:
            seen = self._keeping.appended
            with self._state.hold_write_access() as (keeper, _):
                self._require_registered(keeper, request)
                keeper.sync(self._state.paths.root)
                sync = self._answer_sync(keeper, request)
                answer = self._reading.read(keeper, request)
                self._progress.note(keeper, request, answer.source.origin)
                answer = replace(answer, clock_ms=self._progress.read_clock_ms(), sync=sync)
            while True:
                left = deadline - services.monotonic()
                if answer.changes or answer.cuts or left <= 0 or self._state.is_stopping.is_set():
                    return answer
                status.check()
                self._keeping.wait_for_news(seen, min(left, _HELD_BACK_SECONDS if answer.waits else _WAIT_SECONDS))
                if answer.waits or self._keeping.appended != seen:
                    break

    def _answer_sync(self, keeper: Keeper, request: ChangesRequest) -> SyncAnswer:
        """Returns the link's mode. The caller has synchronized with ZooKeeper after the question came.

        A target that has stopped answering reads ends ``disabling``.
        """
        state, name = self._state, request.link
        gate, version = state.gate.load_versioned(keeper)
        link = find_source_link(gate, name, request.uuid) if gate is not None else None
        if link is None:
            return SyncAnswer()
        if link.state is SyncState.DISABLING and request.stopped_at_gate == version:
            change = GateChange(state.paths, partial(_finish_disabling, name=name, uuid=request.uuid), version)
            with suppress(GateMoved):
                move_gates(keeper, [change])
            gate, version = state.gate.load_versioned(keeper)
            link = (find_source_link(gate, name, request.uuid) if gate is not None else None) or link
        return SyncAnswer(link.mode, link.state, version, link.state is SyncState.ENABLED)

    def list_nodes(self) -> Sequence[str]:
        """Returns the nodes that describe the table and tell whether it has news."""
        return list_described_nodes(self._state.paths)

    def read_nodes(self, paths: Sequence[str]) -> TableNodes:
        """Reads nodes of any tables in this ZooKeeper, behind everything that was committed before the call."""
        with self._state.hold_write_access() as (keeper, _):
            keeper.sync(self._state.paths.root)
            return keeper.get_many(paths)

    def find_origin(self, nodes: TableNodes) -> Origin:
        """Returns what the table's nodes say that it is."""
        return self._description.describe_look(TableLook.of(self._state.paths, nodes), 0).origin

    def read_frontier(self, floor: int, nodes: TableNodes | None = None) -> int:
        """Returns the last place at which a batch may end; at least ``floor`` if nothing below is undecided."""
        look = TableLook.of(self._state.paths, nodes) if nodes is not None else None
        with self._state.hold_write_access() as (keeper, _):
            return self._reading.read_frontier(keeper, floor, look)

    def last_cut(self, place: int) -> int:
        """Returns the last place at or below ``place`` at which a batch may end."""
        return self._reading.last_cut(place)

    def find_page_end(self, after: int, max_rows: int, max_bytes: int) -> int:
        """Returns the last place at which a batch behind ``after`` ends within the limits, at least the first."""
        return self._reading.find_page_end(after, max_rows, max_bytes)

    def read_until(self, request: ChangesRequest, place: int, nodes: TableNodes) -> ChangesAnswer:
        """Returns all changes up to a cut, which a group of links takes at once."""
        with self._state.hold_write_access() as (keeper, _):
            self._require_registered(keeper, request)
            answer = self._reading.read_until(keeper, request, place, TableLook.of(self._state.paths, nodes))
            self._progress.note(keeper, request, answer.source.origin)
            return replace(answer, clock_ms=self._progress.read_clock_ms())

    def count_news(self) -> int:
        """Returns how often the journal has grown or marks have moved: there may be something new for links.

        Where the tracker observes the links it grows once a second too, so that their targets ask as often.
        """
        ticks = int(self._state.services.monotonic()) if self._progress.is_tracked else 0
        return self._keeping.appended + self.count_marks() + ticks

    def _require_registered(self, keeper: Keeper, request: ChangesRequest) -> None:
        gate = self._state.gate.gate or self._state.gate.load(keeper)
        link = gate.find_link(request.link) if gate is not None else None
        if link is None or link.uuid != request.uuid:
            gate = self._state.gate.load(keeper)  # the watch may be late
            link = gate.find_link(request.link) if gate is not None else None
        if link is None or link.direction is not LinkDirection.OUT:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {request.link} is not registered at table {self._state.definition.full_name}: it was dropped "
                "there, and what it lacks is not kept",
            )
        if link.uuid != request.uuid:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {request.link} at table {self._state.definition.full_name} is another one of the same name",
            )

    # -- blocks ---------------------------------------------------------------------------------------------------

    def open_block(
        self, position: Position, part: PartName, content_hash: str = "", *, may_ask: bool = False
    ) -> tuple[Snapshot, Path]:
        """Returns the files of a block, held by the snapshot; see ``LinkSource``."""
        return self._blocks.open(position, part, content_hash, may_ask=may_ask)

    def open_block_here(self, part: PartName) -> tuple[Snapshot, Path] | None:
        """Returns the files of a block if this replica has it, without asking others."""
        return self._blocks.open_here(part)

    def find_block_holders(self, position: Position, part: PartName) -> Sequence[str]:
        """Returns the HTTP addresses of other replicas that may have the block."""
        with self._state.hold_write_access() as (keeper, _):
            return self._blocks.find_holders(keeper, part)


def _without_registered(gate: Gate, name: str, uuid: str) -> Gate:
    known = gate.find_link(name)
    if known is None or (uuid and known.uuid != uuid):
        return gate
    return gate.without_link(name).without_bar(sync_bar_owner(known.uuid))


def _with_registered(gate: Gate, link: OutgoingLink) -> Gate:
    known = gate.find_link(link.name)
    if known is None and len(gate.links) >= _MOST_LINKS:
        raise UserError(
            "BAD_ARGUMENTS",
            f"A table has at most {_MOST_LINKS} links: DROP REPLICATION LINK ends those that are not needed any more",
        )
    if known is not None and known.uuid != link.uuid:
        raise UserError(
            "BAD_ARGUMENTS",
            f"There is another link {link.name} of this table already ({known.uuid}): DROP REPLICATION LINK "
            f"'{link.name}' at the source ends it",
        )
    made = make_gate_link(link)
    if known is not None:  # its mode and state are the source's
        timeout = max(known.timeout_seconds, made.timeout_seconds)
        made = replace(known, peer_name=made.peer_name, is_two_way=made.is_two_way, timeout_seconds=timeout)
        made = replace(made, is_tracked=link.is_tracked, sync_tail_bytes=link.sync_tail_bytes)
    return gate.with_link(made)


def _finish_disabling(gate: Gate, name: str, uuid: str) -> Gate:
    link = find_source_link(gate, name, uuid)
    return finish_disabling(gate, link) if link is not None else gate
