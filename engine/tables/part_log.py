"""The newest events of parts, in memory, for ``system.part_log``.

May be called from any thread. Workers write temporary parts only; all events happen in the replica process.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError
from parts.common.lru_cache import LruCache
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.table.table_description import Key
from sql.formats.registry import write_blocks
from sql.settings.supported_settings import DEFAULT_SETTINGS

_MAX_EVENTS = 20_000
_MAX_TEXTS = 65_536


class PartEventType(Enum):
    """The kinds of events, with ClickHouse's numbers."""

    NEW = ("NewPart", 1)
    MERGE = ("MergeParts", 2)
    DOWNLOAD = ("DownloadPart", 3)
    REMOVE = ("RemovePart", 4)
    MUTATE = ("MutatePart", 5)
    MOVE = ("MovePart", 6)


@dataclass(frozen=True, slots=True)
class PartEvent:
    """One event of a part."""

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
    """``Regular``, ``TTLDelete`` or ``TTLRecompress``; empty if the event is no merge."""
    query_id: str = ""
    error: int = 0
    exception: str = ""


class PartLog:
    """The newest events of all tables, and counts since the start."""

    def __init__(self) -> None:
        self._events: deque[PartEvent] = deque(maxlen=_MAX_EVENTS)
        self._lock = threading.Lock()
        self.counts: Counter[PartEventType] = Counter()
        self.failures: Counter[PartEventType] = Counter()
        self.read_rows: Counter[PartEventType] = Counter()
        """Counts since the start."""

    def events(self) -> list[PartEvent]:
        """Returns the events, oldest first."""
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
        """Adds an event of a part."""
        self._add(
            PartEvent(
                type_,
                now,
                max(0.0, now - (now if started is None else started)),
                definition.database,
                definition.name,
                part.name,
                format_partition(definition.description.partition_key, part),
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

    def add_failure(
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
        """Adds a failed event."""
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

    def add_removals(self, definition: TableDefinition, parts: Sequence[Part], now: float) -> None:
        """Adds an event for each part that leaves the disk."""
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


_texts: LruCache[tuple[Key, str], str] = LruCache(_MAX_TEXTS)
"""By partition key and partition id, which determine the text."""


def format_partition(key: Key, part: Part) -> str:
    """Returns the text of ``system.parts.partition``:

    one bare value, or a tuple of literals. ``key`` is the partition key of the part's table. The text is cached for all
    parts of a partition.
    """
    if not key:
        return "tuple()"
    return _texts.get((key, part.name.partition_id), lambda: _written(part))


def _written(part: Part) -> str:
    found = part.partition_arrays
    if not found:
        return "tuple()"
    if len(found) == 1 and not found[0][2][0].is_valid:
        return "ᴺᵁᴸᴸ"
    columns = [(name, type_) for name, type_, _ in found]
    row = pa.RecordBatch.from_arrays([array.slice(0, 1) for _, _, array in found], [name for name, _ in columns])
    format = "TSVRaw" if len(found) == 1 else "Values"
    text = b"".join(write_blocks(format, columns, iter([row]), settings=DEFAULT_SETTINGS))
    return (text.rstrip(b"\n") if len(found) == 1 else text).decode(errors="replace")
