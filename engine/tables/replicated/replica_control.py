"""A replica as SYSTEM commands, ALTER and monitoring see it."""

from __future__ import annotations

from collections.abc import Callable

from coordination.keeper.interface import Keeper
from coordination.log.replication_queue import ReplicationQueue
from coordination.nodes.paths import ReplicaPaths, TablePaths
from engine.tables.replicated.decide.replicated_mutations import ReplicatedMutations
from engine.tables.replicated.follow.log_pull import LogPull
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.life.gate_control import GateControl
from engine.tables.replicated.life.log_cleanup import LogCleanup
from engine.tables.replicated.repair.part_checks import PartChecks
from engine.tables.replicated.repair.restore_replica import ReplicaRestore
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import AlterOptions, SyncMode
from engine.tables.table_definition import TableDefinition
from parts.common.query_status import QueryStatus
from sql.grammar.statements.statement import CreateTable


class ReplicaControl:
    """Implements ``engine.tables.capabilities.replica.Replica`` with the workers of one replica."""

    def __init__(
        self,
        state: ReplicaState,
        log_pull: LogPull,
        definitions: DefinitionChanges,
        gate_control: GateControl,
        housekeeping: LogCleanup,
        part_checks: PartChecks,
        restore: ReplicaRestore,
        mutations: ReplicatedMutations,
    ) -> None:
        self._state = state
        self._log_pull = log_pull
        self._definitions = definitions
        self._gate_control = gate_control
        self._housekeeping = housekeeping
        self._part_checks = part_checks
        self._restore = restore
        self._mutations = mutations

    # -- places -------------------------------------------------------------------------------------------------

    @property
    def paths(self) -> TablePaths:
        return self._state.paths

    @property
    def replica(self) -> ReplicaPaths:
        return self._state.replica

    @property
    def queue(self) -> ReplicationQueue:
        return self._state.queue

    @property
    def keeper(self) -> Keeper | None:
        return self._state.replication.keeper

    @property
    def zookeeper_name(self) -> str:
        return self._state.replication.zookeeper_name

    def require_keeper(self) -> Keeper:
        return self._state.replication.require_keeper()

    # -- commands -----------------------------------------------------------------------------------------------

    def alter(self, change: Callable[[TableDefinition], CreateTable], options: AlterOptions) -> None:
        self._definitions.alter(change, options)

    def refuse_inserts(self, refused: bool) -> None:
        self._gate_control.refuse_inserts(refused)

    def change_command_source(self, cluster: str) -> None:
        self._mutations.change_command_source(cluster)

    def restart(self) -> None:
        self._state.restart()

    def restore(self, timeout_seconds: float, status: QueryStatus) -> None:
        self._restore.restore(timeout_seconds, status)

    def sync(
        self, timeout_seconds: float, status: QueryStatus | None = None, mode: SyncMode = SyncMode.DEFAULT
    ) -> None:
        self._log_pull.sync(timeout_seconds, status or QueryStatus(), mode)

    def wait_for_others(self, timeout_seconds: float, status: QueryStatus) -> None:
        self._log_pull.wait_for_others(timeout_seconds, status)

    # -- status -------------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        return self._state.problem()

    @property
    def refusal(self) -> str:
        return self._state.refusal

    @property
    def is_session_expired(self) -> bool:
        return self._state.is_session_expired

    @property
    def has_started(self) -> bool:
        return self._state.has_started

    @property
    def is_starting(self) -> bool:
        return not self._state.has_begun.is_set()

    def delay_seconds(self) -> float:
        late = self.queue.compute_delay_seconds(self._state.services.clock())
        return max(float(late), self._log_pull.seconds_behind())

    @property
    def warning(self) -> str:
        return self._housekeeping.warning

    @property
    def parts_to_check(self) -> int:
        return len(self._part_checks)
