"""Commits an INSERT into a table of one server: block numbers, names, all parts at once."""

from __future__ import annotations

import contextlib
from typing import Protocol

from coordination.inserts.block_views import BlockNode
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.insert_sink import InsertOutcome, PartSink, TemporaryPart
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.merge_tree.deduplication_log import RecentBlocks
from engine.tables.part_log import PartEventType
from engine.tables.statement_options import InsertOptions
from engine.tables.table_data import TableData
from parts.common.part_name import PartName
from parts.read.part_reader import Part


class LocalInsertTable(TableData, Protocol):
    """A table that counts its blocks itself and remembers the last ones."""

    numbers: BlockNumbers

    @property
    def transactions(self) -> TableTransactions:
        """The table's transactions."""

    @property
    def recent_blocks(self) -> RecentBlocks:
        """The blocks that it deduplicates."""

    def wake_merges(self) -> None:
        """Makes the table look for merges soon."""


class MergeTreeInsert(PartSink):
    """An INSERT that commits all its parts at once in memory. Each is on disk under its final name before."""

    table: LocalInsertTable

    def __init__(self, table: LocalInsertTable, options: InsertOptions) -> None:
        super().__init__(table, options)
        self._outcome = InsertOutcome()

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        """Commits the parts that are no duplicates, or stages them for a transaction."""
        if self.options.transaction:
            return self.table.transactions.stage(parts, self.options)
        with self.table.recent_blocks.deduplicating():
            wanted = self._select_new(parts)
            with self.table.numbers.allocate(len(wanted)) as numbers:
                named = self._add_preactive_parts(wanted, numbers)
                with self.table.store.lock:
                    for stored in named:
                        self.table.store.commit(stored)
            self._add_to_part_log(named)
            stored_as = {
                part.block_id: BlockNode(str(stored.name), part.missing)
                for part, stored in zip(wanted, named, strict=True)
            }
            self.table.recent_blocks.remember(stored_as)
        self.table.wake_merges()
        return self._outcome

    def _select_new(self, parts: list[TemporaryPart]) -> list[TemporaryPart]:
        """Returns the parts that are no duplicates, and counts the others."""
        wanted: list[TemporaryPart] = []
        for part in parts:
            if (node := self.table.recent_blocks.find(part.block_id)) is None:
                wanted.append(part)
            else:
                self._outcome.add_known(part.block_id, node.missing)
        return wanted

    def _add_preactive_parts(self, parts: list[TemporaryPart], numbers: range) -> list[Part]:
        """Renames the parts to their final names:

        all or, after an error, none, so that no restart finds only some.
        """
        named: list[Part] = []
        try:
            for part, number in zip(parts, numbers, strict=True):
                name = PartName(part.partition_id, number, number, 0)
                store = self.table.store
                named.append(store.add_preactive(part.directory, name, is_synced=True, written=part.written))
                named[-1].check_conversions()  # an ALTER may have come since it was written
                self.table.services.failpoint("insert.after_rename")
                self._outcome.written_rows += part.rows
                self._outcome.written_bytes += part.bytes
                self._outcome.part_names.append(str(name))
        except BaseException:
            for stored in named:
                with contextlib.suppress(OSError):
                    self.table.store.rollback(stored)
            raise
        return named

    def _add_to_part_log(self, named: list[Part]) -> None:
        """Adds the parts to the part log."""
        services = self.table.services
        for part in named:
            services.part_log.note(
                PartEventType.NEW,
                self.table.definition,
                part,
                services.clock(),
                query_id=self.options.query_id,
            )
