"""Looks for what is stable in a ``last_writer_wins`` table, and sets the table's own mark.

Source: ``coordination.links.stream.stable_times``. Every replica does so; marks only grow, so it does not matter who is
first. A table without links gets no rows from elsewhere: all that it has is stable.
"""

from __future__ import annotations

import logging
import math

from coordination.keeper.interface import Keeper
from coordination.links.positions import Origin
from coordination.links.stream.stable_times import (
    OpenMark,
    find_stable_time,
    list_committing,
    raise_marks,
    read_marks,
)
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import PandoError
from parts.merge.last_writer import LastWriter, find_tombstone_times

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
_UNNEEDED_SECONDS = 600.0


class TombstoneMarks:
    """The marks of one table, as one replica knows and sets them."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self.task = state.make_task("mark tombstones", self.step)
        self.news = 0
        """How often other marks were seen, which links want to know."""
        self._version = -1
        self._own: Origin | None = None
        self._own_mark = 0
        self._open: OpenMark | None = None
        self._marked_at = -math.inf

    def step(self) -> float:
        """Looks once; returns the seconds until the next look."""
        state = self._state
        mode = state.description.merge_mode
        if not isinstance(mode, LastWriter) or not mode.may_remove_tombstones:
            return _UNNEEDED_SECONDS
        if state.activation is None or state.is_session_expired:
            return _LOOK_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                gate = state.gate.gate or state.gate.load(keeper)
                if gate is not None and gate.links:
                    self._look(keeper, gate)
                else:
                    self._observe(state.store.get_largest_commit_time())
        except PandoError as error:
            logger.info("the tombstones of %s are looked at later: %s", state.definition.full_name, error)
        return _LOOK_SECONDS

    def _observe(self, stable_time: int) -> None:
        settings, now = self._state.definition.settings, self._state.services.monotonic()
        self._state.stable_time.observe(stable_time, now, settings.link_tombstone_seconds)

    def _look(self, keeper: Keeper, gate: Gate) -> None:
        paths = self._state.paths
        root, vector = keeper.get_many([paths.root, paths.linked.vector])
        marks = read_marks(keeper, paths)
        if root is None:
            return
        own = Origin.parse(f"{self._state.replication.get_cluster_uuid()}.{root[1].created_zxid}.{gate.epoch}")
        known = VersionVector.parse(vector[0]) if vector is not None else VersionVector()
        if marks.version != self._version:
            self._version, self.news = marks.version, self.news + 1
            self._state.services.link_news.grow()
        self._observe(find_stable_time(own, known, marks.times))
        self._mark(keeper, own, marks.times.get(own, 0))

    def _mark(self, keeper: Keeper, own: Origin, mark: int) -> None:
        """Sets the own mark, if tombstones came since the last one, and not more often than tombstones are kept."""
        state, now = self._state, self._state.services.monotonic()
        if own != self._own:
            self._own, self._open = own, None
        if mark != self._own_mark:
            self._own_mark, self._marked_at = mark, now
        if self._open is None:
            newest = max((find_tombstone_times(part)[1] for part in state.store.list_active()), default=0)
            if newest <= mark or now - self._marked_at < state.definition.settings.link_tombstone_seconds:
                return
            time = state.commit_times.read_largest(keeper)
            self._open = OpenMark(time, list_committing(keeper, state.paths))
        if self._open.is_decided(list_committing(keeper, state.paths) if self._open.numbers else frozenset()):
            raise_marks(keeper, state.paths, {own: self._open.time})
            self._open = None
