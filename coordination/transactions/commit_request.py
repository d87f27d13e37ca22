"""What a COMMIT TRANSACTION asks for, and what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from coordination.keeper.interface import Op
from coordination.transactions.read_state import ReadState
from coordination.transactions.transaction_nodes import StagedRecord, staged_key_prefix
from parts.common.errors import UserError
from parts.common.part_name import PartName


class Overwrite(Enum):
    """The rows that a commit removes when it adds the transaction's rows."""

    NOTHING = "nothing"
    TABLE = "every row"
    PARTITIONS = "the rows of the partitions that get some, or of those that are named"


@dataclass(frozen=True)
class CommitRequest:
    """The arguments of COMMIT TRANSACTION."""

    transaction_id: str
    overwrite: Overwrite = Overwrite.NOTHING
    partition_ids: frozenset[str] | None = None
    """With ``Overwrite.PARTITIONS``: those that lose their rows; ``None``: those that get some."""
    unchanged: ReadState | None = None
    """What the client read; the commit is refused if it has changed."""
    attempts: tuple[str, ...] | None = None
    """Names of the attempts whose INSERTs count; ``None``: all."""
    rows: int | None = None
    """The number of rows that the attempts must have; ``None``: any."""
    application: str = ""
    version: int | None = None
    """With ``application``: the commit is skipped if it has committed this version, or a later one."""
    extra_ops: tuple[Op, ...] = ()
    """Operations of another table in the same multi (``coordination.drops.move_partition``)."""

    def select_dropped(self, known: Collection[str], given: Collection[str]) -> frozenset[str]:
        """Returns which of the known partitions lose their rows. ``given``: the partitions that get some."""
        if self.overwrite is Overwrite.NOTHING:
            return frozenset()
        if self.overwrite is Overwrite.TABLE:
            return frozenset(known)
        return frozenset(known).intersection(given if self.partition_ids is None else self.partition_ids)


class CommitVerdict(Enum):
    """Whether this commit, or an earlier one, took effect."""

    COMMITTED = "committed"
    REPEATED = "committed before"
    SKIPPED = "skipped: the application had committed this version"


@dataclass(frozen=True)
class CommitOutcome:
    """The verdict, with the rows of this or the earlier commit.

    ``rows`` is 0 for a skipped commit if the application had committed a later version.
    """

    verdict: CommitVerdict
    rows: int = 0
    parts: tuple[PartName, ...] = field(default=())


def select_staged_parts(request: CommitRequest, staged: Mapping[str, StagedRecord]) -> dict[str, StagedRecord]:
    """Selects the staged parts that count.

    Raises ``UserError`` 649 when the row count is not as announced.
    """
    chosen = dict(staged)
    if request.attempts is not None:
        prefixes = {staged_key_prefix(attempt) for attempt in request.attempts}
        chosen = {key: record for key, record in staged.items() if f"{key.partition('-')[0]}-" in prefixes}
    rows = sum(record.rows for record in chosen.values())
    if request.rows is not None and rows != request.rows:
        raise UserError(
            "INVALID_TRANSACTION",
            f"Transaction {request.transaction_id!r} holds {rows} rows of these attempts, and {request.rows} were "
            "announced: nothing was committed. Was something rolled back, or never inserted?",
        )
    return chosen
