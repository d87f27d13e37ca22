"""Gives up parts of committed transactions that no replica has any more.

The disk that held a part was lost before another replica had fetched it. The entry must not block the table for ever.

A part is lost if all of this holds after several failed attempts. No replica lists it or a part that covers it. Every
active replica says that it does not hold it, not even staged. No other replica waits for the entry: one that is away
may hold the part.

If no replica lists any part of the transaction, nobody has executed the entry or ever can. It is then given up as a
whole: what it would have dropped stays. Otherwise the other parts are brought. Each replica gives up the parts for
itself. The transaction's node records the loss, which a repeated COMMIT reports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

from coordination.inserts.quorum import forget_dropped_parts_ops
from coordination.keeper.interface import Delete, Keeper, MultiFailed, Op, SetData
from coordination.log.log_entry import LogEntry, StagedPart
from coordination.log.part_set import PartSet
from coordination.log.queue_rules import Action
from coordination.nodes.gate import CommitKind
from coordination.nodes.replica_activation import list_registered_replicas, read_replica_activity
from coordination.reads.dropped_blocks import record_lost_part_ops
from coordination.transactions.transaction_nodes import (
    TransactionState,
    is_unfinished_on,
    read_transaction,
    transaction_content,
)
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

_NO_SUCH_PART = 232


@dataclass(frozen=True)
class LostTransactionParts:
    """The lost parts of one transaction."""

    parts: frozenset[PartName]
    is_whole: bool
    """Whether nothing of the transaction is left on any replica."""


class LostTransactions:
    """The lost transactions of one table, as one replica gives them up."""

    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None]) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull

    def find_losses(
        self,
        keeper: Keeper,
        action: Action,
        is_here: Callable[[StagedPart], bool],
        ask: Callable[[str, StagedPart], object],
    ) -> LostTransactionParts | None:
        """Returns the entry's lost parts, or ``None`` if all may still come.

        ``ask`` fetches a staged part from a replica, or raises.
        """
        state, entry = self._state, action.entry
        keeper.sync(state.paths.root)
        self._pull(keeper)
        listed = self._find_listed_covers(keeper, entry)
        missing = [
            staged
            for staged in entry.replace_parts
            if not (
                is_here(staged)
                or listed.find_covering(staged.part)
                or state.queue.find_later_removal(action.name, staged.part)
            )
        ]
        others = read_replica_activity(keeper, state.paths)
        others.pop(state.replica.name, None)
        for name, is_active in others.items():
            if not is_active and is_unfinished_on(keeper, state.paths.replica(name), entry.transaction):
                return None
            if is_active and not all(_is_refused(ask, name, staged) for staged in missing):
                return None
        if not missing:
            return None
        is_whole = not any(listed.find_covering(part) for part in entry.created_parts)
        return LostTransactionParts(frozenset(staged.part for staged in missing), is_whole)

    def _find_listed_covers(self, keeper: Keeper, entry: LogEntry) -> PartSet:
        """Returns the listed parts that cover parts of the transaction."""
        paths = self._state.paths
        replicas = list_registered_replicas(keeper, paths)
        found = PartSet()
        for names in keeper.children_many([paths.replica(name).parts for name in replicas]):
            for name in filter(None, map(PartName.try_parse, names or ())):
                if found.find_covering(name) is None and any(name.covers(part) for part in entry.created_parts):
                    found.remove_covered(name)
                    found.add(name)
        return found

    def give_up(self, keeper: Keeper, action: Action, loss: LostTransactionParts) -> None:
        """Removes the whole entry from the queue."""
        path = self._state.replica.queue_entry(action.name)
        if keeper.exists(path) is not None:  # otherwise it was given up, and the response was lost
            self._write_loss(keeper, action.entry, loss, [Delete(path)])
        self._state.store.staged.remove(action.entry.transaction)
        # Parts that the entry would have dropped are virtual parts again: only loading the queue anew shows it.
        self._state.restart()

    def record_loss(self, keeper: Keeper, entry: LogEntry, loss: LostTransactionParts) -> None:
        """Records the loss of some parts; the entry goes on without them."""
        self._write_loss(keeper, entry, loss, [])

    def _write_loss(self, keeper: Keeper, entry: LogEntry, loss: LostTransactionParts, ops: Collection[Op]) -> None:
        """Records the loss in ZooKeeper and in the transaction's node, together with ``ops``."""
        state, rows = self._state, entry.rows
        if not loss.is_whole:
            rows = sum(staged.rows for staged in entry.replace_parts if staged.part in loss.parts)
        reason = f"{rows} rows of it are lost: no replica has {', '.join(map(str, sorted(loss.parts)[:5]))}"
        count, stat = keeper.get(state.paths.lost_part_count)
        found = read_transaction(keeper, state.paths, entry.transaction)
        all_ops: list[Op] = [
            *ops,
            SetData(state.paths.lost_part_count, str(int(count or b"0") + 1).encode(), stat.version),
        ]
        lost = sorted(entry.created_parts if loss.is_whole else loss.parts)
        all_ops += forget_dropped_parts_ops(keeper, state.paths, *lost)
        for part in lost:
            all_ops += record_lost_part_ops(keeper, state.paths, part)
        if found is not None and found.state is TransactionState.COMMITTED:
            told = transaction_content(found.id, TransactionState.COMMITTED, reason=reason, rows=found.rows)
            all_ops.append(SetData(state.paths.transaction(found.name), told, found.version))
        try:
            keeper.multi([*all_ops, *state.gate.checks(keeper, CommitKind.UPKEEP)])
        except MultiFailed as conflict:
            state.gate.has_moved(keeper, conflict)
            raise
        name = found.id if found is not None else entry.transaction
        logger.error("transaction %r of %s: %s", name, state.definition.full_name, reason)


def _is_refused(ask: Callable[[str, StagedPart], object], replica: str, staged: StagedPart) -> bool:
    """Tells whether the replica says that it does not have the part."""
    try:
        ask(replica, staged)
    except MultiFailed:
        return False
    except PandoError as error:
        return error.code == _NO_SUCH_PART
    return False
