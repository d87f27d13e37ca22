"""Brings a replica's parts on disk and its list in ZooKeeper into agreement at the start of a session."""

from __future__ import annotations

import logging

from coordination.keeper.interface import Check, Create, Keeper, MultiFailed
from coordination.replicas.clone import clone_replica, finish_clone
from coordination.replicas.log_pull import queue_missing_fetches, unlist_parts
from coordination.replicas.part_commit import content_agreement_ops
from engine.tables.replicated.replica_state import ReplicaState, make_part_record
from parts.common.errors import ConflictError
from parts.read.part_reader import Part
from recovery.startup_plan import StartupPlan
from recovery.zookeeper_parts import read_part_records

logger = logging.getLogger(__name__)


def clone_from_replica(state: ReplicaState, keeper: Keeper) -> None:
    """Makes a new or lost replica a copy of another; parts that only it has go to ``detached/clone_…``."""
    hashes = {name: part.content_hash for name, part in state.parts_on_disk().items()}
    result = clone_replica(keeper, state.replica, hashes)
    leaving = set(result.parts_to_detach)
    covers = {name: state.store.covering_active(name) for name in leaving}
    for name in result.parts_to_detach:
        cover = covers[name]
        if cover is not None and cover.name not in leaving:
            continue  # merged into a part that stays: clean-up removes it
        logger.warning("part %s is not on %s: moved to %s", name, result.source, state.store.detach(name, "clone"))
    state.store.reactivate_covered(hashes.keys())
    listed = read_part_records(keeper, state.replica)
    for part in state.store.list_active():
        if part.name not in listed:
            keeper.create(state.replica.part(str(part.name)), make_part_record(part).to_bytes())
    finish_clone(keeper, state.replica)
    logger.info("replica %s cloned %s: %s parts to fetch", state.replica.root, result.source, result.queued_fetches)


def apply_startup_plan(state: ReplicaState, keeper: Keeper, plan: StartupPlan) -> None:
    """Brings disk and ZooKeeper into agreement as planned. Covered parts go when their cover is here.

    Repeatable: finished steps drop out of the next plan.
    """
    for name in plan.unexpected:
        logger.warning("part %s is not in ZooKeeper: moved to %s", name, state.store.detach(name, "ignored"))
    for name in plan.different_content:
        logger.warning("part %s differs from ZooKeeper: moved to %s", name, state.store.detach(name, "broken"))
    state.store.reactivate_covered([*plan.keep, *plan.agreed])
    for part in filter(None, map(state.store.get_active, plan.agreed)):
        if part.row_version.lacks_position:  # its own listing would have told
            logger.warning("part %s will be fetched: moved to %s", part.name, state.store.detach(part.name, "ignored"))
            queue_missing_fetches(keeper, state.replica, state.queue, [part.name])
            continue
        logger.warning("part %s is listed by another replica with this content: it is listed here too", part.name)
        _list_agreed(state, keeper, part)
    for name in plan.fetch:
        logger.warning("part %s is missing on disk: it will be fetched", name)
    unlist_parts(keeper, state.replica, plan.unlist)
    queue_missing_fetches(keeper, state.replica, state.queue, plan.fetch)


def _list_agreed(state: ReplicaState, keeper: Keeper, part: Part) -> None:
    """Lists a part with the content that other replicas list.

    Raises ``ConflictError`` if their lists have changed meanwhile; the next session looks again.
    """
    replica, record = state.replica, make_part_record(part)
    agreement = content_agreement_ops(keeper, replica, part.name, record)
    if not any(isinstance(op, Check) for op in agreement or ()):
        raise ConflictError("KEEPER_EXCEPTION", f"No other replica lists part {part.name} any more; looking again")
    try:
        keeper.multi([*(agreement or ()), Create(replica.part(str(part.name)), record.to_bytes())])
    except MultiFailed as error:
        message = f"Part {part.name} could not be listed, others change its nodes; looking again"
        raise ConflictError("KEEPER_EXCEPTION", message) from error
