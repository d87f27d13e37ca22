"""What the simulation's replicas do in the background: the queue, merges, drops and clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordination.drops.drop_partition import clear_drop_leftovers
from coordination.inserts.quorum_failure import fail_unreachable_part
from coordination.keeper.interface import KeeperConnectionLoss, KeeperError
from coordination.log.queue_rules import Action, ActionKind, PoolLimits
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.merges_mutations.merge_predicate import read_merge_predicate
from coordination.merges_mutations.mutation_nodes import KnownMutations
from coordination.replicas import log_pull
from coordination.replicas.cleanup import run_cleanup
from coordination.replicas.part_commit import PartCommitStatus
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from tests.coordination.holders import find_holder
from tests.coordination.real_time import commit_produced_part, drop_partition
from tests.coordination.simulated_replica import PARTITIONS, TABLE, Crash, Replica, Rows
from tests.coordination.simulated_session import settle

if TYPE_CHECKING:
    from tests.coordination.simulation import World


def pull(world: World, replica: Replica) -> None:
    log_pull.pull_log(replica.keeper, replica.paths, replica.queue)


def execute(world: World, replica: Replica) -> None:
    if replica.unresolved and not replica.busy - {"execute"}:
        settle(world, replica)
    action = replica.queue.take_next_action(replica, PoolLimits(4, 4, 1 << 40))
    if action is None:
        return
    try:
        run(world, replica, action)
    except Crash:
        raise
    except (KeeperError, KeeperConnectionLoss, PandoError) as error:
        replica.queue.fail(action.name, error.message)
        raise


def run(world: World, replica: Replica, action: Action) -> None:
    entry, keeper, queue = action.entry, replica.keeper, replica.queue
    assert entry.new_part is not None
    if action.kind is ActionKind.SKIP:
        log_pull.remove_entry(keeper, replica.paths, queue, action.name)
    elif action.kind is ActionKind.DROP_RANGE:
        world.count("drop executed")
        if entry.has_leftovers:
            world.count("leftovers cleared")
            clear_drop_leftovers(keeper, TABLE, entry.new_part)
        gone = replica.active.remove_covered(entry.new_part)
        listed = [p for p in log_pull.read_listed_parts(keeper, replica.paths) if entry.new_part.covers(p)]
        log_pull.unlist_parts(keeper, replica.paths, {*gone, *listed})
        log_pull.remove_entries(keeper, replica.paths, queue, [*queue.list_covered_entries(action.name), action.name])
    elif action.kind is ActionKind.MERGE:
        world.count("merge executed")
        rows = frozenset().union(*(replica.disk[part] for part in entry.source_parts))
        produce(world, replica, action, entry.new_part, rows)
    else:
        fetch(world, replica, action)


def fetch(world: World, replica: Replica, action: Action) -> None:
    entry = action.entry
    assert entry.new_part is not None
    holder = find_holder(
        replica.keeper, replica.paths, entry.new_part, replica.queue.copy_virtual_parts(), choose=world.random
    )
    if holder is None:
        if entry.quorum >= 2 and fail_unreachable_part(replica.keeper, replica.paths, entry):
            world.count("quorum failed")
            log_pull.abandon_entry(replica.keeper, replica.paths, replica.queue, action.name)
            return
        replica.queue.postpone(action.name, "no active replica has it")
        return
    source = next(r for r in world.replicas if r.name == holder.replica_name)
    if holder.part not in source.disk or source.is_crashed:
        replica.queue.fail(action.name, "the holder does not answer")
        return
    world.count("fetch")
    produce(world, replica, action, holder.part, source.disk[holder.part])


def produce(world: World, replica: Replica, action: Action, part: PartName, rows: Rows) -> None:
    replica.disk[part] = rows
    try:
        status = commit_produced_part(
            replica.keeper,
            replica.paths,
            replica.queue,
            action.name,
            action.entry,
            part,
            replica.record(part),
            resolve_seconds=0.05,
            clock=world.clock,
            sleep=lambda _: world.maybe_reconnect(replica),
        )
    except Crash:
        raise
    except BaseException:
        replica.disk.pop(part, None)
        raise
    if status is PartCommitStatus.COMMITTED:
        replica.take(part)
        replica.queue.finish(action.name)
    elif status is PartCommitStatus.UNKNOWN:
        world.count("unknown part")
        replica.unfinished.append((action.name, action.entry, part))
        replica.activation = None
        replica.keeper.expire()
    else:
        assert status is PartCommitStatus.DROPPED, "all replicas merge alike"
        replica.disk.pop(part, None)
        log_pull.abandon_entry(replica.keeper, replica.paths, replica.queue, action.name)


def merge(world: World, replica: Replica) -> None:
    replica.busy.add("pull")
    try:
        predicate = read_merge_predicate(
            replica.keeper,
            TABLE,
            replica.queue,
            lambda: pull(world, replica),
            KnownMutations(TABLE).load,
            replica.queue.copy_virtual_parts().partition_ids(),
        )
    finally:
        replica.busy.discard("pull")
    if any(predicate.committing.values()):
        world.count("predicate met a lock")
    entries = []
    for partition in predicate.partition_ids():
        runs = [run for run in predicate.list_mergeable_runs(partition) if len(run) >= 2]
        if runs:
            run = world.random.choice(runs)
            begin = world.random.randrange(len(run) - 1)
            end = world.random.randrange(begin + 2, len(run) + 1)
            entries.append(make_merge_entry(run[begin:end], replica.name, world.clock()))
    if entries and log_merges_and_mutations(replica.keeper, TABLE, predicate.log_version, entries):
        world.count("merge assigned")


def drop(world: World, replica: Replica) -> None:
    partition = world.random.choice(PARTITIONS)
    drop_partition(replica.keeper, TABLE, replica.name, partition, clock=world.clock)


def clean(world: World, replica: Replica) -> None:
    world.remember_drops()
    report = run_cleanup(replica.keeper, TABLE, world.settings)
    for name in report.lost_replicas:
        world.count(f"lost {name}")
    covered = [
        p
        for p in log_pull.read_listed_parts(replica.keeper, replica.paths)
        if replica.active.find_covering(p) not in (p, None)
    ]
    log_pull.unlist_parts(replica.keeper, replica.paths, covered)
    for part in covered:
        replica.disk.pop(part, None)
