"""Tables whose parts are held by somebody else, as queries read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parts.read.part_reader import Part
from parts.store.part_states import Snapshot
from parts.table.table_description import TableDescription
from sql.relations import PartsSnapshot


@dataclass(frozen=True)
class HeldPartsRelation:
    """A table with parts that the caller holds. Implements ``sql.relations.PartsRelation``."""

    description: TableDescription
    parts: Sequence[Part]

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Returns the held parts under the table's schema."""
        return Snapshot([part.adapt_to_schema(self.description.schema) for part in self.parts], lambda _: None)
