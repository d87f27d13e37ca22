"""Lists the links of a cluster with their state, both ends of each, for system tables and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from coordination.keeper.interface import Keeper, Stat
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import DatabaseLink, TableLinkName, name_path, read_link_names
from coordination.links.link_settings import LinkSettings, format_link_setting
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from engine.queries.context import OwnerServer
from engine.tables.capabilities.link_status import LinkProgress, LinkStatus, UpstreamStatus
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.owned_table import OwnedTable
from parts.common.errors import CorruptionError, PandoError

logger = logging.getLogger(__name__)

_Node = tuple[bytes, Stat] | None


def list_link_statuses(server: OwnerServer) -> list[LinkStatus]:
    """Lists all links whose target is this cluster, and those whose source is a table of this server.

    Raises 999 (KEEPER_EXCEPTION) if ZooKeeper does not answer.
    """
    if server.replication.keeper is None:
        return []
    keeper = server.replication.require_keeper()
    return [*_list_incoming(server, keeper), *_list_outgoing(server)]


def _list_incoming(server: OwnerServer, keeper: Keeper) -> Iterator[LinkStatus]:
    names, unreadable = read_link_names(keeper)
    yield from (_describe_unreadable(name, error) for name, error in unreadable.items())
    of_tables = [each for each in names if isinstance(each, TableLinkName)]
    of_databases = [each for each in names if isinstance(each, DatabaseLink)]
    paths = [TablePaths(each.path) for each in of_tables]
    definitions = keeper.get_many(
        [path.linked.incoming_link(each.name) for path, each in zip(paths, of_tables, strict=True)]
    )
    states = keeper.get_many([path.linked.status(each.name) for path, each in zip(paths, of_tables, strict=True)])
    for each, found, state in zip(of_tables, definitions, states, strict=True):
        if found is None:  # the table is gone, and its name is left over
            continue
        try:
            definition = LinkDefinition.parse(found[0])
            if definition.uuid == each.uuid:
                yield _describe_incoming(server, definition, state)
        except PandoError as error:
            peer = each.source_cluster, each.source_database, each.source_table
            yield replace(_describe_unreadable(each.name, error, *peer), database_link=each.database_link)
    states = keeper.get_many([f"{name_path(each.name)}/status" for each in of_databases])
    leaders = keeper.get_many([f"{name_path(each.name)}/leader" for each in of_databases])
    for link, state, leader in zip(of_databases, states, leaders, strict=True):
        try:
            yield _describe_database_link(server, link, state, leader)
        except PandoError as error:
            unread = _describe_unreadable(link.name, error, link.source_cluster, link.source_database)
            yield replace(unread, database=link.target_database)


def _describe_unreadable(
    name: str, error: PandoError, peer: str = "", peer_database: str = "", peer_table: str = ""
) -> LinkStatus:
    """Returns a link of which something in ZooKeeper cannot be read, as far as it is known."""
    progress = LinkProgress(UpstreamStatus.STOPPED, error.message, last_exception=error.message)
    return LinkStatus(
        name, LinkDirection.IN, "", "", peer, peer_database, peer_table, state="unreadable", progress=progress
    )


def _describe_incoming(server: OwnerServer, definition: LinkDefinition, state: _Node) -> LinkStatus:
    own = server.links.find_progress(definition.name)
    progress = own if own is not None else _read_progress(server, state)
    table = server.catalog.find(definition.target_database, definition.target_table)
    if table is not None:
        progress = replace(progress, conflicts=server.services.conflicts[table.definition.data_path])
    return LinkStatus(
        definition.name,
        LinkDirection.IN,
        definition.target_database,
        definition.target_table,
        definition.source_cluster,
        definition.source_database,
        definition.source_table,
        definition.uuid,
        definition.database_link,
        state=_name_state(is_enabled=definition.is_enabled),
        settings=show_settings(definition.settings, is_enabled=definition.is_enabled),
        is_leader=own is not None,
        progress=progress,
    )


def _read_progress(server: OwnerServer, state: _Node) -> LinkProgress:
    """Returns what another server told, as old as it is by now."""
    if state is None:
        return LinkProgress(message="No server runs the link yet")
    try:
        progress = LinkProgress.parse(state[0])
    except CorruptionError as error:  # the server that runs the link writes it anew
        return LinkProgress(message=error.message)
    age = max(0.0, server.services.clock() - state[1].modified_ms / 1000)
    is_counting = progress.lag > 0 or progress.upstream_status is UpstreamStatus.DISCONNECTED
    return replace(progress, idle=progress.idle + age, lag=progress.lag + age * is_counting)


def _describe_database_link(server: OwnerServer, link: DatabaseLink, state: _Node, leader: _Node) -> LinkStatus:
    progress = LinkProgress.parse(state[0]) if state is not None else LinkProgress()
    own = leader is not None and leader[0] == server.uuid.encode()
    return LinkStatus(
        link.name,
        LinkDirection.IN,
        link.target_database,
        "",
        link.source_cluster,
        link.source_database,
        "",
        link.uuid,
        state=_name_state(is_enabled=link.is_enabled),
        settings=show_settings(link.settings, is_enabled=link.is_enabled),
        is_leader=own,
        progress=progress,
    )


def _list_outgoing(server: OwnerServer) -> Iterator[LinkStatus]:
    for table in server.catalog.tables():
        if table.links is None:
            continue
        try:
            links = table.links.source.list_outgoing()
        except CorruptionError as error:
            definition = table.definition
            unread = replace(_describe_unreadable("", error), direction=LinkDirection.OUT)
            yield replace(unread, database=definition.database, table=definition.name)
            continue
        except PandoError as error:
            logger.debug("links of table %s are not listed: %s", table.definition.full_name, error)
            continue
        yield from (_describe_outgoing(server, table, link) for link in links)


def _describe_outgoing(server: OwnerServer, table: OwnedTable, link: OutgoingLink) -> LinkStatus:
    idle = 0.0
    if link.last_heartbeat_ms:
        idle = max(0.0, server.services.clock() - link.last_heartbeat_ms / 1000)
    is_heard = bool(link.last_heartbeat_ms) and idle < _SILENT_SECONDS
    progress = LinkProgress(
        UpstreamStatus.FOLLOW if is_heard else UpstreamStatus.DISCONNECTED,
        "" if is_heard else _describe_silence(link, idle),
        idle=idle,
        applied_position=str(link.applied) if link.applied else "",
        confirmed_position=str(link.trim) if link.trim else "",
    )
    return LinkStatus(
        link.name,
        LinkDirection.OUT,
        table.definition.database,
        table.definition.name,
        link.target_cluster_name,
        uuid=link.uuid,
        settings={"two_way": str(int(link.is_two_way))},
        progress=progress,
    )


def _describe_silence(link: OutgoingLink, idle: float) -> str:
    since = f"for {idle:.0f} seconds" if link.last_heartbeat_ms else "yet"
    return (
        f"Cluster {link.target_cluster_name} has not asked for changes {since}. If it is gone for good, DROP "
        f"REPLICATION LINK '{link.name}' ends the keeping"
    )


_SILENT_SECONDS = 80.0
"""A resting link asks every 55 seconds, and its source writes that down at most every 10 seconds."""


def _name_state(*, is_enabled: bool) -> str:
    return "enabled" if is_enabled else "disabled"


def show_settings(given: Mapping[str, object], *, is_enabled: bool) -> dict[str, str]:
    """Returns all settings of a link as text."""
    settings = replace(LinkSettings.parse(given), enabled=is_enabled)
    return {each.name: format_link_setting(getattr(settings, each.name)) for each in fields(LinkSettings)}


def list_linked_tables(server: OwnerServer) -> Sequence[OwnedTable]:
    """Lists the tables of this server that are an end of a link now."""
    tables = [table for table in server.catalog.tables() if table.links is not None and table.replication is not None]
    if not tables:
        return []
    keeper = server.replication.require_keeper()
    paths = [table.replication.paths for table in tables if table.replication is not None]
    incoming = keeper.children_many([path.linked.incoming for path in paths])
    outgoing = keeper.children_many([path.linked.outgoing for path in paths])
    return [table for table, *found in zip(tables, incoming, outgoing, strict=True) if any(found)]
