"""Turns a source into a target: after a SWITCH at once, in a REJOIN with a copy of the new source.

Its gate is shut. One multi gives it a new epoch, the fork, and the link that brings changes here. The tables of a
transactional group are turned in one multi, which also makes the group of their new links.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.keeper.interface import Create, Op, SetData
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.groups.group_switching import found_group
from coordination.links.groups.link_group import GroupMember, join_group
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import LINKS_PATH, TableLinkName, name_path
from coordination.links.link_nodes import StoredLink, take_name
from coordination.links.positions import Position
from coordination.links.switching.fork_commit import TableNow, next_epoch
from coordination.links.switching.lineage import REJOIN_KEY, EpochFork, Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, TICKET, end_promise, write_facts
from coordination.links.sync.sync_states import sync_bar_owner
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.replica_activation import FEATURE_LINK_GROUPS, feature_checks
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
    group: str = ""
    """The transactional group that the link is in; empty for none."""


def turn_table(local: LocalTable, turn: Turn) -> None:
    """Makes the table the target of a link. May be repeated: it does nothing if it is so already."""
    turn_tables([(local, turn)])


def turn_tables(
    turns: Sequence[tuple[LocalTable, Turn]], group: str = "", followers: Sequence[StoredLink] = ()
) -> None:
    """Makes tables the targets of links, all in one multi.

    May be repeated: what is so already stays so. With a group they are in it, with the ``followers``: links that bring
    changes of the new source here already. Raises 36 (BAD_ARGUMENTS) if one of these is in another group.
    """
    keeper, root = turns[0][0].keeper, turns[0][0].paths.root
    for _ in range(_ATTEMPTS):
        nows = [(local, turn, local.read_now(with_changes=True)) for local, turn in turns]
        waiting = [each for each in nows if not _is_turned(each[1], each[2])]
        if not waiting:
            return
        for local, _, _ in waiting:
            create_lists(keeper, local.paths, local.paths.linked.outgoing, local.paths.linked.definitions)
        keeper.create_parents(LINKS_PATH)
        ops = [op for local, turn, now in waiting for op in _turn_ops(local, replace(turn, group=group), now)]
        if group:
            ops += _group_ops(turns, group, followers)
        if commit_at_once(turns[0][0], ops):
            for local, turn, _ in waiting:
                logger.warning("table %s follows cluster %s: %s", local.name, turn.source_cluster, turn.fork.describe())
            turns[0][0].server.links.wake()
            return
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing table {root}; repeat the statement")


def _is_turned(turn: Turn, now: TableNow) -> bool:
    found = now.gate.find_link(turn.name)
    is_there = found is not None and found.uuid == turn.uuid and found.direction is LinkDirection.IN
    return is_there and turn.place is not None


def _group_ops(turns: Sequence[tuple[LocalTable, Turn]], group: str, followers: Sequence[StoredLink]) -> Sequence[Op]:
    """Returns the operations that make a group of the links of these turns and the followers."""
    first, turn = turns[0]
    members = [
        GroupMember(
            each.name, each.uuid, local.table.definition.database, local.table.definition.name, local.paths.root
        )
        for local, each in turns
    ]
    ops: list[Op] = []
    for link in followers:
        definition = link.definition
        names = definition.name, definition.uuid, definition.target_database, definition.target_table
        members.append(GroupMember(*names, link.table.root))
        ops += join_group(first.keeper, members[-1], group)
    checks = [feature_checks(first.keeper, local.paths, FEATURE_LINK_GROUPS, "A group of links") for local, _ in turns]
    uuid, source = str(first.server.services.new_uuid()), (turn.source_cluster, turn.source.uuid)
    ops += found_group(first.keeper, group, uuid, source, sorted(members, key=lambda each: each.link))
    return list(dict.fromkeys([*ops, *(check for each in checks for check in each)]))


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
        source_origin=str(turn.fork.by),
        is_begun=turn.place is not None,
        wants_copy=turn.place is None,
        group=turn.group,
        extra=((REJOIN_KEY, turn.fork.name),) if turn.place is None else (),
    )
    by = next_epoch(now.own, local.server.services.new_uuid().int)
    gone = [name for name in turn.dropped if now.gate.find_link(name) is not None]
    entry = GateLink(turn.name, LinkDirection.IN, turn.uuid, turn.source.uuid, turn.source_cluster, group=turn.group)
    gate = now.gate.with_link(entry)
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
