"""Establishes a replica's ZooKeeper session step by step, until the replica may write.

This happens at the start and on every new ZooKeeper session:

1. Become read-only, and stop work of the old session.
2. Refuse a ZooKeeper that was reset to an older state.
3. Detach parts whose quorum failed.
4. Activate, and fence off commits of former sessions.
5. Settle INSERTs of unknown outcome.
6. Go on with SYSTEM RESTORE REPLICA.
7. Clone if the replica is lost; otherwise compare the disk with ZooKeeper.
8. Load the queue, pull the log, confirm own quorum parts.
9. Become writable.

Each step can be repeated. A failure leaves the table read-only with the reason in ``system.replicas``, and the whole
sequence is tried again a little later.

Invariants

- The table is writable only with an activation of the present ZooKeeper session, and only after all steps.
- One step runs at a time (``task``). No other work of the table runs meanwhile: becoming read-only waits for its end.
- After a failure the activation is given back, so that no other replica takes this one for active.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from coordination.inserts.block_numbers import release_orphaned_numbers
from coordination.inserts.insert_commit import InsertStatus, settle_insert
from coordination.inserts.quorum import confirm_own_parts
from coordination.keeper.interface import Keeper, KeeperError, SessionState
from coordination.keeper.read_ahead import ReadAhead
from coordination.nodes.active_keeper import ActiveKeeper
from coordination.nodes.replica_activation import Activation, activate, deactivate, is_still_active
from coordination.nodes.table_gate import make_gate_if_known
from coordination.nodes.table_lists import missing_metadata_error
from coordination.replicas.clone import needs_clone
from coordination.replicas.log_pull import load_queue
from coordination.replicas.table_nodes import (
    check_definition,
    create_table_or_replica,
    drop_own_replica,
    drop_replica,
    record_identity,
    replica_exists,
)
from engine.tables.replicated.life.session_reads import SessionReads
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.life.startup_parts import apply_startup_plan, clone_from_replica
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.read.part_reader import Part
from recovery import force_restore_flag
from recovery.startup_plan import plan_startup
from recovery.zookeeper_parts import add_hashes_elsewhere, read_zookeeper_parts

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""The pause without news; session changes and requests for a restart wake the step earlier."""
_ACTIVATE_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_HURRY_SECONDS = 3600.0
"""A task that is overdue by this much runs before the first steps of all other tables."""
_REFUSED_SECONDS = 3.0
_RESOLVE_SECONDS = 5.0


class DefinitionFollower(Protocol):
    """Adopts the table's definition from ZooKeeper."""

    def adopt(self, keeper: Keeper, *, is_new: bool = False) -> None:
        """Adopts ZooKeeper's definition if it is newer. ``is_new``: the replica is being created."""

    def adopt_and_report(self, keeper: Keeper) -> None:
        """Adopts ZooKeeper's definition and records its version there."""


class RestoreSteps(Protocol):
    """The steps of SYSTEM RESTORE REPLICA that belong to a session."""

    def require_present(self, keeper: Keeper) -> None:
        """Raises 231 if ZooKeeper was reset to an older state."""

    def continue_restore(self, keeper: Keeper) -> None:
        """Goes on with a SYSTEM RESTORE REPLICA that was begun."""


class LinkKeeping(Protocol):
    """Keeps changes and blocks for the links of the table."""

    def begin_session(self, keeper: Keeper) -> None:
        """Goes on as the gate says, before the first pull of a session."""

    def forget(self) -> None:
        """Forgets all changes: the replica becomes a clone."""


