"""What a caller brings to a statement, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from parts.common.query_status import MemoryTracker
from parts.types import DataType
from sql.formats.text.text_writers import RunStatistics
from sql.relations import ArrowRelation
from sql.settings.setting_values import (
    SettingValue,
)


@dataclass
class Session:
    """The state statements share: ``USE`` and ``SET`` change it. Not for use by two statements at once."""

    database: str = "default"
    settings: dict[str, SettingValue] = field(default_factory=dict)
    user: str = "default"
    query_id: str = ""
    """Of the next statement; ``""`` for one of the server's making."""
    began: float = 0.0
    """When the long text of the next statement began to be read, in monotonic seconds: its time counts from then."""
    external_tables: Mapping[str, ArrowRelation] = field(default_factory=dict)
    """Tables that the statement's request brings along."""
    profile: str = "default"
    temporary_tables: dict[str, str] = field(default_factory=dict)
    """What the session calls them, and their names in the hidden database."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Of queries, by name: what ``SET param_x`` set. Those of a request go before."""

    @property
    def readonly(self) -> bool:
        return bool(self.settings.get("readonly"))

    def apply(self, changes: Mapping[str, SettingValue | None]) -> None:
        """SET: ``None`` takes a setting back to its default."""
        for name, value in changes.items():
            if value is None:
                self.settings.pop(name, None)
            else:
                self.settings[name] = value


@dataclass
class QueryStatistics(RunStatistics):
    """Counted while a statement runs (``X-ClickHouse-Summary``). Bytes are uncompressed."""

    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    deduplicated_blocks: int = 0
    total_rows_to_read: int = 0
    memory: MemoryTracker = field(default_factory=lambda: MemoryTracker("for query"))

    @property
    def memory_usage(self) -> int:
        """The most bytes that the statement held at a time."""
        return self.memory.peak_bytes

    @property
    def read_rows(self) -> int:
        return self.rows_read

    @property
    def read_bytes(self) -> int:
        return self.bytes_read


@dataclass
class QueryResult:
    """The answer to one statement.

    ``columns`` is empty for statements that return no rows. ``batches`` stream lazily, in the storage types of
    ``columns``. ``format`` is what the statement's FORMAT clause said. Close it, or read it to its end.
    """

    columns: tuple[tuple[str, DataType], ...] = ()
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    format: str | None = None
    outfile: str | None = None
    statistics: QueryStatistics = field(default_factory=QueryStatistics)
    query_id: str = ""
    refresh: Callable[[], None] = lambda: None
    """Brings ``statistics`` up to date while the query runs."""
    on_cancel: Callable[[], None] = lambda: None
    on_close: Callable[[], None] = lambda: None

    def cancel(self) -> None:
        """Asks the running query to end; reading ``batches`` then raises ``CancelledError``. From any thread."""
        self.on_cancel()

    def close(self) -> None:
        """Releases what the query holds. Closing twice is fine."""
        self.on_close()
