"""States of parts in a store, the report of loading, and snapshots that keep files on disk."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.store.part_list import PartList


class PartState(enum.Enum):
    """The state of a part. Values are as in ``system.parts._state``."""

    PRE_ACTIVE = "PreActive"
    ACTIVE = "Active"
    OUTDATED = "Outdated"
    DELETING = "Deleting"


@dataclass
class StoredPart:
    """A part with its state. ``remove_time``: when it became outdated, for display."""

    part: Part
    state: PartState
    references: int = 0
    remove_time: float | None = None
    is_dropped: bool = False
    """Outdated because its rows were dropped, not because another part covers it."""
    hidden_at: int = 0
    """The number of the change that removed it from the active parts, for readers in other processes
    (``ActivePartsListener``)."""
    outdated_at: float = 0.0
    """Monotonic time at which it became outdated, to measure its age."""
    checked_at: float = 0.0
    """Time of the last check of all its bytes, in seconds since 1970; 0: not since the start."""
    check_error: str = ""
    """The error found by the last check or by a query."""


@dataclass
class LoadReport:
    """The result of :meth:`PartStore.load`. ``broken`` holds (new directory name in detached/, error)."""

    parts: list[Part] = field(default_factory=list)
    outdated: list[Part] = field(default_factory=list)
    broken: list[tuple[str, CorruptionError]] = field(default_factory=list)
    broken_bytes: int = 0
    dropped_temporary: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class ActivePartsListener(Protocol):
    """Reports the active parts to other processes. Called with the store's lock held; must be quick."""

    def on_active_parts_changed(self, changes: Sequence[tuple[PartName, bool]]) -> int:
        """Reports removed (``False``) and added (``True``) active parts as one change. Returns its number.

        Later changes have higher numbers.
        """

    def get_oldest_read_change(self) -> int:
        """Returns the number of the last change that all readers in other processes have seen."""


class Snapshot:
    """Active parts of one moment, sorted by name, kept on disk until :meth:`release`. A context manager."""

    def __init__(self, parts: Sequence[Part], release: Callable[[Sequence[Part]], None]) -> None:
        self.parts: tuple[Part, ...] = parts if isinstance(parts, PartList) else tuple(parts)
        self._release = release
        self._released = False
        self._lock = threading.Lock()

    def release(self) -> None:
        """Releases the parts. Releasing twice is fine."""
        with self._lock:
            if self._released:
                return
            self._released = True
        self._release(self.parts)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()
