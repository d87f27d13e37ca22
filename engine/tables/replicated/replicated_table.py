"""``ReplicatedMergeTree``: this server's replica of one table.

Its work is done by the modules of this folder, which share ``replica_state`` and do not know the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from coordination.keeper.interface import Keeper
from coordination.reads.scan_records import KeeperScanRecords
from engine.interserver.replication import Replication
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.capabilities.scan_records import ScanRecords
from engine.tables.insert_delay import delay_insert
from engine.tables.parts_table import PartsTable
from engine.tables.replicated.block_history import ReplicatedBlockHistory
from engine.tables.replicated.decide.merge_selection import MergeSelector
from engine.tables.replicated.decide.replicated_mutations import ReplicatedMutations
from engine.tables.replicated.decide.replicated_partitions import ReplicatedPartitions
from engine.tables.replicated.follow.cloned_parts import ClonedParts
from engine.tables.replicated.follow.log_pull import LogPull
from engine.tables.replicated.follow.mutate_part import MutatePartExecutor
from engine.tables.replicated.follow.part_fetcher import PartFetcher
from engine.tables.replicated.follow.queue_execution import QueueExecutor
from engine.tables.replicated.follow.replace_range import ReplaceRangeExecutor
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.life.gate_control import GateControl
from engine.tables.replicated.life.log_cleanup import LogCleanup
from engine.tables.replicated.life.replica_session import ReplicaSession
from engine.tables.replicated.links.groups.group_member import GroupMember
from engine.tables.replicated.links.groups.held_view import HeldView
from engine.tables.replicated.links.groups.scan_cut import take_cut_of_scan
from engine.tables.replicated.links.replica_links import ReplicaLinks
from engine.tables.replicated.repair.failed_quorums import FailedQuorums
from engine.tables.replicated.repair.lost_parts import LostParts
from engine.tables.replicated.repair.lost_transactions import LostTransactions
from engine.tables.replicated.repair.part_checks import PartChecks
from engine.tables.replicated.repair.restore_replica import ReplicaRestore
from engine.tables.replicated.replica_control import ReplicaControl
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.sequential_snapshot import FilteredSnapshot, take_sequential_snapshot
from engine.tables.replicated.served_parts import ServedParts
from engine.tables.replicated.write.fetch_partition import PartitionFetcher
from engine.tables.replicated.write.missing_block_views import ReplicatedBlockViews
from engine.tables.replicated.write.replicated_insert import ReplicatedInsert
from engine.tables.replicated.write.replicated_transactions import ReplicatedTransactions
from engine.tables.services import TableServices
from engine.tables.shown_groups.shown_group import ShownGroup
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CorruptionError, PandoError, UserError
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from sql.definitions.engines.replica_location import expand_table_macros
from sql.grammar.clause_types import TableRef
from sql.grammar.statements.statement import CreateTable
from sql.relations import PartsSnapshot

logger = logging.getLogger(__name__)

_FIRST_LOOK_SECONDS = 1.0
"""A task that is not yet in the background is not woken: what changed meanwhile is found then."""
_WOKEN_SECONDS = 60.0
"""For tasks that are woken when the table is writable."""


class ReplicatedTable(PartsTable):
    """One replica: ``replication`` controls it, and other servers fetch from ``served_parts``."""

    replication: ReplicaControl
    partitions: ReplicatedPartitions
    mutations: ReplicatedMutations
    transactions: ReplicatedTransactions
    blocks: ReplicatedBlockHistory
    links: ReplicaLinks

    def __init__(self, definition: TableDefinition, services: TableServices, replication: Replication) -> None:
        super().__init__(definition, services)
        state = ReplicaState(
            definition, services, self.store, self.is_stopping, self.stopped, replication, self._restart
        )
        self.state = state
        self._told_refusal = ""
        self.checked_store = self.store
        self.log_pull = LogPull(state, self.wake_execution, self._note_logged)
        fetcher = PartFetcher(state)
        self.blocks = ReplicatedBlockHistory(state, self.log_pull.pull, self.wake_execution)
        self.part_checks = PartChecks(state, fetcher.fetch)
        self.links = ReplicaLinks(state, self.log_pull, fetcher, lambda: self.definitions, self.wake_execution)
        keeping = self.links.keeping
        self.failed_quorums = FailedQuorums(state, self.log_pull.pull, keeping.read_failures)
        give_up = LostParts(state, self.log_pull.pull).give_up
        exchanges = ReplaceRangeExecutor(state, fetcher, LostTransactions(state, self.log_pull.pull))
        mutated_parts = MutatePartExecutor(
            state, lambda database, name: self.home.find(database, name), lambda: self.mutations.note_made()
        )
        self.queue_steps = QueueExecutor(
            state, fetcher, exchanges, mutated_parts, ClonedParts(self.store), give_up,
            self.part_checks.report_corruption,
        )  # fmt: skip
        self.definitions = DefinitionChanges(
            state, lambda create: self.home.define(self.definition.database, create),
            lambda change: self.home.change_definition(self, change), self.wake_execution, self.log_pull.sync,
        )  # fmt: skip
        self.definitions.keep_for_links = keeping.read_definitions
        self.group = GroupMember(
            state, services.shown_groups, self.log_pull.pull, self.wake_execution,
            lambda: self.gate_control.task.wake(),
        )  # fmt: skip
        exchanges.cuts = self.group
        self.gate_control = GateControl(state, keeping.follow_gate, self.group.follow_gate, tell=self.group.teller.step)
        pull, last_blocks = self.log_pull.pull, self.log_pull.last_blocks
        self.transactions = ReplicatedTransactions(state, pull, last_blocks, self.wake_execution)
        self.join_transaction = self.transactions.join
        exchanges.refetch = self.links.target.lost.refetch_part
        self.housekeeping = LogCleanup(state, self._clean_staged, self.links.blocks.keep_before_deletion)
        self.merge_steps = MergeSelector(state, self.log_pull, self.queue_steps.slots, self.wake_execution)
        state.queue.on_ready, state.queue.on_finish = self.wake_execution, self._note_finished
        self.mutations = ReplicatedMutations(state, self.log_pull, self.definitions, mutated_parts, self.wake_execution)
        self._block_views = ReplicatedBlockViews(state)
        self.partitions = ReplicatedPartitions(
            state, self.log_pull, self.transactions,
            PartitionFetcher(self.store, services, self.is_stopping, fetcher), self.mutations.drop,
        )  # fmt: skip
        restore = ReplicaRestore(state, self.definitions, self._restart)
        self.session = ReplicaSession(
            state, self.definitions, restore, self.failed_quorums.take_back,
            self.transactions.check_disk, self.log_pull.begin, self._on_writable, keeping,
            self.group.begin_activation,
        )  # fmt: skip
        self.replication = ReplicaControl(
            state, self.log_pull, self.definitions, self.gate_control, self.housekeeping, self.part_checks, restore,
            self.mutations,
        )  # fmt: skip
        self.served_parts = ServedParts(
            state, self.links.open_here, self.links.copies.take, self.report_corruption, self.session.task.wake,
            self._on_session_change,
        )  # fmt: skip

    # -- life ---------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """CREATE TABLE: makes the table or the replica in ZooKeeper. Raises 253, 342, 225, 999."""
        self.session.create()

    def load_parts(self) -> None:
        """Too many broken parts leave the table read-only with the reason, until force_restore_data is given."""
        try:
            super().load_parts()
        except UserError as refusal:
            self.session.broken_parts = refusal

    def start(self) -> None:
        """Makes the table writable, or sets ``readonly_reason``; in the background at the start of a server."""
        shared = self.state.replication
        shared.register(self.state.replica.root, self.served_parts)
        self.session.force_restore = shared.force_restore_all
        super().start()
        housekeeping = self.services.housekeeping
        idle = _WOKEN_SECONDS if shared.are_sessions_begun_later else 0.0
        first_pause = idle or min(self.session.step(), _FIRST_LOOK_SECONDS)
        satellites = (self.log_pull, self.merge_steps, self.failed_quorums, self.definitions, self.mutations)
        for satellite in (*satellites, self.gate_control, self.links.bootstrap, self.links.marks):
            self.run_in_background(housekeeping, satellite.task, idle)
        for task in (self.part_checks.task, self.links.blocks.task, *self.queue_steps.tasks):
            self.run_in_background(self.services.workers, task, idle)
        self.run_in_background(housekeeping, self.housekeeping.task, self.housekeeping.first_pause())
        self.run_in_background(housekeeping, self.session.task, first_pause)

    def stop(self) -> None:
        self.is_stopping.set()
        self.state.replication.unregister(self.state.replica.root)
        super().stop()
        self.session.leave()
        self.links.keeping.close()
        self.group.leave()

    def check_can_drop(self) -> None:
        self.replication.require_keeper()

    def leave_replicas(self) -> None:
        """Takes the replica, and with the last one the table, out of ZooKeeper."""
        self.session.drop_replica()

    def undo_create(self) -> None:
        """Removes what a failed CREATE has made; without ZooKeeper the replica's nodes stay."""
        with suppress(PandoError):
            self.session.undo_create()
        super().undo_create()

    def renamed(self, new: TableRef) -> CreateTable:
        """Returns the definition under another name; the place in ZooKeeper stays as it was."""
        create = expand_table_macros(
            self.definition.create,
            database=self.definition.database,
            table=self.definition.name,
            default_path=self.state.replication.default_path,
            default_name=self.state.replication.default_name,
        )
        return replace(create, table=new)

    def take_name(self, definition: TableDefinition) -> None:
        super().take_name(definition)
        self.state.definition = definition

    @contextmanager
    def altering(self, new: TableDefinition) -> Iterator[None]:
        """Takes a definition that ZooKeeper has already decided, without looking whether rows convert."""
        with self.store.lock:
            yield
            self.set_definition(new)
        self.state.definition = new
        self.merge_steps.note_change()

    def is_cancelled(self) -> bool:
        return self.state.is_cancelled()

    def _restart(self) -> None:
        """Begins the session anew, as if that of ZooKeeper were new."""
        self.session.request_restart()

    def _on_session_change(self) -> None:
        """Everything looks again: what it waits for may have come while there was no connection."""
        self.session.task.wake()
        self._wake_all()

    def _wake_all(self) -> None:
        satellites = (self.log_pull, self.part_checks, self.failed_quorums, self.definitions, self.mutations)
        for task in (*(each.task for each in satellites), self.gate_control.task, *self.queue_steps.tasks):
            task.wake()
        self.merge_steps.note_change()

    def _clean_staged(self, keeper: Keeper) -> bool:
        """Tells whether there may be more to do soon."""
        return self.transactions.clean_up(keeper) | self.links.target.clean_up(keeper)

    def _note_logged(self, entries: int) -> None:
        """A pull has brought so many."""
        self.housekeeping.count_logged_entries(entries)
        self.merge_steps.note_change()

    def _note_finished(self) -> None:
        """An entry has left the queue."""
        self.merge_steps.note_change()
        self.links.blocks.note_finished()

    def _on_writable(self) -> None:
        """Also in the session of before: what was known of its mutations is forgotten."""
        self.mutations.note_news()
        self._wake_all()

    def wake_execution(self) -> None:
        self.queue_steps.wake()

    # -- reading and writing ------------------------------------------------------------------------------------

    def begin_insert(self, options: InsertOptions) -> ReplicatedInsert:
        delay_insert(self, options)
        if options.transaction:
            self.housekeeping.note_work()  # of what is staged the log does not tell
        return ReplicatedInsert(self.state, options, self.transactions.stage)

    @property
    def block_memory(self) -> BlockMemory:
        return self._block_views

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot | FilteredSnapshot:
        self._tell_of_refusal()
        if self.group.group is not None:
            return self._take_cut(self.group.group, sequential_consistency=sequential_consistency)
        return take_sequential_snapshot(self.state) if sequential_consistency else self.store.snapshot()

    def snapshot_of_cut(self, scan: str) -> PartsSnapshot:
        if self.group.group is None:  # it has just left
            return self.snapshot()
        return take_cut_of_scan(self, self.group.group, self.replication.require_keeper(), scan)

    def settled_snapshot(self) -> tuple[PartsSnapshot, bool]:
        return super().settled_snapshot() if self.group.group is not None else self.blocks.settled_snapshot()

    def _take_cut(self, group: ShownGroup, *, sequential_consistency: bool) -> Snapshot:
        """Returns the table as its group of links shows it."""
        if sequential_consistency:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Table {self.definition.full_name} is in the group {group.name} of links and is read at its last cut: "
                "select_sequential_consistency is not possible. link_read_cut waits for a cut",
            )
        with HeldView(group, group.take(self.definition.full_name)) as view:
            return view.snapshot(self)

    @property
    def link_group(self) -> str:
        """The transactional group of links that the table is in; "" for none."""
        return self.group.group.name if self.group.group is not None else ""

    def _tell_of_refusal(self) -> None:
        """Once, by the first SELECT."""
        if self.state.refusal != self._told_refusal:
            self._told_refusal = self.state.refusal
            if self._told_refusal:
                name = self.definition.full_name
                logger.warning("a SELECT reads table %s, which may lack rows: %s", name, self._told_refusal)

    def scan_records(self, *, is_alone: bool) -> ScanRecords:
        """Raises 225 when there is no ZooKeeper to agree in."""
        if is_alone:
            return super().scan_records(is_alone=True)
        return KeeperScanRecords(self.replication.require_keeper(), self.state.paths)

    def report_corruption(self, error: CorruptionError) -> None:
        self.part_checks.report_corruption(error)

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        """Takes the parts out of ZooKeeper, then off the disk."""
        self.housekeeping.delete_outdated(parts)

    # -- merging, waiting ---------------------------------------------------------------------------------------

    def optimize(self, options: OptimizeOptions) -> None:
        self.merge_steps.optimize(options)

    def truncate(self, status: QueryStatus | None = None) -> None:
        self.partitions.drop(None, status=status)

    def stopped_changed(self) -> None:
        self._wake_all()
