"""What one statement switches over: a link, or all links of a transactional group, at their target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.groups.link_group import LinkGroup, find_group
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_nodes import StoredLink, find_link
from coordination.links.link_settings import LinkSettings
from coordination.links.switching.switching_gate import name_links
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from engine.links.switching.local_tables import LocalTable, SwitchingServer, find_target_table
from parts.common.errors import UserError


@dataclass(frozen=True)
class SwitchedLinks:
    """The links, each with its target."""

    tables: Sequence[tuple[StoredLink, LocalTable]]
    group: LinkGroup | None = None

    @property
    def group_name(self) -> str:
        """The group; empty for a link alone."""
        return self.group.name if self.group is not None else ""

    @property
    def statement(self) -> str:
        """How statements name them: ``REPLICATION LINK orders``."""
        return name_links(self.first.name, self.group_name)

    @property
    def title(self) -> str:
        """How messages name them: ``link 'orders'``."""
        return f"group {self.group_name!r}" if self.group is not None else f"link {self.first.name!r}"

    @property
    def first(self) -> LinkDefinition:
        """The link with the least name."""
        return self.tables[0][0].definition

    def name_group(self) -> dict[str, str]:
        """Returns what the old source of a group is told besides what it is told of each table."""
        if self.group is None:
            return {}
        return {"group": self.group.name, "links": ",".join(link.definition.name for link, _ in self.tables)}

    @property
    def locals(self) -> list[LocalTable]:
        """The tables."""
        return [local for _, local in self.tables]


def take_one(server: SwitchingServer, link: StoredLink) -> SwitchedLinks:
    """Returns a link alone. Raises 36 (BAD_ARGUMENTS) if its target is not on this server."""
    return SwitchedLinks([(link, find_target_table(server, link))])


def find_switched_group(server: SwitchingServer, name: str) -> SwitchedLinks | None:
    """Returns the links of a group of this cluster; ``None`` if it has none of this name.

    Raises 36 (BAD_ARGUMENTS) if one of the tables is not on this server, or a link is gone.
    """
    keeper = server.replication.require_keeper()
    keeper.sync("/")
    found = find_group(keeper, name)
    if found is None:
        return None
    group, tables = found[0], list[tuple[StoredLink, LocalTable]]()
    for member in sorted(group.members, key=lambda each: each.link):
        link = find_link(keeper, member.link)
        if not isinstance(link, StoredLink) or link.definition.uuid != member.link_uuid:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {member.link!r} of group {name!r} is gone: ALTER REPLICATION LINK GROUP {name} REMOVE "
                f"{member.link}, and repeat the statement",
            )
        tables.append((link, find_target_table(server, link)))
    return SwitchedLinks(tables, group)


def require_promotable(link: StoredLink, gate: Gate, verb: str, group: str = "") -> None:
    """Raises 36 (BAD_ARGUMENTS) or 48 (NOT_IMPLEMENTED) for a link that cannot be turned.

    ``group``: the group that is switched over as one.
    """
    definition = link.definition
    name, settings = definition.name, LinkSettings.parse(definition.settings)
    if definition.group != group:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{verb} of link {name!r} alone is not supported: it is in group {definition.group!r}. SYSTEM {verb} "
            f"REPLICATION LINK GROUP {definition.group} is of all its tables, ALTER REPLICATION LINK GROUP "
            f"{definition.group} REMOVE {name} takes the link out",
        )
    if definition.database_link:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{verb} of link {name!r} is not supported: it belongs to link {definition.database_link!r} of a whole "
            "database. Links of single tables can be switched over",
        )
    others = [each.name for each in gate.links_of(LinkDirection.IN) if each.name != name]
    if settings.two_way or any(each.is_two_way for each in gate.links_of(LinkDirection.OUT)):
        raise UserError(
            "BAD_ARGUMENTS", f"{verb} of link {name!r} has no meaning: with two_way = 1 both ends are written already"
        )
    if others or settings.allows_writes:
        many = f" (links {', '.join(others)})" if others else ""
        raise UserError(
            "BAD_ARGUMENTS",
            f"{verb} of link {name!r} has no meaning: its target collects the rows of several writers"
            f"{many}, so it is no copy of one source",
        )
    if not definition.is_begun or definition.wants_copy or not definition.source_origin:
        raise UserError(
            "BAD_ARGUMENTS",
            f"{verb} of link {name!r} must wait: the table is not a copy of its source yet. SYSTEM WAIT REPLICATION "
            f"LINK {name} returns when it is",
        )
