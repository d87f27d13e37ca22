"""Tells others which cut this replica shows, and waits for what others tell."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from coordination.keeper.interface import Keeper, NoNode
from coordination.links.groups.told_cut import ToldCut, list_hiding
from coordination.nodes.replica_activation import Activation
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.shown_groups.shown_group import ShownGroup
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
"""The pause without news; a cut that is shown wakes the step earlier."""
_RETRY_SECONDS = 1.0
_PAUSES_SECONDS = (0.005, 0.5)
"""The first and the longest pause between looks at other replicas."""


class ShownTeller:
    """Keeps the node ``shown_cut`` of one replica. Used by one thread at a time."""

    def __init__(self, state: ReplicaState, get_group: Callable[[], ShownGroup | None]) -> None:
        self._state = state
        self._get_group = get_group
        self._told: tuple[Activation, ToldCut] | None = None

    def step(self) -> float:
        """Writes what has changed; returns the seconds until the next look."""
        state, group, activation = self._state, self._get_group(), self._state.activation
        if group is None or activation is None or state.is_session_expired:
            return _IDLE_SECONDS
        shown = group.find_told(state.paths.root)
        if shown is None or self._told == (activation, shown):
            return _IDLE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                self._write(keeper, shown)
        except PandoError as error:
            logger.info("which cut %s shows is told later: %s", state.definition.full_name, error)
            return _RETRY_SECONDS
        self._told = activation, shown
        return _IDLE_SECONDS

    def tell_alone(self, keeper: Keeper) -> None:
        """Tells that the table has left its group and is shown alone."""
        self._told = None
        with suppress(NoNode):  # most groups tell nothing
            keeper.set(self._state.replica.shown_cut, ToldCut().to_bytes())

    def _write(self, keeper: Keeper, shown: ToldCut) -> None:
        path = self._state.replica.shown_cut
        try:
            keeper.set(path, shown.to_bytes())
        except NoNode:
            keeper.create(path, shown.to_bytes())


def wait_until_shown(
    state: ReplicaState, wanted: ToldCut, timeout_seconds: float, status: QueryStatus
) -> Sequence[str]:
    """Waits until all active replicas of the table tell that they show what is wanted.

    Returns those that do not when the time is over. Raises the errors of ``status``.
    """
    deadline = state.services.monotonic() + timeout_seconds
    pause, longest = _PAUSES_SECONDS
    while True:
        with state.hold_write_access() as (keeper, _):
            keeper.sync(state.paths.replicas)
            hiding = list_hiding(keeper, state.paths, wanted)
        if not hiding or state.services.monotonic() >= deadline or state.is_stopping.is_set():
            return hiding
        status.check()
        state.sleep(pause)
        pause = min(1.5 * pause, longest)
