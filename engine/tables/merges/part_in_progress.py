"""Tracks a part while a merge or mutation writes it.

It is listed in ``system.merges`` meanwhile and added to ``system.part_log`` at the end. A failure leaves nothing on
disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.tables.part_log import PartEventType, format_partition
from engine.tables.services import RunningMerge
from engine.tables.table_data import TableData
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part


@dataclass(frozen=True)
class PartInProgress:
    """A part that is being written into ``directory``."""

    shown: RunningMerge
    directory: Path


@contextmanager
def track_new_part(
    table: TableData, type_: PartEventType, sources: Sequence[Part], result: PartName, merge_type: str = ""
) -> Iterator[PartInProgress]:
    """Lists the new part while the block writes it.

    ``type_`` is ``MERGE`` or ``MUTATE``. Raises 243 (NOT_ENOUGH_SPACE) if the disk has no space for the size of the
    sources.
    """
    definition, services, is_mutation = table.definition, table.services, type_ is PartEventType.MUTATE
    shown = RunningMerge(
        database=definition.database,
        table=definition.name,
        result=str(result),
        sources=tuple(str(source.name) for source in sources),
        started=services.clock(),
        total_rows=sum(source.rows for source in sources),
        is_mutation=is_mutation,
        merge_type=merge_type or "Regular",
        partition=format_partition(definition.description.partition_key, sources[0]),
        path=str(definition.data_path),
        total_bytes=sum(source.bytes_on_disk for source in sources),
        total_uncompressed_bytes=sum(source.data_uncompressed_bytes for source in sources),
    )
    directory = table.store.create_temporary("tmp_mut_" if is_mutation else "tmp_merge_")
    work = f"{'mutating' if is_mutation else 'merging'} to {result}"
    services.merges.append(shown)
    try:
        with services.disk.reserve(definition.data_path, shown.total_bytes, work):
            yield PartInProgress(shown, directory)
        services.failpoint(f"{'mutation' if is_mutation else 'merge'}.after_temporary_part")
        part = open_part(directory, name=result)
        services.part_log.note(
            type_, definition, part, services.clock(), started=shown.started, sources=sources, merge_type=merge_type
        )
    except BaseException as error:
        table.store.drop_temporary(directory)
        now = services.clock()
        services.part_log.add_failure(type_, definition, result, now, error, started=shown.started, sources=sources)
        raise
    finally:
        services.merges.remove(shown)
