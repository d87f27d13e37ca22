"""Makes, changes and drops links of tables: what statements and database links have in common.

A link is made in this order, so that whatever fails leaves nothing behind:

1. the statement, the target and its other links are checked, then the source is asked what it is;
2. the nodes of the link are made, in one multi (:mod:`coordination.links.link_nodes`);
3. the source is told to keep its changes. If it refuses, or does not answer, the nodes go again.

After a crash between 2 and 3 the link is there, and the server that runs it tells the source. A link that needs no
copy of the source's rows begins at the place that the source's answer in 3 names; the server that runs it begins the
others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import TableLinkName, check_link_name, find_link_name
from coordination.links.link_nodes import create_link, drop_link, is_left_over, make_taken_error
from coordination.links.link_settings import START_NOW, START_VECTOR, LinkSettings
from coordination.links.positions import Position
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkMode, SyncState
from engine.links.link_beginning import begin_at_registration
from engine.links.linkable_tables import require_linkable
from engine.links.sync.link_modes import ModeRequest, request_modes
from engine.links.sync.link_registration import make_registration
from engine.links.sync.mode_keeper import LEASES
from engine.links.target_views import require_fit_views
from engine.queries.context import OwnerServer
from engine.remote.linked_cluster import LinkedCluster
from engine.tables.capabilities.table_links import OutgoingLink, SourceTable, TargetState
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError, UnavailableError, UserError
from sql.definitions.several_origins import refuse_several_origins

logger = logging.getLogger(__name__)

_MODE_SECONDS = 30.0
_MODE_PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class NewLink:
    """A link of a table that is to be made. ``settings`` are the given values."""

    name: str
    database: str
    table: str
    cluster: str
    source_database: str
    source_table: str
    settings: Mapping[str, object] = field(default_factory=dict)
    database_link: str = ""


def create_table_link(server: OwnerServer, new: NewLink) -> LinkDefinition:
    """Makes a link of a table. Raises what is wrong with it, and leaves nothing behind then."""
    check_link_name(new.name)
    settings = LinkSettings.parse(new.settings)
    table = _require_target(server, new)
    target = require_linkable(table).target
    if settings.two_way:
        refuse_several_origins(table.description, table.definition.full_name)
    if settings.run_views:
        require_fit_views(server.catalog, table)
    keeper = server.replication.require_keeper()
    own = server.cluster_membership.get_identity(keeper)
    found = find_link_name(keeper, new.name)
    if found is not None and not is_left_over(keeper, found):
        raise make_taken_error(new.name)
    cluster = server.links.connect(new.cluster)
    peer = cluster.get_identity()
    source = cluster.describe(new.source_database, new.source_table)
    state = target.read_target()
    _check_start(table, new, settings, source, state)
    definition = LinkDefinition(
        new.name,
        str(server.services.new_uuid()),
        new.cluster,
        source.database,
        source.table,
        table.definition.database,
        table.definition.name,
        split_enabled(new.settings),
        new.database_link,
        settings.enabled,
    )
    assert table.replication is not None
    create_link(keeper, table.replication.paths, definition, peer.uuid)
    registered = _register(server, cluster, definition, make_registration(definition, own.name, own.uuid))
    definition = begin_at_registration(table, definition, registered)
    server.links.wake()
    return definition


def _require_target(server: OwnerServer, new: NewLink) -> OwnedTable:
    table = server.catalog.find(new.database, new.table)
    if table is None:
        raise UserError(
            "UNKNOWN_TABLE",
            f"The target of link {new.name!r}, table {new.database}.{new.table}, is not on this server. Make it first "
            f"(SHOW CREATE TABLE {new.source_database}.{new.source_table} at cluster {new.cluster} says how), or link "
            "the whole database, which makes missing tables",
        )
    return table


def _check_start(
    table: OwnedTable, new: NewLink, settings: LinkSettings, source: SourceTable, state: TargetState
) -> None:
    """Raises 36 (BAD_ARGUMENTS) for a table linked to itself, and for a start that cannot be."""
    name, start = table.definition.full_name, settings.start_position
    if (source.origin.cluster, source.origin.table) == (state.own.cluster, state.own.table):
        raise UserError("BAD_ARGUMENTS", f"Table {name} cannot be linked to itself")
    if not start:
        rows = sum(part.rows for part in table.active_parts())
        if rows and source.origin not in state.vector.entries:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {name} has {rows} rows, and a new link copies its source into an empty table. Give "
                f"start_position = '{START_NOW}' if they are the source's, '{START_VECTOR}' if an earlier link brought "
                f"them, or empty the table",
            )
    elif start == START_VECTOR:
        if source.origin not in state.vector.entries:
            raise UserError(
                "BAD_ARGUMENTS",
                f"start_position = '{START_VECTOR}' needs a table that has changes of {source.origin}, and {name} has "
                f"none. Use '{START_NOW}' or a position",
            )
    elif start != START_NOW:
        position = Position.parse(start)
        position.require_origin(source.origin)
        if position.zxid > source.newest:
            raise UserError(
                "BAD_ARGUMENTS",
                f"start_position = '{start}' lies behind the newest change of the source, {source.newest}",
            )


def _register(
    server: OwnerServer, cluster: LinkedCluster, definition: LinkDefinition, outgoing: OutgoingLink
) -> SourceTable:
    database, table = definition.source_database, definition.source_table
    try:
        return cluster.register(database, table, outgoing)
    except PandoError as error:
        logger.warning("link %s is taken back, its source refused it: %s", definition.name, error)
        drop_link(server.replication.require_keeper(), definition.name)
        with suppress(PandoError):
            cluster.unregister(database, table, outgoing.name, outgoing.uuid)
        raise


def split_enabled(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings that a definition keeps: all but ``enabled``."""
    return {name: value for name, value in settings.items() if name != "enabled"}


