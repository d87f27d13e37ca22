"""Runs one merge of parts into a temporary part, here or in a merge process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.tables.merges.part_in_progress import track_new_part
from engine.tables.part_log import PartEventType
from engine.tables.services import MergeOrder
from engine.tables.table_data import TableData
from parts.common.part_name import PartName
from parts.merge import Deduplicating, MergeProgress, merge_parts
from parts.merge.last_writer import LastWriter
from parts.read.part_reader import Part, open_part
from parts.table.table_description import TableDescription


def merge_to_temporary(
    table: TableData,
    sources: Sequence[Part],
    result: PartName,
    *,
    deduplicate: bool = False,
    deduplicate_by: tuple[str, ...] = (),
    cleanup: bool = False,
    is_cancelled: Callable[[], bool] | None = None,
    expire_at: int = 0,
    merge_type: str = "Regular",
    stable_time: int = 0,
) -> Path:
    """Merges parts; returns the directory of the result, which is not in the store yet.

    Raises ``CorruptionError`` and ``CancelledError``.
    """
    definition = table.definition
    sources = [
        source.adapt_to_schema(definition.description.schema) for source in sources
    ]  # an ALTER may have come meanwhile
    names = tuple(source.name for source in sources)
    with track_new_part(table, PartEventType.MERGE, sources, result, merge_type) as making:
        shown, directory = making.shown, making.directory

        def on_progress(progress: MergeProgress) -> None:
            shown.rows_written = progress.rows_written
            shown.progress = progress.rows_read / max(1, shown.total_rows)

        where = (definition.database, definition.create, definition.data_path)
        positions = tuple(source.row_version.position for source in sources)
        order = MergeOrder(
            *where, names, directory, deduplicate, deduplicate_by, cleanup, expire_at, stable_time, positions
        )
        stop = is_cancelled or table.is_cancelled
        if table.services.run_in_merge_process is not None:
            table.services.run_in_merge_process(order, stop, on_progress)
        else:
            run_merge(order, sources, definition.description, stop, on_progress)
    if definition.description.merge_mode.has_row_versions:
        with table.store.lock:
            table.services.conflicts[definition.data_path] += open_part(directory).row_version.conflicts
    return directory


def run_merge(
    order: MergeOrder,
    sources: Sequence[Part],
    description: TableDescription,
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    """Runs the merge in this process. Removes the directory after an error."""
    mode = description.merge_mode.with_time(order.expire_at)
    mode = mode.for_final() if order.cleanup else mode
    if order.stable_time and isinstance(mode, LastWriter):
        mode = mode.remove_tombstones(order.stable_time)
    merge_parts(
        sources,
        order.directory,
        description,
        mode=Deduplicating(mode, order.deduplicate_by) if order.deduplicate else mode,
        is_cancelled=is_cancelled,
        on_progress=on_progress,
        expire_at=order.expire_at,
    )
