"""The target of links at one replica: what the server that runs a link does to its table.

A batch is applied in four steps:

1. The schema is looked at (``batch_schema``).
2. The blocks are staged here (``batch_staging``).
3. One multi commits everything (``batch_commit``).
4. The log is pulled. Every replica carries the entry out as one exchange (``follow.replace_range``).

Invariants:

- One batch is applied at a time by this replica. Other servers may try the same batch: the vector's version decides.
- After any error the call may be repeated. What was committed is told by the vector alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Protocol

from coordination.drops.drop_partition import LastBlocks
from coordination.keeper.interface import BadVersion, Create, Keeper, MultiFailed, NodeExists, NoNode, Op, SetData, Stat
from coordination.links.batches.batch_plan import Target
from coordination.links.batches.repartition import find_command, is_aligned, repartition
from coordination.links.groups.told_cut import ToldCut
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Origin
from coordination.links.stream.stable_times import raise_marks
from coordination.links.switching.lineage import Lineage
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.table_lists import missing_metadata_error
from engine.tables.capabilities.incoming_blocks import RefetchBlock
from engine.tables.capabilities.table_links import (
    AppliedBatch,
    GroupCut,
    IncomingBatch,
    LinkTarget,
    SourceTable,
    TargetState,
)
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.links.applied_batch import add_applied, describe_applied
from engine.tables.replicated.links.batch_commit import NO_VECTOR, BatchCommitter, StagedBatch, check_link
from engine.tables.replicated.links.batch_progress import BatchProgress, BatchVisibility
from engine.tables.replicated.links.batch_schema import choose_block_writer, explain_uncovered, refuse_command
from engine.tables.replicated.links.batch_split import split_batch
from engine.tables.replicated.links.batch_staging import BatchStaging, StagedBlocks
from engine.tables.replicated.links.batch_views import stage_views
from engine.tables.replicated.links.carried_definitions import CarriedDefinitions
from engine.tables.replicated.links.groups.cut_commit import CutTable, apply_cut
from engine.tables.replicated.links.groups.shown_teller import wait_until_shown
from engine.tables.replicated.links.incoming_commands import limit_commands
from engine.tables.replicated.links.lost_batch_parts import LostBatchParts
from engine.tables.replicated.links.row_versions import find_largest_commit_time
from engine.tables.replicated.links.staged_copies import StagedCopies
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_Node = tuple[bytes, Stat] | None


class LogFollower(Protocol):
    """Reads the table's log into this replica's queue, and waits for the queue."""

    def pull(self, keeper: Keeper) -> None:
        """Moves everything that is in the log now into the queue."""

    def last_blocks(self, keeper: Keeper) -> LastBlocks:
        """Returns a function that finds the last blocks in dropped ranges."""


class ReplicaLinkTarget:
    """Implements ``engine.tables.capabilities.table_links.LinkTarget``."""

    def __init__(
        self,
        state: ReplicaState,
        log: LogFollower,
        definitions: Callable[[], DefinitionChanges],
        wake_execution: Callable[[], None],
        copies: StagedCopies,
    ) -> None:
        self._state = state
        self._copies = copies
        self._log = log
        self._definitions = definitions
        self._wake_execution = wake_execution
        self._staging = BatchStaging(state, log.pull, copies.list_kept)
        self.committer = BatchCommitter(state, log.last_blocks, self._read)
        self._carried_definitions = CarriedDefinitions(state, definitions)
        self._applying = threading.Lock()
        self._progress = BatchProgress(state.paths)
        self._looking = threading.Lock()
        self.lost = LostBatchParts(state)
        self._marks: Mapping[Origin, int] = {}

    # -- the vector -------------------------------------------------------------------------------------------------

    def read_target(self) -> TargetState:
        """Returns the table's vector and identity, behind everything committed before the call."""
        with self._state.hold_write_access() as (keeper, _):
            return self._read(keeper)

    def read_targets(self, others: Sequence[LinkTarget]) -> list[TargetState]:
        """Returns the states of this table and of others in the same ZooKeeper, read at once."""
        tables = [self]
        for other in others:
            assert isinstance(other, ReplicaLinkTarget)
            tables.append(other)
        paths = [path for each in tables for path in each._list_state_nodes()]
        with self._state.hold_write_access() as (keeper, _):
            keeper.sync(self._state.paths.root)
            nodes = iter(keeper.get_many(paths))
        return [each._make_state(*islice(nodes, 3)) for each in tables]

    def _list_state_nodes(self) -> list[str]:
        table = self._state.paths
        return [table.root, table.gate, table.linked.vector]

    def _read(self, keeper: Keeper) -> TargetState:
        keeper.sync(self._state.paths.root)
        return self._make_state(*keeper.get_many(self._list_state_nodes()))

    def _make_state(self, root: _Node, gate: _Node, vector: _Node) -> TargetState:
        if root is None:
            raise missing_metadata_error(self._state.paths)
        if gate is None:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Table {self._state.definition.full_name} cannot be linked yet: some replica runs a version that does "
                "not know links",
            )
        found = Gate.parse(gate[0])
        own = Origin.parse(f"{self._state.replication.get_cluster_uuid()}.{root[1].created_zxid}.{found.epoch}")
        if vector is None:
            return TargetState(VersionVector(), NO_VECTOR, own)
        forks = Lineage.read(found).list_ends()
        return TargetState(VersionVector.parse(vector[0]), vector[1].version, own, forks)

    def begin_link(self, link: LinkDefinition, vector: VersionVector) -> bool:
        """Gives a link its place: the origins of ``vector`` that the table does not know begin where it says.

        In the same multi the definition of the link, if ZooKeeper has it, says that the link has begun.
        Returns false if the vector moved meanwhile.
        """
        table = self._state.paths
        with self._state.hold_write_access() as (keeper, _):
            now = self._read(keeper)
            others = VersionVector({o: entry for o, entry in vector.entries.items() if o != now.own})
            begun = now.vector.begin_with(others).to_bytes()
            is_new = now.vector_version == NO_VECTOR
            ops: list[Op] = [
                Create(table.linked.vector, begun)
                if is_new
                else SetData(table.linked.vector, begun, now.vector_version),
                *self._mark_begun(keeper, link),
                *check_link(self._state, keeper, link),
            ]
            try:
                keeper.multi(ops)
            except MultiFailed as error:
                has_changed = isinstance(error.cause, BadVersion | NodeExists | NoNode)
                if not self._state.gate.has_moved(keeper, error) and not has_changed:
                    raise error.cause from error
                return False
        return True

    def _mark_begun(self, keeper: Keeper, link: LinkDefinition) -> list[Op]:
        path = self._state.paths.linked.incoming_link(link.name)
        (answer,) = keeper.get_many([path])
        found = LinkDefinition.parse(answer[0]) if answer is not None else None
        if answer is None or found is None or found.uuid != link.uuid or found.was_asked_to_copy(link):
            return []
        begun = replace(found, is_begun=True, source_origin=link.source_origin or found.source_origin)
        return [SetData(path, begun.to_bytes(), answer[1].version)]

    # -- batches ----------------------------------------------------------------------------------------------------

    def apply_batch(self, batch: IncomingBatch, status: QueryStatus) -> AppliedBatch:
        """Stages the blocks and commits the batch, at once or not at all. May be repeated after any error.

        Raises :class:`UncoveredSchema`, ``GateBarred``, and whatever staging and ZooKeeper raise.
        """
        with self._applying:
            if batch.state.vector_version == NO_VECTOR:
                return AppliedBatch(is_applied=False)  # the link was never begun, or the vector is gone
            done = AppliedBatch(is_applied=True)
            for part in split_batch(limit_commands(self._state, batch)):
                self._carried_definitions.follow(part, status)
                applied = self._state.pass_gate(CommitKind.LINK, partial(self._apply, part, status), status)
                if not applied.is_applied:
                    return applied
                done = add_applied(done, applied)
            return done

    def _apply(self, batch: IncomingBatch, status: QueryStatus) -> AppliedBatch:
        state, version = self._state, self._state.description.metadata_version
        writer, origin = choose_block_writer(state, batch), state.gate.own_origin
        self.lost.note_source(batch.link.name, batch.source)
        with self._staging.open(batch) as name:
            pieces = self._staging.stage(batch, name, writer, status)
            state.services.failpoint("link.after_stage")
            self._spread(batch, name, pieces)
            ready = replace(self._make_ready(batch, name, pieces, version), origin=origin)
            with stage_views(state, batch, name, pieces, status) as views:
                self._staging.forget(name)
                with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
                    ready = replace(ready, views=views)
                    plan = self.committer.commit(keeper, ready, self._definitions().columns_version)
                    state.services.failpoint("link.after_commit")
                    if plan is None:
                        state.store.staged.remove(name)
                        return AppliedBatch(is_applied=False)
                    keeper.sync(state.paths.log)
                    self._log.pull(keeper)
                if views is not None:
                    views.carry_out()
        self._wake_execution()
        return describe_applied([plan])

    def apply_cut(
        self,
        batch: IncomingBatch,
        others: Sequence[tuple[LinkTarget, IncomingBatch]],
        cut: GroupCut,
        status: QueryStatus,
    ) -> AppliedBatch:
        """Applies the batches of all tables of a group in one multi, or none. May be repeated after any error."""
        tables: list[tuple[CutTable, IncomingBatch]] = [(self, batch)]
        for target, other in others:
            assert isinstance(target, ReplicaLinkTarget)
            tables.append((target, other))
        return apply_cut(tables, cut, status)

    @property
    def state(self) -> ReplicaState:
        """The replica's state."""
        return self._state

    @contextmanager
    def stage_cut(self, batch: IncomingBatch, status: QueryStatus) -> Iterator[StagedBatch]:
        """Stages the batch of a group's cut; it stays staged while the block runs."""
        state, version = self._state, self._state.description.metadata_version
        with self._applying:
            writer, origin = choose_block_writer(state, batch), state.gate.own_origin
            self.lost.note_source(batch.link.name, batch.source)
            with self._staging.open(batch) as name:
                pieces = self._staging.stage(batch, name, writer, status)
                self._spread(batch, name, pieces)
                yield replace(self._make_ready(batch, name, pieces, version), origin=origin)

    def forget_staging(self, name: str) -> None:
        """Nobody stages under this name again: the commit of a cut is tried."""
        self._staging.forget(name)

    def read_columns_version(self, keeper: Keeper) -> int | None:
        """Returns the version of the node of columns; ``None`` if this replica has other ones."""
        return self._definitions().columns_version(keeper)

    def follow_cut(self, keeper: Keeper) -> None:
        """Takes what this session committed into the queue."""
        self._log.pull(keeper)
        self._wake_execution()

    def _spread(self, batch: IncomingBatch, name: str, pieces: StagedBlocks) -> None:
        """Makes siblings stage the parts too, so that ``link_quorum`` replicas have them before the commit."""
        parts = [part for parts in pieces.values() for part in parts]
        if copies := LinkSettings.parse(batch.link.settings).link_quorum - 1:
            with self._state.hold_write_access() as (keeper, _):
                self._copies.spread(keeper, name, parts, copies)

    def _make_ready(self, batch: IncomingBatch, name: str, pieces: StagedBlocks, version: int) -> StagedBatch:
        """Returns the batch with its staged parts. Raises ``UncoveredSchema`` for commands on other partitions."""
        state, settings = self._state, batch.link.settings
        sets_ids = not settings.get("two_way", False) and bool(settings.get("preserve_timestamps", True))
        if is_aligned(pieces):
            staged = {key: parts[0] for key, parts in pieces.items()}
        elif find_command(batch.changes) is not None:
            raise refuse_command(state.definition.full_name, batch)
        else:
            changes, staged = repartition(batch.changes, pieces)
            batch, sets_ids = replace(batch, changes=changes), False
        places = [state.store.staged.path(name, part.place) for part in staged.values()]
        newest = find_largest_commit_time(state, places)
        target = Target(state.replica.name, state.services.clock(), name, staged, newest)
        return StagedBatch(batch, target, sets_ids, version)

    def clean_up(self, keeper: Keeper) -> bool:
        """Removes staged parts and lists that no batch needs. Returns whether there may be more to do soon."""
        gate = self._state.gate.gate
        if gate is None or not gate.periods:  # it never had links, and costs no request
            return self._staging.clean_up(keeper)
        links = [link.uuid for link in gate.links_of(LinkDirection.IN)]
        return self._staging.clean_up(keeper, links) | self.committer.lists.clean_up(keeper, links)

    def take_marks(self, times: Mapping[Origin, int]) -> None:
        """Notes that the table has every row of these origins up to these commit times."""
        if not self._state.description.merge_mode.has_row_versions:
            return
        if any(self._marks.get(origin, 0) < time for origin, time in times.items()):
            with self._state.hold_write_access() as (keeper, _):
                self._marks = raise_marks(keeper, self._state.paths, times).times

    def finish_lists(self, link_uuid: str) -> None:
        """Finishes what the last large batch of a link left to be done after its commit."""
        with self._state.hold_write_access() as (keeper, _):
            self.committer.lists.settle(keeper, link_uuid)

    # -- progress ---------------------------------------------------------------------------------------------------

    def find_trim_position(self, source: Origin, copies: int) -> int:
        """Returns the zxid of the source up to which ``copies`` replicas have everything active.

        If there are fewer replicas, all must have it.
        """
        with self._looking, self._state.hold_write_access() as (keeper, _):
            return self._progress.find_confirmed(keeper, copies).applied(source)

    def wait_until_visible(
        self, timeout_seconds: float, status: QueryStatus, *, is_own_replica_enough: bool = False
    ) -> None:
        """Waits until what is committed now is visible on all active replicas, or on this one.

        Raises 159 (TIMEOUT_EXCEEDED).
        """
        visibility = BatchVisibility(self._state, is_own_replica_enough=is_own_replica_enough)
        visibility.wait(timeout_seconds, status)

    def wait_until_shown(self, wanted: ToldCut, timeout_seconds: float, status: QueryStatus) -> Sequence[str]:
        """Waits until all active replicas tell that they show a cut of a group, or the table alone.

        Returns those that do not when the time is over.
        """
        return wait_until_shown(self._state, wanted, timeout_seconds, status)

    def list_behind(self) -> Sequence[str]:
        """Lists the active replicas that have not carried out yet what is committed now."""
        return BatchVisibility(self._state).list_behind()

    def explain_uncovered(self, source: SourceTable, settings: Mapping[str, object]) -> Collection[str]:
        """Says why the table cannot take the source's rows: one sentence a reason, none if it can."""
        return explain_uncovered(self._state, source, settings)

    def set_refetch(self, link: str, refetch: RefetchBlock | None) -> None:
        """Sets how a part of this link's batches is asked for again; ``None`` takes it back."""
        self.lost.set_refetch(link, refetch)
