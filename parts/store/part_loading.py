"""Find a table's parts on disk, and decide the state of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.store.active_part_names import ActivePartNames
from parts.store.detached_parts import DETACHED
from parts.store.drop_markers import is_drop_mark
from parts.store.part_states import LoadReport, PartState
from parts.store.staged_parts import STAGED
from parts.table.table_description import TableSchema

TEMPORARY_PREFIXES = ("tmp_", "delete_tmp_")


def open_parts(
    path: Path, schema: TableSchema, report: LoadReport, *, is_taken: Callable[[str], bool]
) -> Iterator[Part | tuple[Path, CorruptionError]]:
    """Yields the parts in a table's directory, and the directories of broken ones.

    Temporary directories are removed. ``is_taken`` tells which are in use already. A file with a part's name counts as
    a broken part.
    """
    for directory in sorted(path.iterdir()):
        if directory.name in (DETACHED, STAGED) or is_taken(directory.name) or is_drop_mark(directory):
            continue
        if directory.name.startswith(TEMPORARY_PREFIXES):
            shutil.rmtree(directory, ignore_errors=True)
            report.dropped_temporary.append(directory.name)
        elif PartName.try_parse(directory.name) is not None:
            try:
                yield open_part(directory, table_schema=schema)
            except CorruptionError as error:
                yield directory, error
        elif directory.is_dir():
            report.unknown.append(directory.name)


def assign_states(found: Iterable[Part], active: ActivePartNames) -> Iterator[tuple[Part, PartState | None]]:
    """Yields each part with its state; ``None`` for one that intersects others, which no correct run does.

    Larger ranges and higher levels come first, so that a cover precedes what it covers. The caller adds each active
    part to ``active`` before it asks for the next.
    """
    for part in sorted(found, key=get_covering_order):
        rivals = active.find_overlapping(part.name)
        if not rivals:
            yield part, PartState.ACTIVE
        else:
            yield part, PartState.OUTDATED if any(rival.covers(part.name) for rival in rivals) else None


def get_covering_order(part: Part) -> tuple[int, int, int]:
    """Returns a sort key that orders covers before what they cover."""
    name = part.name
    return (name.min_block - name.max_block, -name.level, -name.mutation)
