"""Values that a scan may compute of one of its columns, with Arrow and NumPy and a batch at a time.

DuckDB computes by vectors of 2048 values, and what it has no function for takes macros, or a kernel that is handed
every vector: over a batch the same costs a tenth. So a value that is made of nothing but a column of a table is a
column that the scan adds (``sql.compile.scan_values``); of anything else DuckDB computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.bound import Bound
from sql.typing.fragments import SCANNABLE, Fragment, fragment

_ROWS_AT_ONCE = 16_384
"""What NumPy computes of so many stays in the processor's cache: half the time."""
Compute = Callable[[pa.Array], pa.Array]
Rest = Callable[[Fragment], Fragment]


class Scannable(Fragment):
    """``sql`` is a function of ``value`` alone; ``compute`` is the same of a column in its storage type, and gives
    ``result``.

    ``compute`` gives NULL for NULL, never fails, and has no effects. A dictionary is no concern of it.
    """

    __slots__ = ("compute", "result", "value")

    def __init__(self, sql: Fragment, value: Fragment, compute: Compute, result: pa.DataType) -> None:
        traits = sql.traits | value.traits | SCANNABLE
        super().__init__(sql.texts, sql.parts, sql.size, traits, sql.own_traits, sql.weight, sql.depth)
        self.value = value
        self.compute = compute
        self.result = result


def read_by_scan(sql: Fragment, texts: Fragment, compute: Compute, known: pa.DataType, rest: Rest) -> Fragment:
    """``sql`` of texts; or where a scan can, what ``compute`` knows, and ``rest`` of the texts that it leaves over.

    ``compute`` gives both (:func:`known_and_odd`); what is neither is NULL.
    """
    read = Scannable(fragment("{}", texts), texts, compute, pa.struct([("known", known), ("odd", pa.string())]))

    def body(column: Fragment) -> Fragment:
        odd = fragment("struct_extract({}, 'odd')", column)
        other = fragment("CASE WHEN {} IS NOT NULL THEN {} END", odd, rest(odd))
        return fragment("coalesce(struct_extract({}, 'known'), {})", column, other)

    return Bound(sql, read, body)


def known_and_odd(known: pa.Array, texts: pa.Array, is_odd: np.ndarray) -> pa.Array:
    odd = pa.nulls(len(texts), pa.string())
    if is_odd.any():
        odd = pc.if_else(pa.array(is_odd), texts, pa.scalar(None, pa.string()))
    return pa.StructArray.from_arrays([known, odd], ["known", "odd"])


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
        pieces = [
            self._piece(array.slice(begin, _ROWS_AT_ONCE)) for begin in range(0, max(1, len(array)), _ROWS_AT_ONCE)
        ]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def _piece(self, array: pa.Array) -> pa.Array:
        for compute in self.steps:
            array = compute(array)
        return array
