"""A replica of the simulation begins a session: a new process, or one that lost its connection for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordination.inserts.insert_commit import InsertStatus
from coordination.inserts.quorum import confirm_own_parts
from coordination.inserts.quorum_failure import list_own_failed_parts, unlist_failed_parts
from coordination.keeper.interface import SessionState
from coordination.log.part_set import PartSet
from coordination.nodes.replica_activation import ReplicaAddress
from coordination.replicas import log_pull
from coordination.replicas.clone import finish_clone, needs_clone
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from tests.coordination.real_time import activate, clone_replica, resolve_insert
from tests.coordination.simulated_replica import Replica

if TYPE_CHECKING:
    from tests.coordination.simulation import World


def recover(world: World, replica: Replica) -> None:
    """A new session, or a new process: what the server does before it serves."""
    if replica.is_crashed:
        world.zombies.append(replica.keeper)
        replica.forget()
        replica.busy.add("recover")  # this very step: a second one beside it would be another process
        replica.keeper = world.ensemble.connect()
    if replica.keeper.state is not SessionState.CONNECTED:
        world.reconnect(replica)
    if replica.activation is not None and replica.keeper.session_id == replica.activation.session_id:
        return
    replica.activation = None
    keeper, paths = replica.keeper, replica.paths
    settle(world, replica)
    take_back(replica)
    address = ReplicaAddress(replica.name, 1)
    activation = activate(keeper, paths, address, replica.name, wait_seconds=0, clock=world.clock)
    take_back(replica)
    if needs_clone(keeper, paths):
        world.count("clone")
        load_disk(replica)
        local = {part: replica.record(part).content_hash for part in replica.active}
        result = clone_replica(keeper, paths, local)
        if result.copied_entries:
            world.count("clone took entries over")
        for part in result.parts_to_detach:
            replica.active.remove(part)
            replica.disk.pop(part, None)
        finish_clone(keeper, paths)
    listed = set(log_pull.read_listed_parts(keeper, paths))
    load_disk(replica, listed)
    missing = [part for part in PartSet(listed) if part not in replica.active]
    log_pull.load_queue(keeper, paths, replica.queue, [p for p in listed if p not in missing])
    log_pull.queue_missing_fetches(keeper, paths, replica.queue, missing)
    confirm_own_parts(keeper, paths, [str(part) for part in replica.active])
    replica.activation = activation


def take_back(replica: Replica) -> None:
    failed = list_own_failed_parts(replica.keeper, replica.paths)
    for name in failed:
        replica.disk.pop(PartName.parse(name), None)
        replica.active.remove(PartName.parse(name))
    unlist_failed_parts(replica.keeper, replica.paths, failed)


def load_disk(replica: Replica, listed: set[PartName] | None = None) -> None:
    """At a process start: pre-active parts that ZooKeeper does not list are put aside."""
    if listed is not None and not replica.loaded_disk:
        for part in list(replica.disk):
            if part not in listed:
                del replica.disk[part]
        replica.active = PartSet(replica.disk)
        replica.loaded_disk = True
    elif listed is None and not replica.loaded_disk:
        known = set(log_pull.read_listed_parts(replica.keeper, replica.paths))
        replica.active = PartSet(part for part in replica.disk if part in known)


def settle(world: World, replica: Replica) -> None:
    """What was left in doubt by the former session of this process."""
    for block, request in list(replica.unresolved):
        result = resolve_insert(replica.keeper, request, resolve_seconds=0, clock=world.clock, sleep=lambda _: None)
        if result.status is InsertStatus.COMMITTED:
            replica.take(request.part)
        elif result.status is InsertStatus.RETRY:
            replica.disk.pop(request.part, None)
        else:
            raise UnavailableError("KEEPER_EXCEPTION", "still unknown")
        replica.unresolved.remove((block, request))
    listed = set(log_pull.read_listed_parts(replica.keeper, replica.paths))
    for item in list(replica.unfinished):
        if item[2] in listed:
            replica.take(item[2])
        else:
            replica.disk.pop(item[2], None)
        replica.unfinished.remove(item)
