"""A transactional group of links, in the ZooKeeper of their target.

::

    /pando/link_groups/<name>    {"version":1,"uuid":…,"source_cluster":…,"source_uuid":…,"settings":{…},
                                  "members":[{"link":…,"link_uuid":…,"database":…,"table":…,"path":…,"joined":0,
                                  "is_told":false}],"place":4711,"commit_ms":…}

The gate of each of its tables names the group, and so does the definition of each link. All of that is set in one
multi. ``place`` is the zxid of the source up to which the last cut goes; the multi of every cut sets it, with the
version that was read. So a cut is committed by one server, and with the members that it was made for. ``joined`` is the
cut with which a table entered, 0 until then. Keys that this version does not know are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
)
from coordination.links.link_definition import LinkDefinition
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_LINK_GROUPS, feature_checks
from parts.common.errors import ConflictError, CorruptionError, UserError

GROUPS_PATH = "/pando/link_groups"
FORMAT_VERSION = 1
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One table of a group."""

    link: str
    link_uuid: str
    database: str
    table: str
    path: str
    """The root of the table in ZooKeeper."""
    joined: int = 0
    """The place of the cut with which it entered; 0 until then."""
    is_told: bool = False
    """Whether its replicas tell which cut they show (:mod:`.told_cut`)."""


