"""How far the replicas of a target have carried out the batches of its links.

The source keeps blocks until enough replicas of the target have them. To find that place at a constant cost, one mark
of the log is looked at, at a time (``log_mark``), with the vector that was read before it. When enough replicas are
past the mark, its vector is confirmed, and the next mark is set.

Invariants:

- What a confirmed vector covers is active on as many replicas as were asked for, or on all.
- A confirmed vector never goes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.keeper.interface import Keeper
from coordination.links.version_vector import VersionVector
from coordination.merges_mutations.mutation_nodes import parse_mutation_id, read_mutation_pointers
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import list_registered_replicas, read_replica_activity
from engine.tables.replicated.links.log_mark import LogMark
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError
from parts.common.query_status import QueryStatus

_PAUSES_SECONDS = (0.01, 0.5)
"""The first and the longest pause between looks at other replicas."""


class BatchProgress:
    """Finds the changes that enough replicas of one table have. Not thread-safe."""

    def __init__(self, table: TablePaths) -> None:
        self._table = table
        self._pending: tuple[VersionVector, LogMark] | None = None
        self._confirmed: dict[int, VersionVector] = {}
        """By number of copies."""

    def find_confirmed(self, keeper: Keeper, copies: int) -> VersionVector:
        """Returns a vector whose changes at least ``copies`` replicas have carried out.

        If there are fewer replicas, all have.
        """
        names = list_registered_replicas(keeper, self._table)
        needed = max(1, min(copies, len(names)))
        for _ in range(2):  # replicas that have nothing to do pass the newest mark at once
            vector, mark = self._pending or self._set_mark(keeper)
            if len(mark.find_past(keeper, names)) < needed:
                break
            self._confirmed[copies] = self._confirmed.get(copies, VersionVector()).join(vector)
            self._pending = None
        return self._confirmed.get(copies, VersionVector())

    def _set_mark(self, keeper: Keeper) -> tuple[VersionVector, LogMark]:
        keeper.sync(self._table.root)
        (answer,) = keeper.get_many([self._table.linked.vector])
        vector = VersionVector.parse(answer[0]) if answer is not None else VersionVector()
        self._pending = vector, LogMark(keeper, self._table)
        return self._pending


class BatchVisibility:
    """Waits for the active replicas of one table."""

    def __init__(self, state: ReplicaState, *, is_own_replica_enough: bool = False) -> None:
        self._state = state
        self._is_own_replica_enough = is_own_replica_enough

    def wait(self, timeout_seconds: float, status: QueryStatus) -> None:
        """Waits until all that is committed now is carried out on all active replicas, or here; mutations too.

        Raises 159 (TIMEOUT_EXCEEDED), and the errors of ``status``.
        """
        state = self._state
        deadline = state.services.monotonic() + timeout_seconds
        pause, longest = _PAUSES_SECONDS
        with state.hold_write_access() as (keeper, _):
            mark, last = self._make_mark(keeper)
        while True:
            with state.hold_write_access() as (keeper, _):
                behind = self._list_behind(keeper, mark, last)
            if not behind:
                return
            status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnavailableError(
                    "TIMEOUT_EXCEEDED",
                    f"After {timeout_seconds:g} s replicas {', '.join(behind)} of {state.definition.full_name} do not "
                    "show yet what was committed; they will",
                )
            state.sleep(pause)
            pause = min(1.5 * pause, longest)

    def list_behind(self) -> Sequence[str]:
        """Lists the replicas that have not carried out what is committed now."""
        with self._state.hold_write_access() as (keeper, _):
            return self._list_behind(keeper, *self._make_mark(keeper))

    def _make_mark(self, keeper: Keeper) -> tuple[LogMark, str]:
        """Returns the end of the log, and the last mutation; "" for none."""
        mark = LogMark(keeper, self._state.paths)
        return mark, max(map(parse_mutation_id, keeper.children(self._state.paths.mutations)), default="")

    def _list_behind(self, keeper: Keeper, mark: LogMark, last_mutation: str) -> Sequence[str]:
        if self._is_own_replica_enough:
            active = {self._state.replica.name}
        else:
            activity = read_replica_activity(keeper, self._state.paths)
            active = {name for name, is_active in activity.items() if is_active}
        behind = active - mark.find_past(keeper, active)
        if not behind and last_mutation:
            pointers = read_mutation_pointers(keeper, self._state.paths)
            behind = {name for name, pointer in pointers.items() if pointer < last_mutation}
            behind &= active if self._is_own_replica_enough else behind
        return sorted(behind)