class ReplicaSession:
    """The ZooKeeper session of one replica."""

    def __init__(
        self,
        state: ReplicaState,
        definitions: DefinitionFollower,
        restoring: RestoreSteps,
        take_back_failed: Callable[[Keeper], None],
        check_staged: Callable[[Keeper], None],
        begin_pull: Callable[[Keeper], None],
        on_writable: Callable[[], None],
        links: LinkKeeping,
        before_activation: Callable[[], None],
    ) -> None:
        self._state = state
        self._definitions = definitions
        self._restoring = restoring
        self._take_back_failed = take_back_failed
        self._check_staged = check_staged
        self._begin_pull = begin_pull
        self._on_writable = on_writable
        self._links = links
        self._before_activation = before_activation
        self.task = state.make_task("ZooKeeper session", self.step)
        state.hurry = lambda: self.task.wake(-_HURRY_SECONDS)
        self.restart_requested = threading.Event()
        self.broken_parts: UserError | None = None
        """Set if too many parts were broken at the start: only force makes the table writable."""
        self.force_restore = False
        """Whether the server found ``flags/force_restore_data`` at its start."""
        self._last_refusal = ""
        self._was_created = False
        """Whether CREATE has sent the replica's nodes to ZooKeeper, whatever the response."""
        self._activity_changed = threading.Event()
        """Set when ``is_active`` or the connection that watches it has changed."""
        self._last_session = 0
        """The ZooKeeper session in which this replica was activated last."""

    # -- CREATE and DROP ----------------------------------------------------------------------------------------

    def create(self) -> None:
        """Creates the table or the replica in ZooKeeper. Raises 253, 342, 225, 999."""
        state, keeper = self._state, self._state.replication.require_keeper()
        state.replication.require_free(state.replica.root)
        self._definitions.adopt(keeper, is_new=True)
        self._was_created = True
        create_table_or_replica(
            keeper,
            state.paths,
            state.replica.name,
            make_shared_definition(state.description),
            epoch=state.make_first_epoch(),
            wait=state.services.wait,
            identity=state.identity(),
        )

    def undo_create(self) -> None:
        """Removes the nodes that :meth:`create` made; nodes of another data directory stay."""
        if self._was_created:
            keeper = self._state.replication.require_keeper()
            drop_own_replica(keeper, self._state.paths, self._state.replica.name, self._state.identity())

    def drop_replica(self) -> None:
        """Removes the replica from ZooKeeper.

        Raises 999 without a connection, so that no nodes are left behind.
        """
        drop_replica(self._state.replication.require_keeper(), self._state.paths, self._state.replica.name)

    def leave(self) -> None:
        """Deactivates the replica at a graceful stop, so that others see at once that it is gone."""
        state = self._state
        activation, keeper = state.activation, state.replication.keeper
        state.set_readonly("The table is stopped")
        if activation is not None and keeper is not None:
            deactivate(keeper, activation)

    def request_restart(self) -> None:
        """Begins the session anew soon."""
        self.restart_requested.set()
        self.task.wake()

    # -- the session --------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Begins or checks the session; returns the seconds until the next look."""
        try:
            return self._step()
        finally:
            self._state.has_begun.set()

    def _step(self) -> float:
        state = self._state
        keeper = state.replication.keeper
        if keeper is None:
            state.set_readonly("ZooKeeper is not configured on this server")
            return _IDLE_SECONDS
        if keeper.state is not SessionState.CONNECTED:
            return _IDLE_SECONDS
        activation = state.activation
        if activation is None or activation.session_id != keeper.session_id or self.restart_requested.is_set():
            return self._begin(keeper)
        if self._activity_changed.is_set():
            return self._check_activity(keeper, activation)
        return _IDLE_SECONDS

    def _check_activity(self, keeper: Keeper, activation: Activation) -> float:
        """Begins the session anew if ``is_active`` was removed, without which nothing can be written."""
        self._activity_changed.clear()
        try:
            keeper.exists(activation.replica.is_active, self._on_activity)
            if is_still_active(keeper, activation):
                return _IDLE_SECONDS
        except KeeperError:
            self._activity_changed.set()
            return _RETRY_SECONDS
        logger.warning(
            "%s is gone or another's: %s begins anew", activation.replica.is_active, self._state.definition.full_name
        )
        return self._begin(keeper)

    def _watch_activity(self, keeper: Keeper, activation: Activation) -> None:
        """Watches ``is_active`` just after the activation; the next step looks at changes since."""
        expected = (activation.session_id, activation.is_active_version)
        with suppress(KeeperError):
            found = keeper.exists(activation.replica.is_active, self._on_activity)
            if found is not None and (found.ephemeral_owner, found.version) == expected:
                return
        self._on_activity("")

    def _on_activity(self, _: str) -> None:
        self._activity_changed.set()
        self.task.wake()

    def _begin(self, keeper: Keeper) -> float:
        state = self._state
        self.restart_requested.clear()
        if not state.set_readonly("The replica is starting"):
            return _RETRY_SECONDS
        try:
            self._establish(keeper)
        except UserError as refusal:
            self._record_refusal(refusal)
            state.refusal = str(refusal)
            return _REFUSED_SECONDS
        except PandoError as error:
            self._record_refusal(error)
            return _RETRY_SECONDS
        except Exception as error:
            logger.exception("table %s could not begin its ZooKeeper session", state.definition.full_name)
            self._record_refusal(error)
            return _REFUSED_SECONDS
        return _IDLE_SECONDS

    def _record_refusal(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, PandoError) else repr(error)
        if self._last_refusal != reason:
            name = self._state.definition.full_name
            logger.warning("table %s stays read-only, and SELECT reads what is on this disk: %s", name, reason)
        self._last_refusal = reason
        self._state.set_readonly(reason)

    def _establish(self, keeper: Keeper) -> None:
        state = self._state
        keeper.sync(state.paths.root)
        state.forget_zookeeper()
        ahead = ReadAhead(keeper)
        reads = SessionReads.before_activation(
            ahead, state.replica, {name.partition_id for name in state.parts_on_disk()}
        )
        if not replica_exists(ahead, state.replica):
            raise self._make_missing_error(keeper)
        if not (self._is_forced(ahead) or ahead.exists(state.replica.restoring) is not None):
            self._restoring.require_present(ahead)
        self._definitions.adopt(ahead)
        if not check_definition(ahead, state.paths, make_shared_definition(state.description)):
            raise self._make_missing_error(keeper)
        self._take_back_failed(ahead)  # before anybody can fetch them from here
        self._before_activation()
        activation = self._activate(keeper)
        try:
            reads.after_activation(ahead)
            self._catch_up(ActiveKeeper(ahead, activation), lambda: reads.after_pull(ahead))
        except BaseException:
            deactivate(keeper, activation)
            raise
        self._last_refusal = ""
        state.set_writable(activation)
        self._on_writable()
        self._watch_activity(keeper, activation)
        logger.info("table %s is writable as replica %s", state.definition.full_name, state.replica.name)

    def _make_missing_error(self, keeper: Keeper) -> UserError:
        state = self._state
        what = missing_metadata_error(state.paths).message
        if keeper.exists(state.paths.replicas) is not None:
            what = f"The replica is missing in ZooKeeper: {state.replica.root}"
        advice = f"If ZooKeeper has lost it, run SYSTEM RESTORE REPLICA {state.definition.full_name}"
        return UserError("NO_ZOOKEEPER", f"{what}. {advice}")

    def _is_forced(self, keeper: Keeper) -> bool:
        return self.force_restore or force_restore_flag.is_flag_set(keeper, self._state.replica)

    def _activate(self, keeper: Keeper) -> Activation:
        """Activates the replica; replaces the node of a former session of this server.

        If this very session had activated the replica before, a foreign node means that another server took it over.
        That server keeps it while it lives.
        """
        state = self._state
        session = keeper.session_id
        activation = activate(
            keeper,
            state.replica,
            state.replication.address,
            state.identity(),
            wait_seconds=_ACTIVATE_SECONDS,
            is_stopping=state.is_stopping.is_set,
            clock=state.services.monotonic,
            wait=state.services.wait,
            takes_over=session != self._last_session,
        )
        self._last_session = activation.session_id
        return activation

    def _catch_up(self, keeper: Keeper, read_ahead_of_quorums: Callable[[], None]) -> None:
        state = self._state
        record_identity(keeper, state.replica, state.identity())
        self._definitions.adopt_and_report(keeper)
        if state.gate.load(keeper) is None and make_gate_if_known(keeper, state.paths, state.make_first_epoch()):
            state.gate.load(keeper)
        release_orphaned_numbers(keeper, state.paths, state.replica.name)
        self._resolve_unknown_commits(keeper)
        self._take_back_failed(keeper)  # failed between the first look and the activation
        self._restoring.continue_restore(keeper)
        if needs_clone(keeper, state.replica):
            self._links.forget()
            clone_from_replica(state, keeper)
        else:
            self._compare_with_disk(keeper)
        self._check_staged(keeper)
        active = [part.name for part in state.store.list_active()]
        load_queue(keeper, state.replica, state.queue, active)
        self._links.begin_session(keeper)
        self._begin_pull(keeper)
        read_ahead_of_quorums()
        confirm_own_parts(keeper, state.replica, [str(name) for name in active])

    # -- steps --------------------------------------------------------------------------------------------------

    def _resolve_unknown_commits(self, keeper: Keeper) -> None:
        state = self._state
        requests, state.unknown_inserts = state.unknown_inserts, []
        for request in requests:
            part = state.store.get_preactive(request.part)
            result = settle_insert(
                keeper, request, clock=state.services.monotonic, sleep=state.sleep, resolve_seconds=_RESOLVE_SECONDS
            )
            if result.status is InsertStatus.UNKNOWN:
                state.unknown_inserts.append(request)
                raise UnavailableError("KEEPER_EXCEPTION", f"The outcome of part {request.part} is still unknown")
            logger.info("the unknown outcome of part %s is settled: %s", request.part, result.status.name)
            if part is not None:
                self._commit_or_rollback(part, result.status is InsertStatus.COMMITTED)
        for part in state.store.list_preactive():
            self._commit_or_rollback(part, keeper.exists(state.replica.part(str(part.name))) is not None)

    def _commit_or_rollback(self, part: Part, is_committed: bool) -> None:
        if is_committed:
            self._state.store.commit(part)
        else:
            self._state.store.rollback(part)

    def _compare_with_disk(self, keeper: Keeper) -> None:
        state = self._state
        flagged = force_restore_flag.is_flag_set(keeper, state.replica)
        forced = flagged or self.force_restore
        if self.broken_parts is not None and not forced:
            raise self.broken_parts
        on_disk = state.parts_on_disk()
        plan = plan_startup(
            on_disk,
            add_hashes_elsewhere(keeper, state.replica, read_zookeeper_parts(keeper, state.replica), on_disk),
            max_ratio_of_wrong_parts=state.definition.settings.replicated_max_ratio_of_wrong_parts,
            force=forced,
        )
        if plan.refusal:
            raise UserError("TOO_MANY_UNEXPECTED_DATA_PARTS", plan.refusal)
        apply_startup_plan(state, keeper, plan)
        if flagged:
            force_restore_flag.clear_flag(keeper, state.replica)
        self.force_restore = False
        self.broken_parts = None
