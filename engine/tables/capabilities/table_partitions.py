"""Interface of partition commands: ALTER TABLE … DROP, DETACH, ATTACH, MOVE, FETCH and FORGET."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coordination.keeper.interface import Op
from engine.tables.capabilities.attach_parts import PartAttacher
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part
from parts.store.part_store import PartStore

AttachParts = Callable[[Sequence[Part], Sequence[Op]], None]
"""Attaches the parts to another table; the operations become part of that commit."""
PrepareParts = Callable[[Sequence[Part]], bool]
"""Prepares parts that may be attached later, and tells whether any was not prepared yet."""


def prepare_nothing(_: Sequence[Part]) -> bool:
    """Leaves all work to the commit."""
    return False


class TablePartitions(Protocol):
    """The partition commands of one table.

    May be called from any thread. ``status`` can cancel what waits.
    """

    @property
    def store(self) -> PartStore:
        """The parts, detached ones too."""

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Drops the rows that the partition (``None``:

        any partition) has now. ``detach`` moves the parts to ``detached/``. An unknown partition is no error.
        """

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Drops or detaches one active part. Raises 232 (NO_SUCH_DATA_PART), 384 (PART_IS_TEMPORARILY_LOCKED)."""

    def move(
        self, partition_id: str, attach: AttachParts, status: QueryStatus, prepare: PrepareParts = prepare_nothing
    ) -> None:
        """Gives the parts of the partition to ``attach``, and drops them when it has returned.

        ``prepare`` is called before, perhaps several times, with parts that are likely to move.
        Rows that are inserted meanwhile stay. A crash in between leaves the rows here too. A replicated table passes
        operations to ``attach``, so that both tables change in one commit; it raises 159 if its parts are not complete
        here in time.
        """

    def fetch(self, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        """Fetches a part or the parts of a partition into ``detached/``.

        They come from an active replica of the table at ``path`` in ZooKeeper. Raises 999, 254, 255, 256, 234 and 235;
        48 for a table of one server.
        """

    def forget(self, partition_id: str, status: QueryStatus) -> None:
        """Removes the znodes of an empty partition.

        Raises 716 (CANNOT_FORGET_PARTITION) for one that is unknown or not empty; 48 for a table of one server.
        """

    @property
    def attaching(self) -> PartAttacher:
        """The attacher of existing parts."""