@dataclass(frozen=True, slots=True)
class LinkGroup:
    """A group."""

    name: str
    uuid: str
    source_cluster: str
    source_uuid: str
    members: tuple[GroupMember, ...]
    place: int = 0
    """The zxid of the source up to which the last cut goes; 0 before the first."""
    commit_ms: int = 0
    """The time at the source at which the cut was asked for."""
    settings: Mapping[str, object] = field(default_factory=dict)
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    @property
    def leader(self) -> str:
        """The link whose runner makes the cuts."""
        return min(member.link for member in self.members)

    def find_member(self, link: str) -> GroupMember | None:
        """Returns the member of a link."""
        return next((member for member in self.members if member.link == link), None)

    def is_told(self, path: str) -> bool:
        """Whether the replicas of the table with this root tell which cut they show."""
        return any(member.is_told for member in self.members if member.path == path)

    def format_cut(self, place: int) -> str:
        """Returns the text of a cut."""
        return f"{self.source_uuid}:{place}" if place else ""

    def advance(self, place: int, commit_ms: int) -> LinkGroup:
        """Returns the group behind the next cut, with which all its tables have entered."""
        members = tuple(member if member.joined else replace(member, joined=place) for member in self.members)
        return replace(self, place=place, commit_ms=commit_ms, members=members)

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        members = [{name: getattr(member, name) for name in _MEMBER_KEYS} for member in self.members]
        document = {name: getattr(self, name) for name in _KEYS} | {"settings": dict(self.settings), "members": members}
        return json.dumps(
            {**dict(self.extra), "version": FORMAT_VERSION, **document}, separators=(",", ":"), ensure_ascii=False
        ).encode()

    @classmethod
    def parse(cls, name: str, data: bytes) -> LinkGroup:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document: dict[str, Any] = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            members = tuple(
                GroupMember(**{key: each[key] for key in _MEMBER_KEYS if key in each})
                for each in document.pop("members")
            )
            known = {key: document.pop(key) for key in (*_KEYS, "settings") if key in document}
            return cls(name, members=members, **known, extra=tuple(document.items()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(
                f"Cannot read the group of links {name!r}, {data[:200]!r}: {error}", name="CORRUPTED_DATA"
            ) from error


_KEYS = ("uuid", "source_cluster", "source_uuid", "place", "commit_ms")
_MEMBER_KEYS = ("link", "link_uuid", "database", "table", "path", "joined", "is_told")


def group_path(name: str) -> str:
    """Returns the path of a group's node."""
    return f"{GROUPS_PATH}/{name}"


def find_group(keeper: Keeper, name: str) -> tuple[LinkGroup, int] | None:
    """Returns a group and the version of its node, or ``None``."""
    try:
        data, stat = keeper.get(group_path(name))
    except NoNode:
        return None
    return LinkGroup.parse(name, data), stat.version


def require_group(keeper: Keeper, name: str) -> tuple[LinkGroup, int]:
    """Returns a group and the version of its node. Raises 36 (BAD_ARGUMENTS) for another name."""
    keeper.sync("/")
    found = find_group(keeper, name)
    if found is None:
        raise make_unknown_group_error(keeper, name)
    return found


def make_unknown_group_error(keeper: Keeper, name: str) -> UserError:
    """Returns the error for a name that no group has."""
    known = ", ".join(group.name for group in list_groups(keeper)) or "none"
    return UserError(
        "BAD_ARGUMENTS", f"There is no group of links {name[:250]!r} in this cluster; the groups are: {known}"
    )


def list_groups(keeper: Keeper) -> list[LinkGroup]:
    """Returns the groups of the cluster, sorted by name."""
    try:
        names = sorted(keeper.children(GROUPS_PATH))
    except NoNode:
        return []
    answers = keeper.get_many([group_path(name) for name in names])
    return [LinkGroup.parse(name, answer[0]) for name, answer in zip(names, answers, strict=True) if answer is not None]


def change_group(
    keeper: Keeper,
    name: str,
    change: Callable[[LinkGroup | None], LinkGroup | None],
    along: Callable[[LinkGroup | None], Sequence[Op]] = lambda group: (),
) -> LinkGroup | None:
    """Makes, changes or removes a group, with the gates and links of all its tables, in one multi.

    ``change`` gets the group as it is, and returns it as it shall be; ``along`` gets that, and returns what the multi
    has besides. Both may be called several times. Raises what they raise, 36 (BAD_ARGUMENTS) for a link that is in
    another group, and 48 (NOT_IMPLEMENTED) if a replica does not know groups.
    """
    keeper.create_parents(GROUPS_PATH)
    for _ in range(_ATTEMPTS):
        keeper.sync("/")
        found = find_group(keeper, name)
        former = found[0] if found is not None else None
        new = change(former)
        if new == former:
            return new
        try:
            keeper.multi([*_node_ops(found, name, new), *_member_ops(keeper, name, former, new), *along(new)])
            return new
        except (NoNode, KeeperConnectionLoss):
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode | NodeExists):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing the group of links {name!r}; repeat the statement")


def _node_ops(found: tuple[LinkGroup, int] | None, name: str, new: LinkGroup | None) -> list[Op]:
    if new is None:
        assert found is not None
        return [Delete(group_path(name), found[1])]
    if found is None:
        return [Create(group_path(name), new.to_bytes())]
    return [SetData(group_path(name), new.to_bytes(), found[1])]


def _member_ops(keeper: Keeper, name: str, former: LinkGroup | None, new: LinkGroup | None) -> list[Op]:
    """Returns the operations on gates and definitions. Every member's gate moves: so a cut under way fails."""
    before = {member.link: member for member in former.members} if former is not None else {}
    after = {member.link: member for member in new.members} if new is not None else {}
    ops: list[Op] = []
    for link, member in sorted({**before, **after}.items()):
        ops += _set_group(keeper, member, name if link in after else "", name)
    return ops


def join_group(keeper: Keeper, member: GroupMember, name: str) -> Sequence[Op]:
    """Returns the operations that put a link into a group.

    Raises 36 (BAD_ARGUMENTS) if it is in another one.
    """
    return _set_group(keeper, member, name, name)


def _set_group(keeper: Keeper, member: GroupMember, group: str, name: str) -> Sequence[Op]:
    table, is_leaving = TablePaths(member.path), not group
    try:
        link_data, link_stat = keeper.get(table.linked.incoming_link(member.link))
        gate_data, gate_stat = keeper.get(table.gate)
    except NoNode:
        if is_leaving:  # the table or the link is gone
            return []
        raise
    gate, definition = Gate.parse(gate_data), LinkDefinition.parse(link_data)
    entry = gate.find_link(member.link)
    if is_leaving and (entry is None or entry.uuid != member.link_uuid):
        return []
    if entry is None or definition.uuid != member.link_uuid:
        raise UserError("BAD_ARGUMENTS", f"Link {member.link!r} was dropped meanwhile")
    if definition.group not in ("", name):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {member.link!r} is in the group {definition.group!r} already; ALTER REPLICATION LINK GROUP "
            f"{definition.group} REMOVE {member.link} takes it out",
        )
    checks = feature_checks(keeper, table, FEATURE_LINK_GROUPS, "A group of links") if group else []
    return [
        SetData(table.gate, gate.with_link(replace(entry, group=group)).to_bytes(), gate_stat.version),
        SetData(
            table.linked.incoming_link(member.link), replace(definition, group=group).to_bytes(), link_stat.version
        ),
        *checks,
    ]
