"""Interfaces of the two ends of a link, at one replica of a table.

``LinkSource`` is what another cluster asks of a table whose changes it takes. ``LinkTarget`` is what the server that
runs a link does to its table. Both raise the errors of a replica that is read-only (242) or has no ZooKeeper (225,
999); all methods may be called from any thread of the process that owns the table's files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from coordination.keeper.interface import Op, Stat
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.told_cut import ToldCut
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.gap_check import Fork
from coordination.links.switching.lineage import Lineage
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import DEFAULT_SYNC_TAIL_BYTES, DEFAULT_TIMEOUT_SECONDS, GateLink, LinkMode
from engine.tables.capabilities.incoming_blocks import FetchBlock, FetchSmallBlocks, RefetchBlock, RunViews
from engine.tables.capabilities.link_status import OutboxStatus
from engine.tables.capabilities.sync_answer import NO_SYNC, SyncAnswer
from engine.tables.capabilities.table_bootstrap import TableBootstrap
from engine.tables.capabilities.table_switching import TableSwitching
from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.store.part_states import Snapshot


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as the target of a link sees it."""

    database: str
    table: str
    origin: Origin
    """Identity and epoch now."""
    newest: int
    """The zxid of its newest commit."""
    create_query: str
    """The statement that makes such a table, with its engine as it was given (macros not replaced)."""
    definition_version: int
    """The version of the definition that blocks of now are written under."""
    fingerprint: str
    """A hash of columns, codecs, keys, settings of the format, and ALTERs so far. Files travel only if it is equal."""
    forks: tuple[Fork, ...] = ()
    columns: str = ""
    """The columns as ZooKeeper has them, with their history: without it no blocks of former versions are rewritten."""
    vector: VersionVector = field(default_factory=VersionVector)
    """In the answer of ``register``: what the table has of other origins at ``newest``, which is a cut."""
    is_empty: bool = False
    """In the answer of ``register``: at ``newest`` no row had ever come."""
    lineage: Lineage = field(default_factory=Lineage)
    """The forks that the table follows or has met, and its former epochs."""
    siblings: tuple[OutgoingLink, ...] = ()
    """In the answer to a target: the other links of the table."""
    is_target: bool = False
    """Whether links bring changes to the table."""


@dataclass(frozen=True, slots=True)
class OutgoingLink:
    """A link as its source keeps it in ``links/out/<target cluster>.<name>``."""

    name: str
    """``<target cluster>/<name>``."""
    uuid: str
    target_cluster: str
    """UUID of the target's cluster."""
    target_cluster_name: str
    is_two_way: bool = False
    begin: int = 0
    """Nothing at or below this zxid is needed; 0 while every change since the registration must be kept."""
    trim: int = 0
    """What so many replicas of the target have that it will not be asked for again."""
    applied: int = 0
    last_heartbeat_ms: int = 0
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    is_tracked: bool = True
    """In a registration: whether the tracker may make the link synchronous (``enable_tracker``)."""
    mode: LinkMode = LinkMode.ASYNC
    """In a registration: the mode of a link that is new at the source. The gate keeps it (``GateLink``)."""
    is_paused: bool = False
    """In a registration, as ``mode``: whether the target has disabled the link."""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """In a registration: the link's ``replication_timeout``."""
    sync_tail_bytes: int = DEFAULT_SYNC_TAIL_BYTES
    """In a registration: the link's ``link_sync_tail_bytes``."""


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """A target's question for what comes next. It is its heartbeat, too."""

    link: str
    """As in ``OutgoingLink.name``."""
    uuid: str
    vector: VersionVector
    """What the target has already. The entry of the source's own origin is the place in the source's stream."""
    trim: int
    max_rows: int
    max_bytes: int
    wait_seconds: float = 0.0
    """How long the answer may wait for something new."""
    stopped_at_gate: int = -1
    """The ``SyncAnswer.gate_version`` with which the source said ``disabling``, once all serving replicas of the target
    know it; -1: not yet, or it did not."""


@dataclass(frozen=True, slots=True)
class ChangesAnswer:
    """The next changes of a source's table, up to a cut."""

    source: SourceTable
    changes: tuple[Change, ...]
    """In the order of their places, without those that the vector covers; they may be too many for one batch."""
    cuts: tuple[int, ...]
    """The places at which a batch may end, ascending. The last one is the end of ``changes``, or the frontier."""
    frontier: int
    """The last cut of all; at or below ``source.newest``."""
    waits: tuple[str, ...]
    """What holds the frontier back, for people."""
    clock_ms: int
    """The source's time, by the clock that gave the changes their ``commit_ms``, as far as it is known."""
    rows_behind: int = 0
    bytes_behind: int = 0
    """What lies between the vector and the frontier, about."""
    mark: str = ""
    """What the server that answers had noticed of the table before it looked; another mark means that there is news."""
    stable: Mapping[Origin, int] = field(default_factory=dict)
    """By origin a commit time: up to the frontier the source has every row of it with this time or an earlier one
    (``coordination.links.stream.stable_times``)."""
    sync: SyncAnswer = NO_SYNC


