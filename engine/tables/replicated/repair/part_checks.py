"""Checks suspicious parts, and replaces bad ones by copies of other replicas.

SELECT and merges report the corruption that they meet. A bad part stays active until a copy has been fetched, so that
every read of it fails instead of missing rows. Then it moves to ``detached/broken_…``. ZooKeeper's list does not
change: it says what the part should be.

Invariants

- A part is in ``_due`` once, until a check finds it whole, replaced or gone.
- A bad part leaves the active ones only in the step that puts its copy in.
- One step runs at a time; reports may come from any thread (``_lock``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.nodes.part_record import PartRecord
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CancelledError, CorruptionError, PandoError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
_RETRY_SECONDS = 1.0
_MAX_RETRY_SECONDS = 300.0
"""The longest pause between checks of a part without a good copy; each check reads all of it."""


Fetch = Callable[[Keeper, PartName, Callable[[], bool]], Path]
"""Fetches a part from another replica into a temporary directory.

The last argument tells whether to stop.
"""


class PartChecks:
    """The suspicious parts of one replica."""

    def __init__(self, state: ReplicaState, fetch: Fetch) -> None:
        self._state = state
        self._fetch = fetch
        self.task = state.make_task("check parts", self.step)
        self._lock = threading.Lock()
        self._due: dict[PartName, float] = {}
        """By suspicious part, the monotonic time of its next check."""
        self._failures: Counter[PartName] = Counter()
        """By suspicious part, the number of consecutive checks that failed."""

    def report_corruption(self, error: CorruptionError) -> None:
        """Logs the corruption that a read met, and schedules a check of the part."""
        name = PartName.try_parse(error.part or "")
        logger.error("table %s: %s", self._state.definition.full_name, error)
        if name is not None:
            self.schedule_check(name)

    def schedule_check(self, name: PartName) -> None:
        """Schedules a check.

        A part that is scheduled already keeps its time, as every read of a broken part reports it.
        """
        with self._lock:
            self._due.setdefault(name, 0.0)
        self.task.wake()

    def __len__(self) -> int:
        """The number of parts to check, for ``parts_to_check`` of ``system.replicas``."""
        return len(self._due)

    def step(self) -> float:
        """Checks one part by reading all of it; returns the seconds until the next check."""
        with self._lock:
            name = min(self._due, key=lambda part: (self._due[part], part), default=None)
        if name is None:
            return _IDLE_SECONDS
        now = self._state.services.monotonic()
        if self._due[name] > now:
            return min(self._due[name] - now, _IDLE_SECONDS)
        if self._state.activation is None:
            return _RETRY_SECONDS
        try:
            with self._state.hold_write_access() as (keeper, _):
                self._check(keeper, name)
        except (PandoError, OSError) as error:
            logger.info("the check of part %s is put off: %s", name, error)
            with self._lock:
                pause = min(_RETRY_SECONDS * 2.0 ** min(self._failures[name], 20), _MAX_RETRY_SECONDS)
                self._failures[name] += 1
                self._due[name] = now + pause
            return _RETRY_SECONDS
        with self._lock:
            self._due.pop(name, None)
            self._failures.pop(name, None)
        return 0.0

    def _require_working(self) -> None:
        if self._state.is_cancelled():
            raise CancelledError("The table is being stopped, or begins a new ZooKeeper session")

    def _check(self, keeper: Keeper, name: PartName) -> None:
        part = self._state.store.get_active(name)
        if part is None:
            return
        try:
            part.verify(self._require_working)
            self._state.store.note_check(name)
        except CorruptionError as error:
            moved = self._replace(keeper, part)
            logger.error(
                "part %s of %s was broken, a copy took its place, moved to %s: %s",
                name,
                self._state.definition.full_name,
                moved or "nowhere: nothing was left of it",
                error,
            )

    def _replace(self, keeper: Keeper, part: Part) -> str:
        """Replaces a broken part by a copy; tells where the broken one went.

        Raises 234 if no other replica has the part; then reads of it go on failing.
        """
        state = self._state
        record = PartRecord.parse(keeper.get(state.replica.part(str(part.name)))[0])
        directory = self._fetch(keeper, part.name, state.is_cancelled)
        try:
            if open_part(directory).content_hash != record.content_hash:
                raise CorruptionError("The copy is not what ZooKeeper says", part=str(part.name))
            return state.store.replace_with_copy(part, directory, "broken")
        except UserError:  # it was merged away meanwhile
            return "nowhere: it was merged away"
        finally:
            state.store.drop_temporary(directory)
