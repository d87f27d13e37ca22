"""The simulation's clients: what they insert, repeat and are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordination.inserts.block_numbers import DuplicateBlock
from coordination.inserts.insert_commit import InsertRequest, InsertStatus, begin_insert
from coordination.inserts.quorum import plan_quorum
from coordination.inserts.quorum_wait import wait_for_quorum
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from tests.coordination.real_time import commit_insert
from tests.coordination.simulated_replica import PARTITIONS, TABLE, Replica, Waiter

if TYPE_CHECKING:
    from tests.coordination.simulation import World


def insert(world: World, replica: Replica) -> None:
    if world.next_block and world.random.random() < 0.3:
        number = world.random.randrange(world.next_block)
    else:
        number, world.next_block = world.next_block, world.next_block + 1
    block, partition = f"b{number}", PARTITIONS[number % len(PARTITIONS)]
    world.history.attempted.add(block)
    setting = world.random.choice([0, 0, 0, 2, "auto"])
    is_parallel = world.random.random() < 0.7
    assert replica.activation is not None
    keeper = replica.keeper
    quorum = plan_quorum(keeper, TABLE, setting, is_parallel=is_parallel)
    for _ in range(5):
        taken = begin_insert(keeper, TABLE, partition, block, owner=replica.name, quorum=quorum)
        if isinstance(taken, DuplicateBlock):
            world.count("duplicate")
            confirm(world, replica, block, PartName.parse(taken.part), quorum is not None, is_parallel)
            return
        part = PartName(partition, taken.number, taken.number, 0)
        assert part not in replica.disk
        replica.disk[part] = frozenset([block])
        activation = replica.activation
        if activation is None:
            raise UnavailableError("TABLE_IS_READ_ONLY", "no session")
        record = replica.record(part)
        request = InsertRequest(
            replica.paths, part, taken, record, world.clock(), activation, replica.gate, block, quorum
        )
        if not commit(world, replica, block, request):
            continue
        return


def commit(world: World, replica: Replica, block: str, request: InsertRequest) -> bool:
    """``False``: take another number."""
    with replica.queue.mark_insert(request.part):
        try:
            world.history.maybe.add(block)
            result = commit_insert(
                replica.keeper,
                request,
                resolve_seconds=0.05,
                clock=world.clock,
                sleep=lambda _: world.maybe_reconnect(replica),
            )
        except PandoError:
            replica.disk.pop(request.part, None)
            raise
        if result.status is InsertStatus.COMMITTED:
            replica.take(request.part)
            replica.queue.add_active(request.part)
    if result.status is InsertStatus.COMMITTED:
        world.count("committed")
        is_quorum = request.quorum is not None
        confirm(world, replica, block, request.part, is_quorum, is_quorum and request.quorum.is_parallel)  # type: ignore[union-attr]
    elif result.status is InsertStatus.DUPLICATE:
        replica.disk.pop(request.part, None)
    elif result.status is InsertStatus.RETRY:
        world.count("retry")
        replica.disk.pop(request.part, None)
        return False
    else:
        world.count("unknown insert")
        replica.unresolved.append((block, request))
    return True


def confirm(world: World, replica: Replica, block: str, part: PartName, is_quorum: bool, is_parallel: bool) -> None:
    if not is_quorum:
        # A duplicate of a pending quorum insert may be given up later: only the waiter may acknowledge it.
        if pending(world, replica, part):
            return
        world.history.acknowledge(block, part)
    elif replica.activation is not None:
        replica.waiters.append(Waiter(block, part, replica.activation, is_parallel))


def pending(world: World, replica: Replica, part: PartName) -> bool:
    paths = (TABLE.quorum_parallel_part(str(part)), TABLE.quorum_status, TABLE.quorum_failed_part(str(part)))
    return any(path in world.ensemble.tree for path in paths)


def wait(world: World, replica: Replica) -> None:
    for waiter in list(replica.waiters):
        try:
            wait_for_quorum(
                replica.keeper,
                TABLE,
                waiter.part,
                waiter.activation,
                is_parallel=waiter.is_parallel,
                timeout_seconds=0,
                clock=world.clock,
                wait=lambda event, seconds: None,
            )
        except UnknownOutcomeError as error:
            if "Timeout" in error.message and world.random.random() < 0.9:
                continue
        else:
            if not pending(world, replica, waiter.part):
                world.count("quorum met")
                world.history.acknowledge(waiter.block, waiter.part)
        if waiter in replica.waiters:
            replica.waiters.remove(waiter)
