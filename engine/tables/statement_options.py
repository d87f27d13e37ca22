"""What a statement asks of a table, resolved from its settings and its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus


class SyncMode(Enum):
    """What SYSTEM SYNC REPLICA waits for."""

    DEFAULT = "what is in the log now has been carried out"
    STRICT = "the queue is empty"
    LIGHTWEIGHT = "as the default, but not for merges and mutations"
    PULL = "what is in the log is in the queue"


@dataclass(frozen=True)
class InsertOptions:
    """The settings of one INSERT, resolved. ``quorum`` is 0 (none), a count, or ``"auto"`` (a majority)."""

    quorum: int | str = 0
    quorum_parallel: bool = True
    quorum_timeout_seconds: float = 600.0
    deduplicate: bool = True
    deduplication_token: str = ""
    transaction: str = ""
    """Not empty: the rows wait for the commit of the transaction of this id."""
    transaction_attempt: str = ""
    """Under whose name they wait."""
    was_detached: bool = False
    """The rows come from ``detached/``; other replicas may have them there too."""
    max_partitions: int = 100
    """Partitions that one block may touch; 0 for any number."""
    parts_to_delay_insert: int = 0
    """How many in a partition make it wait, and, by the next, be refused; 0 for what the table says."""
    parts_to_throw_insert: int = 0
    min_free_disk_bytes: int = 0
    """Less free, or than this ratio of the disk, refuses it; 0 for what the table says."""
    min_free_disk_ratio: float = 0.0
    reduces: bool = True
    """A block becomes what the table's merge mode makes of it before it is written."""
    query_id: str = ""
    is_whole: bool = False
    """All data are here: the INSERT does not wait for its client."""
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class CommitOptions:
    """How long COMMIT TRANSACTION waits: until the rows are visible here, and for the quorum."""

    quorum: int | str = 0
    timeout_seconds: float = 600.0
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class AlterOptions:
    """How long ALTER waits for the active replicas (``waits_for_all``); for this one it does in any case."""

    waits_for_all: bool = False
    timeout_seconds: float = 600.0
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class OptimizeOptions:
    """What OPTIMIZE was asked to do; ``partition_id`` is ``None`` for every partition."""

    partition_id: str | None = None
    final: bool = False
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    cleanup: bool = False
    """``final`` takes rows away that say that they are deleted, too."""
    throw_if_noop: bool = False
    skip_merged: bool = False
    """``final`` leaves a partition as it is that is one merged part already."""
    is_waited_for: bool = True
    """Of a replicated table: until the merges have been carried out here."""
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)

    def rewrites(self, part: PartName) -> bool:
        """Whether a partition of this one part is merged."""
        return self.deduplicate or (self.final and not (self.skip_merged and part.level > 0))
