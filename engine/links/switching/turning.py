"""Turns a source into a target: after a SWITCH at once, in a REJOIN with a copy of the new source.

Its gate is shut. One multi gives it a new epoch, the fork, and the link that brings changes here.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.keeper.interface import Create, Op, SetData
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import LINKS_PATH, TableLinkName, name_path
from coordination.links.link_nodes import take_name
from coordination.links.positions import Position
from coordination.links.switching.fork_commit import TableNow, next_epoch
from coordination.links.switching.lineage import REJOIN_KEY, EpochFork, Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, TICKET, end_promise, write_facts
from coordination.links.sync.sync_states import sync_bar_owner
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.table_lists import create_lists
from engine.links.switching.following import commit_at_once
from engine.links.switching.local_tables import LocalTable
from engine.tables.replicated.links.source.outgoing_nodes import unregister_ops
from parts.common.errors import ConflictError

logger = logging.getLogger(__name__)

_ATTEMPTS = 10


@dataclass(frozen=True)
class Turn:
    """The link and lineage of a former source."""

    name: str
    """The link."""
    uuid: str
    forks: Sequence[EpochFork]
    """The lineage of the new source; the last is the one that this table meets."""
    fork: EpochFork
    """The one that ended this table's epoch."""
    source: ClusterIdentity
    source_cluster: str
    database: str
    table: str
    settings: Mapping[str, object]
    place: Position | None = None
    """Where it goes on in the new source's stream; ``None``: with a copy."""
    dropped: Collection[str] = ()
    """Links out of this table whose targets follow the new source."""


def turn_table(local: LocalTable, turn: Turn) -> None:
    """Makes the table the target of a link. May be repeated: it does nothing if it is so already."""
    for _ in range(_ATTEMPTS):
        now = local.read_now(with_changes=True)
        found = now.gate.find_link(turn.name)
        if found is not None and found.uuid == turn.uuid and found.direction is LinkDirection.IN and turn.place:
            return
        create_lists(local.keeper, local.paths, local.paths.linked.outgoing, local.paths.linked.definitions)
        local.keeper.create_parents(LINKS_PATH)
        if commit_at_once(local, _turn_ops(local, turn, now)):
            logger.warning("table %s follows cluster %s: %s", local.name, turn.source_cluster, turn.fork.describe())
            local.server.links.wake()
            return
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing table {local.name}; repeat the statement")


def _turn_ops(local: LocalTable, turn: Turn, now: TableNow) -> list[Op]:
    paths, keeper, definition = local.paths, local.keeper, local.table.definition
    link = LinkDefinition(
        turn.name,
        turn.uuid,
        turn.source_cluster,
        turn.database,
        turn.table,
        definition.database,
        definition.name,
        turn.settings,
        source_origin=str(turn.fork.by) if turn.place is not None else "",
        is_begun=turn.place is not None,
        wants_copy=turn.place is None,
        extra=((REJOIN_KEY, turn.fork.name),) if turn.place is None else (),
    )
    by = next_epoch(now.own, local.server.services.new_uuid().int)
    gone = [name for name in turn.dropped if now.gate.find_link(name) is not None]
    gate = now.gate.with_link(GateLink(turn.name, LinkDirection.IN, turn.uuid, turn.source.uuid, turn.source_cluster))
    for name in gone:
        former = gate.find_link(name)
        assert former is not None
        gate = gate.without_link(name).without_bar(sync_bar_owner(former.uuid))
    lineage = Lineage.read(now.gate)
    for fork in turn.forks:
        lineage = lineage.follow(fork)
    lineage = lineage.end_epoch(Position(now.own, now.newest))
    gate = write_facts(end_promise(gate), ticket=None).without_bar(TICKET).without_bar(FORK_OWNER)
    gate = lineage.write(replace(gate, epoch=str(by.epoch)))
    vector = _turned_vector(now, turn).to_bytes()
    path = paths.linked.incoming_link(turn.name)
    known = keeper.get_many([path, name_path(turn.name)])
    title = TableLinkName(turn.name, turn.uuid, paths.root, turn.source_cluster, turn.database, turn.table)
    ops: list[Op] = [
        SetData(paths.gate, gate.to_bytes(), now.gate_version),
        Create(paths.linked.vector, vector)
        if now.vector_version is None
        else SetData(paths.linked.vector, vector, now.vector_version),
    ]
    if known[0] is not None:  # a link that followed the former source
        ops.append(SetData(path, link.to_bytes(), known[0][1].version))
        assert known[1] is not None
        ops.append(SetData(name_path(turn.name), title.to_bytes(), known[1][1].version))
    else:
        ops += [] if keeper.exists(paths.linked.incoming) is not None else [Create(paths.linked.incoming)]
        ops += [Create(path, link.to_bytes()), take_name(keeper, title)]
    for name in gone:
        ops += unregister_ops(keeper, paths, name)
    return ops


def _turned_vector(now: TableNow, turn: Turn) -> VersionVector:
    """Returns the vector: the former own origin, up to the fork, is one of others now."""
    vector, ended = now.vector, turn.fork.ended
    if ended.origin == now.own and ended.zxid > vector.applied(ended.origin):
        reached = ended.zxid if turn.place is not None else min(ended.zxid, _last_own(now))
        if reached > vector.applied(ended.origin):
            vector = vector.advance(Position(ended.origin, reached))
    if turn.place is not None:
        vector = vector.begin_with(turn.fork.vector)
        vector = vector.go_on_at(turn.place)
    return vector


def _last_own(now: TableNow) -> int:
    return now.last_own.zxid if now.last_own is not None else 0
