"""``MergeTree``: a table of one server with everything that statements may ask of parts."""

from __future__ import annotations

from dataclasses import replace

from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks, require_readable_blocks
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.insert_sink import deduplicates_blocks
from engine.tables.merge_tree.local_mutations import MergeTreeMutations
from engine.tables.merge_tree.local_partitions import MergeTreePartitions
from engine.tables.merge_tree.local_table import LocalTable
from engine.tables.statement_options import OptimizeOptions
from sql.relations import PartsSnapshot


class MergeTreeTable(LocalTable):
    """A ``MergeTree`` table, or one of its family, without replicas."""

    partitions: MergeTreePartitions
    mutations: MergeTreeMutations
    blocks: MergeTreeTable

    def start(self) -> None:
        """Loads the parts and starts background work."""
        super().start()
        self.partitions, self.mutations, self.checked_store, self.blocks = (
            self._partitions, self._mutations, self.store, self,
        )  # fmt: skip

    @property
    def block_memory(self) -> BlockMemory | None:
        """The last blocks, if the table deduplicates."""
        return self.recent_blocks if deduplicates_blocks(self.definition) else None

    def optimize(self, options: OptimizeOptions) -> None:
        """Merges now."""
        self._merges.optimize(options)

    def history(self) -> BlockHistory:
        """Later numbers than those of now are larger."""
        first_open = self.numbers.first_pending()
        known = self._block_history.read()
        decided: dict[str, int] = {}
        for part in self.store.active():
            name = part.name
            if name.min_block < first_open:
                decided[name.partition_id] = max(decided.get(name.partition_id, 0), min(name.max_block, first_open - 1))
        return replace(known, decided=decided)

    def snapshot_of_blocks(self, wanted: WantedBlocks) -> PartsSnapshot:
        snapshot = self.store.snapshot()
        try:
            require_readable_blocks(self.definition, self._block_history.read(), wanted)
        except BaseException:
            snapshot.release()
            raise
        return snapshot
