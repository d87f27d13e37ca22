"""Values that a scan may compute of one of its columns, with Arrow and NumPy and a batch at a time.

DuckDB computes by vectors of 2048 values, and what it has no function for takes macros, or a kernel that is handed
every vector: over a batch the same costs a tenth. So a value that is made of nothing but a column of a table is a
column that the scan adds (``sql.compile.scan_values``); of anything else DuckDB computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from sql.typing.fragments import HIDES_NULL, SCANNABLE, Fragment

Compute = Callable[[pa.Array], pa.Array]


class Scannable(Fragment):
    """``sql`` is a function of ``value`` alone; ``compute`` is the same of a column in its storage type, and gives
    ``result``.

    Both are NULL for NULL; ``compute`` never fails, and has no effects. A dictionary is no concern of it.
    """

    __slots__ = ("compute", "result", "value")

    def __init__(self, sql: Fragment, value: Fragment, compute: Compute, result: pa.DataType) -> None:
        traits = (sql.traits | SCANNABLE) & ~HIDES_NULL | value.traits
        super().__init__(sql.texts, sql.parts, sql.size, traits, sql.own_traits & ~HIDES_NULL, sql.weight, sql.depth)
        self.value = value
        self.compute = compute
        self.result = result


@dataclass(frozen=True, slots=True)
class Computed:
    """What ``steps``, one after another, make of a column."""

    column: str
    steps: tuple[Compute, ...]
    result: pa.DataType

    def type_of(self, stored: pa.DataType) -> pa.DataType:
        """Of what ``of`` makes of an array of this type."""
        is_text = pa.types.is_string(self.result)
        return pa.dictionary(pa.int32(), pa.string()) if is_text and pa.types.is_dictionary(stored) else self.result

    def of(self, array: pa.Array) -> pa.Array:
        """Of a dictionary its values are computed, and texts stay one."""
        if pa.types.is_dictionary(array.type):
            values = self.of(array.dictionary)
            if pa.types.is_string(self.result):
                return pa.DictionaryArray.from_arrays(array.indices, values, safe=False)
            return values.take(array.indices)
        for compute in self.steps:
            array = compute(array)
        return array
