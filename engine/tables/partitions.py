"""What a table offers to commands on its partitions and parts: ALTER TABLE … DROP, DETACH and their kin."""

from __future__ import annotations

from typing import Protocol

from engine.tables.attaching import Attaching
from parts.part_name import PartName
from parts.query_status import QueryStatus


class TablePartitions(Protocol):
    """Of one table. From any thread. What has to be waited for ends with ``status``."""

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """The rows of the partition (``None``: of all) that are there now go; ``detach`` leaves the parts in
        ``detached/``. Fine for a partition that is not there."""

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        """Of one active part. Raises 232 (NO_SUCH_DATA_PART), 384 (PART_IS_TEMPORARILY_LOCKED)."""

    @property
    def attaching(self) -> Attaching:
        """How parts that were written before come into the table."""
