"""What became of parts lately, for ``system.part_log``: the newest events, in memory. From any thread.

Workers write temporary parts only; what becomes of them the replica process does, and notes.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from engine.tables.definition import TableDefinition
from parts.errors import PandoError
from parts.part_name import PartName
from parts.reader import Part
from parts.types import DataType, EnumType, strip_nullable

_MOST_EVENTS = 20_000


class PartEventType(Enum):
    """With ClickHouse's numbers."""

    NEW = ("NewPart", 1)
    MERGE = ("MergeParts", 2)
    DOWNLOAD = ("DownloadPart", 3)
    REMOVE = ("RemovePart", 4)
    MUTATE = ("MutatePart", 5)
    MOVE = ("MovePart", 6)


@dataclass(frozen=True, slots=True)
class PartEvent:
    type: PartEventType
    time: float
    duration_seconds: float
    database: str
    table: str
    name: PartName
    partition: str = ""
    part_type: str = ""
    path: str = ""
    rows: int = 0
    bytes_on_disk: int = 0
    uncompressed_bytes: int = 0
    merged_from: tuple[str, ...] = ()
    read_rows: int = 0
    read_bytes: int = 0
    merge_type: str = ""
    """``Regular``, ``TTLDelete`` or ``TTLRecompress``; of what is no merge empty."""
    query_id: str = ""
    error: int = 0
    exception: str = ""


class PartLog:
    def __init__(self) -> None:
        self._events: deque[PartEvent] = deque(maxlen=_MOST_EVENTS)
        self._lock = threading.Lock()
        self.counts: Counter[PartEventType] = Counter()
        self.failures: Counter[PartEventType] = Counter()
        self.read_rows: Counter[PartEventType] = Counter()
        """Since the start."""

    def events(self) -> list[PartEvent]:
        with self._lock:
            return list(self._events)

    def note(
        self,
        type_: PartEventType,
        definition: TableDefinition,
        part: Part,
        now: float,
        *,
        started: float | None = None,
        sources: Sequence[Part] = (),
        merge_type: str = "",
        query_id: str = "",
    ) -> None:
        self._add(
            PartEvent(
                type_,
                now,
                max(0.0, now - (now if started is None else started)),
                definition.database,
                definition.name,
                part.name,
                partition_text(part),
                part.part_type,
                str(definition.data_path / str(part.name)),
                part.rows,
                part.bytes_on_disk,
                part.data_uncompressed_bytes,
                tuple(str(source.name) for source in sources),
                sum(source.rows for source in sources),
                sum(source.data_uncompressed_bytes for source in sources),
                merge_type,
                query_id,
            )
        )

    def note_failure(
        self,
        type_: PartEventType,
        definition: TableDefinition,
        name: PartName,
        now: float,
        error: BaseException,
        *,
        started: float | None = None,
        sources: Sequence[Part] = (),
    ) -> None:
        self._add(
            PartEvent(
                type_,
                now,
                max(0.0, now - (now if started is None else started)),
                definition.database,
                definition.name,
                name,
                merged_from=tuple(str(source.name) for source in sources),
                error=error.code if isinstance(error, PandoError) else 1001,
                exception=str(error),
            )
        )

    def note_removed(self, definition: TableDefinition, parts: Sequence[Part], now: float) -> None:
        """They leave the disk."""
        for part in parts:
            self.note(PartEventType.REMOVE, definition, part, now)

    def _add(self, event: PartEvent) -> None:
        with self._lock:
            self._events.append(event)
            if event.error:
                self.failures[event.type] += 1
            else:
                self.counts[event.type] += 1
                self.read_rows[event.type] += event.read_rows


def partition_text(part: Part) -> str:
    """As ``system.parts.partition`` writes it."""
    types = [type_ for _, type_, _ in part.partition_arrays]
    values = tuple(_shown(value, type_) for value, type_ in zip(part.partition, types, strict=True))
    if len(values) == 1:
        return "ᴺᵁᴸᴸ" if values[0] is None else str(values[0])
    return str(values).replace("None", "NULL") if None in values else str(values)


def _shown(value: object, type_: DataType) -> object:
    """An Enum by its name."""
    bare = strip_nullable(type_)
    if value is None or not isinstance(bare, EnumType):
        return value
    return next(name for name, number in bare.values if number == value)
