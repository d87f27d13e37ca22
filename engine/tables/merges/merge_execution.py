"""Runs one merge of parts into a temporary part, here or in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.tables.merges.part_in_progress import track_new_part
from engine.tables.part_log import PartEventType
from engine.tables.services import MergeOrder
from engine.tables.table_data import TableData
from parts.common.part_name import PartName
from parts.merge import Deduplicating, MergeProgress, merge_parts
from parts.read.part_reader import Part
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
) -> Path:
    """The directory of the merged part, not yet in the store. Raises ``CorruptionError``, ``CancelledError``."""
    definition = table.definition
    sources = [source.under(definition.description.schema) for source in sources]  # an ALTER may have come since
    names = tuple(source.name for source in sources)
    with track_new_part(table, PartEventType.MERGE, sources, result, merge_type) as making:
        shown, directory = making.shown, making.directory

        def on_progress(progress: MergeProgress) -> None:
            shown.rows_written = progress.rows_written
            shown.progress = progress.rows_read / max(1, shown.total_rows)

        where = (definition.database, definition.create, definition.data_path)
        order = MergeOrder(*where, names, directory, deduplicate, deduplicate_by, cleanup, expire_at)
        stop = is_cancelled or table.is_cancelled
        if table.services.merge_elsewhere is not None:
            table.services.merge_elsewhere(order, stop, on_progress)
        else:
            run_merge(order, sources, definition.description, stop, on_progress)
    return directory


def run_merge(
    order: MergeOrder,
    sources: Sequence[Part],
    description: TableDescription,
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    """The merge itself. On any error the directory is removed."""
    mode = description.merge_mode.with_time(order.expire_at)
    mode = mode.for_final() if order.cleanup else mode
    merge_parts(
        sources,
        order.directory,
        description,
        mode=Deduplicating(mode, order.deduplicate_by) if order.deduplicate else mode,
        is_cancelled=is_cancelled,
        on_progress=on_progress,
        expire_at=order.expire_at,
    )
