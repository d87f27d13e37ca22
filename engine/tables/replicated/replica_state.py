"""The state that the components of one replica share, and its right to write.

Invariants:

- ``activation`` is set exactly while the replica is writable. Changes of the table's state in ZooKeeper happen inside
  :meth:`hold_write_access`, so a new session begins only when nothing acts for the old one.
- A part is active in the store only after ZooKeeper lists it. Parts of an INSERT of unknown outcome stay pre-active
  until the next session settles them.
- SELECT needs none of this: it reads the store.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from coordination.inserts.insert_commit import InsertRequest
from coordination.inserts.partition_nodes import PartitionNode
from coordination.keeper.interface import Keeper, KeeperError, SessionState
from coordination.links.stream.commit_times import CommitTimes
from coordination.links.stream.stable_times import StableTime
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.mutation_nodes import KnownMutations
from coordination.nodes.active_keeper import ActiveKeeper
from coordination.nodes.gate import CommitKind, GateBarred, format_epoch
from coordination.nodes.part_record import PartRecord
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.nodes.replica_activation import Activation
from coordination.nodes.table_gate import TableGate
from engine.interserver.replication import Replication
from engine.server.background_pool import BackgroundTask
from engine.tables.replicated.pull_rest import PullRest
from engine.tables.services import TableServices
from engine.tables.stopped_actions import StoppedActions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.format.durable_files import replace_file_durably
from parts.format.hashed_file import make_directories
from parts.read.part_reader import Part
from parts.store.part_states import PartState
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription
from recovery.startup_plan import PartOnDisk
from sql.definitions.engines.replica_location import find_replica_location

Result = TypeVar("Result")

_PAUSE_SECONDS = 30.0
_POLL_SECONDS = 0.01
_BEGIN_SECONDS = 10.0
_GATE_SECONDS = 30.0
"""How long a commit waits for a bar that does not refuse it at once."""
_GATE_PAUSES = (0.05, 1.0)
_OF_CLIENTS = (CommitKind.ROWS, CommitKind.OTHER, CommitKind.COMMAND)
"""The first and the longest pause between its attempts."""
INSERTED_STAGING_PREFIX = "inserted-"
"""Staged parts of INSERTs whose rows get their version when the transaction is carried out."""
DETACHED_STAGING_PREFIX = "detached-"
"""The prefix of places of staged parts that another replica may have in ``detached/``."""
BOOTSTRAP_STAGING_PREFIX = "bootstrap-"
"""The prefix of the directories below ``staged/`` that hold the copies of a bootstrap."""
LINK_STAGING_PREFIX = "link-"
"""The prefix of the directories below ``staged/`` that hold the parts of a link's batch."""
ATTEMPTS_BEFORE_LOSS_CHECK = 7
"""How many attempts of an entry must fail before its part may be lost.

They take about 13 seconds; then all replicas are asked.
"""


