"""What the replica process tells its workers of databases, tables and active parts: changes in one order.

The changes are records in a file of memory (``memfd``) that all processes have open. A worker reads what it has not
seen yet when it begins a query, and it knows from the shared page alone whether there is anything: nobody is sent a
message. A change is a pickled tuple behind its length (4 bytes, little-endian), and its number is where it ends in the
file, so that numbers grow and say what to read.

==========================================  ============================================================
``("anew",)``                               forget everything; what there is follows
``("database", name)``                      there is a database
``("no database", name)``                   … no more
``("table", uid, database, name, create)``  a table started; ``create`` is its definition as a statement
``("altered", uid, create)``                … has another definition
``("renamed", [(uid, …, create), …])``      tables have other names, all at once; as of ``table``
``("no table", uid)``                       … stopped
``("not loaded", database, {name: why})``   the tables of a database that could not be loaded are these
``("parts", uid, [(name, is_active), …])``  parts came and went, at once
==========================================  ============================================================

When the changes since the last whole account are several times as long as what there is, a new account is written, and
what lies before it is given back to the system. A worker that was behind it begins anew there.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from engine.catalog.catalog_listener import CatalogListener
from engine.tables.small.view import NotLoaded
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from engine.workers.shared_page import SharedPage
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

Record = tuple[Any, ...]

_LENGTH = struct.Struct("<I")
_WORTH_AN_ACCOUNT_BYTES = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PUNCH_HOLE_AND_KEEP_SIZE = 0x02 | 0x01


class CatalogPublication(CatalogListener):
    """The writing side. From any thread; called with the locks of catalog and stores held, so it waits for nobody."""

    def __init__(self, page: SharedPage, file: int) -> None:
        self._page = page
        self._file = file
        self._lock = threading.Lock()
        self._begin = self._end = self._account_bytes = 0
        self._must_account = False
        self._uids = count(1)
        self._databases: dict[str, Mapping[str, NotLoaded]] = {}
        """With their tables that could not be loaded."""
        self._tables: dict[int, tuple[Record, set[str]]] = {}
        self._uid_of: dict[int, int] = {}
        self._write([("anew",)])
        self._objects: dict[int, Table] = {}

    # -- what happens ---------------------------------------------------------------------------------------------

    def database_made(self, name: str) -> None:
        with self._lock:
            self._databases[name] = {}
            self._write([("database", name)])

    def database_gone(self, name: str) -> None:
        with self._lock:
            self._databases.pop(name, None)
            self._write([("no database", name)])

    def table_started(self, table: Table) -> None:
        uid = next(self._uids)
        definition = table.definition
        record = ("table", uid, definition.database, definition.name, definition.create)
        with self._lock:
            self._uid_of[id(table)] = uid
            self._objects[uid] = table
        table.store.set_listener(lambda active: self._introduce(uid, record, active))

    def table_altered(self, table: Table, definition: TableDefinition) -> None:
        with self._lock:
            uid = self._uid_of.get(id(table))
            if uid is None or uid not in self._tables:
                return
            record = ("table", uid, definition.database, definition.name, definition.create)
            self._tables[uid] = (record, self._tables[uid][1])
            self._write([("altered", uid, definition.create)])

    def tables_renamed(self, renamed: Sequence[tuple[Table, TableDefinition]]) -> None:
        named: list[Record] = []
        with self._lock:
            for table, definition in renamed:
                uid = self._uid_of.get(id(table))
                if uid is not None and uid in self._tables:
                    told = (uid, definition.database, definition.name, definition.create)
                    self._tables[uid] = (("table", *told), self._tables[uid][1])
                    named.append(told)
            self._write([("renamed", named)])

    def tables_not_loaded(self, database: str, failed: Mapping[str, NotLoaded]) -> None:
        with self._lock:
            self._databases[database] = failed
            self._write([("not loaded", database, failed)])

    def table_gone(self, table: Table) -> None:
        with self._lock:
            uid = self._uid_of.pop(id(table), None)
            if uid is None:
                return
            del self._tables[uid], self._objects[uid]
            number = self._write([("no table", uid)])
        table.store.mark_all_hidden(number)

    def parts_changed(self, uid: int, changes: Sequence[tuple[PartName, bool]]) -> int:
        named = [(str(name), is_active) for name, is_active in changes]
        with self._lock:
            if uid in self._tables:
                active = self._tables[uid][1]
                for name, is_active in named:
                    (active.add if is_active else active.discard)(name)
                self._write([("parts", uid, named)])
            return self._end

    def oldest_read(self) -> int:
        return self._page.oldest_read()

    def uid(self, table: Table) -> int | None:
        return self._uid_of.get(id(table))

    def table(self, uid: int) -> Table | None:
        """``None`` when it has stopped."""
        return self._objects.get(uid)

    # -- the file; the lock is held ---------------------------------------------------------------------------------

    def _introduce(self, uid: int, record: Record, active: Sequence[PartName]) -> _TableFollower:
        names = {str(name) for name in active}
        with self._lock:
            self._tables[uid] = (record, names)
            self._write([record, ("parts", uid, [(name, True) for name in sorted(names)])])
        return _TableFollower(self, uid)

    def _write(self, records: Sequence[Record]) -> int:
        """Returns the number of the change. What finds no memory is told with the next change, by a new account."""
        begin = self._begin
        if self._must_account or self._end - begin > 4 * self._account_bytes + _WORTH_AN_ACCOUNT_BYTES:
            records = self._account()
            begin = self._end
        data = b"".join(map(_packed, records))
        try:
            os.pwrite(self._file, data, self._end)
        except OSError:
            logger.exception("workers could not be told of a change")
            self._must_account = True
            return self._end + 1
        self._must_account = False
        self._end += len(data)
        if begin != self._begin:
            self._account_bytes = len(data)
        self._page.publish(begin, self._end)
        if begin != self._begin:
            _give_back(self._file, self._begin, begin)
            self._begin = begin
        return self._end

    def _account(self) -> list[Record]:
        records: list[Record] = [("anew",), *(("database", name) for name in sorted(self._databases))]
        records += [("not loaded", name, failed) for name, failed in sorted(self._databases.items()) if failed]
        for uid, (record, names) in self._tables.items():
            records += [record, ("parts", uid, [(name, True) for name in sorted(names)])]
        return records


class _TableFollower:
    """Implements ``parts.store.part_states.ActivePartsListener`` for one table."""

    def __init__(self, publication: CatalogPublication, uid: int) -> None:
        self._publication = publication
        self._uid = uid

    def on_active_parts_changed(self, changes: Sequence[tuple[PartName, bool]]) -> int:
        return self._publication.parts_changed(self._uid, changes)

    def get_oldest_read_change(self) -> int:
        return self._publication.oldest_read()


class PublishedChanges:
    """The reading side, in a worker."""

    def __init__(self, page: SharedPage, file: int) -> None:
        self._page = page
        self._file = file
        self.number = 0
        """Of the last change known: what :meth:`read_changes` told is, once its caller has made use of it."""

    @property
    def is_behind(self) -> bool:
        return self._page.published_to != self.number

    @property
    def lag_bytes(self) -> int:
        return self._page.published_to - self.number

    @contextmanager
    def read_changes(self) -> Iterator[list[Record]]:
        """The changes since the last time; they begin with ``anew`` when some were missed.

        They count as known at the end of the block: until then other threads find themselves behind, and wait.
        """
        records, end = self._read()
        try:
            yield records
        except BaseException:
            self.number = 0  # half of them may be known: everything is told again
            raise
        self.number = end

    def _read(self) -> tuple[list[Record], int]:
        while True:
            begin, end = self._page.published_from, self._page.published_to
            start = self.number if self.number > begin or self.number == begin == 0 else begin
            data = _read(self._file, start, end - start) if end >= start else b""
            # Given back while it was read: what was read may be holes.
            if self._page.published_from == begin and len(data) == end - start:
                return _unpacked(data), end


def _packed(record: Record) -> bytes:
    data = pickle.dumps(record, 5)
    return _LENGTH.pack(len(data)) + data


def _unpacked(data: bytes) -> list[Record]:
    records: list[Record] = []
    position = 0
    while position < len(data):
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        records.append(pickle.loads(data[position : position + length]))
        position += length
    return records


def _read(file: int, start: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.pread(file, size, start)):
        pieces.append(piece)
        start += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def _give_back(file: int, begin: int, end: int) -> None:
    """The pages that lie wholly between."""
    begin, end = begin // _PAGE_BYTES * _PAGE_BYTES, end // _PAGE_BYTES * _PAGE_BYTES
    if end > begin:
        _libc.fallocate(file, _PUNCH_HOLE_AND_KEEP_SIZE, ctypes.c_long(begin), ctypes.c_long(end - begin))


_libc = ctypes.CDLL(None)