def drop_table_link(server: OwnerServer, name: str) -> bool:
    """Drops a link at its target, and ends the keeping at its source. Returns whether it was there.

    Raises 341 (UNFINISHED) if the source could not be told; the message says what to run there.
    """
    _require_own_shard(server, name)
    dropped = drop_link(server.replication.require_keeper(), name)
    server.links.wake()
    if dropped is None:
        return False
    end_keeping(server, dropped)
    return True


def _require_own_shard(server: OwnerServer, name: str) -> None:
    """Raises 36 (BAD_ARGUMENTS) if the link is of another shard, whose source this server does not ask."""
    if server.cluster_membership.shard.count <= 1:
        return
    found = find_link_name(server.replication.require_keeper(), name)
    roots = {table.replication.paths.root for table in server.catalog.tables() if table.replication is not None}
    if isinstance(found, TableLinkName) and found.path not in roots:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The target of link {name!r} ({found.path}) has no replica on this server of "
            f"{server.cluster_membership.shard}: run the statement on a server that has one",
        )


def end_keeping(server: OwnerServer, link: TableLinkName) -> None:
    """Tells the source of a dropped link to keep nothing for it. Raises as :func:`drop_table_link`."""
    own = server.cluster_membership.get_identity(server.replication.require_keeper())
    at_source = f"{own.name}/{link.name}"
    try:
        server.links.connect(link.source_cluster).unregister(
            link.source_database, link.source_table, at_source, link.uuid
        )
    except PandoError as error:
        if error.name in ("UNKNOWN_TABLE", "UNKNOWN_DATABASE"):  # what it kept went with it
            return
        raise UnavailableError(
            "UNFINISHED",
            f"Link {link.name!r} is dropped here, but cluster {link.source_cluster!r} could not be told and goes on "
            f"keeping changes for it: {error.message}. When it is back, run there: DROP REPLICATION LINK '{at_source}'",
        ) from error


def drop_outgoing_link(server: OwnerServer, name: str) -> bool:
    """Ends the keeping for a link at its source; ``name`` is ``<target cluster>/<name>``.

    Returns whether a table of this server kept anything for it.
    """
    was_there = False
    for table in server.catalog.tables():
        if table.links is None or table.replication is None or table.replication.problem() is not None:
            continue
        if any(link.name == name for link in table.links.source.list_outgoing()):
            if any(link.name == name and link.state is not SyncState.DISABLED for link in _gate_links(table)):
                _end_mode(server, table, name)
            table.links.source.unregister(name)
            was_there = True
    return was_there


def _gate_links(table: OwnedTable) -> Sequence[GateLink]:
    return table.links.source.list_gate_links() if table.links is not None else ()


def _end_mode(server: OwnerServer, table: OwnedTable, name: str) -> None:
    """Makes a link asynchronous, before its target stops getting what INSERTs wait for."""
    assert table.replication is not None
    keeper, services = table.replication.require_keeper(), server.services
    (gate,) = request_modes(keeper, [ModeRequest(table.replication.paths, name, LinkMode.ASYNC)])
    link = gate.find_link(name)
    seconds = _MODE_SECONDS + LEASES * (link.timeout_seconds if link is not None else 0.0)
    end, never = services.monotonic() + seconds, threading.Event()
    while link is not None and link.state is SyncState.DISABLING:
        if services.monotonic() >= end:
            raise UnavailableError(
                "TIMEOUT_EXCEEDED",
                f"Link {name!r} is still synchronous at its target; repeat the statement",
            )
        server.links.wake()
        services.wait(never, _MODE_PAUSE_SECONDS)
        link = Gate.parse(keeper.get(table.replication.paths.gate)[0]).find_link(name)
