"""A part's primary index under the table's current key, which may differ from the part's.

ALTER adds to a sorting key only expressions over columns that it adds too. In older parts these have one value in all
rows, so that the rows are in the order of the new key as well.
"""

from __future__ import annotations

import pyarrow as pa

from parts.format.array_file import to_plain_array
from parts.format.primary_index import (
    MarkRange,
    PrimaryIndex,
)
from parts.read.part_reader import (
    Part,
)
from parts.table.table_description import Key


def map_primary_index(part: Part, key: Key) -> PrimaryIndex:
    """Returns the index under the table's ``key``. Reads one row for expressions the part lacks."""
    index = part.primary_index
    is_same = index.expressions == key.expressions and index.types == key.plain_types
    if not part.rows or (is_same and not part.lacks_columns(key.columns)):
        return index
    found = part.other_index
    if found is None or found.expressions != key.expressions:
        found = part.other_index = _build_index(part, index, key)
    return found


def is_sorted_by(part: Part, key: Key) -> bool:
    """Tells whether the rows are in the order of ``key``, of the table whose schema the part has.

    Expressions it was not sorted by must only read columns that it lacks and that have no DEFAULT.
    """
    known = 0
    for expression, reads in zip(key.expressions, key.reads, strict=True):
        if part.sorting_key[known : known + 1] == (expression,) and not part.lacks_columns(reads):
            known += 1
        elif not all(part.lacks_columns([name]) and _has_no_default(part, name) for name in reads):
            return False
    return True


def _has_no_default(part: Part, name: str) -> bool:
    return part.table_schema is not None and not part.table_schema.column(name).default_kind


def _build_index(part: Part, index: PrimaryIndex, key: Key) -> PrimaryIndex:
    keys: list[pa.Array] = []
    constants: list[pa.Array] | None = None
    known = 0
    for number, (expression, reads) in enumerate(zip(key.expressions, key.reads, strict=True)):
        if known < len(index.keys) and index.expressions[known] == expression and not part.lacks_columns(reads):
            keys.append(index.keys[known].cast(key.plain_types[number].arrow))
            known += 1
            continue
        if constants is None:
            constants = _first_key(part, key)
        keys.append(pa.repeat(constants[number][0], len(index.keys[0]) if index.keys else part.marks + 1))
    return PrimaryIndex(key.expressions, key.types, keys, part.rows, part.granularity)


def _first_key(part: Part, key: Key) -> list[pa.Array]:
    columns = list(dict.fromkeys(key.columns))
    batch = next(iter(part.read(columns, [MarkRange(0, 1)], max_batch_rows=1, max_threads=1, with_deleted=True)))
    row = pa.Table.from_batches([batch.slice(0, 1)])
    return [to_plain_array(array, type_) for array, type_ in zip(key.evaluate(row), key.types, strict=True)]
