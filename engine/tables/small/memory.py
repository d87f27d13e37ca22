"""``Memory``: rows until the server's end.

Its parts are files of the server's temporary directory, which nobody syncs and the next start removes: the memory is
the system's cache, so that all processes of the server read the same copy, and what is too much for it goes to disk.
"""

from __future__ import annotations

from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.merge_tree.local_insert import MergeTreeInsert
from engine.tables.merge_tree.local_table import LocalTable
from engine.tables.statement_options import InsertOptions
from parts.common.part_name import PartName
from sql.definitions.engines.small_engines import SmallTableSettings


class MemoryTable(LocalTable):
    """A ``Memory`` table."""

    def start(self) -> None:
        """Starts background work."""
        super().start()
        self.mutations = self._mutations

    def begin_insert(self, options: InsertOptions) -> MergeTreeInsert:
        """Starts one INSERT, whose commit drops the blocks that are too many."""
        return _MemoryInsert(self, options)

    @property
    def _limits(self) -> SmallTableSettings:
        settings = self.definition.settings
        assert isinstance(settings, SmallTableSettings)
        return settings

    @property
    def merges_in_background(self) -> bool:
        """Tells whether parts are merged: not where the oldest block goes whole."""
        return not self._limits.limits

    def drop_surplus(self) -> None:
        """Drops the oldest blocks while there is more than the most to keep, if no less than the least stays."""
        limits = self._limits
        if not limits.limits:
            return
        with self.store.lock:
            parts = sorted(self.store.active(), key=lambda part: part.name.min_block)
            rows = sum(part.rows for part in parts)
            size = sum(part.data_uncompressed_bytes for part in parts)
            surplus: list[PartName] = []
            for part in parts:
                is_much = 0 < limits.max_rows_to_keep < rows or 0 < limits.max_bytes_to_keep < size
                rows -= part.rows
                size -= part.data_uncompressed_bytes
                if not is_much or rows < limits.min_rows_to_keep or size < limits.min_bytes_to_keep:
                    break
                surplus.append(part.name)
            self.store.drop_active(surplus)


class _MemoryInsert(MergeTreeInsert):
    table: MemoryTable

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        outcome = super().commit_parts(parts)
        self.table.drop_surplus()
        return outcome
