"""The base of keepers that work on top of another one, in its session."""

from __future__ import annotations

from coordination.keeper.interface import Keeper, SessionState


class LayeredKeeper:
    """A keeper with the session of the keeper below. A subclass adds the reads and writes of a ``Keeper``."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.add_listener = keeper.add_listener
        self.close = keeper.close

    @property
    def session_id(self) -> int:
        """The id of the session of the keeper below."""
        return self._keeper.session_id

    @property
    def session_timeout_seconds(self) -> float:
        """The timeout of that session."""
        return self._keeper.session_timeout_seconds

    @property
    def state(self) -> SessionState:
        """The state of that session."""
        return self._keeper.state
