"""Both ends of bootstraps at one replica, and what is tidied up in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable

from coordination.keeper.interface import Keeper
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.links.bootstrap.commit import BootstrapCommit
from engine.tables.replicated.links.bootstrap.copies import BootstrapCopies
from engine.tables.replicated.links.bootstrap.giver import BootstrapGiver
from engine.tables.replicated.links.bootstrap.taker import BootstrapTaker
from engine.tables.replicated.links.carried_definitions import CarriedDefinitions
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 10.0
_IDLE_SECONDS = 600.0


class ReplicaBootstrap:
    """Implements :class:`engine.tables.capabilities.table_bootstrap.TableBootstrap` for one replica."""

    def __init__(
        self,
        state: ReplicaState,
        pull: Callable[[Keeper], None],
        wake_execution: Callable[[], None],
        definitions: Callable[[], DefinitionChanges],
    ) -> None:
        """``pull`` reads the log into the queue."""
        self._state = state
        self._pull = pull
        self._copies = BootstrapCopies(state)
        self.task = state.make_task("tidy up after bootstraps", self.step)
        self.giver = BootstrapGiver(state, pull, wake_execution, self.task.wake)
        commit = BootstrapCommit(state, pull, wake_execution)
        self.taker = BootstrapTaker(state, commit, self._copies, CarriedDefinitions(state, definitions))

    def step(self) -> float:
        """Ends holds and removes copies that nobody needs; returns the seconds until the next look."""
        state = self._state
        if state.activation is None or state.is_session_expired:
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                is_holding = self.giver.end_holds(keeper)
                if copied := self._copies.list_links():
                    self._pull(keeper)  # what is committed is queued then
                    for link_uuid in self._copies.select_needless(keeper, copied):
                        self._copies.forget(link_uuid)
        except PandoError as error:
            logger.info("bootstraps of %s are looked at later: %s", state.definition.full_name, error)
            return _LOOK_SECONDS
        return _LOOK_SECONDS if is_holding else _IDLE_SECONDS
