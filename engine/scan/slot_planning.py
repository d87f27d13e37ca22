"""Plans a scan: weighs the chosen granules and divides them into slots, one for each task.

A granule's weight is the share of a task that its rows or its bytes fill, whichever is more; bytes are the uncompressed
bytes of the requested columns. Slots are cut from the chosen granules in part order so that each has about the same
weight. A slot may span parts, and a part may span slots. Granules are never cut.

All servers that serve an execution must cut alike, but the bytes of a part may differ between replicas. Therefore the
server that opens the execution measures the parts coarsely and records the result for all (``leases``). All later
computation is in whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.table.block_number_column import make_block_number_column
from parts.table.part_name_columns import NAME_COLUMNS, make_name_column
from parts.table.row_exists_column import PART_OFFSET_COLUMN
from parts.table.table_description import Column, TableDescription, TableSchema

DEFAULT_BYTES_PER_TASK = 128 << 20
_WORTH_A_TASK_ROWS = 65_536
_EASY_PARALLELISM = 8
_MAX_STEPS = 4096
_WHOLE_TASK = 1 << 24
"""The weight of a full task."""
_MAX_OF_A_GRANULE = 64 * _WHOLE_TASK

Chosen = Sequence[tuple[Part, Sequence[MarkRange]]]
Steps = Mapping[PartName, Sequence[int]]
"""For each part, the bytes of its equally long pieces in order."""


@dataclass(frozen=True)
class TaskSize:
    """The largest rows and bytes that a task should read."""

    rows: int | None = None
    bytes: int | None = None

    def weights(self, rows: np.ndarray, bytes_: np.ndarray) -> np.ndarray:
        """Returns the weight of each granule."""
        limit = self.bytes or DEFAULT_BYTES_PER_TASK
        weights = bytes_ * _WHOLE_TASK // limit
        if self.rows is not None:
            weights = np.maximum(weights, rows * _WHOLE_TASK // self.rows)
        return np.clip(weights, 1, _MAX_OF_A_GRANULE)

    @property
    def is_given(self) -> bool:
        """Tells whether the client set a limit."""
        return self.rows is not None or self.bytes is not None


def select_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """Returns the stored columns as :func:`select_stored_columns` does; raises 36 for no name."""
    if not names:
        raise UserError("BAD_ARGUMENTS", "A scan needs at least one column")
    return select_stored_columns(schema, names)


def select_stored_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """Returns the columns of these names, also of hidden ones (:func:`add_hidden_columns`).

    Raises 16 for an unknown column, and 48 for an ALIAS column, which has no data.
    """
    hidden = {column.name: column for column in _list_hidden_columns(schema)}
    columns = [hidden.get(name) or schema.column(name) for name in names]
    for column in columns:
        if not column.is_stored:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Column {column.name!r} is an ALIAS: it is computed by queries and cannot be scanned; compute "
                f"{column.default_expression} in Spark",
            )
    return columns


def add_hidden_columns(schema: TableSchema) -> TableSchema:
    """Returns the schema with ``_part``, ``_part_offset``, ``_partition_id`` and ``_block_number``."""
    return TableSchema((*schema.columns, *_list_hidden_columns(schema)))


def _list_hidden_columns(schema: TableSchema) -> list[Column]:
    hidden = [*map(make_name_column, NAME_COLUMNS), PART_OFFSET_COLUMN, make_block_number_column()]
    return [column for column in hidden if column.name not in schema]


def sort_parts(parts: Sequence[Part], description: TableDescription, partition: str | None = None) -> list[Part]:
    """Returns the parts in the order of slots, as the definition has them, of one partition or all."""
    mine = (part for part in parts if partition is None or part.name.partition_id == partition)
    return sorted((part.adapt_to_schema(description.schema) for part in mine), key=lambda part: part.name)


def measure_steps(parts: Sequence[Part], columns: Sequence[str]) -> dict[PartName, list[int]]:
    """Measures the bytes of each part in steps; parts with more granules get more steps."""
    granules = sum(part.marks for part in parts)
    measured = {}
    for part in parts:
        count = max(1, min(part.marks, _MAX_STEPS * part.marks // max(granules, 1)))
        before = part.estimate_bytes_before(columns, np.arange(count + 1) * part.marks / count)
        measured[part.name] = np.diff(before.astype(np.int64)).tolist()
    return measured


@dataclass(frozen=True)
class WeighedGranules:
    """The granules to read and their weights, in part order."""

    chosen: Chosen
    rows: int
    bytes: int
    weights: np.ndarray

    @classmethod
    def of(cls, chosen: Chosen, steps: Steps, size: TaskSize) -> WeighedGranules:
        """Weighs the chosen granules by their rows and the recorded steps."""
        rows = np.concatenate([np.empty(0, np.int64), *(_rows(part)[_granules(ranges)] for part, ranges in chosen)])
        bytes_ = np.concatenate(
            [rows[:0], *(_bytes(part, steps[part.name])[_granules(ranges)] for part, ranges in chosen)]
        )
        return cls(chosen, int(rows.sum()), int(bytes_.sum()), size.weights(rows, bytes_ + rows))

    def tasks(self, size: TaskSize, partitions: int | None, *, is_computed: bool = False) -> int:
        """Returns the number of tasks:

        ``partitions`` if given, otherwise enough of bounded size. Scans of many rows get some parallelism beyond that,
        unless the server computes a result from the rows instead of sending them.
        """
        if partitions:
            return partitions
        needed = -(-int(self.weights.sum()) // _WHOLE_TASK)
        return max(
            1,
            needed
            if size.is_given or is_computed
            else max(needed, min(_EASY_PARALLELISM, self.rows // _WORTH_A_TASK_ROWS)),
        )

    def slot(self, number: int, slots: int) -> list[tuple[Part, list[MarkRange]]]:
        """Returns the granules of task ``number`` of ``slots``; empty if there are more tasks than granules."""
        ends = np.cumsum(self.weights)
        total = int(ends[-1]) if len(ends) else 0
        middles = ends - (self.weights + 1) // 2
        first, last = (int(np.searchsorted(middles, total * cut // slots)) for cut in (number, number + 1))
        found: list[tuple[Part, list[MarkRange]]] = []
        position = 0
        for part, ranges in self.chosen:
            mine = []
            for item in ranges:
                begin = item.begin + max(0, first - position)
                end = item.begin + min(item.end - item.begin, last - position)
                if begin < end:
                    mine.append(MarkRange(begin, end))
                position += item.end - item.begin
            if mine:
                found.append((part, mine))
        return found


def _granules(ranges: Sequence[MarkRange]) -> np.ndarray:
    return np.concatenate([np.arange(item.begin, item.end) for item in ranges])


def _rows(part: Part) -> np.ndarray:
    """Returns the rows of each granule."""
    begins = np.arange(part.marks + 1, dtype=np.int64) * part.granularity
    return np.diff(np.minimum(begins, part.rows))


def _bytes(part: Part, steps: Sequence[int]) -> np.ndarray:
    """Returns the bytes of each granule: its share of the step that holds it."""
    within = np.array([*steps, 0], np.int64)
    before = np.concatenate([[0], np.cumsum(within[:-1])])
    step, rest = np.divmod(np.arange(part.marks + 1, dtype=np.int64) * len(steps), max(part.marks, 1))
    return np.diff(before[step] + within[step] * rest // max(part.marks, 1))
