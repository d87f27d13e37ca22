"""Runs one merge of parts into a temporary part and shows it in ``system.merges`` meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.tables.part_log import PartEventType
from engine.tables.services import MergeOrder, RunningMerge
from engine.tables.table_data import TableData
from parts.merge import Deduplicated, MergeProgress, merge_parts
from parts.part_name import PartName
from parts.reader import Part, open_part
from parts.schema import TableDescription


def merge_to_temporary(
    table: TableData,
    sources: Sequence[Part],
    result: PartName,
    *,
    deduplicate: bool = False,
    deduplicate_by: tuple[str, ...] = (),
    is_cancelled: Callable[[], bool] | None = None,
    expire_at: int = 0,
    merge_type: str = "Regular",
) -> Path:
    """The directory of the merged part, not yet in the store. Raises ``CorruptionError``, ``CancelledError``."""
    definition = table.definition
    sources = [source.under(definition.description.schema) for source in sources]  # an ALTER may have come since
    merge = RunningMerge(
        database=definition.database,
        table=definition.name,
        result=str(result),
        sources=tuple(str(source.name) for source in sources),
        started=table.services.clock(),
        total_rows=sum(source.rows for source in sources),
        path=str(definition.data_path),
        total_bytes=sum(source.bytes_on_disk for source in sources),
        total_uncompressed_bytes=sum(source.data_uncompressed_bytes for source in sources),
        merge_type=merge_type,
    )
    running = table.services.merges
    directory = table.store.create_temporary("tmp_merge_")

    def on_progress(progress: MergeProgress) -> None:
        merge.rows_written = progress.rows_written
        merge.progress = progress.rows_read / max(1, merge.total_rows)

    running.append(merge)
    try:
        names = tuple(source.name for source in sources)
        path = definition.data_path
        where = (definition.database, definition.create, path)
        order = MergeOrder(*where, names, directory, deduplicate, deduplicate_by, expire_at)
        stop = is_cancelled or table.is_cancelled
        with table.services.disk.reserving(path, merge.total_bytes, f"merging to {result}"):
            if table.services.merge_elsewhere is not None:
                table.services.merge_elsewhere(order, stop, on_progress)
            else:
                carry_out(order, sources, definition.description, stop, on_progress)
        table.services.failpoint("merge.after_temporary_part")
        table.services.part_log.note(
            PartEventType.MERGE,
            definition,
            open_part(directory, name=result),
            table.services.clock(),
            started=merge.started,
            sources=sources,
            merge_type=merge.merge_type,
        )
    except BaseException as error:
        table.store.drop_temporary(directory)
        now = table.services.clock()
        table.services.part_log.note_failure(
            PartEventType.MERGE, definition, result, now, error, started=merge.started, sources=sources
        )
        raise
    finally:
        running.remove(merge)
    return directory


def carry_out(
    order: MergeOrder,
    sources: Sequence[Part],
    description: TableDescription,
    is_cancelled: Callable[[], bool],
    on_progress: Callable[[MergeProgress], None],
) -> None:
    """The merge itself. On any error the directory is removed."""
    mode = description.merge_mode
    merge_parts(
        sources,
        order.directory,
        description,
        mode=Deduplicated(mode, order.deduplicate_by) if order.deduplicate else mode,
        is_cancelled=is_cancelled,
        on_progress=on_progress,
        expire_at=order.expire_at,
    )
