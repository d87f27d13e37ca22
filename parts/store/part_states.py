"""What the part store says about its parts: their states, what loading found, and snapshots that keep files."""

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
    """Names as in ``system.parts._state``."""

    PRE_ACTIVE = "PreActive"
    ACTIVE = "Active"
    OUTDATED = "Outdated"
    DELETING = "Deleting"


@dataclass
class StoredPart:
    """A part with its state; ``remove_time`` is when it became outdated, to be shown."""

    part: Part
    state: PartState
    references: int = 0
    remove_time: float | None = None
    is_dropped: bool = False
    """Outdated because its rows were dropped, not because another part has them."""
    hidden_at: int = 0
    """The number of the change that took it out of the active parts, for readers elsewhere
    (``ActivePartsListener``)."""
    outdated_at: float = 0.0
    """As ``remove_time``, by the monotonic clock: this one says how long ago it was."""
    checked_at: float = 0.0
    """When every byte of it was last compared with its checksums, in seconds since 1970; 0: not since the start."""
    check_error: str = ""
    """What was wrong with it then, or when a query read it."""


@dataclass
class LoadReport:
    """What :meth:`PartStore.load` found. ``broken`` holds (new directory name in detached/, error)."""

    parts: list[Part] = field(default_factory=list)
    outdated: list[Part] = field(default_factory=list)
    broken: list[tuple[str, CorruptionError]] = field(default_factory=list)
    broken_bytes: int = 0
    dropped_temporary: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class ActivePartsListener(Protocol):
    """Somebody who tells other processes which parts are active. Called with the store's lock held; must be quick."""

    def parts_changed(self, changes: Sequence[tuple[PartName, bool]]) -> int:
        """Names that left (``False``) and joined (``True``) the active parts, at once for readers. Returns the number
        of this change; later ones have higher numbers."""

    def oldest_read(self) -> int:
        """No reader elsewhere looks at the parts as they were before the change of this number."""


class Snapshot:
    """Active parts of one moment, sorted by name, kept on disk until :meth:`release` (also a context manager)."""

    def __init__(self, parts: Sequence[Part], release: Callable[[Sequence[Part]], None]) -> None:
        self.parts: tuple[Part, ...] = parts if isinstance(parts, PartList) else tuple(parts)
        self._release = release
        self._released = False
        self._lock = threading.Lock()

    def release(self) -> None:
        """Releasing twice is fine."""
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
