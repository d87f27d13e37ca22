"""A slow background check of all parts, which finds damage on disk while other replicas have copies.

Every active part of every table is compared with its checksums once in ``background_check_interval`` seconds, at most
``background_check_bytes_per_second``. A bad part is reported as a SELECT reports corruption: a replicated table checks
it, fetches a good copy, and moves the bad one to ``detached/``. Any other table logs it and leaves the part where it
is. ``system.parts`` shows when each part was checked and what was wrong with it; CHECK TABLE counts too. Parts not
checked since the start come first, in random order, so that a server that restarts often still gets to all.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from engine.server.background_pool import BackgroundTask
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import CorruptionError, PandoError
from parts.read.part_reader import Part
from parts.read.slow_verification import verify_slowly
from parts.store.part_states import PartState
from parts.store.part_store import PartStore

logger = logging.getLogger(__name__)

_FIRST_SECONDS = 60.0
"""Pause after the start, so that the check does not compete with the loading of tables."""
_SEARCH_SECONDS = 600.0
"""Pause before the next search for due parts when there was none."""
_STEP_SECONDS = 1.0
"""One step reads the bytes that the limit allows in this time."""


@dataclass(frozen=True)
class _DuePart:
    """A part to check."""

    table: OwnedTable
    store: PartStore
    part: Part

    def is_still_active(self) -> bool:
        """Returns whether this very part is still active, and not another one of the same name."""
        active = self.store.get_active(self.part.name)
        return active is not None and active.path == self.part.path and not self.table.is_cancelled()


class Scrub:
    """The background check of one server. Its step runs in one thread at a time."""

    def __init__(
        self,
        tables: Callable[[], Iterable[OwnedTable]],
        services: TableServices,
        bytes_per_second: int,
        interval_seconds: int,
    ) -> None:
        """Makes the task without starting it; ``bytes_per_second`` must be at least 1."""
        self._tables = tables
        self._services = services
        self._bytes_per_second = bytes_per_second
        self._interval_seconds = interval_seconds
        self._due: deque[_DuePart] = deque()
        self._reading: Iterator[int] = iter(())
        self.task = BackgroundTask("background check of parts", self.step)

    def start(self) -> None:
        """Schedules the check in the housekeeping pool."""
        self._services.housekeeping.add(self.task, _FIRST_SECONDS)

    def stop(self) -> None:
        """Removes the check from the pool, after its running step has ended."""
        self._services.housekeeping.remove(self.task)

    def step(self) -> float:
        """Reads about one second's worth of bytes. Returns the seconds until the next step."""
        size, enough = 0, self._bytes_per_second * _STEP_SECONDS
        while size < enough:
            if not self._due:
                self._due.extend(self._find_due())
                if not self._due:
                    return _SEARCH_SECONDS
                self._begin_reading()
            piece = self._read_piece()
            if piece is None:
                self._due.popleft()
                self._begin_reading()
            size += piece or 0
        self._services.checks.read_bytes += size
        return size / self._bytes_per_second

    def _find_due(self) -> list[_DuePart]:
        """Returns the active parts whose check is due: never checked first, then the longest ago."""
        latest = self._services.clock() - self._interval_seconds
        found = [
            (entry.checked_at, _DuePart(table, table.store, entry.part))
            for table in self._tables()
            if table.definition.description.has_parts and table.store is not None
            for entry in table.store.entries()
            if entry.state is PartState.ACTIVE and entry.checked_at <= latest
        ]
        self._services.random.shuffle(found)
        found.sort(key=lambda each: each[0])
        return [due for _, due in found]

    def _begin_reading(self) -> None:
        """Starts reading the first due part."""
        self._reading = verify_slowly(self._due[0].part) if self._due else iter(())

    def _read_piece(self) -> int | None:
        """Reads the next piece and returns its bytes; ``None`` when the part needs no more reading."""
        due = self._due[0]
        if not due.is_still_active():
            return None
        try:
            piece = next(self._reading, None)
        except CorruptionError as error:
            self._report(due, error)
            return None
        except (PandoError, OSError) as error:  # possibly temporary, such as too many open files
            name = due.table.definition.full_name
            logger.info("the check of part %s of %s is left out: %s", due.part.name, name, error)
            return None
        if piece is None:
            self._services.checks.parts += 1
            due.store.note_check(due.part.name)
        return piece

    def _report(self, due: _DuePart, error: CorruptionError) -> None:
        if not due.is_still_active():  # merged into another part and deleted meanwhile
            return
        self._services.checks.parts += 1
        self._services.checks.broken_parts += 1
        due.store.note_check(due.part.name, str(error))
        try:
            due.table.report_corruption(error)
        except PandoError as problem:
            logger.warning("corruption could not be reported (%s): %s", problem, error)
