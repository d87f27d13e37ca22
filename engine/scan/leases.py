"""Leases: snapshots of parts that outlive a request, so that what was planned can still be read by its tasks.

Invariants:
- A lease that is being read is never ended by time or by pressure; ``release`` ends it for new reads, and the running
  ones keep their parts until they are through.
- A lease without a reader ends ``seconds`` after its last use, or earlier when all of its tasks were read to their end.
- There are at most ``limit`` leases. A new one then ends the one that was idle longest; if all are being read it is
  refused.

Losing a lease loses no answer: a task names its parts with their content hashes and may hold them anew.
Thread-safe. The caller runs :meth:`LeaseBook.expire` now and then.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from engine.tables.table import Table
from parts.errors import UserError
from parts.part_name import PartName
from parts.reader import Part
from sql.relation import PartsSnapshot

MAX_LEASES = 256
MAX_SECONDS = 24 * 3600.0


class LeaseView(Protocol):
    """A lease as those see it who read its parts."""

    @property
    def id(self) -> str: ...

    @property
    def table(self) -> Table: ...

    @property
    def parts(self) -> Mapping[PartName, Part]: ...


class Leases(Protocol):
    """See :class:`LeaseBook`."""

    def open(self, table: Table, snapshot: PartsSnapshot, seconds: float, tasks: int) -> LeaseView: ...

    def reading(self, lease_id: str, task: int | None) -> AbstractContextManager[LeaseView | None]: ...

    def release(self, lease_id: str) -> bool: ...

    def expire(self) -> None: ...


@dataclass(eq=False)
class Lease:
    """The parts of one planned scan. ``unread`` are the numbers of the tasks not yet read to their end."""

    id: str
    table: Table
    snapshot: PartsSnapshot
    seconds: float
    unread: set[int]
    deadline: float
    readers: int = 0
    is_ended: bool = False
    parts: dict[PartName, Part] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = {part.name: part for part in self.snapshot.parts}


class LeaseBook:
    """The leases of one server."""

    def __init__(self, clock: Callable[[], float], new_uuid: Callable[[], uuid.UUID], limit: int = MAX_LEASES) -> None:
        self._new_uuid = new_uuid
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._leases: dict[str, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def open(self, table: Table, snapshot: PartsSnapshot, seconds: float, tasks: int) -> Lease:
        """Takes the snapshot over. Raises 202 (TOO_MANY_SIMULTANEOUS_QUERIES) when every lease is being read."""
        if not 0 < seconds <= MAX_SECONDS:
            raise UserError(
                "ARGUMENT_OUT_OF_BOUND",
                f"lease_seconds must be more than 0 and at most {MAX_SECONDS:g}, got {seconds:g}",
            )
        lease = Lease(self._new_uuid().hex, table, snapshot, seconds, set(range(tasks)), self._clock() + seconds)
        with self._lock:
            ended = self._make_room()
            self._leases[lease.id] = lease
        _release(ended)
        return lease

    @contextmanager
    def reading(self, lease_id: str, task: int | None) -> Iterator[Lease | None]:
        """The lease for the time of one read, or ``None`` if it has ended. A read without error finishes its task."""
        with self._lock:
            lease = self._leases.get(lease_id)
            if lease is not None:
                lease.readers += 1
        if lease is None:
            yield None
            return
        is_whole = False
        try:
            yield lease
            is_whole = True
        finally:
            self._end_read(lease, task if is_whole else None)

    def release(self, lease_id: str) -> bool:
        """Ends a lease early; ``False`` if it had ended."""
        with self._lock:
            lease = self._leases.pop(lease_id, None)
            if lease is None:
                return False
            lease.is_ended = True
            ended = [lease] if lease.readers == 0 else []
        _release(ended)
        return True

    def expire(self) -> None:
        """Ends the leases whose time is over."""
        with self._lock:
            now = self._clock()
            ended = [lease for lease in self._leases.values() if lease.readers == 0 and lease.deadline <= now]
            self._remove(ended)
        _release(ended)

    def close(self) -> None:
        for lease_id in list(self._leases):
            self.release(lease_id)

    def _end_read(self, lease: Lease, task: int | None) -> None:
        with self._lock:
            lease.readers -= 1
            lease.deadline = self._clock() + lease.seconds
            if task is not None:
                lease.unread.discard(task)
            is_over = lease.readers == 0 and (lease.is_ended or not lease.unread)
            if is_over:
                self._remove([lease])
        _release([lease] if is_over else [])

    def _make_room(self) -> list[Lease]:
        now = self._clock()
        ended = [lease for lease in self._leases.values() if lease.readers == 0 and lease.deadline <= now]
        if len(self._leases) - len(ended) >= self._limit:
            idle = [lease for lease in self._leases.values() if lease.readers == 0]
            if not idle:
                raise UserError(
                    "TOO_MANY_SIMULTANEOUS_QUERIES",
                    f"{self._limit} scans are being read; retry later or on another replica",
                )
            ended.append(min(idle, key=lambda lease: lease.deadline - lease.seconds))
        self._remove(ended)
        return ended

    def _remove(self, leases: list[Lease]) -> None:
        for lease in leases:
            lease.is_ended = True
            self._leases.pop(lease.id, None)


def _release(leases: list[Lease]) -> None:
    """Outside the book's lock: releasing takes the part store's."""
    for lease in leases:
        lease.snapshot.release()
