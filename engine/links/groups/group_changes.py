"""Makes, changes and drops transactional groups of links.

A link is refused by name if it could bring rows at a moment of its own: if others write to its table, if views fill
further tables, or if ALTERs are carried out on the way.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coordination.keeper.interface import Keeper
from coordination.links.groups.link_group import GroupMember, LinkGroup, change_group, require_group
from coordination.links.link_names import check_link_name
from coordination.links.link_nodes import StoredLink, require_link
from coordination.links.link_settings import LinkSettings
from engine.queries.context import OwnerServer
from parts.common.errors import UserError

_MOST_MEMBERS = 100
_NOTICE_SECONDS = 5.0


def create_group(
    server: OwnerServer, name: str, links: Sequence[str], settings: Mapping[str, object], *, if_not_exists: bool
) -> None:
    """Makes a group of links that exist.

    Raises 36 (BAD_ARGUMENTS) and 48 (NOT_IMPLEMENTED) for what cannot be one.
    """
    check_link_name(name)
    keeper = server.replication.require_keeper()
    uuid = f"{server.services.new_uuid()}"
    if len(set(links)) != len(links):
        raise UserError("BAD_ARGUMENTS", f"A link is named twice: {', '.join(links)}")

    def change(group: LinkGroup | None) -> LinkGroup:
        if group is not None and group.uuid != uuid:
            if if_not_exists:
                return group
            raise UserError(
                "BAD_ARGUMENTS", f"There is a group {name!r} already; DROP REPLICATION LINK GROUP {name} ends it"
            )
        made = LinkGroup(name, uuid, "", "", (), settings=dict(settings))
        for link in links:
            made = _add(server, keeper, made, link)
        return made

    _settle(server, name, change_group(keeper, name, change))


def alter_group(server: OwnerServer, name: str, link: str, *, is_added: bool) -> None:
    """Adds a link to a group, or takes one out of it. Raises as :func:`create_group`."""
    keeper = server.replication.require_keeper()
    require_group(keeper, name)

    def change(group: LinkGroup | None) -> LinkGroup:
        if group is None:
            raise UserError("BAD_ARGUMENTS", f"The group of links {name!r} was dropped meanwhile")
        if is_added:
            return group if group.find_member(link) is not None else _add(server, keeper, group, link)
        if group.find_member(link) is None:
            raise UserError("BAD_ARGUMENTS", f"Link {link!r} is not in the group {name!r}")
        if len(group.members) == 1:
            raise UserError(
                "BAD_ARGUMENTS", f"Link {link!r} is the last of the group; DROP REPLICATION LINK GROUP {name} ends it"
            )
        return replace(group, members=tuple(each for each in group.members if each.link != link))

    _settle(server, name, change_group(keeper, name, change))


def drop_group(server: OwnerServer, name: str, *, if_exists: bool) -> None:
    """Drops a group: its links go on, each by itself. Raises 36 (BAD_ARGUMENTS) if there is none."""
    keeper = server.replication.require_keeper()
    if not if_exists:
        require_group(keeper, name)
    _settle(server, name, change_group(keeper, name, lambda group: None))


def _settle(server: OwnerServer, name: str, group: LinkGroup | None) -> None:
    """Waits a little until the tables of this server know the group. Those of others are told by watches, too."""
    server.links.wake()
    wanted = {member.path for member in group.members} if group is not None else set[str]()
    deadline, never = server.services.monotonic() + _NOTICE_SECONDS, threading.Event()
    while server.services.monotonic() < deadline:
        here = server.services.shown_groups.find(name)
        if (here.roots if here is not None else set()) == wanted:
            return
        server.services.wait(never, 0.005)


def _add(server: OwnerServer, keeper: Keeper, group: LinkGroup, name: str) -> LinkGroup:
    """Returns the group with one more link."""
    found = require_link(keeper, name)
    if not isinstance(found, StoredLink):
        raise UserError(
            "NOT_IMPLEMENTED", f"Link {name!r} is of a database, and a group has links of tables: name those, db.table"
        )
    link = found.definition
    _refuse_unfit(LinkSettings.parse(link.settings), name)
    table = server.catalog.find(link.target_database, link.target_table)
    if table is None or table.replication is None or table.replication.paths.root != found.table.root:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The target of link {name!r}, {link.target_database}.{link.target_table}, is not on this server: the "
            "tables of a group are on the same servers",
        )
    if len(group.members) >= _MOST_MEMBERS:
        raise UserError("BAD_ARGUMENTS", f"A group has at most {_MOST_MEMBERS} links")
    peer = server.links.connect(link.source_cluster).get_identity()
    if group.members and (group.source_cluster, group.source_uuid) != (link.source_cluster, peer.uuid):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {name!r} is from cluster {link.source_cluster!r}, and the others of the group are from "
            f"{group.source_cluster!r}: a group has one source",
        )
    member = GroupMember(name, link.uuid, link.target_database, link.target_table, found.table.root)
    if any(each.path == member.path for each in group.members):
        raise UserError("BAD_ARGUMENTS", f"Two links of the group have the target {link.target_table}")
    return replace(group, source_cluster=link.source_cluster, source_uuid=peer.uuid, members=(*group.members, member))


def _refuse_unfit(settings: LinkSettings, name: str) -> None:
    for setting, is_set, why in (
        ("two_way = 1", settings.two_way, "only its source writes to a table of a group"),
        ("preserve_timestamps = 0", settings.allows_writes, "only its source writes to a table of a group"),
        ("run_views = 1", settings.run_views, "the tables that views fill would be shown at other moments"),
        ("replicate_ddl = 1", settings.replicate_ddl, "an ALTER has no moment that all tables share"),
    ):
        if is_set:
            raise UserError(
                "NOT_IMPLEMENTED", f"Link {name!r} with {setting} cannot be in a transactional group: {why}"
            )


def refuse_member_change(name: str, group: str, settings: LinkSettings) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for settings that a link of a group cannot have."""
    if group:
        _refuse_unfit(settings, name)


def refuse_drop(name: str, group: str) -> None:
    """Raises 36 (BAD_ARGUMENTS) for a link that is in a group."""
    if group:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {name!r} is in the group {group!r}. ALTER REPLICATION LINK GROUP {group} REMOVE {name} takes it "
            f"out, DROP REPLICATION LINK GROUP {group} ends the group",
        )
