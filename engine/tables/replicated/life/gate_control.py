"""A replica's knowledge of its table's gate, and the statements that open and close it.

Commits check the gate whatever is known here (:mod:`coordination.nodes.table_gate`). The watch lets a closed table
refuse a statement before it has done any work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coordination.keeper.interface import Keeper
from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.replica_activation import Activation
from coordination.nodes.table_gate import move_gate
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""The pause without news; a watch wakes the step earlier."""
_RETRY_SECONDS = 1.0
_REFUSE_INSERTS = "setting refuse_inserts"


class GateControl:
    """Follows the gate of one table, and moves it."""

    def __init__(
        self, state: ReplicaState, *on_gate: Callable[[Keeper], None], tell: Callable[[], float] = lambda: _IDLE_SECONDS
    ) -> None:
        """``on_gate`` are called when the gate was read.

        ``tell`` is called at each step, and returns the seconds until the next.
        """
        self._state = state
        self._on_gate = on_gate
        self._tell = tell
        self.task = state.make_task("follow the gate", self.step)
        self._may_have_moved = threading.Event()
        self._watching_since: Activation | None = None
        """The activation in which the gate was read and watched last."""

    def step(self) -> float:
        """Reads a gate that has moved; returns the seconds until the next look."""
        return min(self._follow(), self._tell())

    def _follow(self) -> float:
        state = self._state
        if state.activation is None or state.is_session_expired:
            return _IDLE_SECONDS
        if state.activation is self._watching_since and not self._may_have_moved.is_set():
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, activation):
                self._may_have_moved.clear()
                state.gate.load(keeper, self._on_moved)
                for tell in self._on_gate:
                    tell(keeper)
                self._watching_since = activation
        except (PandoError, OSError) as error:
            logger.info("the gate of %s is looked at later: %s", state.definition.full_name, error)
            self._may_have_moved.set()
            return _RETRY_SECONDS
        return _IDLE_SECONDS

    def _on_moved(self, _: str) -> None:
        self._may_have_moved.set()
        self.task.wake()

    def refuse_inserts(self, refused: bool) -> None:
        """Refuses INSERTs on all replicas from now on, or allows them again. Raises 48, 242, 999."""
        state, name = self._state, self._state.definition.full_name
        reason = (
            f"Table {name} refuses INSERTs (setting refuse_inserts); "
            f"ALTER TABLE {name} MODIFY SETTING refuse_inserts = 0 allows them again"
        )
        bar = Bar(_REFUSE_INSERTS, KeptOut.INSERTS, reason=reason)

        def change(gate: Gate) -> Gate:
            return gate.with_bar(bar) if refused else gate.without_bar(bar.owner)

        with state.hold_write_access() as (keeper, _):
            move_gate(keeper, state.paths, change)
            state.gate.load(keeper)
