"""What a table offers to transactions of inserts: rows are staged, unseen, and decided all at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from coordination.transactions.transaction_commit import CommitOutcome, CommitRequest
from coordination.transactions.transaction_nodes import StagedRecord, Transaction, TransactionState
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.statement_options import CommitOptions, InsertOptions


@dataclass(frozen=True, slots=True)
class TransactionSummary:
    """Of an open one what is staged, of a committed one its ``rows``. Times are seconds since the epoch."""

    id: str
    state: TransactionState
    reason: str
    rows: int
    staged_parts: int
    staged_bytes: int
    replicas: tuple[str, ...]
    """That hold what is staged."""
    created: float
    changed: float

    @classmethod
    def of(cls, found: Transaction, staged: Collection[StagedRecord]) -> TransactionSummary:
        return cls(
            found.id,
            found.state,
            found.reason,
            sum(record.rows for record in staged) if found.state is TransactionState.OPEN else found.rows,
            len(staged),
            sum(record.size_bytes for record in staged),
            tuple(sorted({record.replica for record in staged} - {""})),
            found.created_ms / 1000,
            found.changed_ms / 1000,
        )


class TableTransactions(Protocol):
    """Of one table. From any thread. Ids are the user's texts."""

    def stage(self, parts: list[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Keeps the parts of one INSERT for ``options.transaction``; the same again (by its deduplication token) is
        kept once. Raises 649 for a decided transaction, 389 for other rows under the token."""

    def commit(self, request: CommitRequest, options: CommitOptions) -> CommitOutcome:
        """Makes what was staged visible, all at once; repeatable. Raises 649 and what
        :func:`coordination.transactions.transaction_commit.commit_transaction` raises."""

    def settle(self, name: str) -> bool | None:
        """Whether the transaction of this name (of its node or directory) was committed: one that is open never will
        be from now on. ``None`` for one that nobody knows any more."""

    def rollback(self, transaction_id: str) -> None:
        """Drops what was staged. Fine for what was never begun; raises 649 for what is committed."""

    def known(self) -> list[TransactionSummary]:
        """What is open, and what was decided for as long as it is remembered. Raises what ZooKeeper raises."""
