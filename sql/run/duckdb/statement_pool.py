"""Keeps prepared DuckDB statements: a cursor with registered scans and a described text.

Registering the scans and describing the text take longer than running a short query.

Invariants

- A statement serves one query at a time, and holds nothing of a query when it is idle.
- Only a statement whose result was read to its end is kept. One whose query failed, was cancelled or was abandoned is
  closed.

It is no :class:`parts.common.lru_cache.LruCache`: a query takes its statement out, and a dropped one
must be closed.
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping

import pyarrow as pa

from sql.run.duckdb import database
from sql.run.duckdb.scan_table import ScanSource, ScanTable

_MOST_IDLE = 32
_LONGEST_TEXT = 10_000
_Key = tuple[str, tuple[tuple[str, pa.Schema], ...]]


class _Statement:
    def __init__(self, sql: str, streams: Mapping[str, ScanSource]) -> None:
        self._slots = {name: ScanTable(stream.schema) for name, stream in streams.items()}
        self.cursor = database.open_cursor()
        try:
            for name, slot in self._slots.items():
                self.cursor.register(name, slot)
            self.attach(streams)
            self.relation = self.cursor.sql(database.prepare_sql(sql))
        except BaseException:
            self.cursor.close()
            raise

    def attach(self, streams: Mapping[str, ScanSource]) -> None:
        """Sets the scans that the statement reads."""
        for name, stream in streams.items():
            self._slots[name].scanned = stream

    def detach(self) -> None:
        """Forgets the scans."""
        for slot in self._slots.values():
            slot.scanned = None


class LeasedStatement:
    """A statement while one query has it.

    Read ``batches`` once, then ``close``; ``interrupt`` may be called from any thread.
    """

    def __init__(self, pool: StatementPool, key: _Key | None, statement: _Statement) -> None:
        self._pool = pool
        self._key = key
        self._statement = statement
        self._is_finished = False

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Runs the statement and yields its result."""
        yield from self._statement.relation.to_arrow_reader(batch_rows)
        self._is_finished = True

    def interrupt(self) -> None:
        """Interrupts the running query. Not after ``close``: another query may then have the statement."""
        self._statement.cursor.interrupt()

    def close(self) -> None:
        """Returns the statement to the pool, or closes it."""
        self._statement.detach()
        if not self._is_finished or not self._pool.keep(self._key, self._statement):
            self._statement.cursor.close()


class StatementPool:
    """Idle statements; the least recently used is closed first. Any thread may use it."""

    def __init__(self, most_idle: int = _MOST_IDLE) -> None:
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._idle: OrderedDict[_Key, _Statement] = OrderedDict()
        atexit.register(self.clear)

    def lease(self, sql: str, streams: Mapping[str, ScanSource], *, is_kept: bool = True) -> LeasedStatement:
        """Returns a statement of that text over streams of those columns and types.

        Without ``is_kept`` it is for this query only.
        """
        key = (sql, tuple((name, stream.schema) for name, stream in streams.items()))
        with self._lock:
            statement = self._idle.pop(key, None)
        if statement is None:
            statement = _Statement(sql, streams)
        else:
            statement.attach(streams)
        return LeasedStatement(self, key if is_kept else None, statement)

    def keep(self, key: _Key | None, statement: _Statement) -> bool:
        """Keeps an idle statement for another query; returns whether it did."""
        surplus = None
        with self._lock:
            if key is None or len(key[0]) > _LONGEST_TEXT or key in self._idle:
                return False
            self._idle[key] = statement
            if len(self._idle) > self._most_idle:
                _, surplus = self._idle.popitem(last=False)
        if surplus is not None:
            surplus.cursor.close()
        return True

    def clear(self) -> None:
        """Closes all idle statements."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for statement in idle:
            statement.cursor.close()


STATEMENT_POOL = StatementPool()
"""The pool of the process."""
