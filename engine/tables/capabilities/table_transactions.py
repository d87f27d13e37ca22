"""Interface of transactions of INSERTs: rows are staged unseen, then committed all at once."""

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
    """A transaction in a listing.

    ``rows`` counts staged rows while it is open, committed rows later. Times are seconds since the epoch.
    """

    id: str
    state: TransactionState
    reason: str
    rows: int
    staged_parts: int
    staged_bytes: int
    replicas: tuple[str, ...]
    """The replicas that hold staged parts."""
    created: float
    changed: float

    @classmethod
    def of(cls, found: Transaction, staged: Collection[StagedRecord]) -> TransactionSummary:
        """Summarises a transaction and its staged parts."""
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
    """The transactions of one table. May be called from any thread. The user chooses the ids."""

    def stage(self, parts: list[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Stages the parts of one INSERT for ``options.transaction``.

        A repeated INSERT (by its deduplication token) is staged once. Raises 649 for a decided transaction, 389 for
        other rows under the token.
        """

    def commit(self, request: CommitRequest, options: CommitOptions) -> CommitOutcome:
        """Makes the staged rows visible all at once; may be repeated.

        Raises 649 and the errors of :func:`coordination.transactions.transaction_commit.commit_transaction`.
        """

    def settle(self, name: str) -> bool | None:
        """Returns whether the transaction was committed; aborts it if it is open.

        ``name`` is that of its node or directory. Returns ``None`` for a transaction that nobody knows any more.
        """

    def rollback(self, transaction_id: str) -> None:
        """Drops the staged rows. An unknown transaction is no error; raises 649 for a committed one."""

    def known(self) -> list[TransactionSummary]:
        """Returns the open transactions, and the decided ones that are still remembered.

        Raises ZooKeeper's errors.
        """
