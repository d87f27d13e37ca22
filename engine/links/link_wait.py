"""Waits until what the source of a link had is visible on all active replicas of the target."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from coordination.links.groups.link_group import find_group
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Position
from engine.links.linkable_tables import require_linkable
from engine.queries.context import OwnerServer
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.capabilities.table_links import LinkTarget
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UnavailableError, UserError
from parts.common.query_status import QueryStatus

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.25


def wait_for_link(
    server: OwnerServer, link: StoredLink, position: str | None, timeout_seconds: float, status: QueryStatus
) -> None:
    """Waits for a position, or for everything that the source has committed when it is asked.

    Raises 159 (TIMEOUT_EXCEEDED), naming the position and where the link is; 36 (BAD_ARGUMENTS) for a position of
    another table; 394 if the query is killed; and what the source answers.
    """
    table = find_target(server, link)
    definition, end = link.definition, server.services.monotonic() + timeout_seconds
    wanted = Position.parse(position) if position is not None else _ask_source(server, definition)
    target = require_linkable(table).target
    pause, never = _FIRST_PAUSE_SECONDS, threading.Event()
    server.links.wake()
    while True:
        vector = target.read_target().vector
        if vector.covers(wanted):
            break
        if position is not None and wanted.origin not in vector.entries and definition.is_begun:
            source = _ask_source(server, definition)
            wanted.require_origin(source.origin)
        left = end - server.services.monotonic()
        status.check()
        if left <= 0:
            reached = Position(wanted.origin, vector.applied(wanted.origin))
            raise _make_timeout_error(server, link, wanted, reached, timeout_seconds)
        server.services.wait(never, min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)
    try:
        for each in (target, *_find_others(server, definition)):
            each.wait_until_visible(max(0.0, end - server.services.monotonic()), status)
        group = server.services.shown_groups.find(definition.group) if definition.group else None
        left = max(0.1, end - server.services.monotonic())
        if group is not None and not group.wait_until_shown(wanted.zxid, left, server.services.wait_for):
            raise UnavailableError("TIMEOUT_EXCEEDED", f"Group {definition.group} is not there: {group.explain()}")
    except (UserError, UnavailableError) as error:
        if error.name != "TIMEOUT_EXCEEDED":
            raise
        raise UnavailableError(
            "TIMEOUT_EXCEEDED",
            f"Link {definition.name!r} has applied position {wanted}, but not every active replica shows it after "
            f"{timeout_seconds:g} seconds: {error.message}",
        ) from error


def _find_others(server: OwnerServer, definition: LinkDefinition) -> Iterator[LinkTarget]:
    """Yields the other tables of the link's group: it is shown when all of them have the cut."""
    found = find_group(server.replication.require_keeper(), definition.group) if definition.group else None
    for member in found[0].members if found is not None else ():
        table = server.catalog.find(member.database, member.table)
        if member.link != definition.name and table is not None:
            yield require_linkable(table).target


def find_target(server: OwnerServer, link: StoredLink) -> OwnedTable:
    """Returns the target of a link. Raises 36 (BAD_ARGUMENTS) if it is not on this server."""
    for table in server.catalog.tables():
        replica = table.replication
        if replica is not None and replica.paths.root == link.table.root:
            return table
    definition = link.definition
    raise UserError(
        "BAD_ARGUMENTS",
        f"The target of link {definition.name!r}, table {definition.target_database}.{definition.target_table} "
        f"({link.table.root}), has no replica on this server: run the statement on a server that has one",
    )


def _ask_source(server: OwnerServer, definition: LinkDefinition) -> Position:
    source = server.links.connect(definition.source_cluster).describe_source(definition)
    return Position(source.origin, source.newest)


def _make_timeout_error(
    server: OwnerServer, link: StoredLink, wanted: Position, reached: Position, timeout_seconds: float
) -> UnavailableError:
    definition = link.definition
    progress = server.links.find_progress(definition.name) or _read_progress(server, link)
    state = progress.upstream_status.value if definition.is_enabled else "disabled"
    return UnavailableError(
        "TIMEOUT_EXCEEDED",
        f"Link {definition.name!r} has not reached position {wanted} after {timeout_seconds:g} seconds; it is at "
        f"{reached} ({state}){f': {progress.message}' * bool(progress.message)}",
    )


def _read_progress(server: OwnerServer, link: StoredLink) -> LinkProgress:
    """Returns what the server that runs the link last told."""
    (found,) = server.replication.require_keeper().get_many([link.table.linked.status(link.definition.name)])
    return LinkProgress.parse(found[0]) if found is not None else LinkProgress()
