"""Options of INSERT, COMMIT, ALTER, OPTIMIZE and SYNC, resolved from settings and statement."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus


class SyncMode(Enum):
    """How far SYSTEM SYNC REPLICA waits."""

    DEFAULT = "what is in the log now has been carried out"
    STRICT = "the queue is empty"
    LIGHTWEIGHT = "as the default, but not for merges and mutations"
    PULL = "what is in the log is in the queue"


@dataclass(frozen=True)
class InsertOptions:
    """The settings of one INSERT. ``quorum`` is 0 (none), a count, or ``"auto"`` (a majority)."""

    quorum: int | str = 0
    quorum_parallel: bool = True
    quorum_timeout_seconds: float = 600.0
    deduplicate: bool = True
    deduplication_token: str = ""
    transaction: str = ""
    """The id of the transaction whose commit the rows wait for; empty for none."""
    transaction_attempt: str = ""
    """The attempt of the client that stages the rows."""
    was_detached: bool = False
    """Whether the rows come from ``detached/``; other replicas may have them there too."""
    has_new_rows: bool = True
    """Whether the rows are new: others keep the versions that they have, or are older than all (``row_version``)."""
    max_partitions: int = 100
    """The most partitions that one block may touch; 0 for any number."""
    parts_to_delay_insert: int = 0
    """How many parts in a partition delay the INSERT; 0 for the table's setting.

    The next field is the number that refuses it.
    """
    parts_to_throw_insert: int = 0
    min_free_disk_bytes: int = 0
    """The least free bytes for an INSERT; 0 for the table's setting.

    The next field is the least free share of the disk.
    """
    min_free_disk_ratio: float = 0.0
    reduces: bool = True
    """Whether the table's merge mode is applied to a block before it is written."""
    sync_timeout_seconds: float = 30.0
    """How long staging at the targets of synchronous links, and the wait for them, may take together."""
    requires_sync_replica: bool = True
    """Whether a table with synchronous links, none of which is enabled, refuses the rows."""
    query_id: str = ""
    are_deleted: bool = False
    """Whether the rows are tombstones (``parts.merge.last_writer``)."""
    is_whole: bool = False
    """Whether all data are here, so that the INSERT does not wait for its client."""
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class CommitOptions:
    """How long COMMIT TRANSACTION waits for its rows to be visible here and for the quorum."""

    quorum: int | str = 0
    timeout_seconds: float = 600.0
    sync_timeout_seconds: float = 30.0
    """See ``InsertOptions``, also for the next field."""
    requires_sync_replica: bool = True
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class AlterOptions:
    """How long ALTER waits for this replica and, with ``waits_for_all_replicas``, for all active ones."""

    waits_for_all_replicas: bool = False
    timeout_seconds: float = 600.0
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)


@dataclass(frozen=True)
class OptimizeOptions:
    """The options of OPTIMIZE; ``partition_id`` is ``None`` for all partitions."""

    partition_id: str | None = None
    final: bool = False
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    cleanup: bool = False
    """Whether ``final`` also removes rows marked as deleted."""
    throw_if_noop: bool = False
    skip_merged: bool = False
    """Whether ``final`` skips a partition that is one merged part already."""
    waits_for_merges: bool = True
    """Whether a replicated table waits until the merges are done here."""
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)

    def rewrites(self, part: PartName) -> bool:
        """Tells whether to merge a partition that consists of this part alone."""
        return self.deduplicate or (self.final and not (self.skip_merged and part.level > 0))
