"""Gives a link its place in the source's stream, once.

The order, so that a crash at any step is repeated without loss: the source keeps its changes; the definition says with
which vector the link begins, once for all; the target's vector gets it; the definition says that the link is begun.
Two servers that begin a link at the same time give it the same place.

CREATE REPLICATION LINK does all of it where it can, so that what is committed after it is brought. What needs the
source's rows first is left to the server that runs the link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordination.links.link_begin import find_begin
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkPaused, LinkStopped
from coordination.links.link_nodes import change_link
from coordination.links.link_settings import START_NOW, START_VECTOR, LinkSettings
from coordination.links.positions import Position
from coordination.links.version_vector import VersionVector
from engine.links.link_upstream import LinkUpstream
from engine.links.linkable_tables import never_had_rows, require_linkable
from engine.tables.capabilities.table_links import SourceTable
from engine.tables.owned_table import OwnedTable
from parts.common.errors import ConflictError, UnavailableError, UserError
from parts.common.query_status import QueryStatus

Tell = Callable[[str], object]
"""Says how far a copy is, for people."""
BootstrapLink = Callable[[LinkDefinition, OwnedTable, LinkUpstream, QueryStatus, Tell], None]
"""Copies the source's table to the link's target, and gives the link its place with the same commit.

May be repeated after any error.
"""
_ATTEMPTS = 20


class CopyWaits(Exception):
    """So many tables are being copied already that this one waits for its turn."""


def begin_at_registration(table: OwnedTable, definition: LinkDefinition, source: SourceTable) -> LinkDefinition:
    """Begins a link that needs nothing but the answer of its registration, ``source``.

    Returns its definition, in which it is begun if it could be.
    """
    start = LinkSettings.parse(definition.settings).start_position
    if definition.wants_copy:
        return definition
    if start == START_NOW or (not start and source.is_empty and never_had_rows(table)):
        _join(
            table,
            definition,
            _choose_beginning(table, definition, source, VersionVector().begin_with(_add_own(source))),
        )
        return _set_begun(table, definition, source)
    return definition


def begin_link(
    table: OwnedTable,
    definition: LinkDefinition,
    upstream: LinkUpstream,
    bootstrap: BootstrapLink | None,
    status: QueryStatus,
    tell: Tell,
) -> LinkDefinition:
    """Gives a link its place, and returns the definition that says so.

    Raises ``LinkStopped`` for a start that cannot be, and what its steps raise.
    """
    source = upstream.register()
    begun = begin_at_registration(table, definition, source)
    if begun.is_begun:
        return begun
    target = require_linkable(table).target
    start = LinkSettings.parse(definition.settings).start_position
    is_empty = not start and source.origin not in target.read_target().vector.entries
    if definition.wants_copy or is_empty:
        _copy(table, definition, upstream, bootstrap, status, tell)
        return _set_begun(table, definition, source, is_copied=True)
    if start == START_VECTOR:
        if not target.read_target().vector.applied(source.origin):
            raise LinkStopped(
                f"start_position = '{START_VECTOR}' needs a target that has changes of {source.origin}, and it has none"
            )
    elif start:
        found = _find_vector(upstream, source, Position.parse(start))
        _join(table, definition, _choose_beginning(table, definition, source, found))
    return _set_begun(table, definition, source)


def _choose_beginning(
    table: OwnedTable, definition: LinkDefinition, source: SourceTable, vector: VersionVector
) -> VersionVector:
    """Writes down of what and with which vector the link begins, unless it is; returns the written vector."""
    assert table.replication is not None

    def change(current: LinkDefinition) -> LinkDefinition:
        _require_same(current, definition)
        if current.beginning:
            return current
        return replace(current, beginning=vector.to_bytes().decode(), source_origin=str(source.origin))

    found = change_link(table.replication.require_keeper(), definition.name, change)[1]
    return VersionVector.parse(found.beginning.encode())


def _require_same(current: LinkDefinition, definition: LinkDefinition) -> None:
    if current.uuid != definition.uuid:
        raise ConflictError("KEEPER_EXCEPTION", f"Link {definition.name!r} was made anew meanwhile")


def _set_begun(
    table: OwnedTable, definition: LinkDefinition, source: SourceTable, *, is_copied: bool = False
) -> LinkDefinition:
    """Says that the link is begun, and returns its definition.

    A copy that was asked for meanwhile is still to come, unless one was just made.
    """
    assert table.replication is not None

    def change(current: LinkDefinition) -> LinkDefinition:
        _require_same(current, definition)
        if current.is_begun and current.source_origin:
            return current
        if not is_copied and current.was_asked_to_copy(definition):
            return current
        return replace(current, is_begun=True, wants_copy=False, source_origin=str(source.origin))

    return change_link(table.replication.require_keeper(), definition.name, change)[1]


def _add_own(source: SourceTable) -> VersionVector:
    """Returns what the source's table has at the place of its registration, its own changes among it."""
    others = {origin: entry for origin, entry in source.vector.entries.items() if origin != source.origin}
    own, vector = Position(source.origin, source.newest), VersionVector(others)
    has_changed = not source.is_empty or source.definition_version
    return vector.advance(own) if has_changed else vector.pass_idle(own)


def _find_vector(upstream: LinkUpstream, source: SourceTable, after: Position) -> VersionVector:
    """Returns the vector of a target that has everything up to a position.

    Raises ``LinkStopped`` if the position is of another origin.
    """
    try:
        after.require_origin(source.origin)
    except UserError as error:
        raise LinkStopped(error.message) from error
    begin = VersionVector().begin_at(after)
    if not source.vector.entries.keys() - {source.origin}:
        return begin
    answer = upstream.read_changes(begin, 0, 0.0)
    found = find_begin(after, answer.changes, answer.cuts, source.vector, source.newest)
    if found is None:
        raise UnavailableError(
            "NETWORK_ERROR",
            f"The source does not tell yet what it had of other clusters at {after}; start_position = '{START_NOW}' "
            "needs no answer",
        )
    return found


def _copy(
    table: OwnedTable,
    definition: LinkDefinition,
    upstream: LinkUpstream,
    bootstrap: BootstrapLink | None,
    status: QueryStatus,
    tell: Tell,
) -> None:
    if bootstrap is None:
        raise LinkPaused(
            "The source or the target has rows, and copying them is not supported yet: make the link with "
            f"start_position = '{START_NOW}', and copy the rows with INSERT SELECT"
        )
    bootstrap(definition, table, upstream, status, tell)


def _join(table: OwnedTable, definition: LinkDefinition, vector: VersionVector) -> None:
    target = require_linkable(table).target
    for _ in range(_ATTEMPTS):
        if target.begin_link(definition, vector):
            return
    raise ConflictError("KEEPER_EXCEPTION", f"The vector of link {definition.name!r}'s target keeps moving; try again")
