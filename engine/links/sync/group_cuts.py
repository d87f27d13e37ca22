"""The target's half of synchronous INSERTs into the tables of a transactional group.

An INSERT is answered when every active replica of its table shows the cut that brings it. Replicas tell which one they
show in ZooKeeper, from the first time that a source asks.
"""

from __future__ import annotations

from collections.abc import Callable

from coordination.links.groups.link_group import GroupMember, LinkGroup, find_group, group_path
from coordination.links.groups.told_cut import ToldCut, begin_telling
from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Position
from engine.links.linkable_tables import require_linkable
from engine.queries.context import OwnerServer
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.capabilities.table_links import LinkTarget
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus

ReadProgress = Callable[[str, str], LinkProgress]
"""Returns how far a link is: by its name, and the root of its table."""


def require_telling(server: OwnerServer, link: StoredLink) -> None:
    """Makes the replicas of the link's table tell which cut they show.

    Raises 48 (NOT_IMPLEMENTED) while a replica does not know how.
    """
    keeper, name = server.replication.require_keeper(), link.definition.group
    found = find_group(keeper, name)
    if found is not None and not found[0].is_told(link.table.root):
        begin_telling(keeper, name, link.definition.name)


def find_leader(server: OwnerServer, name: str) -> GroupMember | None:
    """Returns the member of a group whose link makes the cuts; ``None`` if the group is gone."""
    found = find_group(server.replication.require_keeper(), name)
    return found[0].find_member(found[0].leader) if found is not None else None


def wait_for_shown_cut(
    server: OwnerServer,
    link: StoredLink,
    target: LinkTarget,
    position: Position,
    timeout_seconds: float,
    status: QueryStatus,
) -> str:
    """Waits until all active replicas show the cut with a position that the table has.

    Returns what is missing when the time is over.
    """
    group = _read_group(server, link.definition.group)
    if group is None or group.find_member(link.definition.name) is None:
        return f"link {link.definition.name} left its group meanwhile"
    is_of_source = position.origin.cluster == group.source_uuid
    place = max(group.place, position.zxid if is_of_source else 1)
    hiding = target.wait_until_shown(ToldCut(group.uuid, place), timeout_seconds, status)
    if not hiding:
        return ""
    return (
        f"replicas {', '.join(hiding)} of the target do not show cut {group.format_cut(place)} of group {group.name}: "
        f"{_explain_hidden(server, group)}"
    )


def _read_group(server: OwnerServer, name: str) -> LinkGroup | None:
    keeper = server.replication.require_keeper()
    keeper.sync(group_path(name))
    found = find_group(keeper, name)
    return found[0] if found is not None else None


def _explain_hidden(server: OwnerServer, group: LinkGroup) -> str:
    """Names the tables that hold the cut back."""
    told = []
    for member in group.members:
        table = server.catalog.find(member.database, member.table)
        if table is None:
            told.append(f"table {member.table} is not on this server")
            continue
        try:
            behind = require_linkable(table).target.list_behind()
        except PandoError as error:
            behind, problem = (), error.message
            told.append(f"table {member.table} cannot be looked at: {problem}")
        if behind:
            told.append(f"table {member.table} has not carried it out on {', '.join(behind)}")
    return "; ".join(told) or "its tables have it, and it is about to be shown"


def explain_missing_cut(server: OwnerServer, name: str, read_progress: ReadProgress) -> str:
    """Names the tables of a group that hold its next cut back."""
    group = _read_group(server, name)
    if group is None:
        return f"group {name} was dropped meanwhile"
    told = []
    for member in group.members:
        progress = read_progress(member.link, member.path)
        if progress.message:
            told.append(f"table {member.table} ({progress.upstream_status.value}): {progress.message}")
    return f"group {name} has no cut there yet" + (f"; {'; '.join(told)}" if told else "")
