"""Interface of what switching over needs of one replica of a table, besides its nodes in ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from parts.common.query_status import QueryStatus


@dataclass(frozen=True, slots=True)
class TableTail:
    """The changes that a table has and a new source has not."""

    changes: tuple[Change, ...]
    is_whole: bool
    """False: the journal of this replica begins behind the fork, so earlier changes may be missing."""


class TableSwitching(Protocol):
    """The changes and blocks of one replica, as switching over looks at them."""

    def read_known_gate(self) -> Gate | None:
        """Returns the gate as this server knows it: it costs no request."""

    def find_last_own(self) -> Position | None:
        """Returns the last change of the table's present epoch; ``None`` if the journal knows of none."""

    def find_place(self, vector: VersionVector, follower: Origin | None = None) -> Position | None:
        """Returns the last place in the table's stream up to which a follower with this vector has everything.

        ``follower`` is its own origin. ``None`` if the journal does not reach back so far.
        """

    def read_tail(self, vector: VersionVector) -> TableTail:
        """Returns the table's changes that this vector does not cover. The table is closed."""

    def detach_blocks(self, changes: Sequence[Change], name: str, status: QueryStatus) -> list[str]:
        """Links the blocks of these changes into ``detached/``, durably; may be repeated.

        Returns the directories. ``name`` tells the tail from others. Raises 232 (NO_SUCH_DATA_PART) for a block that no
        replica has.
        """

    def detach_staged(self) -> tuple[int, int]:
        """Links the blocks that links have staged here and not committed into ``detached/``; may be repeated.

        The table is closed. Returns how many blocks and rows they are. Raises what the disk does: 243
        (NOT_ENOUGH_SPACE) if it is full.
        """
