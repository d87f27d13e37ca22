"""The cut of a group that a replica shows, as its node ``shown_cut`` tells those who wait for it.

::

    replicas/<name>/shown_cut    {"version":1,"group":"<UUID>","place":4711}

Replicas of a table tell it from the first time that the source of a synchronous link asked for it
(``GroupMember.is_told``): other groups cost no write. The node is written after the cut is shown. A replica that left
its group writes an empty ``group``: until then it may show the table as of a cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coordination.keeper.interface import Keeper, Op
from coordination.links.groups.link_group import LinkGroup, change_group
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_TOLD_CUTS, feature_checks, read_replica_activity
from parts.common.errors import CorruptionError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ToldCut:
    """The content of one replica's node."""

    group: str = ""
    """The group's UUID; empty for a table that is shown alone."""
    place: int = 0

    def shows(self, wanted: ToldCut) -> bool:
        """Tells whether the replica shows what is wanted, or a later cut of the same group."""
        return self.group == wanted.group and self.place >= wanted.place

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {"version": FORMAT_VERSION, "group": self.group, "place": self.place}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> ToldCut:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document: dict[str, Any] = json.loads(data)
            if document["version"] != FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
            return cls(str(document["group"]), int(document["place"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(
                f"Cannot read which cut a replica shows, {data[:200]!r}: {error}", name="CORRUPTED_DATA"
            ) from error


def list_hiding(keeper: Keeper, table: TablePaths, wanted: ToldCut) -> Sequence[str]:
    """Lists the active replicas of a table that do not tell that they show what is wanted, sorted.

    A replica without the node shows the table alone. The caller has synchronized with ZooKeeper.
    """
    active = sorted(name for name, is_active in read_replica_activity(keeper, table).items() if is_active)
    answers = keeper.get_many([table.replica(name).shown_cut for name in active])
    told = [ToldCut.parse(answer[0]) if answer is not None else ToldCut() for answer in answers]
    return [name for name, each in zip(active, told, strict=True) if not each.shows(wanted)]


def begin_telling(keeper: Keeper, group: str, link: str) -> LinkGroup | None:
    """Makes the replicas of a link's target tell which cut they show.

    Returns the group; ``None`` if it is gone. Raises 48 (NOT_IMPLEMENTED) while a replica does not know how.
    """

    def change(found: LinkGroup | None) -> LinkGroup | None:
        if found is None:
            return None
        members = tuple(replace(each, is_told=each.is_told or each.link == link) for each in found.members)
        return replace(found, members=members)

    def check(found: LinkGroup | None) -> Sequence[Op]:
        member = found.find_member(link) if found is not None else None
        if member is None:
            return ()
        what = "A synchronous link in a transactional group"
        return feature_checks(keeper, TablePaths(member.path), FEATURE_TOLD_CUTS, what)

    return change_group(keeper, group, change, check)
