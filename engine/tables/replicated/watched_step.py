"""A background step that looks at ZooKeeper when something there has changed.

Invariant: a change that a watch told of is looked at, however often looking fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coordination.keeper.interface import Keeper, Watch
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""The pause without news; a watch wakes the step earlier."""
_RETRY_SECONDS = 1.0


class WatchedStep:
    """One step of one replica. Its ``task`` is run by the table's pool."""

    def __init__(self, state: ReplicaState, name: str, subject: str, look: Callable[[Keeper, Watch], None]) -> None:
        """``look`` acts on what it finds and sets the watch; ``subject`` names in the log what it looks at."""
        self._state = state
        self._subject = subject
        self._look = look
        self._may_have_changed = threading.Event()
        self._may_have_changed.set()
        self.task = state.make_task(name, self.run)

    def run(self) -> float:
        """Looks if something may have changed and the replica is active.

        Returns the seconds until the next look.
        """
        state = self._state
        if state.activation is None or state.is_session_expired or not self._may_have_changed.is_set():
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                self._may_have_changed.clear()
                self._look(keeper, self.look_again)
        except (PandoError, OSError) as error:
            logger.info("the %s of %s are looked at later: %s", self._subject, state.definition.full_name, error)
            self._may_have_changed.set()
            return _RETRY_SECONDS
        return _IDLE_SECONDS

    def look_again(self, _: str = "") -> None:
        """Makes the step look soon. It is the watch, which gets the changed path."""
        self._may_have_changed.set()
        self.task.wake()
