"""A statement's input and output: the session, the query statistics and the query result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from parts.common.query_status import MemoryTracker
from parts.types import DataType
from sql.formats.text.text_writers import RunStatistics
from sql.relations import ArrowRelation, PartsRelation
from sql.settings.setting_values import (
    SettingValue,
)


@dataclass
class Session:
    """The state that statements share; ``USE`` and ``SET`` change it. Not for two statements at once."""

    database: str = "default"
    settings: dict[str, SettingValue] = field(default_factory=dict)
    user: str = "default"
    query_id: str = ""
    """The id of the next statement; with ``""`` the server makes one."""
    began: float = 0.0
    """When parsing the next statement's long text began, in monotonic seconds; its time counts from then."""
    external_tables: Mapping[str, ArrowRelation | PartsRelation] = field(default_factory=dict)
    """Tables that were sent with the request, or that a scan holds."""
    profile: str = "default"
    temporary_tables: dict[str, str] = field(default_factory=dict)
    """Names in the session, to names in the hidden database."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Query parameters set by ``SET param_x``, by name. Those of a request take precedence."""

    @property
    def readonly(self) -> bool:
        """Whether the session may only read."""
        return bool(self.settings.get("readonly"))

    def apply(self, changes: Mapping[str, SettingValue | None]) -> None:
        """Applies SET; ``None`` resets a setting to its default."""
        for name, value in changes.items():
            if value is None:
                self.settings.pop(name, None)
            else:
                self.settings[name] = value


@dataclass
class QueryStatistics(RunStatistics):
    """Counts of a running statement (``X-ClickHouse-Summary``). Bytes are uncompressed."""

    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    deduplicated_blocks: int = 0
    total_rows_to_read: int = 0
    memory: MemoryTracker = field(default_factory=lambda: MemoryTracker("for query"))

    @property
    def memory_usage(self) -> int:
        """The peak memory of the statement, in bytes."""
        return self.memory.peak_bytes

    @property
    def read_rows(self) -> int:
        """The number of rows read."""
        return self.rows_read

    @property
    def read_bytes(self) -> int:
        """The number of bytes read."""
        return self.bytes_read


@dataclass
class QueryResult:
    """The result of one statement.

    ``columns`` is empty for statements that return no rows. ``batches`` stream lazily, in the storage types of
    ``columns``. ``format`` is the one of the FORMAT clause. Close the result, or read it to its end.
    """

    columns: tuple[tuple[str, DataType], ...] = ()
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))
    format: str | None = None
    outfile: str | None = None
    statistics: QueryStatistics = field(default_factory=QueryStatistics)
    query_id: str = ""
    refresh_statistics: Callable[[], None] = lambda: None
    """Brings ``statistics`` up to date while the query runs."""
    on_cancel: Callable[[], None] = lambda: None
    on_close: Callable[[], None] = lambda: None

    def cancel(self) -> None:
        """Asks the running query to end; reading ``batches`` then raises ``CancelledError``. Thread-safe."""
        self.on_cancel()

    def close(self) -> None:
        """Releases what the query holds. May be called twice."""
        self.on_close()
