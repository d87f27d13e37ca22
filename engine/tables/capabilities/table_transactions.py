"""Interface of transactions of INSERTs: rows are staged unseen, then committed all at once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from coordination.keeper.interface import MultiFailed, Op
from coordination.transactions.commit_request import CommitOutcome, CommitRequest
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


class JoinedTransaction(Protocol):
    """A transaction with staged rows that another table's multi commits. Used by one thread at a time."""

    def plan(self) -> Sequence[Op]:
        """Returns the operations for the multi, gate and activation checked, with new block numbers.

        Raises 242, 649, 999 and ``GateBarred``.
        """

    def note_failure(self, error: MultiFailed) -> None:
        """Learns from the multi's failure what the next plan must know."""

    def release(self) -> None:
        """Gives the numbers of the last plan up, so that its multi fails if it is still on its way."""

    def note_commit(self) -> None:
        """The multi was carried out."""

    def carry_out(self) -> None:
        """Lets this replica show the committed rows soon."""

    def abort(self) -> None:
        """Drops the staged rows, unless they are committed."""


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
