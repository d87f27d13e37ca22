"""``ReplicatedMergeTree``: this server's replica of one table.

The parts of it, each a module: :mod:`session` (getting and keeping the right to write), :mod:`insert`,
:mod:`queue_steps` (pull and execute the log), :mod:`fetcher`, :mod:`merge_steps`, :mod:`housekeeping`,
:mod:`part_checks`.

Invariants:
- ``activation`` is set exactly while the replica is writable; whoever changes the table's state in ZooKeeper does so
  inside :meth:`working`, so a new session begins only when nobody still acts for the old one.
- A part is active in the store only after ZooKeeper lists it, except parts of an INSERT with an unknown answer, which
  stay pre-active until the next session settles them.
- SELECT needs none of this: it reads the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coordination.active_keeper import ActiveKeeper
from coordination.insert_commit import InsertRequest
from coordination.keeper import Keeper, KeeperConnectionLoss, KeeperError, SessionState
from coordination.paths import ReplicaPaths, TablePaths
from coordination.queue import ReplicationQueue
from coordination.replica_activity import Activation
from coordination.sequential_reads import sequential_hidden_parts
from engine.background import wake_one
from engine.replication import Replication
from engine.tables.definition import TableDefinition
from engine.tables.insert_sink import InsertSink
from engine.tables.options import InsertOptions, OptimizeOptions
from engine.tables.replicated.failed_quorums import FailedQuorums
from engine.tables.replicated.fetcher import Fetcher
from engine.tables.replicated.housekeeping import Housekeeping
from engine.tables.replicated.insert import ReplicatedInsert
from engine.tables.replicated.lost_parts import LostParts
from engine.tables.replicated.merge_steps import MergeSteps
from engine.tables.replicated.part_checks import PartChecks
from engine.tables.replicated.queue_steps import QueueSteps
from engine.tables.replicated.session import ReplicaSession
from engine.tables.replicated.snapshot import FilteredSnapshot
from engine.tables.services import TableServices
from engine.tables.table import Table
from parts.errors import CorruptionError, UnavailableError, UserError
from parts.part_name import PartName
from parts.query_status import QueryStatus
from parts.reader import Part
from parts.store import Snapshot
from sql.ddl_engine import replica_location

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 30.0
_POLL_SECONDS = 0.01
_SETTLE_SECONDS = 2.0


class ReplicatedTable(Table):
    def __init__(self, definition: TableDefinition, services: TableServices, replication: Replication) -> None:
        super().__init__(definition, services)
        self.replication = replication
        location = replica_location(
            definition.create,
            macros=replication.macros,
            database=definition.database,
            table=definition.name,
            default_path=replication.default_path,
            default_name=replication.default_name,
        )
        self.paths = TablePaths(location.zookeeper_path)
        self.replica: ReplicaPaths = self.paths.replica(location.replica_name)
        self.queue = ReplicationQueue(self.replica.name, clock=services.clock)
        self.activation: Activation | None = None
        self.readonly_reason = "The table is starting"
        self.unknown_inserts: list[InsertRequest] = []
        self.is_paused = threading.Event()
        self._working = 0
        self._gate = threading.Condition()
        self.fetcher = Fetcher(self)
        self.session = ReplicaSession(self)
        self.queue_steps = QueueSteps(self)
        self.merge_steps = MergeSteps(self)
        self.housekeeping = Housekeeping(self)
        self.part_checks = PartChecks(self)
        self.lost_parts = LostParts(self)
        self.failed_quorums = FailedQuorums(self)
        self._session_task = self.make_task("ZooKeeper session", self.session.step)
        self._pull_task = self.make_task("pull log", self.queue_steps.pull_step)
        self._check_task = self.make_task("check parts", self.part_checks.step)
        self._clean_task = self.make_task("clean up log", self.housekeeping.step)
        self._select_task = self.make_task("select merges", self.merge_steps.select_step)
        self._execute_tasks = [
            self.make_task(f"execute queue {number}", self.queue_steps.execute_step)
            for number in range(self.queue_steps.slots)
        ]

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
        """With ZooKeeper there the table is writable when this returns, or ``readonly_reason`` says why not."""
        self.replication.register(self.replica.root, self)
        self.session.force_restore = self.replication.force_restore_all
        super().start()
        housekeeping, workers = self.services.housekeeping, self.services.workers
        first_pause = self.session.step()
        self.run_in_background(housekeeping, self._session_task, first_pause)
        for task in (self._pull_task, self._select_task, self.failed_quorums.task):
            self.run_in_background(housekeeping, task)
        for task in (self._check_task, *self._execute_tasks):
            self.run_in_background(workers, task)
        self.run_in_background(housekeeping, self._clean_task, self.description.settings.cleanup_delay_period)

    def stop(self) -> None:
        self.is_stopping.set()
        self.replication.unregister(self.replica.root)
        super().stop()
        self.session.leave()

    def check_can_drop(self) -> None:
        self.replication.require_keeper()

    def drop(self) -> None:
        """Takes the replica, and with the last one the table, out of ZooKeeper; then deletes the data."""
        self.session.drop_replica()
        super().drop()

    def restart(self) -> None:
        """SYSTEM RESTART REPLICA: as if the ZooKeeper session were new."""
        self.session.restart_requested.set()
        self._session_task.wake()

    # -- the right to write -------------------------------------------------------------------------------------

    @contextmanager
    def working(self) -> Iterator[tuple[Keeper, Activation]]:
        """Held while acting on the table's state, by a keeper that writes only while this replica is active.

        Raises 242 (TABLE_IS_READ_ONLY).
        """
        with self._gate:
            if self.activation is None or self.is_paused.is_set():
                raise self._readonly_error()
            activation = self.activation
            self._working += 1
        try:
            yield ActiveKeeper(self.replication.require_keeper(), activation, self.restart), activation
        finally:
            with self._gate:
                self._working -= 1
                self._gate.notify_all()

    @contextmanager
    def releasing_numbers(self) -> Iterator[None]:
        """Around what takes block numbers. When ZooKeeper goes away meanwhile, one may be left that nobody will use,
        and merges would wait for it as long as the session lives: the new start takes it back."""
        try:
            yield
        except (KeeperError, KeeperConnectionLoss):
            self.restart()
            raise

    def require_writable(self) -> Keeper:
        """The keeper. Raises 242 (TABLE_IS_READ_ONLY), 999 (KEEPER_EXCEPTION)."""
        if self.activation is None:
            raise self._readonly_error()
        return self.replication.require_keeper()

    def become_writable(self, activation: Activation) -> None:
        with self._gate:
            self.activation = activation
            self.readonly_reason = ""
            self.is_paused.clear()
        woken = (self._pull_task, self._check_task, self._select_task, self.failed_quorums.task, *self._execute_tasks)
        for task in woken:
            task.wake()

    def become_readonly(self, reason: str) -> bool:
        """Stops work for the old session; ``False`` when some of it is still going on: try again."""
        with self._gate:
            self.activation = None
            self.readonly_reason = reason
            self.is_paused.set()
            return self._gate.wait_for(lambda: self._working == 0, _PAUSE_SECONDS)

    def _readonly_error(self) -> UnavailableError:
        reason = self.problem() or "its ZooKeeper session is being renewed"
        return UnavailableError(
            "TABLE_IS_READ_ONLY", f"Table {self.definition.full_name} is in readonly mode: {reason}"
        )

    def is_cancelled(self) -> bool:
        return self.is_stopping.is_set() or self.is_paused.is_set()

    def on_session_change(self) -> None:
        self._session_task.wake()

    # -- reading and writing ------------------------------------------------------------------------------------

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        self.check_part_count()
        return ReplicatedInsert(self, options)

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot | FilteredSnapshot:
        if not sequential_consistency:
            return self.store.snapshot()
        keeper = self.require_writable()  # before, disk and ZooKeeper have not been compared
        snapshot = self._settled_snapshot(keeper)
        try:
            names = [part.name for part in snapshot.parts]
            hidden = sequential_hidden_parts(
                keeper,
                self.replica,
                lambda wanted: any(name.covers(wanted) for name in names),
            )
        except BaseException:
            snapshot.release()
            raise
        return FilteredSnapshot(snapshot, hidden)

    def _settled_snapshot(self, keeper: Keeper) -> Snapshot:
        """Shows every part that ZooKeeper lists for this replica. One that was committed there and is not active here
        yet may be what an acknowledged quorum counts, and stands in no queue any more. Raises 289 when it takes long.
        """
        deadline = self.services.monotonic() + _SETTLE_SECONDS
        while True:
            with self.store.lock:
                unsettled = [self.replica.part(str(part.name)) for part in self.store.preactive()]
                snapshot = self.store.snapshot()
            if not unsettled:
                return snapshot
            try:
                keeper.sync(self.paths.root)
                if not any(keeper.exists_many(unsettled)):
                    return snapshot
            except BaseException:
                snapshot.release()
                raise
            snapshot.release()
            if self.services.monotonic() >= deadline:
                raise UnavailableError(
                    "REPLICA_IS_NOT_IN_QUORUM",
                    f"Replica {self.replica.name} has not settled its last commits yet; read another replica or retry",
                )
            self.sleep(_POLL_SECONDS)

    def report_corruption(self, error: CorruptionError) -> None:
        name = PartName.try_parse(error.part or "")
        logger.error("table %s: %s", self.definition.full_name, error)
        if name is not None:
            self.check_part_soon(name)

    def check_part_soon(self, name: PartName) -> None:
        self.part_checks.add(name)
        self._check_task.wake()

    def lend_part(self, name: PartName) -> tuple[Snapshot, Path]:
        """Outdated parts too: another replica may still need them."""
        snapshot = self.store.hold([name])
        return snapshot, snapshot.parts[0].path

    def add_committed(self, part: Part, create_time: float) -> None:
        """After this replica's own INSERT: the part becomes visible and is known to the queue."""
        self.store.commit(part)
        self.queue.add_active(part.name)
        self.queue.note_processed_insert(create_time)

    def discard_preactive(self, name: PartName) -> None:
        """Removes a part that certainly was not committed, if it got as far as its name."""
        part = self.store.get_preactive(name)
        if part is not None:
            self.store.rollback(part)

    def remember_unknown(self, request: InsertRequest) -> None:
        self.unknown_inserts.append(request)
        self.restart()

    def next_free_block(self, partition_id: str) -> int:
        """Above every block number that is on disk here, so that a counter made anew cannot collide."""
        return self.store.next_block_number(partition_id)

    # -- merging, truncating, waiting ---------------------------------------------------------------------------

    def optimize(self, options: OptimizeOptions) -> None:
        self.merge_steps.optimize(options)

    def truncate(self, status: QueryStatus | None = None) -> None:
        self.merge_steps.truncate(status)

    def allow(self, action: str, allowed: bool) -> None:
        if action == "fetches":
            self.queue_steps.are_fetches_allowed = allowed
        else:
            self.queue_steps.are_merges_allowed = self.merge_steps.are_allowed = allowed
        self.wake_execution()

    def on_log_change(self, _: str) -> None:
        """A watch: only wakes. Many small INSERTs are pulled together, because each pull is a write to ZooKeeper."""
        self._pull_task.wake(self.queue_steps.seconds_until_pull())

    def wake_cleaning(self, delay_seconds: float) -> None:
        self._clean_task.wake(delay_seconds)

    def wake_execution(self) -> None:
        """One is enough: a step that finds something to do wakes the next."""
        wake_one(self._execute_tasks)

    def wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float, what: str, status: QueryStatus | None = None
    ) -> None:
        """Polls ``condition()`` while background work goes on. Raises 159 (TIMEOUT_EXCEEDED), 236 when stopping, and
        what ``status`` raises."""
        deadline = self.services.monotonic() + timeout_seconds
        while not condition():
            self.sleep(_POLL_SECONDS)
            if status is not None:
                status.check()
            if self.is_stopping.is_set():
                raise UnavailableError("ABORTED", f"Table {self.definition.full_name} is being stopped")
            if self.services.monotonic() > deadline:
                raise UnavailableError("TIMEOUT_EXCEEDED", f"Timeout of {timeout_seconds:g} s while waiting for {what}")

    def sync(self, timeout_seconds: float, status: QueryStatus | None = None) -> None:
        """SYSTEM SYNC REPLICA: returns when everything in the log now has been carried out here."""
        self.queue_steps.sync(timeout_seconds, status or QueryStatus())

    # -- status -------------------------------------------------------------------------------------------------

    def absolute_delay_seconds(self) -> float:
        return float(self.queue.absolute_delay(self.services.clock()))

    def problem(self) -> str | None:
        """What keeps the replica from working, for ``/replicas_status``; ``None`` when nothing does."""
        if self.is_session_expired:
            return "there is no connection to ZooKeeper" if self.replication.keeper else self.readonly_reason
        return self.readonly_reason or None

    @property
    def is_session_expired(self) -> bool:
        """True too while the connection is lost: whether the session lives on is not known then."""
        keeper = self.replication.keeper
        return keeper is None or keeper.state is not SessionState.CONNECTED

    def delete_outdated(self, parts: Sequence[Part]) -> None:
        """Takes the parts out of ZooKeeper first, then off the disk; a crash in between leaves only disk space."""
        self.housekeeping.delete_outdated(parts)
