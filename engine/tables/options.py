"""What a statement asks of a table, resolved from its settings and its text."""

from __future__ import annotations

from dataclasses import dataclass, field

from parts.query_status import QueryStatus


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
    throw_if_noop: bool = False
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)
