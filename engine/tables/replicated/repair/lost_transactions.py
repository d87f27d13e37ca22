"""Committed transactions of which nobody has some part any more: the disk that held it was lost before another replica
had fetched it. The entry must not block the table for ever.

A part is lost when, after several vain tries, no replica lists it or a part that covers it, every active replica says
that it does not hold it, not even staged, and no other replica waits for the entry: one that is away may hold it.

If no replica lists any part of the transaction, nobody has carried the entry out, nor ever can, and it is given up
whole: what it would have dropped stays. Otherwise the other parts come. Each replica gives it up for itself. The
transaction's node says what became of it, and a COMMIT that is repeated is told.
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
    parts: frozenset[PartName]
    is_whole: bool
    """Nothing of the transaction is anywhere."""


class LostTransactions:
    def __init__(self, state: ReplicaState, pull: Callable[[Keeper], None]) -> None:
        """``pull`` takes over what is in the log."""
        self._state = state
        self._pull = pull

    def look(
        self,
        keeper: Keeper,
        action: Action,
        is_here: Callable[[StagedPart], bool],
        ask: Callable[[str, StagedPart], object],
    ) -> LostTransactionParts | None:
        """``None``: all may come yet. ``ask`` fetches what a transaction left on a replica, or raises."""  # fmt: skip
        state, entry = self._state, action.entry
        keeper.sync(state.paths.root)
        self._pull(keeper)
        listed = self._listed(keeper, entry)
        missing = [
            staged
            for staged in entry.replace_parts
            if not (
                is_here(staged)
                or listed.covering(staged.part)
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
        is_whole = not any(listed.covering(part) for part in entry.created_parts)
        return LostTransactionParts(frozenset(staged.part for staged in missing), is_whole)

    def _listed(self, keeper: Keeper, entry: LogEntry) -> PartSet:
        """Parts on the lists of replicas that hold something of the transaction."""
        paths = self._state.paths
        replicas = list_registered_replicas(keeper, paths)
        found = PartSet()
        for names in keeper.children_many([paths.replica(name).parts for name in replicas]):
            for name in filter(None, map(PartName.try_parse, names or ())):
                if found.covering(name) is None and any(name.covers(part) for part in entry.created_parts):
                    found.remove_covered(name)
                    found.add(name)
        return found

    def give_up(self, keeper: Keeper, action: Action, loss: LostTransactionParts) -> None:
        """The whole entry leaves the queue."""
        path = self._state.replica.queue_entry(action.name)
        if keeper.exists(path) is not None:  # otherwise it was given up, and the answer was lost
            self._tell(keeper, action.entry, loss, [Delete(path)])
        self._state.store.staged.remove(action.entry.transaction)
        # What the entry would have dropped is a virtual part again: only loading the queue anew tells.
        self._state.restart()

    def note(self, keeper: Keeper, entry: LogEntry, loss: LostTransactionParts) -> None:
        """The entry goes on without some parts."""
        self._tell(keeper, entry, loss, [])

    def _tell(self, keeper: Keeper, entry: LogEntry, loss: LostTransactionParts, ops: Collection[Op]) -> None:
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
        keeper.multi(all_ops)
        name = found.id if found is not None else entry.transaction
        logger.error("transaction %r of %s: %s", name, state.definition.full_name, reason)


def _is_refused(ask: Callable[[str, StagedPart], object], replica: str, staged: StagedPart) -> bool:
    try:
        ask(replica, staged)
    except MultiFailed:
        return False
    except PandoError as error:
        return error.code == _NO_SUCH_PART
    return False
