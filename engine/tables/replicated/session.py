"""Getting and keeping the right to write: what a replica does at its start and on every new ZooKeeper session.

read-only → stop work of the old session → take back parts whose quorum failed → activate → fence what former
sessions may still have under way → settle inserts of unknown outcome → clone if lost, else compare disk with ZooKeeper
→ load the queue → pull → confirm own quorum parts → writable.

Each step can be repeated; any failure leaves the table read-only with the reason visible in ``system.replicas``, and
the whole sequence is tried again a little later.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Protocol

from coordination.active_keeper import ActiveKeeper
from coordination.block_numbers import release_orphans
from coordination.clone import clone_replica, finish_clone, is_lost
from coordination.insert_commit import InsertStatus, resolve_insert
from coordination.keeper import Keeper, KeeperError, SessionState
from coordination.queue_io import load_queue, remove_parts, requeue_fetch
from coordination.quorum import confirm_own_parts
from coordination.replica_activity import Activation, activate, deactivate, is_still_active
from coordination.table_nodes import (
    check_definition,
    create_table_or_replica,
    drop_replica,
    replica_exists,
)
from engine.tables.replicated.shared_definition import shared_definition
from engine.tables.replicated.state import ReplicaState, part_record
from parts.disk import sync, sync_directory
from parts.errors import PandoError, UnavailableError, UserError
from parts.part_name import PartName
from parts.reader import Part
from parts.store import PartState
from recovery import flags
from recovery.startup_check import PartOnDisk, StartupPlan, plan_startup
from recovery.survey import read_part_records, read_survey

logger = logging.getLogger(__name__)

_CONNECTED_SECONDS = 5.0
_ACTIVATE_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_REFUSED_SECONDS = 3.0
_RESOLVE_SECONDS = 5.0


class SharedDefinitions(Protocol):
    def take_over(self, keeper: Keeper, *, is_new: bool = False) -> None:
        """What is in ZooKeeper, if it is newer. ``is_new``: the replica is being created."""

    def follow(self, keeper: Keeper) -> None:
        """As ``take_over``, and says so in ZooKeeper."""


class ReplicaSession:
    def __init__(
        self,
        state: ReplicaState,
        definitions: SharedDefinitions,
        take_back_failed: Callable[[Keeper], None],
        check_staged: Callable[[Keeper], None],
        begin_pull: Callable[[Keeper], None],
        on_writable: Callable[[], None],
    ) -> None:
        self._state = state
        self._definitions = definitions
        self._take_back_failed = take_back_failed
        self._check_staged = check_staged
        self._begin_pull = begin_pull
        self._on_writable = on_writable
        self.task = state.make_task("ZooKeeper session", self.step)
        self.restart_requested = threading.Event()
        self.broken_parts: UserError | None = None
        """More parts were broken at the start than the settings allow: only force makes the table writable."""
        self.force_restore = False
        """The server found ``flags/force_restore_data`` at its start."""
        self._last_refusal = ""
        self._activity_changed = threading.Event()
        """Something happened to ``is_active``, or to the connection over which it is watched."""
        self._last_session = 0
        """The ZooKeeper session in which this replica was activated last."""

    # -- CREATE and DROP ----------------------------------------------------------------------------------------

    def create(self) -> None:
        """Makes the table or the replica in ZooKeeper. Raises 253, 342, 225, 999."""
        state, keeper = self._state, self._state.replication.require_keeper()
        self._definitions.take_over(keeper, is_new=True)
        create_table_or_replica(
            keeper,
            state.paths,
            state.replica.name,
            shared_definition(state.description),
            wait=state.services.wait,
        )

    def drop_replica(self) -> None:
        """Raises 999 when ZooKeeper is away: the replica would stay behind for ever otherwise."""
        drop_replica(self._state.replication.require_keeper(), self._state.paths, self._state.replica.name)

    def leave(self) -> None:
        """At a graceful stop: other replicas see at once that this one is gone."""
        state = self._state
        activation, keeper = state.activation, state.replication.keeper
        state.become_readonly("The table is stopped")
        if activation is not None and keeper is not None:
            deactivate(keeper, activation)

    def request_restart(self) -> None:
        self.restart_requested.set()
        self.task.wake()

    # -- the session --------------------------------------------------------------------------------------------

    def step(self) -> float:
        state = self._state
        keeper = state.replication.keeper
        if keeper is None:
            state.become_readonly("ZooKeeper is not configured on this server")
            return _CONNECTED_SECONDS
        if keeper.state is not SessionState.CONNECTED:
            return _RETRY_SECONDS
        activation = state.activation
        if activation is None or activation.session_id != keeper.session_id or self.restart_requested.is_set():
            return self._begin(keeper)
        if self._activity_changed.is_set():
            return self._look_at_activity(keeper, activation)
        return _CONNECTED_SECONDS

    def _look_at_activity(self, keeper: Keeper, activation: Activation) -> float:
        """Anybody may remove ``is_active``; without it nothing can be written, so the session begins anew."""
        self._activity_changed.clear()
        try:
            keeper.exists(activation.replica.is_active, self._on_activity)
            if is_still_active(keeper, activation):
                return _CONNECTED_SECONDS
        except KeeperError:
            self._activity_changed.set()
            return _RETRY_SECONDS
        logger.warning(
            "%s is gone or another's: %s begins anew", activation.replica.is_active, self._state.definition.full_name
        )
        return self._begin(keeper)

    def _on_activity(self, _: str) -> None:
        self._activity_changed.set()
        self.task.wake()

    def _begin(self, keeper: Keeper) -> float:
        state = self._state
        self.restart_requested.clear()
        if not state.become_readonly("The replica is starting"):
            return _RETRY_SECONDS
        try:
            self._establish(keeper)
        except UserError as refusal:
            self._refuse(refusal)
            return _REFUSED_SECONDS
        except PandoError as error:
            self._refuse(error)
            return _RETRY_SECONDS
        except Exception as error:
            logger.exception("table %s could not begin its ZooKeeper session", state.definition.full_name)
            self._refuse(error)
            return _REFUSED_SECONDS
        return _CONNECTED_SECONDS

    def _refuse(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, PandoError) else repr(error)
        if self._last_refusal != reason:
            logger.warning("table %s stays read-only: %s", self._state.definition.full_name, reason)
        self._last_refusal = reason
        self._state.become_readonly(reason)

    def _establish(self, keeper: Keeper) -> None:
        state = self._state
        keeper.sync(state.paths.root)
        self._definitions.take_over(keeper)
        if not check_definition(keeper, state.paths, shared_definition(state.description)):
            raise UserError("NO_ZOOKEEPER", f"The table's metadata is missing in ZooKeeper: {state.paths.root}")
        if not replica_exists(keeper, state.replica):
            raise UserError("NO_ZOOKEEPER", f"The replica is missing in ZooKeeper: {state.replica.root}")
        self._take_back_failed(keeper)  # before anybody can fetch them from here
        activation = self._activate(keeper)
        try:
            self._become_current(ActiveKeeper(keeper, activation))
        except BaseException:
            deactivate(keeper, activation)
            raise
        self._last_refusal = ""
        state.become_writable(activation)
        self._on_writable()
        self._on_activity("")  # sets the watch
        logger.info("table %s is writable as replica %s", state.definition.full_name, state.replica.name)

    def _activate(self, keeper: Keeper) -> Activation:
        """A node of another session is a former one of this server, unless this very session had made one: then another
        server has taken the replica over, and keeps it while it lives."""
        state = self._state
        session = keeper.session_id
        activation = activate(
            keeper,
            state.replica,
            state.replication.address,
            self._identity(),
            wait_seconds=_ACTIVATE_SECONDS,
            is_stopping=state.is_stopping.is_set,
            clock=state.services.monotonic,
            wait=state.services.wait,
            takes_over=session != self._last_session,
        )
        self._last_session = activation.session_id
        return activation

    def _become_current(self, keeper: Keeper) -> None:
        state = self._state
        self._definitions.follow(keeper)
        release_orphans(keeper, state.paths, state.replica.name)
        self._settle_unknown_commits(keeper)
        self._take_back_failed(keeper)  # failed between the first look and the activation
        if is_lost(keeper, state.replica):
            self._clone(keeper)
        else:
            self._compare_with_disk(keeper)
        self._check_staged(keeper)
        active = [part.name for part in state.store.active()]
        load_queue(keeper, state.replica, state.queue, active)
        self._begin_pull(keeper)
        confirm_own_parts(keeper, state.replica, [str(name) for name in active])

    def _identity(self) -> str:
        """A random text kept with the data, and where the data is.

        It tells a former process on this data (which is gone: the data directory is locked) from another server of the
        same name, even one that was started on a copy of the directory.
        """
        path = self._state.definition.data_path
        file = path / "replica_identity"
        if not file.exists():
            path.mkdir(parents=True, exist_ok=True)
            draft = path / f"tmp_replica_identity_{self._state.services.new_uuid().hex}"
            with open(draft, "w", encoding="utf-8") as stream:
                stream.write(str(self._state.services.new_uuid()))
                stream.flush()
                sync(stream.fileno())
            os.replace(draft, file)
            sync_directory(path)
        return f"{file.read_text()} {socket.gethostname()}:{path}"

    # -- steps --------------------------------------------------------------------------------------------------

    def _settle_unknown_commits(self, keeper: Keeper) -> None:
        state = self._state
        requests, state.unknown_inserts = state.unknown_inserts, []
        for request in requests:
            part = state.store.get_preactive(request.part)
            result = resolve_insert(
                keeper, request, clock=state.services.monotonic, sleep=state.sleep, resolve_seconds=_RESOLVE_SECONDS
            )
            if result.status is InsertStatus.UNKNOWN:
                state.unknown_inserts.append(request)
                raise UnavailableError("KEEPER_EXCEPTION", f"The outcome of part {request.part} is still unknown")
            logger.info("the unknown outcome of part %s is settled: %s", request.part, result.status.name)
            if part is not None:
                self._settle(part, result.status is InsertStatus.COMMITTED)
        for part in state.store.preactive():
            self._settle(part, keeper.exists(state.replica.part(str(part.name))) is not None)

    def _settle(self, part: Part, is_committed: bool) -> None:
        if is_committed:
            self._state.store.commit(part)
        else:
            self._state.store.rollback(part)

    def _clone(self, keeper: Keeper) -> None:
        """A new or lost replica becomes a copy of another; what only it has stays in ``detached/clone_…``."""
        state = self._state
        hashes = {name: part.content_hash for name, part in self._on_disk().items()}
        result = clone_replica(keeper, state.replica, hashes)
        for name in result.parts_to_detach:
            logger.warning("part %s is not on %s: moved to %s", name, result.source, state.store.detach(name, "clone"))
        state.store.revive(hashes.keys())
        listed = read_part_records(keeper, state.replica)
        for part in state.store.active():
            if part.name not in listed:
                keeper.create(state.replica.part(str(part.name)), part_record(part).to_bytes())
        finish_clone(keeper, state.replica)
        logger.info("replica %s cloned %s: %s parts to fetch", state.replica.root, result.source, result.queued_fetches)

    def _compare_with_disk(self, keeper: Keeper) -> None:
        state = self._state
        flagged = flags.is_raised(keeper, state.replica)
        if self.broken_parts is not None and not (flagged or self.force_restore):
            raise self.broken_parts
        plan = plan_startup(
            self._on_disk(),
            read_survey(keeper, state.replica),
            max_ratio_of_wrong_parts=state.definition.settings.replicated_max_ratio_of_wrong_parts,
            force=flagged or self.force_restore,
        )
        if plan.refusal:
            raise UserError("TOO_MANY_UNEXPECTED_DATA_PARTS", plan.refusal)
        self._carry_out(keeper, plan)
        if flagged:
            flags.lower_flag(keeper, state.replica)
        self.force_restore = False
        self.broken_parts = None

    def _carry_out(self, keeper: Keeper, plan: StartupPlan) -> None:
        """Repeatable: what was done drops out of the next plan. Covered parts go when their cover is here."""
        state = self._state
        for name in plan.unexpected:
            logger.warning("part %s is not in ZooKeeper: moved to %s", name, state.store.detach(name, "ignored"))
        for name in plan.differing:
            logger.warning("part %s differs from ZooKeeper: moved to %s", name, state.store.detach(name, "broken"))
        state.store.revive(plan.keep)
        for name in plan.fetch:
            logger.warning("part %s is missing on disk: it will be fetched", name)
        remove_parts(keeper, state.replica, plan.forget)
        requeue_fetch(keeper, state.replica, state.queue, plan.fetch)

    def _on_disk(self) -> dict[PartName, PartOnDisk]:
        """Every part on disk that was not dropped; whether it is active depends on what ZooKeeper says of its cover."""
        return {
            entry.part.name: PartOnDisk(entry.part.rows, entry.part.content_hash)
            for entry in self._state.store.entries()
            if not entry.is_dropped and entry.state in (PartState.ACTIVE, PartState.OUTDATED)
        }
