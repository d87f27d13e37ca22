"""Publishes changes of databases, tables and active parts to the workers, in one order.

The changes are the records of this table, in a file in memory (``memfd``) that all processes have open. A worker reads
new ones when it begins a query. The shared page tells it whether there are any, so no messages are sent. A change is a
pickled tuple behind its length (4 bytes, little-endian). Its number is the position of its end in the file, so numbers
grow and say what to read.

==========================================  ============================================================
``("anew",)``                               forget everything; all that exists follows.
``("database", name)``                      a database exists.
``("no database", name)``                   a database is gone.
``("table", uid, database, name, create)``  a table started; ``create`` is its definition as a statement.
``("group", uid, group)``                    a table is in a transactional group of links, or ("") in none.
``("altered", uid, create)``                a table has another definition.
``("renamed", [(uid, …, create), …])``      tables have other names, all at once; as in ``table``.
``("no table", uid)``                       a table stopped.
``("not loaded", database, {name: why})``   all tables of a database that could not be loaded.
``("parts", uid, [(name, is_active), …])``  parts became active or inactive, at once.
==========================================  ============================================================

When the changes since the last full listing are several times as long as the listing, a new one is written. The memory
before it is returned to the system. A worker that was behind it starts anew from it.

Invariants

- Changes are written under ``_lock``, one after the other, and published (the page's ``published_to``) only when they
  are whole in the file. So a reader never meets half of a change.
- ``published_from`` and ``published_to`` never decrease. What lies between them stays readable.
- A table's parts are published after the table, and nothing of a table after its ``no table``.
- Nobody waits with the lock held: stores and catalog call in with locks of their own.
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
from engine.catalog.database_tables import NotLoaded
from engine.tables.owned_table import OwnedTable
from engine.tables.table_definition import TableDefinition
from engine.workers.shared_page import SharedPage
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

Record = tuple[Any, ...]

_LENGTH = struct.Struct("<I")
_MIN_CHANGES_BYTES = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PUNCH_HOLE_AND_KEEP_SIZE = 0x02 | 0x01


class CatalogPublication(CatalogListener):
    """The writing side.

    May be called from any thread, with locks of catalog and stores held, so it never waits.
    """

    def __init__(self, page: SharedPage, file: int) -> None:
        self._page = page
        self._file = file
        self._lock = threading.Lock()
        self._begin = self._end = self._listing_bytes = 0
        self._must_list = False
        self._uids = count(1)
        self._databases: dict[str, Mapping[str, NotLoaded]] = {}
        """By database, its tables that could not be loaded."""
        self._tables: dict[int, tuple[Record, set[str]]] = {}
        self._uid_of: dict[int, int] = {}
        self._write([("anew",)])
        self._objects: dict[int, OwnedTable] = {}
        self._groups: dict[int, str] = {}
        """The groups of links that tables are in."""

    # -- changes --------------------------------------------------------------------------------------------------

    def on_database_created(self, name: str) -> None:
        """Publishes a new database."""
        with self._lock:
            self._databases[name] = {}
            self._write([("database", name)])

    def on_database_dropped(self, name: str) -> None:
        """Publishes that a database is gone."""
        with self._lock:
            self._databases.pop(name, None)
            self._write([("no database", name)])

    def on_table_started(self, table: OwnedTable) -> None:
        """Publishes a new table with its active parts."""
        uid = next(self._uids)
        definition = table.definition
        record = ("table", uid, definition.database, definition.name, definition.create)
        with self._lock:
            self._uid_of[id(table)] = uid
            self._objects[uid] = table
            if table.link_group:
                self._groups[uid] = table.link_group
        if table.store is not None:
            table.store.set_listener(lambda active: self._add_table(uid, record, active))
        else:
            self._add_table(uid, record, ())

    def on_table_altered(self, table: OwnedTable, definition: TableDefinition) -> None:
        """Publishes a new definition."""
        with self._lock:
            uid = self._uid_of.get(id(table))
            if uid is None or uid not in self._tables:
                return
            record = ("table", uid, definition.database, definition.name, definition.create)
            self._tables[uid] = (record, self._tables[uid][1])
            self._write([("altered", uid, definition.create)])

    def on_tables_renamed(self, renamed: Sequence[tuple[OwnedTable, TableDefinition]]) -> None:
        """Publishes new names, all at once."""
        named: list[Record] = []
        with self._lock:
            for table, definition in renamed:
                uid = self._uid_of.get(id(table))
                if uid is not None and uid in self._tables:
                    told = (uid, definition.database, definition.name, definition.create)
                    self._tables[uid] = (("table", *told), self._tables[uid][1])
                    named.append(told)
            self._write([("renamed", named)])

    def on_tables_not_loaded(self, database: str, failed: Mapping[str, NotLoaded]) -> None:
        """Publishes the tables of a database that could not be loaded."""
        with self._lock:
            self._databases[database] = failed
            self._write([("not loaded", database, failed)])

    def on_table_removed(self, table: OwnedTable) -> None:
        """Publishes that a table has stopped."""
        with self._lock:
            uid = self._uid_of.pop(id(table), None)
            if uid is None:
                return
            del self._tables[uid], self._objects[uid]
            self._groups.pop(uid, None)
            number = self._write([("no table", uid)])
        if table.store is not None:
            table.store.mark_all_hidden(number)

    def publish_part_changes(self, uid: int, changes: Sequence[tuple[PartName, bool]]) -> int:
        """Publishes changes of a table's active parts; returns the number of the change."""
        named = [(str(name), is_active) for name, is_active in changes]
        with self._lock:
            if uid in self._tables:
                active = self._tables[uid][1]
                for name, is_active in named:
                    (active.add if is_active else active.discard)(name)
                self._write([("parts", uid, named)])
            return self._end

    def publish_group(self, root: str, group: str) -> None:
        """Publishes the group of links that the table of this root in ZooKeeper is in; "" for none."""
        uid = self.find_uid(root)
        with self._lock:
            if uid is not None and uid in self._tables:
                self._groups[uid] = group
                self._write([("group", uid, group)])

    def find_uid(self, root: str) -> int | None:
        """Returns the number of the replicated table of this root in ZooKeeper."""
        for uid, table in list(self._objects.items()):
            if table.replication is not None and table.replication.paths.root == root:
                return uid
        return None

    def _tell_group(self, uid: int) -> list[Record]:
        group = self._groups.get(uid, "")
        return [("group", uid, group)] if group else []

    def get_oldest_read_change(self) -> int:
        """Returns the oldest change that a running query may still read."""
        return self._page.find_oldest_read()

    def get_uid(self, table: OwnedTable) -> int | None:
        """Returns the number by which workers know the table."""
        return self._uid_of.get(id(table))

    def table(self, uid: int) -> OwnedTable | None:
        """Returns the table of a number; ``None`` if it has stopped."""
        return self._objects.get(uid)

    # -- the file (needs the lock) ----------------------------------------------------------------------------------

    def _add_table(self, uid: int, record: Record, active: Sequence[PartName]) -> _TableListener:
        names = {str(name) for name in active}
        with self._lock:
            self._tables[uid] = (record, names)
            self._write([record, *self._tell_group(uid), ("parts", uid, [(name, True) for name in sorted(names)])])
        return _TableListener(self, uid)

    def _write(self, records: Sequence[Record]) -> int:
        """Appends records; returns the number of the change.

        If memory is exhausted, the next change publishes a full listing.
        """
        begin = self._begin
        if self._must_list or self._end - begin > 4 * self._listing_bytes + _MIN_CHANGES_BYTES:
            records = self._list_everything()
            begin = self._end
        data = b"".join(map(_packed, records))
        try:
            os.pwrite(self._file, data, self._end)
        except OSError:
            logger.exception("workers could not be told of a change")
            self._must_list = True
            return self._end + 1
        self._must_list = False
        self._end += len(data)
        if begin != self._begin:
            self._listing_bytes = len(data)
        self._page.publish(begin, self._end)
        if begin != self._begin:
            _free_pages(self._file, self._begin, begin)
            self._begin = begin
        return self._end

    def _list_everything(self) -> list[Record]:
        """Returns the records of a full listing."""
        records: list[Record] = [("anew",), *(("database", name) for name in sorted(self._databases))]
        records += [("not loaded", name, failed) for name, failed in sorted(self._databases.items()) if failed]
        for uid, (record, names) in self._tables.items():
            records += [record, *self._tell_group(uid), ("parts", uid, [(name, True) for name in sorted(names)])]
        return records