class LinkSource(Protocol):
    """A table whose changes links take."""

    def describe(self) -> SourceTable:
        """Returns what the table is now. Raises 48 (NOT_IMPLEMENTED) for a table without a gate."""

    def register(self, link: OutgoingLink) -> SourceTable:
        """Makes every replica keep changes and blocks from now on, and returns when those that are active do.

        A link may begin at ``newest`` of the answer ("now"): it is a cut, and every active replica has what follows.
        May be repeated; a link of the same name and another UUID is refused (36).
        """

    def unregister(self, name: str, uuid: str = "") -> None:
        """Ends the keeping for a link.

        Does nothing if it is not registered, or has another UUID than the given one.
        """

    def list_outgoing(self) -> Sequence[OutgoingLink]:
        """Lists the registered links."""

    def list_gate_links(self) -> Sequence[GateLink]:
        """Lists the outgoing links as the gate had them when it was read last. Reads memory alone."""

    def measure_tail(self, name: str) -> int:
        """Returns the bytes that the target of a link lacks, about."""

    def describe_outbox(self) -> OutboxStatus | None:
        """Returns what this replica keeps for links; ``None`` if it keeps nothing."""

    def read_changes(self, request: ChangesRequest, status: QueryStatus) -> ChangesAnswer:
        """Returns the next changes. Waits at most ``wait_seconds`` for one.

        Raises ``PositionTrimmedError`` if this replica's journal begins later, 36 (BAD_ARGUMENTS) for a link that is
        not registered, or whose UUID differs.
        """

    def count_news(self) -> int:
        """Returns a number that grows when there may be something new for links. Reads memory alone."""

    def open_block(
        self, position: Position, part: PartName, content_hash: str = "", *, may_ask: bool = False
    ) -> tuple[Snapshot, Path]:
        """Returns the files of a block from this replica's outbox or active parts, held by the snapshot.

        ``part`` has this table's numbers. With a content hash, the change's block that has it is meant, and ``part``
        only if none has. ``may_ask``: the sources of this table's links are asked, too, for a block that one of them
        brought. Raises 232 (NO_SUCH_DATA_PART).
        """

    def open_block_here(self, part: PartName) -> tuple[Snapshot, Path] | None:
        """Returns the files of a block if this replica has it, without asking others."""

    def find_block_holders(self, position: Position, part: PartName) -> Sequence[str]:
        """Returns the HTTP addresses of other replicas that may have the block."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state of a link's target before a batch."""

    vector: VersionVector
    vector_version: int
    own: Origin
    """The table's own identity and epoch."""
    forks: tuple[Fork, ...] = ()


@dataclass(frozen=True, slots=True)
class IncomingBatch:
    """The changes that a link has admitted, up to a cut."""

    link: LinkDefinition
    state: TargetState
    """The state that the changes were admitted against: the commit expects its vector's version."""
    source: SourceTable
    changes: tuple[Change, ...]
    vector: VersionVector
    """The admission's."""
    end: Position
    """Where the batch ends in the source's stream: of the source's own origin."""
    fetch: FetchBlock
    fetch_small: FetchSmallBlocks = lambda changes: {}
    run_views: RunViews | None = None
    """How the target's views are run; ``None`` if the link does not run them."""


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """The effect of a batch."""

    is_applied: bool
    """False: the vector moved first (another leader, another link). Read the target's state anew."""
    rows: int = 0
    size_bytes: int = 0
    blocks: int = 0
    lost_rows: int = 0


class UncoveredSchema(UserError):
    """The target cannot hold what the source sends: the link pauses until it can. Nothing was committed."""

    def __init__(self, message: str, rows: int) -> None:
        super().__init__("INCOMPATIBLE_COLUMNS", message)
        self.rows = rows
        """The rows that wait."""

    def __reduce__(self) -> tuple[object, ...]:
        return (UncoveredSchema, (self.message, self.rows))


TableNodes = Sequence[tuple[bytes, Stat] | None]
"""Data and stats of a table's nodes in ZooKeeper; ``None`` for a node that is not there."""


