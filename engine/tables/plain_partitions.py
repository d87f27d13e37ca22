"""Commands on partitions and parts of a table of one server.

A merge under way finds its sources gone at its commit, and is given up. What goes is no duplicate of what may come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from engine.tables.attaching import Attaching
from engine.tables.table_data import TableData
from engine.tables.transactions import TableTransactions
from parts.errors import UserError
from parts.part_name import PartName
from parts.query_status import QueryStatus


class CountedTable(TableData, Protocol):
    """A table that counts its blocks by itself, and knows the last ones."""

    def deduplicating(self) -> AbstractContextManager[object]:
        """Held from the look at the known blocks to the commit."""

    def wait_for_pending(self, status: QueryStatus) -> None:
        """For INSERTs that have numbers: what comes later has larger numbers than what goes."""

    def note_dropped(self, names: Iterable[PartName]) -> None:
        """Before the parts go."""

    def forget_blocks(self, gone: Callable[[PartName], bool]) -> None:
        """Rows of these parts are no duplicates any more."""


class PlainPartitions:
    """Implements ``engine.tables.partitions.TablePartitions``."""

    def __init__(self, table: CountedTable, transactions: TableTransactions) -> None:
        self._table = table
        self._store = table.store
        self.attaching = Attaching(table, transactions)

    def drop(self, partition_id: str | None, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        def is_meant(name: PartName) -> bool:
            return partition_id in (None, name.partition_id)

        with self._table.deduplicating():
            self._table.wait_for_pending(status or QueryStatus())
            with self._store.lock:
                self._drop([part.name for part in self._store.active() if is_meant(part.name)], detach)
            self._table.forget_blocks(is_meant)

    def drop_part(self, name: PartName, *, detach: bool = False, status: QueryStatus | None = None) -> None:
        with self._table.deduplicating():
            with self._store.lock:
                if self._store.get_active(name) is None:
                    raise UserError("NO_SUCH_DATA_PART", f"No part {name} in committed state")
                self._drop([name], detach)
            self._table.forget_blocks(name.covers)

    def _drop(self, names: list[PartName], detach: bool) -> None:
        """After an error nothing is dropped; copies of some may be in ``detached/``."""
        if detach:
            self._store.keep_detached([part for part in self._store.active() if part.name in set(names)])
        self._table.note_dropped(names)
        self._store.drop_active(names)
