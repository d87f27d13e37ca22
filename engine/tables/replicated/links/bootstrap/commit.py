"""The commit of a bootstrap at the target, and what a closed table is examined for before it.

The multi creates one log entry: the ranges that go, the parts that come, and marks for those who follow this table
(``coordination.links.bootstrap_plan``). If they are too many for an entry, it names a list of them, which is written
before (``large_batches``). With it come the vector, the block ids, the link's definition with its place,
and the gate without the bar. It expects the versions that were read when the table was closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain

from coordination.drops.drop_partition import list_quorum_ops
from coordination.inserts.block_ids import read_block_ids
from coordination.inserts.block_numbers import BlockLock, LockKind, allocate_block_number, read_committing_numbers
from coordination.inserts.insert_commit import release_block_number_if_possible
from coordination.inserts.partition_nodes import find_partitions
from coordination.inserts.quorum import forget_dropped_parts_ops
from coordination.keeper.interface import (
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    Op,
    SetData,
)
from coordination.keeper.request_limits import MAX_REQUEST_BYTES, operation_bytes
from coordination.links.batches.batch_list import must_be_list
from coordination.links.batches.batch_ops import BatchCommit, TargetReads, make_batch_commit
from coordination.links.batches.batch_plan import BatchLimits, BatchPlan
from coordination.links.bootstrap_plan import (
    HeldTable,
    bootstrap_vector,
    count_pieces,
    list_portions,
    make_marks,
    number_pieces,
    rename_block_ids,
)
from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin, Position
from coordination.links.stream.carried_changes import carried_document
from coordination.links.switching.lineage import REJOIN_KEY, Lineage
from coordination.links.table_fingerprint import make_table_fingerprint
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import LINK_KEY, EntryType, LogEntry, StagedPart, drop_range_name
from coordination.nodes.gate import Bar, Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from coordination.reads.dropped_blocks import record_drop_ops
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.links.bootstrap.closed_nodes import read_vector, require_bar, require_link
from engine.tables.replicated.links.bootstrap.copies import Copy
from engine.tables.replicated.links.bootstrap.own_changes import find_last_own_change
from engine.tables.replicated.links.large_batches import LargeBatches, write_batch_list
from engine.tables.replicated.links.row_versions import find_largest_commit_time
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName

_LIMIT_BYTES = MAX_REQUEST_BYTES - 64 * 1024
"""The rest is for the checks of the activation and for the chroot of all paths."""


_NUMBERS_TOGETHER = 2000
"""Block numbers that one request takes. Nobody commits under a number between two such runs: the table is closed."""


@dataclass(frozen=True, slots=True)
class ClosedTable:
    """A table behind its bar."""

    rows: int
    """Rows of its parts, as far as they are here; parts that are still to come count as one row each."""
    vector: VersionVector
    vector_version: int
    own_origin: Origin
    own: Position | None
    """The last own change that a copy must have; ``None`` if the table's own changes go with its rows."""
    definition_version: int
    """The version of the link's node."""
    gate_version: int
    """Whoever opens the table meanwhile, or closes it anew, moves the gate."""


@dataclass(frozen=True, slots=True)
class ReadyCopies:
    """Copies that are committed together."""

    held: HeldTable
    copies: Mapping[PartName, Sequence[Copy]]
    """What each of the giver's parts became."""
    staging: str
    moves_ids: bool
    """Whether block ids of the source are set here too."""

    @property
    def pieces(self) -> dict[PartName, list[str]]:
        """The partitions of what each part became."""
        return {part: [copy.partition_id for copy in became] for part, became in self.copies.items()}

    @property
    def count(self) -> int:
        """The number of parts that come."""
        return sum(map(len, self.copies.values()))

    @property
    def rows(self) -> int:
        """The number of rows that come."""
        return sum(copy.rows for became in self.copies.values() for copy in became)