class _TableListener:
    """The listener of one table's parts. Implements ``parts.store.part_states.ActivePartsListener``."""

    def __init__(self, publication: CatalogPublication, uid: int) -> None:
        self._publication = publication
        self._uid = uid

    def on_active_parts_changed(self, changes: Sequence[tuple[PartName, bool]]) -> int:
        """Publishes the changes; returns their number."""
        return self._publication.publish_part_changes(self._uid, changes)

    def get_oldest_read_change(self) -> int:
        """Returns the oldest change that a running query may still read."""
        return self._publication.get_oldest_read_change()


class PublishedChanges:
    """The reading side, in a worker."""

    def __init__(self, page: SharedPage, file: int) -> None:
        self._page = page
        self._file = file
        self.number = 0
        """The number of the last change that the caller has applied."""

    @property
    def is_behind(self) -> bool:
        """Tells whether there are unread changes."""
        return self._page.published_to != self.number

    @property
    def lag_bytes(self) -> int:
        """The size of the unread changes."""
        return self._page.published_to - self.number

    @contextmanager
    def read_changes(self) -> Iterator[list[Record]]:
        """Yields the changes since the last time; they begin with ``anew`` if some were missed.

        They count as read at the end of the block. Until then other threads find themselves behind, and wait.
        """
        records, end = self._read()
        try:
            yield records
        except BaseException:
            self.number = 0  # some of them may be applied: read everything again
            raise
        self.number = end

    def _read(self) -> tuple[list[Record], int]:
        while True:
            begin, end = self._page.published_from, self._page.published_to
            start = self.number if self.number > begin or self.number == begin == 0 else begin
            data = _read(self._file, start, end - start) if end >= start else b""
            # If memory was returned during the read, the data may have holes: read again.
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


def _free_pages(file: int, begin: int, end: int) -> None:
    """Returns the memory pages that lie wholly between the positions."""
    begin, end = begin // _PAGE_BYTES * _PAGE_BYTES, end // _PAGE_BYTES * _PAGE_BYTES
    if end > begin:
        _libc.fallocate(file, _PUNCH_HOLE_AND_KEEP_SIZE, ctypes.c_long(begin), ctypes.c_long(end - begin))


_libc = ctypes.CDLL(None)
