"""SYSTEM RESTORE REPLICA of one replica, and the refusal to work with a ZooKeeper that was reset.

``recovery.restore_replica`` has the steps. The statement makes the nodes; the session then goes on, as it does after a
crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from coordination.keeper.interface import Keeper, NoNode
from coordination.nodes.replica_activation import end_former_activation, read_addresses, read_replica_activity
from coordination.replicas.table_nodes import create_table_or_replica, drop_replica
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.replica_state import ReplicaState, make_part_record
from parts.common.errors import ConflictError, PandoError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from recovery import outdated_zookeeper
from recovery import restore_replica as restore

logger = logging.getLogger(__name__)

_SESSION_ENDS = 1.5
"""In session time-outs.

ZooKeeper ends a session at the tick after its time-out, which is two ticks at least.
"""
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.5


class SharedDefinitions(Protocol):
    """Exchanges the table's definition with ZooKeeper."""

    def adopt(self, keeper: Keeper) -> None:
        """Adopts ZooKeeper's definition if it is newer."""

    def publish_if_newer(self, keeper: Keeper) -> None:
        """Writes this replica's definition to ZooKeeper if it is newer."""


class ReplicaRestore:
    """SYSTEM RESTORE REPLICA of one replica."""

    def __init__(
        self,
        state: ReplicaState,
        definitions: SharedDefinitions,
        begin_session: Callable[[], None],
    ) -> None:
        """``begin_session`` asks for a new start of the session."""
        self._state = state
        self._definitions = definitions
        self._begin_session = begin_session

    # -- the statement --------------------------------------------------------------------------------------------

    def restore(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Restores the replica; returns when it is writable.

        Raises 36 if it is writable already or nothing is to be restored, 342 for another definition, and 999. Raises
        159 if it takes too long; it then goes on in the background.
        """
        state = self._state
        keeper = state.replication.require_keeper()
        began = state.services.monotonic()
        sessions_end = began + _SESSION_ENDS * keeper.session_timeout_seconds
        while True:
            status.check()
            now = state.services.monotonic()
            try:
                self._make_nodes(keeper, waits_for_sessions=now < sessions_end)
                break
            except (ConflictError, NoNode) as conflict:  # others restore the table, too
                logger.info("table %s is not being restored yet: %s", state.definition.full_name, conflict)
                if now >= sessions_end + _PATIENCE_SECONDS:
                    text = f"Others keep changing {state.paths.root}; repeat the statement"
                    raise ConflictError("KEEPER_EXCEPTION", text) from conflict
                state.sleep(_PAUSE_SECONDS)
        self._begin_session()
        state.wait_for(
            lambda: state.activation is not None and not state.is_paused.is_set(),
            timeout_seconds,
            f"the restored replica to start ({state.readonly_reason or 'it goes on in the background'})",
            status,
        )

    def _make_nodes(self, keeper: Keeper, *, waits_for_sessions: bool) -> None:
        """Makes the nodes of the table or the replica.

        Raises 999 if it is to be tried again, because others change the table. With ``waits_for_sessions`` also if a
        replica looks active, because its session may only have come back with a snapshot of ZooKeeper.
        """
        state, table, replica = self._state, self._state.paths, self._state.replica
        name = state.definition.full_name
        if state.activation is not None:
            raise UserError("BAD_ARGUMENTS", f"Replica must be readonly: {name} is not, there is nothing to restore")
        keeper.sync(table.root)
        restore.clear_retired(keeper, table)
        hosts = restore.read_host_versions(keeper, table)
        # Ask for the replica first: if others have removed it, the table is seen as they made it.
        host, mark, root, restored = keeper.exists_many([replica.host, replica.restoring, table.root, table.restored])
        if mark is not None and host is not None:
            return
        adds_all = root is None or restored is not None
        may_be_past = host is not None or (root is not None and restored is None)
        if may_be_past and self._find_forgotten(keeper):
            adds_all = True
            end_former_activation(keeper, replica, state.identity())  # a session may have come back with the snapshot
            active = sorted(name for name, is_active in read_replica_activity(keeper, table).items() if is_active)
            if active and waits_for_sessions:
                raise ConflictError("KEEPER_EXCEPTION", f"The sessions of {', '.join(active)} have not ended yet")
            logger.warning("ZooKeeper is from the past: table %s is written down anew in %s", name, table.root)
            if active:
                drop_replica(keeper, table, replica.name, own_session=False)
            else:
                restore.retire_table(keeper, table, hosts)
                restore.clear_retired(keeper, table)
        elif host is not None:
            if keeper.exists(replica.host) is None:
                raise ConflictError("KEEPER_EXCEPTION", f"Others have taken {replica.root} away meanwhile")
            raise UserError(
                "BAD_ARGUMENTS",
                f"Replica path is present at {replica.root}: nothing to restore. If its metadata is lost and the path "
                f"holds remains, remove it with SYSTEM DROP REPLICA '{replica.name}' on another server first",
            )
        self._definitions.adopt(keeper)
        if adds_all:
            self._definitions.publish_if_newer(keeper)
        create_table_or_replica(
            keeper,
            table,
            replica.name,
            make_shared_definition(state.description),
            epoch=state.make_first_epoch(),
            wait=state.services.wait,
            identity=state.identity(),
            restoring=restore.ALL_PARTS if adds_all else "",
        )

    # -- the session ----------------------------------------------------------------------------------------------

    def require_present(self, keeper: Keeper) -> None:
        """Raises 231 if ZooKeeper was reset to an older state."""
        state = self._state
        if forgotten := self._find_forgotten(keeper):
            text = outdated_zookeeper.format_refusal(
                state.definition.full_name, state.replica, forgotten, state.parts_on_disk()
            )
            raise UserError("TOO_MANY_UNEXPECTED_DATA_PARTS", text)

    def continue_restore(self, keeper: Keeper) -> None:
        """Goes on with a restore that the statement began. Raises 254 while another replica is restored first."""
        state = self._state
        if keeper.exists(state.replica.restoring) is None:
            return
        active = {part.name: make_part_record(part) for part in state.store.list_active()}
        plan = restore.list_parts(keeper, state.replica, active, state.services.clock())
        logger.warning(
            "replica %s is restored: %s parts agree with the other replicas, %s are added, %s are put aside",
            state.replica.root, len(plan.agreed), len(plan.unique), len(active) - len(plan.agreed) - len(plan.unique),
        )  # fmt: skip

    # -- evidence -------------------------------------------------------------------------------------------------

    def _find_forgotten(self, keeper: Keeper) -> list[PartName]:
        """Returns parts that were committed and that ZooKeeper does not know any more."""
        state = self._state
        return outdated_zookeeper.find_forgotten(
            keeper, state.replica, state.parts_on_disk(), lambda parts: self._ask_others(keeper, parts)
        )

    def _ask_others(self, keeper: Keeper, parts: Collection[PartName]) -> Mapping[PartName, set[str]]:
        """Returns the content hashes of the parts on the other replicas that answer."""
        state = self._state
        names = [name for name in keeper.children(state.paths.replicas) if name != state.replica.name]
        found: dict[PartName, set[str]] = {}
        for name, address in read_addresses(keeper, state.paths, names).items():
            endpoint = state.paths.replica(name).root
            try:
                answer = state.replication.transport.part_hashes(address.interserver_url, endpoint, sorted(parts))
            except PandoError as error:
                logger.info("replica %s does not tell which parts it has: %s", endpoint, error)
                continue
            for part, digest in answer.items():
                found.setdefault(part, set()).add(digest)
        return found