class BootstrapCommit:
    """The commits of bootstraps at one replica."""

    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None], wake_execution: Callable[[], None]) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self._wake_execution = wake_execution
        self._lists = LargeBatches(state.paths)
        self.limits = BatchLimits(0, 0, request_bytes=_LIMIT_BYTES)
        """Beyond the limits of an entry or a request the entry is written as a list first."""

    def read_fingerprint(self, keeper: Keeper) -> str:
        """Returns the fingerprint of the table's definition.

        Raises 242 (TABLE_IS_READ_ONLY) if this replica has not taken the newest yet.
        """
        columns, metadata = keeper.get_many([self._state.paths.columns, self._state.paths.metadata])
        if columns is None or metadata is None:
            raise UnavailableError("TABLE_IS_DROPPED", f"The table is not in ZooKeeper: {self._state.paths.root}")
        shared = make_shared_definition(self._state.description)
        if (shared.metadata, shared.columns) != (metadata[0].decode(), columns[0].decode()):
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"The replica has not taken the newest definition of {self._state.paths.root} yet; ask again",
            )
        return make_table_fingerprint(shared.metadata, shared.columns)

    def prepare(self, link: LinkDefinition, *, replaces: bool) -> None:
        """Pulls the log, so that what an earlier bootstrap committed is known.

        Raises 236 (ABORTED) if the link was disabled or dropped, or has its place already (unless ``replaces``).
        """
        with self._state.hold_write_access() as (keeper, _):
            keeper.sync(self._state.paths.root)
            definition, _ = require_link(keeper, self._state.paths, link)
            if definition.is_begun and not replaces:
                raise ConflictError("ABORTED", f"Link {link.name} has its place already: nothing is to be copied")
            self._pull(keeper)

    def read_closed(self, link: LinkDefinition, bar: Bar) -> ClosedTable:
        """Examines the table, which is closed. All that was committed to it is known afterwards.

        Raises 236 (ABORTED) if the link was disabled or dropped.
        """
        state, table = self._state, self._state.paths
        with state.hold_write_access() as (keeper, _):
            keeper.sync(table.root)
            gate, gate_version = require_bar(keeper, table, bar)
            definition, version = require_link(keeper, table, link)
            self._pull(keeper)
            (vector, stat), root = read_vector(keeper, table), keeper.exists(table.root)
            if root is None:
                raise UnavailableError("TABLE_IS_DROPPED", f"The table is not in ZooKeeper: {table.root}")
            own = Origin.parse(f"{state.replication.get_cluster_uuid()}.{root.created_zxid}.{gate.epoch}")
            is_two_way = bool(definition.settings.get("two_way"))
            is_shared = is_two_way or bool(gate.links_of(LinkDirection.OUT))
            parts = state.queue.copy_virtual_parts()
            zxid = find_last_own_change(keeper, table, parts, is_written=is_two_way) if is_shared else 0
            lineage = Lineage.read(gate)
            if any(zxid <= end.zxid for end in lineage.epochs):  # of a former epoch, which is in the vector
                zxid = 0
            if dict(definition.extra).get(REJOIN_KEY, "") in lineage.settled:  # what the source lacks was taken out
                vector = vector.keep_forgotten()
            return ClosedTable(
                self._count_rows(),
                vector,
                stat,
                own,
                Position(own, zxid) if zxid else None,
                version,
                gate_version,
            )

    def _count_rows(self) -> int:
        store = self._state.store
        rows = 0
        for name in self._state.queue.copy_virtual_parts():
            part = store.get_active(name)
            rows += part.rows if part is not None else 1
        return rows

    def commit(
        self,
        link: LinkDefinition,
        bar: Bar,
        closed: ClosedTable,
        ready: ReadyCopies,
    ) -> int:
        """Commits the copies. Returns how many block ids were left out for want of room.

        Raises 236 (ABORTED) if something was changed that closes the way, 341 if the outcome is unknown.
        """
        state = self._state
        with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
            with self._take_numbers(keeper, ready) as locks:
                left_out = self._commit(keeper, link, bar, closed, ready, locks)
            state.services.failpoint("bootstrap.after_commit")
            with report_as_unfinished(f"The bootstrap of link {link.name} is committed"):
                state.gate.load(keeper)
                keeper.sync(state.paths.log)
                self._pull(keeper)
        self._wake_execution()
        return left_out

    @contextmanager
    def _take_numbers(self, keeper: Keeper, ready: ReadyCopies) -> Iterator[dict[str, list[BlockLock]]]:
        """Takes numbers in each partition: for its parts, and one to drop what it has.

        They are given up at the end, so that a multi that is still on its way fails.
        """
        state, locks = self._state, dict[str, list[BlockLock]]()
        gone = {part.partition_id for part in state.queue.copy_virtual_parts()}
        counts = {**dict.fromkeys(gone, 1), **count_pieces(ready.pieces)}
        try:
            for partition_id, count in list_portions(counts, _NUMBERS_TOGETHER):
                taken = allocate_block_number(
                    keeper,
                    state.paths,
                    partition_id,
                    owner=state.replica.name,
                    kind=LockKind.COMMAND,
                    minimum=max(1, state.store.compute_next_block_number(partition_id)),
                    count=count,
                    known=state.partition_nodes,
                )
                assert isinstance(taken, BlockLock)
                locks.setdefault(partition_id, []).append(taken)
            yield locks
        finally:
            for lock in chain.from_iterable(locks.values()):
                release_block_number_if_possible(keeper, lock)

    def _commit(
        self,
        keeper: Keeper,
        link: LinkDefinition,
        bar: Bar,
        closed: ClosedTable,
        ready: ReadyCopies,
        locks: Mapping[str, Sequence[BlockLock]],
    ) -> int:
        state, table = self._state, self._state.paths
        self._lists.settle(keeper, link.uuid)
        gate, _ = require_bar(keeper, table, bar)
        definition, _ = require_link(keeper, table, link)
        firsts = {partition_id: taken[0].number for partition_id, taken in locks.items()}
        # Locks are read before guards and ids, as ``TargetReads`` asks.
        committing = read_committing_numbers(keeper, table, list(locks))
        guards = {p: (node, stat.version) for p, (node, stat) in find_partitions(keeper, table, list(locks)).items()}
        ids = read_block_ids(keeper, table, set(locks))
        if closed.own is not None:  # own rows come back with the copy: their clients may still repeat the INSERTs
            came = dict(ready.held.block_ids) if ready.moves_ids else {}
            ids = {block_id: part for block_id, part in ids.items() if block_id in came}
        reads = TargetReads(closed.vector_version, tuple(chain.from_iterable(locks.values())), committing, guards, ids)
        _require_expected(definition, ready.held.origin)
        extra = tuple((key, value) for key, value in definition.extra if key != REJOIN_KEY)
        begun = replace(definition, is_begun=True, wants_copy=False, source_origin=str(ready.held.origin), extra=extra)
        along = [
            SetData(table.gate, gate.without_bar(bar.owner).to_bytes(), closed.gate_version),
            SetData(table.linked.incoming_link(link.name), begun.to_bytes(), closed.definition_version),
            *self._drop_ops(keeper, firsts),
        ]
        plan, name = self._plan(closed, ready, locks, firsts), ""
        commit, left_out = _fit(plan, table, reads, along)
        if must_be_list(commit, self.limits):
            name = f"{ready.staging}-{state.services.new_uuid().hex}"
            plan, committed = write_batch_list(keeper, table, plan, name, link.uuid)
            commit, left_out = _fit(plan, table, reads, [*along, committed])
        if commit.size_bytes > _LIMIT_BYTES:
            raise UserError(
                "LIMIT_EXCEEDED",
                f"The commit of the bootstrap of link {link.name} with {ready.count} parts in {len(locks)} partitions "
                f"would take {commit.size_bytes} bytes, at most {_LIMIT_BYTES} are allowed; let "
                "the source merge, or DROP partitions here first",
            )
        try:
            keeper.multi(commit.ops)
        except MultiFailed as error:
            if name:
                self._lists.abandon(keeper, name)
            raise ConflictError(
                "ABORTED", f"The bootstrap of link {link.name} was not committed: {error.message}; it begins anew"
            ) from error
        except KeeperConnectionLoss as error:
            self._settle(keeper, ready.held, bar, locks, error)
        return left_out

    def _plan(
        self,
        closed: ClosedTable,
        ready: ReadyCopies,
        locks: Mapping[str, Sequence[BlockLock]],
        firsts: Mapping[str, int],
    ) -> BatchPlan:
        state, held = self._state, ready.held
        numbers = {p: [range(lock.number, lock.number + lock.count) for lock in taken] for p, taken in locks.items()}
        numbered = number_pieces(ready.pieces, {p: chain.from_iterable(ranges) for p, ranges in numbers.items()})
        staged = tuple(
            StagedPart(name, copy.content_hash, state.replica.name, copy.place, copy.rows, copy.size_bytes)
            for part, names in numbered.items()
            for name, copy in zip(names, ready.copies[part], strict=True)
        )
        places = [state.store.staged.path(ready.staging, part.place) for part in staged]
        # Own rows that come later are later, also on a replica that has not carried this out.
        newest = max(held.commit_time, find_largest_commit_time(state, places))
        vector = bootstrap_vector(held, closed.vector, closed.own_origin)
        now = state.services.clock()
        entry = LogEntry(
            EntryType.REPLACE_RANGE,
            None,
            now,
            state.replica.name,
            rows=sum(part.rows for part in staged),
            size_bytes=sum(part.size_bytes for part in staged),
            drop_ranges=tuple(drop_range_name(p, number) for p, number in sorted(firsts.items())),
            replace_parts=staged,
            transaction=ready.staging,
            commit_time=newest if state.description.merge_mode.has_row_versions else 0,
            extra=((LINK_KEY, carried_document(make_marks(vector, int(now * 1000)))),),
        )
        ids = dict(rename_block_ids(held.block_ids, numbered)) if ready.moves_ids else {}
        return BatchPlan(held.position, vector, (), entry, (), None, ids, firsts)

    def _drop_ops(self, keeper: Keeper, firsts: Mapping[str, int]) -> list[Op]:
        """Returns the operations of the drops that make_batch_commit leaves to its caller."""
        state, lasts = self._state, dict[str, int]()
        for part in state.queue.copy_virtual_parts():
            lasts[part.partition_id] = max(part.max_block, lasts.get(part.partition_id, 0))
        ranges = [drop_range_name(partition_id, number) for partition_id, number in sorted(firsts.items())]
        return [
            *record_drop_ops(keeper, state.paths, lasts),
            *forget_dropped_parts_ops(keeper, state.paths, *ranges),
            *(op for group in list_quorum_ops(keeper, state.paths, ranges) for op in group),
        ]

    def _settle(
        self,
        keeper: Keeper,
        held: HeldTable,
        bar: Bar,
        locks: Mapping[str, Sequence[BlockLock]],
        error: KeeperConnectionLoss,
    ) -> None:
        """Finds whether a multi without an answer was carried out. Raises if not, or if that cannot be known."""
        table = self._state.paths
        try:
            for lock in chain.from_iterable(locks.values()):  # a multi that is still on its way fails then
                release_block_number_if_possible(keeper, lock)
            keeper.sync(table.root)
            (vector, _), gate = read_vector(keeper, table), Gate.parse(keeper.get(table.gate)[0])
            is_open = all(each.owner != bar.owner for each in gate.bars)
        except UnavailableError as unknown:
            raise UnknownOutcomeError(
                "UNFINISHED", f"It is not known whether the bootstrap was committed: {unknown}"
            ) from error
        if not (is_open and vector.covers(held.position)):
            raise ConflictError(
                "ABORTED", "The bootstrap was not committed: ZooKeeper went away; it begins anew"
            ) from error


def _fit(plan: BatchPlan, table: TablePaths, reads: TargetReads, along: Sequence[Op]) -> tuple[BatchCommit, int]:
    """Returns the commit with the newest ids for which the request has room, and how many are left out."""
    bare = make_batch_commit(replace(plan, block_ids={}), table, reads, along=along, limit_bytes=0)
    room = _LIMIT_BYTES - bare.size_bytes
    fitting: dict[str, PartName] = {}
    for block_id, part in plan.block_ids.items():
        room -= operation_bytes(Create(table.block(block_id), str(part).encode()))
        if room < 0:
            break
        fitting[block_id] = part
    fitted = replace(plan, block_ids=fitting)
    commit = make_batch_commit(fitted, table, reads, along=along, limit_bytes=_LIMIT_BYTES)
    return commit, len(plan.block_ids) - len(fitting)


def _require_expected(definition: LinkDefinition, origin: Origin) -> None:
    """Raises if a table that rejoins has copied a cluster that is not the source any more."""
    if REJOIN_KEY in dict(definition.extra) and definition.source_origin not in ("", str(origin)):
        raise UnavailableError(
            "ABORTED", f"The source of link {definition.name} changed while it was copied: the copy begins anew"
        )
