"""Planning a scan: which granules of which parts can hold wanted rows, and how they are dealt out to tasks.

Tasks are cut from the chosen granules in part order so that each has about the same number of rows; a task may span
parts, and a part may span tasks. Granules are never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parts.errors import UserError
from parts.reader import MarkRange, Part
from parts.schema import Column, TableSchema

DEFAULT_ROWS_PER_TASK = 1_000_000
_WORTH_A_TASK_ROWS = 65_536
_EASY_PARALLELISM = 8


@dataclass
class TaskPart:
    part: Part
    ranges: list[MarkRange] = field(default_factory=list)
    rows: int = 0


@dataclass
class ScanTask:
    parts: list[TaskPart] = field(default_factory=list)
    rows: int = 0


def scan_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """As :func:`stored_columns`, at least one."""
    if not names:
        raise UserError("BAD_ARGUMENTS", "A scan needs at least one column")
    return stored_columns(schema, names)


def stored_columns(schema: TableSchema, names: Sequence[str]) -> list[Column]:
    """Raises 16 for a column that is not there, 48 for one that has no data of its own."""
    columns = [schema.column(name) for name in names]
    for column in columns:
        if not column.is_stored:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Column {column.name!r} is an ALIAS: it is computed by queries and cannot be scanned; compute "
                f"{column.default_expression} in Spark",
            )
    return columns


def task_count(rows: int, partitions: int | None, max_rows_per_task: int | None) -> int:
    """As asked; else enough tasks of bounded size, and some parallelism for what is worth it."""
    if partitions:
        return partitions
    limit = max_rows_per_task or DEFAULT_ROWS_PER_TASK
    needed = -(-rows // limit)
    if max_rows_per_task:
        return max(1, needed)
    return max(1, needed, min(_EASY_PARALLELISM, rows // _WORTH_A_TASK_ROWS))


def deal_tasks(chosen: Iterable[tuple[Part, Sequence[MarkRange]]], count: int) -> list[ScanTask]:
    """At most ``count`` tasks with at least a granule each."""
    selection = [(part, list(ranges)) for part, ranges in chosen]
    left = sum(range_rows(part, item) for part, ranges in selection for item in ranges)
    tasks: list[ScanTask] = []
    task = ScanTask()
    for part, ranges in selection:
        for item in ranges:
            begin = item.begin
            while begin < item.end:
                room = max(1, round(left / max(1, count - len(tasks)))) - task.rows
                end = min(item.end, begin + max(1, round(room / part.granularity)))
                rows = range_rows(part, MarkRange(begin, end))
                _extend(task, part, MarkRange(begin, end), rows)
                begin = end
                if rows >= room - part.granularity // 2 and len(tasks) < count - 1:
                    left -= task.rows
                    tasks.append(task)
                    task = ScanTask()
    return [*tasks, task] if task.rows else tasks


def range_rows(part: Part, item: MarkRange) -> int:
    return max(0, min(item.end * part.granularity, part.rows) - item.begin * part.granularity)


def _extend(task: ScanTask, part: Part, item: MarkRange, rows: int) -> None:
    if not task.parts or task.parts[-1].part is not part:
        task.parts.append(TaskPart(part))
    last = task.parts[-1]
    if last.ranges and last.ranges[-1].end == item.begin:
        last.ranges[-1] = MarkRange(last.ranges[-1].begin, item.end)
    else:
        last.ranges.append(item)
    last.rows += rows
    task.rows += rows