class ReplicaState:
    """The state of one replica. ``restart`` requests a new start of its session and returns at once."""

    def __init__(
        self,
        definition: TableDefinition,
        services: TableServices,
        store: PartStore,
        is_stopping: threading.Event,
        stopped: StoppedActions,
        replication: Replication,
        restart: Callable[[], None],
    ) -> None:
        self.definition = definition
        self.services = services
        self.store = store
        self.is_stopping = is_stopping
        self.stopped = stopped
        self.restart = restart
        location = find_replica_location(
            definition.create,
            macros=replication.macros,
            database=definition.database,
            table=definition.name,
            default_path=replication.default_path,
            default_name=replication.default_name,
        )
        self.replication = replication.connect_to(location.zookeeper_name)
        self.paths = TablePaths(location.zookeeper_path)
        self.replica: ReplicaPaths = self.paths.replica(location.replica_name)
        self.queue = ReplicationQueue(self.replica.name, services.clock, services.monotonic)
        self.mutations = KnownMutations(self.paths)
        self.gate = TableGate(self.paths)
        self.pull_rest = PullRest()
        self.commit_times = CommitTimes(self.paths)
        self.stable_time = StableTime()
        self.partition_nodes: dict[str, PartitionNode] = {}
        """The last seen nodes of partitions whose nodes have other names than the partitions."""
        self.activation: Activation | None = None
        self.readonly_reason = "The table is starting"
        self.refusal = ""
        """The reason why the last session start was refused, if an operator must act; else empty."""
        self.has_begun = threading.Event()
        """Set by the session's first step: the replica is writable, or the reason why not is known."""
        self.hurry: Callable[[], None] = lambda: None
        """Makes that step run before those of other tables."""
        self.has_started = False
        """Whether the replica has been writable, so that its queue holds what it lacks."""
        self.unknown_inserts: list[InsertRequest] = []
        self.is_paused = threading.Event()
        self._working = 0
        self._writers = threading.Condition()

    @property
    def description(self) -> TableDescription:
        """The compiled definition of the table."""
        return self.definition.description

    def make_task(self, name: str, step: Callable[[], float]) -> BackgroundTask:
        """Makes a task that runs once the table has started; waking it before does nothing."""
        return BackgroundTask(f"{self.definition.full_name}: {name}", step)

    def parts_on_disk(self) -> dict[PartName, PartOnDisk]:
        """Returns every part that was not dropped.

        Whether one is active depends on what ZooKeeper says of its cover.
        """
        return {
            entry.part.name: PartOnDisk(entry.part.rows, entry.part.content_hash)
            for entry in self.store.entries()
            if not entry.is_dropped and entry.state in (PartState.ACTIVE, PartState.OUTDATED)
        }

    def identity(self) -> str:
        """Returns a random text that is kept with the data, and the data's location.

        It tells a former process on this data from another server of the same name, even one that was started on a copy
        of the directory. A former process has ended, because the data directory is locked.
        """
        path = self.definition.data_path
        file = path / "replica_identity"
        if not file.exists():
            make_directories(path)
            draft = path / f"tmp_replica_identity_{self.services.new_uuid().hex}"
            replace_file_durably(file, str(self.services.new_uuid()).encode(), draft)
        return f"{file.read_text()} {socket.gethostname()}:{path}"

    def make_first_epoch(self) -> str:
        """Returns the epoch of a table that is made anew in ZooKeeper."""
        return format_epoch(1, self.services.new_uuid().int)

    def forget_zookeeper(self) -> None:
        """Forgets what former sessions read, as a ZooKeeper that lost its data uses names again."""
        self.mutations.forget()
        self.gate.forget()
        self.partition_nodes.clear()

    # -- the right to write -------------------------------------------------------------------------------------

    @contextmanager
    def hold_write_access(self) -> Iterator[tuple[Keeper, Activation]]:
        """Holds the right to write while the block acts on the table's state.

        Raises 242 (TABLE_IS_READ_ONLY). The yielded keeper writes only while this replica is active.
        """
        self._wait_until_begun()
        with self._writers:
            if self.activation is None or self.is_paused.is_set():
                raise self._readonly_error()
            activation = self.activation
            self._working += 1
        try:
            yield ActiveKeeper(self.replication.require_keeper(), activation, self.restart), activation
        finally:
            with self._writers:
                self._working -= 1
                self._writers.notify_all()

    @contextmanager
    def restart_on_leaked_number(self) -> Iterator[None]:
        """Restarts the session if the block, which takes block numbers, loses ZooKeeper.

        A number may be left that nobody will use, and merges would wait for it as long as the session lives. The new
        session releases it.
        """
        try:
            yield
        except (KeeperError, UnknownOutcomeError):
            self.restart()
            raise

    def require_writable(self) -> Keeper:
        """Returns the keeper. Raises 242 (TABLE_IS_READ_ONLY), 999 (KEEPER_EXCEPTION)."""
        self._wait_until_begun()
        if self.activation is None:
            raise self._readonly_error()
        return self.replication.require_keeper()

    def _wait_until_begun(self) -> None:
        """Waits a little for the table's turn while the server starts."""
        if not self.has_begun.is_set():
            self.hurry()
            self.services.wait(self.has_begun, _BEGIN_SECONDS)

    def set_writable(self, activation: Activation) -> None:
        """Makes the replica writable in this session."""
        with self._writers:
            self.activation = activation
            self.readonly_reason = self.refusal = ""
            self.has_started = True
            self.is_paused.clear()

    def set_readonly(self, reason: str) -> bool:
        """Stops work of the old session. Returns ``False`` if some of it still runs: try again."""
        with self._writers:
            self.activation = None
            self.readonly_reason = reason
            self.is_paused.set()
            return self.services.wait_for(self._writers, lambda: self._working == 0, _PAUSE_SECONDS)

    def _readonly_error(self) -> UnavailableError:
        reason = self.problem() or "its ZooKeeper session is being renewed"
        return UnavailableError(
            "TABLE_IS_READ_ONLY", f"Table {self.definition.full_name} is in readonly mode: {reason}"
        )

    def problem(self) -> str | None:
        """Returns what keeps the replica from working, for ``/replicas_status``; ``None`` if it works."""
        if self.is_session_expired:
            return "there is no connection to ZooKeeper" if self.replication.keeper else self.readonly_reason
        return self.refusal or self.readonly_reason or None

    @property
    def is_session_expired(self) -> bool:
        """Tells whether the session has ended; also true while the connection is lost, as nobody knows then."""
        keeper = self.replication.keeper
        return keeper is None or keeper.state is not SessionState.CONNECTED

    def pass_gate(self, kind: CommitKind, commit: Callable[[], Result], status: QueryStatus) -> Result:
        """Carries out a commit if the gate is open to it; tries again if a bar makes commits wait.

        Call it without write access, for which a new session would wait. Raises ``GateBarred`` if the bar does not go
        in time, or fails commits at once, and the errors of ``status``.
        """
        deadline = self.services.monotonic() + _GATE_SECONDS
        pause, longest = _GATE_PAUSES
        while True:
            try:
                keeper = self.require_writable()
                if kind in _OF_CLIENTS:
                    self.replication.check_clients_may_write(self.paths, self.definition.full_name)
                self.gate.require_open(keeper, kind)
                return commit()
            except GateBarred as barred:
                is_over = self.services.monotonic() >= deadline or self.is_stopping.is_set()
                if not barred.bar.waits or is_over:
                    raise
            status.check()
            self.sleep(pause)
            pause = min(2 * pause, longest)

    # -- waiting ------------------------------------------------------------------------------------------------

    def is_cancelled(self) -> bool:
        """Tells whether running work must stop: the table stops, or a new session begins."""
        return self.is_stopping.is_set() or self.is_paused.is_set()

    def sleep(self, seconds: float) -> None:
        """Sleeps; ends early when the table is being stopped."""
        self.services.wait(self.is_stopping, seconds)

    def wait_for(
        self, condition: Callable[[], bool], timeout_seconds: float, what: str, status: QueryStatus | None = None
    ) -> None:
        """Waits for the condition while background work goes on.

        Raises 159 (TIMEOUT_EXCEEDED), 236 if the table is stopping, and the errors of ``status``.
        """
        deadline = self.services.monotonic() + timeout_seconds
        while not condition():
            self.sleep(_POLL_SECONDS)
            if status is not None:
                status.check()
            if self.is_stopping.is_set():
                raise UnavailableError("ABORTED", f"Table {self.definition.full_name} is being stopped")
            if self.services.monotonic() > deadline:
                raise UnavailableError("TIMEOUT_EXCEEDED", f"Timeout of {timeout_seconds:g} s while waiting for {what}")


def make_part_record(part: Part) -> PartRecord:
    """Returns what ZooKeeper stores about a part."""
    return PartRecord(part.content_hash, part.rows, part.data_uncompressed_bytes)
