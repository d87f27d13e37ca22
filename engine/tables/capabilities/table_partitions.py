"""What a table offers to commands on its partitions and parts: ALTER TABLE … DROP, DETACH and their kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coordination.keeper.interface import Op
from engine.tables.capabilities.attach_parts import PartAttacher
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.read.part_reader import Part

AttachParts = Callable[[Sequence[Part], Sequence[Op]], None]
"""Brings the parts into another table; the operations go along with the commit there."""


class TablePartitions(Protocol):
    """Of one table. From any thread. What has to be waited for ends with ``status``."""

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """The rows of the partition (``None``: of all) that are there now go; ``detach`` leaves the parts in
        ``detached/``. Fine for a partition that is not there."""

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Of one active part. Raises 232 (NO_SUCH_DATA_PART), 384 (PART_IS_TEMPORARILY_LOCKED)."""

    def move(self, partition_id: str, attach: AttachParts, status: QueryStatus) -> None:
        """Gives the parts of the partition to ``attach``, and drops them when it has returned: rows that come meanwhile
        stay. A crash in between leaves the rows here too. A replicated table gives ``attach`` its share in the commit,
        so that both are one step; raises 159 when its parts are not whole here in time."""

    def fetch(self, path: str, wanted: PartName | str, status: QueryStatus) -> None:
        """A part, or the parts of a partition, come into ``detached/`` from an active replica of the table at ``path``
        in ZooKeeper. Raises 999, 254, 255, 256, 234 and 235; 48 for a table of one server."""

    def forget(self, partition_id: str, status: QueryStatus) -> None:
        """What ZooKeeper has of an empty partition goes. Raises 716 (CANNOT_FORGET_PARTITION) for one that is not, or
        that is unknown; 48 for a table of one server."""

    @property
    def attaching(self) -> PartAttacher:
        """How parts that were written before come into the table."""
