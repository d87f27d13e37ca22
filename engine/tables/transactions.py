"""What a table offers to transactions of inserts: rows are staged, unseen, and decided all at once."""

from __future__ import annotations

from typing import Protocol

from coordination.transaction_commit import CommitOutcome, CommitRequest
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.options import CommitOptions, InsertOptions


class TableTransactions(Protocol):
    """Of one table. From any thread. Ids are the user's texts."""

    def stage(self, parts: list[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Keeps the parts of one INSERT for ``options.transaction``; the same again (by its deduplication token) is
        kept once. Raises 649 for a decided transaction, 389 for other rows under the token."""

    def commit(self, request: CommitRequest, options: CommitOptions) -> CommitOutcome:
        """Makes what was staged visible, all at once; repeatable. Raises 649 and what
        :func:`coordination.transaction_commit.commit_transaction` raises."""

    def rollback(self, transaction_id: str) -> None:
        """Drops what was staged. Fine for what was never begun; raises 649 for what is committed."""
