"""Selects the granules and rows that a scan's condition keeps, as a query's WHERE does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from engine.scan.slot_planning import add_hidden_columns, select_stored_columns
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.table.table_description import TableDescription
from sql.run.block_expressions import compile_expressions
from sql.run.condition_analysis import analyse_condition


def select_granules(
    parts: Sequence[Part], description: TableDescription, condition: str, timezone: str
) -> list[tuple[Part, list[MarkRange]]]:
    """Returns the parts and granules that may hold rows matching the condition.

    The index may select too much, never too little. Raises the condition's errors: 62, 47, 46, 43.
    """
    where = condition.strip()
    if where:
        compile_expressions([where], add_hidden_columns(description.schema), timezone)
    chosen = []
    for pruned in analyse_condition(where, description, timezone).prune(parts):
        ranges = [MarkRange(0, pruned.part.marks)] if pruned.ranges is None else list(pruned.ranges)
        if ranges:
            chosen.append((pruned.part, ranges))
    return chosen


@dataclass(frozen=True)
class ScanFilter:
    """A filter for the rows where a condition is true; ``columns`` are those that it reads."""

    columns: tuple[str, ...]
    evaluate: Callable[[pa.Table], pa.ChunkedArray]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows for which the condition is true (NULL is not)."""
        values = self.evaluate(pa.Table.from_batches([batch])).combine_chunks()
        mask = values if pa.types.is_boolean(values.type) else pc.not_equal(values, 0)
        return batch.filter(pc.fill_null(mask, False))


def compile_filter(condition: str, description: TableDescription, timezone: str) -> ScanFilter | None:
    """Compiles a condition; returns ``None`` for an empty one.

    Raises 48 for an ALIAS column, which has no data.
    """
    if not condition.strip():
        return None
    compiled = compile_expressions([condition], add_hidden_columns(description.schema), timezone)[0]
    select_stored_columns(description.schema, compiled.columns)
    return ScanFilter(tuple(compiled.columns), compiled.evaluate)
