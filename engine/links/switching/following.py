"""Makes a link's target follow a fork: its source is the table that was promoted from now on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from coordination.keeper.interface import (
    BadVersion,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    SetData,
)
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.groups.group_switching import follow_source, list_links_of_group
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import TableLinkName, name_path, parse_link_name
from coordination.links.link_nodes import StoredLink, find_link
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Position
from coordination.links.switching.fork_commit import TableNow
from coordination.links.switching.lineage import EpochFork, Lineage, find_surplus, list_ahead
from coordination.links.switching.switching_gate import end_promise, meet_fork, name_links
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection
from engine.links.exchange.fields import Document, get_object, get_objects, get_text
from engine.links.exchange.protocol import decode_vector
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.links.switching.requests import encode_vector
from engine.links.sync.link_registration import make_registration
from engine.remote.linked_cluster import LinkedCluster
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import ConflictError, PandoError, UnavailableError, UserError

logger = logging.getLogger(__name__)

_ATTEMPTS = 10


def follow_fork(server: SwitchingServer, link: StoredLink, local: LocalTable, fork: EpochFork) -> None:
    """Makes a link's target follow a fork, in a multi that sets its vector. May be repeated.

    It may follow another fork of the same epoch, with a source that has given that one up: then this one takes its
    place. Raises 36 (BAD_ARGUMENTS) for a table that has more than the fork; it takes nothing until it is told what to
    do.
    """
    for _ in range(_ATTEMPTS):
        if _follow_once(server, link.definition.name, link.definition.uuid, local, fork):
            return
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing table {local.name}; it follows later")


def _follow_once(server: SwitchingServer, name: str, uuid: str, local: LocalTable, fork: EpochFork) -> bool:
    keeper, paths = local.keeper, local.paths
    now = local.read_now()
    lineage = Lineage.read(now.gate)
    if (data := keeper.get_many([paths.linked.incoming_link(name)])[0]) is None:
        raise UserError("BAD_ARGUMENTS", f"Link {name!r} is gone")
    definition = LinkDefinition.parse(data[0])
    if definition.uuid != uuid:
        raise UserError("BAD_ARGUMENTS", f"Link {name!r} was made anew")
    if lineage.find(fork.name) is not None and definition.source_origin == str(fork.by):
        return True
    own = server.cluster_membership.get_identity(keeper)
    source = server.links.connect(fork.cluster)
    peer = source.get_identity()
    _, present, _, later = ask_place(server, fork, now)
    surplus = find_surplus(now.vector, (fork.vector, present), fork.by)
    if surplus:
        tail = local.links.switching.read_tail(fork.vector.join(present))
        if tail.changes or not tail.is_whole:
            _refuse(local, name, fork, surplus, present)
    if later is not None:  # the new source is none any more, either
        return _follow_once(server, name, uuid, local, later)
    outgoing = make_registration(definition, own.name, own.uuid)
    register_anew(source, fork.database, fork.table, outgoing)
    place, _, forks, _ = ask_place(server, fork, now)  # from now on nothing is trimmed
    server.services.failpoint("follow.before_commit")
    former = definition.source_cluster, definition.source_database, definition.source_table
    definition = replace(
        definition,
        source_cluster=fork.cluster,
        source_database=fork.database,
        source_table=fork.table,
        source_origin=str(place.origin if place is not None else fork.by),
        is_begun=place is not None and not definition.wants_copy,
        wants_copy=definition.wants_copy or (place is None and LinkSettings.parse(definition.settings).auto_bootstrap),
        beginning="",
        settings={key: value for key, value in definition.settings.items() if key != "start_position"},
    )
    known = fork.vector.join(present)
    vector = now.vector.lower_to(known, list_ahead(now.vector, known, fork.by))
    if definition.is_begun and place is not None:
        vector = vector.go_on_at(place)
    named = keeper.get(name_path(name))
    title = parse_link_name(name, named[0])
    assert isinstance(title, TableLinkName)
    title = replace(title, source_cluster=fork.cluster, source_database=fork.database, source_table=fork.table)
    ops: Sequence[Op] = [
        SetData(paths.gate, _turn_gate(now.gate, definition, peer, (*forks, fork)).to_bytes(), now.gate_version),
        SetData(paths.linked.vector, vector.to_bytes(), now.vector_version if now.vector_version is not None else -1),
        SetData(paths.linked.incoming_link(name), definition.to_bytes(), data[1].version),
        SetData(name_path(name), title.to_bytes(), named[1].version),
        *_group_ops(server, definition, peer),
    ]
    if not commit_at_once(local, ops):
        return False
    logger.warning("link %s follows the fork %s", name, fork.describe())
    server.links.wake()
    if former[0] != fork.cluster:
        with suppress(PandoError):  # the former source is perhaps gone; it is told again when it rejoins
            server.links.connect(former[0]).unregister(former[1], former[2], outgoing.name, uuid)
    return True


def _turn_gate(gate: Gate, link: LinkDefinition, peer: ClusterIdentity, forks: Sequence[EpochFork]) -> Gate:
    """Returns the gate in which a link has its new source, ``peer``, and the table follows these forks."""
    known = gate.find_link(link.name)
    assert known is not None
    turned = GateLink(
        link.name, LinkDirection.IN, link.uuid, peer.uuid, link.source_cluster, known.is_two_way, known.extra,
        group=known.group, is_collecting=known.is_collecting,
    )  # fmt: skip
    lineage = Lineage.read(gate)
    for each in forks:
        lineage = lineage.follow(each)
    return lineage.write(end_promise(gate).without_bar("fork").with_link(turned))


def _group_ops(server: SwitchingServer, definition: LinkDefinition, peer: ClusterIdentity) -> list[Op]:
    """Returns the operations on the group of a link that follows a fork."""
    if not definition.group:
        return []
    keeper = server.replication.require_keeper()
    cluster, uuid = definition.source_cluster, str(server.services.new_uuid())
    others = [name for name in list_links_of_group(keeper, definition.group) if name != definition.name]
    found = [find_link(keeper, name) for name in others]
    followers = [
        link.definition.name
        for link in found
        if isinstance(link, StoredLink) and link.definition.source_cluster == cluster
    ]
    return follow_source(keeper, definition.group, definition.name, peer, cluster, uuid, followers)


def register_anew(source: LinkedCluster, database: str, table: str, link: OutgoingLink) -> None:
    """Registers a link at its new source.

    What has its name there is of this table's past: a former link, or what keeps changes for an old source. The link
    itself is never taken away, since INSERTs wait for one that is synchronous.
    """
    try:
        source.register(database, table, link)
    except UserError:
        source.unregister(database, table, link.name, "")
        source.register(database, table, link)


def commit_at_once(local: LocalTable, ops: Sequence[Op]) -> bool:
    """Sends one multi. Returns whether it was carried out; not if something that it expects has changed."""
    try:
        local.keeper.multi(ops)
    except KeeperConnectionLoss as error:
        raise UnavailableError("KEEPER_EXCEPTION", "ZooKeeper went away; repeat the statement") from error
    except MultiFailed as error:
        if not isinstance(error.cause, BadVersion | NoNode | NodeExists | NotEmpty):
            raise error.cause from error
        return False
    return True


def _refuse(local: LocalTable, name: str, fork: EpochFork, surplus: Sequence[Position], present: VersionVector) -> None:
    """Closes a table that has more than the fork, and says how much."""
    local.move_gate(lambda gate: meet_fork(gate, Lineage.read(gate), fork, name))
    tail = local.links.switching.read_tail(fork.vector.join(present))
    rows = sum(change.rows for change in tail.changes)
    gate = local.read_gate()
    conflict, link = Lineage.read(gate).explain_conflict(fork), gate.find_link(name)
    statement = name_links(name, link.group if link is not None else "")
    raise UserError(
        "BAD_ARGUMENTS",
        f"Table {local.name} has {rows} rows ({surplus[0]}) behind the fork {fork.describe()}, so it cannot follow it"
        f"{f'; {conflict}' if conflict else ''}. "
        f"SYSTEM REJOIN {statement} FROM CLUSTER {fork.cluster} shows them, and with DETACH TAIL takes "
        "them out and goes on",
    )


def ask_place(
    server: SwitchingServer, fork: EpochFork, now: TableNow
) -> tuple[Position | None, VersionVector, list[EpochFork], EpochFork | None]:
    """Asks a source for the place at which a table follows it, for its vector, and for its forks.

    The place is ``None`` if the source does not keep what the table lacks. The last is the fork that ended the epoch
    which this one began, if the source follows it by now.
    """
    client = server.links.connect(fork.cluster)
    answer = client.ask(
        "switching/place",
        {
            "database": fork.database,
            "table": fork.table,
            "vector": encode_vector(now.vector),
            "own": str(now.own),
            "by": str(fork.by),
        },
    )
    later = EpochFork.of(get_object(answer, "later")) if answer.get("later") else None
    return *read_place(answer), list(map(EpochFork.of, get_objects(answer, "forks"))), later


def read_place(answer: Document) -> tuple[Position | None, VersionVector]:
    """Parses the answer to ``switching/place``."""
    text = get_text(answer, "place")
    return Position.parse(text) if text else None, decode_vector(get_object(answer, "vector"))
