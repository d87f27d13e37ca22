"""A group's node when its tables are switched over.

It ends with the fork of its tables, and is made anew for those who follow the new source.

Places in a group are zxids of one source. So a group that gets another source is a new one of the same name, with
another UUID: none of its tables has entered it, and it shows nothing before the first cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordination.keeper.interface import Create, Delete, Keeper, Op, SetData
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.groups.link_group import GROUPS_PATH, GroupMember, LinkGroup, find_group, group_path
from coordination.links.positions import Origin
from coordination.links.version_vector import VersionVector
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, UserError


def require_entered(group: LinkGroup) -> None:
    """Raises 36 (BAD_ARGUMENTS) while a table has not entered the group.

    Such a table is at another place than the others.
    """
    waiting = [member for member in group.members if not member.joined]
    if waiting:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Group {group.name!r} cannot be switched over: table {waiting[0].table} of link {waiting[0].link} has not "
            "entered it with a cut yet, so the tables are at no common place. Wait for the cut, or ALTER REPLICATION "
            f"LINK GROUP {group.name} REMOVE {waiting[0].link}",
        )


def require_one_cut(group: LinkGroup, vectors: Sequence[tuple[str, Origin, VersionVector]]) -> None:
    """Raises 36 (BAD_ARGUMENTS) if a table is not at the group's last cut.

    ``vectors``: by table the origin of its source, and its vector.
    """
    for table, source, vector in vectors:
        if vector.applied(source) != group.place:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Group {group.name!r} cannot be switched over: table {table} is at {vector.applied(source)} of its "
                f"source, and the last cut of the group is {group.place}. ALTER REPLICATION LINK GROUP {group.name} "
                "REMOVE takes its link out",
            )


def read_same_group(keeper: Keeper, group: LinkGroup) -> tuple[LinkGroup, int]:
    """Returns the group and the version of its node now.

    Raises 999 (KEEPER_EXCEPTION) if it has other members than the given one.
    """
    keeper.sync(group_path(group.name))
    found = find_group(keeper, group.name)
    if found is None or (found[0].uuid, _list_links(found[0])) != (group.uuid, _list_links(group)):
        raise ConflictError(
            "KEEPER_EXCEPTION", f"The group of links {group.name!r} was changed meanwhile; repeat the statement"
        )
    return found


def _list_links(group: LinkGroup) -> set[str]:
    return {member.link_uuid for member in group.members}


def end_group(group: LinkGroup, version: int) -> Op:
    """Returns the operation that ends the group, if nothing has changed it since."""
    return Delete(group_path(group.name), version)


def found_group(
    keeper: Keeper, name: str, uuid: str, source: tuple[str, str], members: Sequence[GroupMember]
) -> list[Op]:
    """Returns the operations that make a group, or make it anew for another source.

    ``source``: name and UUID of its cluster. ``members`` are all tables of the group. Raises 36 (BAD_ARGUMENTS) if
    there is another group of this name.
    """
    cluster, cluster_uuid = source
    made = LinkGroup(name, uuid, cluster, cluster_uuid, tuple(members), settings={"transactional": 1})
    former = find_group(keeper, name)
    if former is None:
        keeper.create_parents(GROUPS_PATH)
        return [Create(group_path(name), made.to_bytes())]
    if {member.link for member in former[0].members} - {member.link for member in members}:
        raise UserError(
            "BAD_ARGUMENTS",
            f"There is another group of links {name!r} in this cluster; DROP REPLICATION LINK GROUP {name} ends it",
        )
    made = replace(made, settings=former[0].settings, extra=former[0].extra)
    return [SetData(group_path(name), made.to_bytes(), former[1])]


def list_links_of_group(keeper: Keeper, name: str) -> list[str]:
    """Returns the links of a group; none if it is gone."""
    found = find_group(keeper, name)
    return [member.link for member in found[0].members] if found is not None else []


def follow_source(
    keeper: Keeper, name: str, link: str, source: ClusterIdentity, cluster: str, uuid: str, followers: Sequence[str]
) -> list[Op]:
    """Returns the operations on a group's node when one of its links follows a source that was promoted.

    ``followers``: its links that follow it already. With the last one the group is made for the new source; until then
    it makes no cut. Then the gates of the others move, too: so their replicas look at the group again, whose places are
    of another source from now on.
    """
    found = find_group(keeper, name)
    if found is None or found[0].find_member(link) is None:
        return []
    group, version = found
    if {member.link for member in group.members} - {link, *followers}:
        return [SetData(group_path(name), group.to_bytes(), version)]
    members = [replace(member, joined=0) for member in group.members]
    made = replace(
        group, uuid=uuid, source_cluster=cluster, source_uuid=source.uuid, members=tuple(members), place=0, commit_ms=0
    )
    gates = [TablePaths(member.path).gate for member in members if member.link != link]
    moved = [
        SetData(path, answer[0], answer[1].version)
        for path, answer in zip(gates, keeper.get_many(gates), strict=True)
        if answer is not None
    ]
    return [SetData(group_path(name), made.to_bytes(), version), *moved]
