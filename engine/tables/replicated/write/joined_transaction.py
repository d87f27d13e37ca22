"""A transaction of one replicated table that the multi of another table commits.

Its rows were staged as those of any transaction. Each attempt of the other table takes new block numbers
(:meth:`JoinedTransaction.plan`) and gives them up if its multi failed (:meth:`JoinedTransaction.release`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from coordination.drops.drop_partition import LastBlocks
from coordination.keeper.interface import Keeper, MultiFailed, Op
from coordination.transactions.commit_request import CommitRequest
from coordination.transactions.transaction_commit import CommitAttempt
from coordination.transactions.transaction_nodes import TransactionState, abort_transaction, transaction_node_name
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.write.commit_version import find_version_maker
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)


class JoinedTransaction:
    """Implements ``engine.tables.capabilities.table_transactions.JoinedTransaction``. Not thread-safe."""

    def __init__(
        self,
        state: ReplicaState,
        transaction_id: str,
        pull: Callable[[Keeper], None],
        last_blocks: Callable[[Keeper], LastBlocks],
        wake_execution: Callable[[], None],
    ) -> None:
        self._state = state
        self._id = transaction_id
        self._pull = pull
        self._last_blocks = last_blocks
        self._wake_execution = wake_execution
        self._attempt: CommitAttempt | None = None

    def plan(self) -> Sequence[Op]:
        """Returns the operations of the commit, with new numbers and the checks of gate and activation."""
        state = self._state
        self.release()
        with state.hold_write_access() as (keeper, activation), state.restart_on_leaked_number():
            self._attempt = attempt = CommitAttempt(
                keeper,
                state.replica,
                CommitRequest(self._id),
                state.gate,
                state.store.compute_next_block_number,
                self._last_blocks(keeper),
                state.services.clock,
                0,
                find_version_maker(state, transaction_node_name(self._id)),
            )
            return [*attempt.plan_along(), *activation.checks]

    def note_failure(self, error: MultiFailed) -> None:
        """Reads the gate anew if that is why the multi failed."""
        self._state.gate.has_moved(self._state.replication.require_keeper(), error)

    def release(self) -> None:
        """Gives the numbers of the last plan up, so that its multi fails if it is still on its way."""
        if self._attempt is not None:
            self._attempt.release()
            self._attempt = None

    def note_commit(self) -> None:
        """Forgets the numbers, which the multi has used."""
        if self._attempt is not None:
            self._attempt.note_commit()

    def carry_out(self) -> None:
        """Lets this replica carry the committed transaction out. If that fails now, the log brings it later."""
        state = self._state
        try:
            with state.hold_write_access() as (keeper, _):
                keeper.sync(state.paths.log)
                self._pull(keeper)
        except PandoError as error:
            logger.debug("table %s pulls a transaction later: %s", state.definition.full_name, error)
        self._wake_execution()

    def abort(self) -> None:
        """Drops the staged rows, unless they are committed. If that fails now, it is given up in time."""
        state, name = self._state, transaction_node_name(self._id)
        self.release()
        try:
            with state.hold_write_access() as (keeper, _):
                reason = "the commit that it was part of failed"
                found = abort_transaction(keeper, state.paths, name, reason, transaction_id=self._id)
        except PandoError as error:
            logger.debug("transaction %s is given up later: %s", self._id, error)
            return
        if found is None or found.state is not TransactionState.COMMITTED:
            state.store.staged.remove(name)