class CutSource(Protocol):
    """A table of which a group of links takes all changes up to a place.

    Its nodes are read together with those of the group's other tables.
    """

    def list_nodes(self) -> Sequence[str]:
        """Returns the nodes that describe the table and tell whether it has news."""

    def read_nodes(self, paths: Sequence[str]) -> TableNodes:
        """Reads nodes of any tables in this ZooKeeper, behind everything that was committed before the call."""

    def find_origin(self, nodes: TableNodes) -> Origin:
        """Returns what the table's nodes say that it is."""

    def read_frontier(self, floor: int, nodes: TableNodes | None = None) -> int:
        """Returns the last place at which a batch may end; at least ``floor`` if nothing below is undecided.

        ``floor``: the zxid of something in this ZooKeeper that was written before the call, and before the table's
        nodes were read.
        """

    def last_cut(self, place: int) -> int:
        """Returns the last place at or below ``place`` at which a batch may end; not above the frontier."""

    def find_page_end(self, after: int, max_rows: int, max_bytes: int) -> int:
        """Returns the last place at which a batch behind ``after`` ends within the limits, at least the first."""

    def read_until(self, request: ChangesRequest, place: int, nodes: TableNodes) -> ChangesAnswer:
        """Returns all changes up to a cut at or below the frontier. Raises as ``LinkSource.read_changes``.

        The table's nodes were read when ``place`` was in ZooKeeper.
        """

    def count_news(self) -> int:
        """Returns how often something came: see ``LinkSource.count_news``."""


@dataclass(frozen=True, slots=True)
class GroupCut:
    """The cut of a group, as the server that runs it commits it."""

    mark: CutMark
    along: tuple[Op, ...]
    """What the multi has besides the batches: the group's node moves."""
    joining: frozenset[str]
    """The links whose tables enter the group with it."""


class LinkTarget(Protocol):
    """A table that links bring changes to."""

    def read_target(self) -> TargetState:
        """Returns the table's vector and identity, behind everything committed before the call."""

    def read_targets(self, others: Sequence[LinkTarget]) -> Sequence[TargetState]:
        """Returns the states of this table and of others in the same ZooKeeper, read at once."""

    def begin_link(self, link: LinkDefinition, vector: VersionVector) -> bool:
        """Gives a link its place: joins its vector into the table's.

        Returns false if the vector moved meanwhile.
        """

    def apply_batch(self, batch: IncomingBatch, status: QueryStatus) -> AppliedBatch:
        """Stages the blocks and commits the batch, at once or not at all. May be repeated after any error.

        Raises :class:`UncoveredSchema`, and whatever staging and ZooKeeper raise.
        """

    def apply_cut(
        self,
        batch: IncomingBatch,
        others: Sequence[tuple[LinkTarget, IncomingBatch]],
        cut: GroupCut,
        status: QueryStatus,
    ) -> AppliedBatch:
        """Applies the batches of all tables of a group, its own and the others', in one multi or not at all.

        May be repeated after any error; raises as :meth:`apply_batch`.
        """

    def set_refetch(self, link: str, refetch: RefetchBlock | None) -> None:
        """Sets how a part of this link's batches is asked for again that no replica has any more.

        ``None`` takes it back: the link does not run here.
        """

    def take_marks(self, times: Mapping[Origin, int]) -> None:
        """Notes that the table has every row of these origins up to these commit times."""

    def finish_lists(self, link_uuid: str) -> None:
        """Finishes what the last large batch of a link left to be done after its commit."""

    def find_trim_position(self, source: Origin, copies: int) -> int:
        """Returns the zxid of the source up to which ``copies`` replicas have everything active.

        If there are fewer replicas, all must have it.
        """

    def wait_until_visible(
        self, timeout_seconds: float, status: QueryStatus, *, is_own_replica_enough: bool = False
    ) -> None:
        """Waits until what is committed now is visible on all active replicas, or on this one.

        Raises 159 (TIMEOUT_EXCEEDED).
        """

    def wait_until_shown(self, wanted: ToldCut, timeout_seconds: float, status: QueryStatus) -> Sequence[str]:
        """Waits until all active replicas tell that they show a cut of a group, or the table alone.

        Returns those that do not when the time is over.
        """

    def list_behind(self) -> Sequence[str]:
        """Lists the active replicas that have not carried out yet what is committed now."""

    def explain_uncovered(self, source: SourceTable, settings: Mapping[str, object]) -> Collection[str]:
        """Says why the table cannot take the source's rows: one sentence a reason, none if it can."""


class TableLinks(Protocol):
    """Both ends of links at one table."""

    @property
    def source(self) -> LinkSource:
        """Gives changes to the links that go out."""

    @property
    def cuts(self) -> CutSource:
        """Gives changes to groups of links."""

    @property
    def target(self) -> LinkTarget:
        """Takes the changes that links bring here."""

    @property
    def bootstrap(self) -> TableBootstrap:
        """Gives the table away as a whole, and takes one."""

    @property
    def switching(self) -> TableSwitching:
        """The table's own changes and blocks, as switching over needs them."""
