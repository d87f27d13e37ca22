"""Gives a link its place in the source's stream, once.

The order, so that a crash at any step is repeated without loss: the source keeps its changes; the target's vector gets
the beginning; the definition says that the link is begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from coordination.keeper.interface import NoNode
from coordination.links.link_begin import find_begin
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkPaused, LinkStopped
from coordination.links.link_nodes import change_link
from coordination.links.link_settings import START_NOW, START_VECTOR, LinkSettings
from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from engine.links.link_upstream import LinkUpstream
from engine.tables.capabilities.replica import Replica
from engine.tables.capabilities.table_links import LinkTarget, SourceTable
from engine.tables.owned_table import OwnedTable
from parts.common.errors import ConflictError, UnavailableError, UserError
from parts.common.query_status import QueryStatus

BootstrapLink = Callable[[LinkDefinition, OwnedTable, LinkUpstream, QueryStatus], None]
"""Copies the source's table to the link's target, and gives the link its place with the same commit.

May be repeated after any error, and does nothing if it is done.
"""
_ATTEMPTS = 20


def begin_link(
    replica: Replica,
    definition: LinkDefinition,
    upstream: LinkUpstream,
    table: OwnedTable,
    bootstrap: BootstrapLink | None,
    status: QueryStatus,
) -> LinkDefinition:
    """Gives a link its place, and returns the definition that says so.

    Raises ``LinkStopped`` for a start that cannot be, and what its steps raise.
    """
    assert table.links is not None
    target = table.links.target
    source = upstream.register()
    start = LinkSettings.parse(definition.settings).start_position
    if start == START_VECTOR:
        if not target.read_target().vector.applied(source.origin):
            raise LinkStopped(
                f"start_position = '{START_VECTOR}' needs a target that has changes of {source.origin}, and it has none"
            )
    elif start in ("", START_NOW):
        vector = _find_now(definition, upstream, source, requires_empty=not start)
        if vector is None:
            _copy(definition, table, upstream, bootstrap, status)
        else:
            if not start:
                _require_empty(replica, definition, target, source.origin)
            _join(target, definition, vector)
    else:
        _join(target, definition, _find_vector(upstream, source, Position.parse(start)))

    def set_begun(current: LinkDefinition) -> LinkDefinition:
        if current.uuid != definition.uuid:
            raise ConflictError("KEEPER_EXCEPTION", f"Link {definition.name!r} was made anew meanwhile")
        return replace(current, is_begun=True, source_origin=str(source.origin))

    return change_link(replica.require_keeper(), definition.name, set_begun)[1]


def _find_now(
    definition: LinkDefinition, upstream: LinkUpstream, source: SourceTable, *, requires_empty: bool
) -> VersionVector | None:
    """Returns the vector of a target that begins with the registration.

    ``None``: the source ever had rows, and ``requires_empty``.
    """
    registered = upstream.find_start().registered
    if not registered:
        raise UnavailableError("NETWORK_ERROR", f"The source has not registered link {definition.name!r} yet")
    vector = _find_vector(upstream, source, Position(source.origin, registered))
    # Looked at behind the beginning: rows that came before would be missed.
    return None if requires_empty and upstream.find_start().has_rows else vector


def _find_vector(upstream: LinkUpstream, source: SourceTable, after: Position) -> VersionVector:
    """Returns the vector of a target that begins at the first cut at or behind a position.

    Raises ``LinkStopped`` if the position is of another origin or not kept.
    """
    try:
        after.require_origin(source.origin)
    except UserError as error:
        raise LinkStopped(error.message) from error
    start = upstream.find_start()
    asked = VersionVector().begin_at(Position(source.origin, max(0, after.zxid - 1)))
    answer = upstream.read_changes(asked, 0, 0.0)
    cuts = [cut for cut in answer.cuts if cut >= after.zxid]
    if not cuts and answer.frontier >= after.zxid:
        cuts = [answer.frontier]
    found = find_begin(source.origin, cuts, answer.changes, start.vector, start.vector_zxid)
    if found is None:
        raise UnavailableError(
            "NETWORK_ERROR",
            f"The source has no cut behind {after} yet: {'; '.join(answer.waits[:3]) or 'it is behind'}",
        )
    return found


def _require_empty(replica: Replica, definition: LinkDefinition, target: LinkTarget, source: Origin) -> None:
    """Raises ``LinkStopped`` for a target with rows of which nobody has said what they are."""
    keeper, paths = replica.require_keeper(), replica.paths
    keeper.sync(paths.root)
    try:
        has_rows = bool(keeper.children(paths.block_numbers))
    except NoNode:
        has_rows = False
    if has_rows and source not in target.read_target().vector.entries:
        raise LinkStopped(
            f"The target has rows, and nothing says what they are. DROP REPLICATION LINK {definition.name}, and make "
            f"it with start_position = '{START_NOW}' if they are the source's, or SYSTEM BOOTSTRAP REPLICATION LINK "
            f"{definition.name} to put the source's in their place"
        )


def _copy(
    definition: LinkDefinition,
    table: OwnedTable,
    upstream: LinkUpstream,
    bootstrap: BootstrapLink | None,
    status: QueryStatus,
) -> None:
    if bootstrap is None:
        raise LinkPaused(
            "The source has rows, and copying them is not supported yet: make the link with start_position = "
            f"'{START_NOW}', and copy the rows with INSERT SELECT"
        )
    bootstrap(definition, table, upstream, status)


def _join(target: LinkTarget, definition: LinkDefinition, vector: VersionVector) -> None:
    for _ in range(_ATTEMPTS):
        if target.begin_link(definition, vector):
            return
    raise ConflictError("KEEPER_EXCEPTION", f"The vector of link {definition.name!r}'s target keeps moving; try again")
