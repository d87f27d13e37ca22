"""Columns of a Nested structure: arrays ``n.a``, ``n.b``, … of equal length in every row.

There is no object for a structure. Array columns belong together if their names have the same text before the first
dot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import ArrayType, DataType


def get_structure_name(name: str, type_: DataType) -> str:
    """Returns the structure's name; ``""`` for a column outside any structure."""
    before, dot, _ = name.partition(".")
    return before if dot and isinstance(type_, ArrayType) else ""


def find_sibling(name: str, type_: DataType, names: Collection[str]) -> str | None:
    """Returns the name of another column of the same structure; ``None`` if there is none."""
    structure = get_structure_name(name, type_)
    if not structure:
        return None
    return next((other for other in sorted(names) if other.startswith(f"{structure}.") and other != name), None)


def make_default_arrays(type_: ArrayType, like: pa.Array) -> pa.Array:
    """Returns arrays of the elements' default, each as long as that of ``like``."""
    lengths = pc.fill_null(pc.list_value_length(like), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
    elements = pa.array([type_.inner.default], type_.inner.arrow).take(pa.repeat(0, offsets[-1].as_py()))
    return pa.ListArray.from_arrays(offsets.cast(pa.int32()), elements, type=type_.arrow)


def check_array_sizes(block: pa.Table, structures: Sequence[Sequence[str]]) -> None:
    """Raises 190 for a row whose arrays differ in length. ``structures``: the columns of each."""
    for first, *others in structures:
        lengths = pc.list_value_length(block.column(first))
        for other in others:
            if not lengths.equals(pc.list_value_length(block.column(other))):
                raise UserError(
                    "SIZES_OF_ARRAYS_DONT_MATCH",
                    f"Elements '{first}' and '{other}' of Nested data structure '{first.partition('.')[0]}' (Array "
                    "columns) have different array sizes",
                )
