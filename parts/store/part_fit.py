"""Check whether a part belongs to its table: somebody may have copied a directory of another table.

A table without replicas cannot ask others which parts are its own. A part of another table is recognised by its columns
and its partition. One of a table with the same columns and partitioning cannot be recognised.
"""

from __future__ import annotations

from parts.blocks.partition_ids import compute_partition_id
from parts.read.part_reader import Part
from parts.table.schema_history import SchemaHistory
from parts.table.table_description import TableDescription

_INTERNAL = "_"
"""Prefix of columns that a part has besides its table's."""


def find_misfit(part: Part, description: TableDescription) -> str:
    """Returns why the part cannot be written by the table; ``""`` if nothing shows it."""
    history = description.schema.history
    if part.metadata_version > history.version:
        return f"it was written under version {part.metadata_version} of a definition that has {history.version} here"
    return _other_columns(part, description) or _other_partition(part, description)


def _other_columns(part: Part, description: TableDescription) -> str:
    history, written = description.schema.history, {column.name: column.type for column in part.schema.columns}
    known = set()
    for column in description.schema.stored.columns:
        name = history.get_name_in_part(part.metadata_version, column.name)
        if name is None or name not in written:
            continue
        known.add(name)
        expected = column.type if _keeps_type(history, column.name, part.metadata_version) else written[name]
        if written[name] != expected:
            return f"its column {name} is a {written[name].name}, the table's a {expected.name}"
    unknown = [name for name in written if name not in known and not name.startswith(_INTERNAL)]
    if unknown and part.metadata_version == history.version:  # an older one may have columns that were dropped
        return f"it has a column {unknown[0]}, which the table has not"
    return ""


def _keeps_type(history: SchemaHistory, column: str, version: int) -> bool:
    """Tells whether the type has not changed since the version."""
    return all(changed <= version for changed, _, _ in history.retyped.get(column, ()))


def _other_partition(part: Part, description: TableDescription) -> str:
    key, history = description.partition_key, description.schema.history
    arrays = part.partition_arrays
    if len(arrays) != len(key.expressions):
        return f"its partition key has {len(arrays)} expressions, the table's {len(key.expressions)}"
    found = compute_partition_id([array[0] for _, _, array in arrays], [type_ for _, type_, _ in arrays])
    if found != part.name.partition_id:
        return f"its rows are of partition {found}"
    columns = {history.get_name_in_part(part.metadata_version, column) for column in key.columns}
    if part.rows and set(part.minmax_arrays) != columns:
        return f"its partition key reads {', '.join(part.minmax_arrays)}, the table's {', '.join(key.columns)}"
    return ""
