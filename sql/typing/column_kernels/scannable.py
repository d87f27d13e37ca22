"""Values that a scan can compute from its columns, with Arrow and NumPy, a batch at a time.

DuckDB computes vectors of 2048 values. What it has no function for takes macros, or a kernel that gets every vector;
over a batch the same costs a tenth. So a value that depends on columns of one table alone becomes a column that the
scan adds (``sql.compile.scan_columns``). DuckDB computes all other values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.duckdb.bound_values import BoundFragment
from sql.typing.duckdb.sql_fragments import SCANNABLE, Fragment, fragment

_ROWS_AT_ONCE = 65_536
"""Rows computed at a time; kernels briefly hold several columns of this size."""
_ELEMENTS_AT_ONCE = 2 * _ROWS_AT_ONCE
"""Elements of arrays computed at a time."""
_LEAST_ROWS, _SAMPLE_ROWS, _ROWS_PER_TEXT = 2048, 512, 3
"""Bounds on the texts that are worth a dictionary."""
MIN_REPEATS_FOR_DICTIONARY = 16
"""Repetitions of each text from which a dictionary pays even for cheap functions."""
_FEW_NUMBERS = (pa.uint8(), pa.int8())
Compute = Callable[..., pa.Array]
Rest = Callable[[Fragment], Fragment]


class Scannable(Fragment):
    """An expression that a scan can compute: ``sql`` is a function of ``values`` alone.

    ``compute`` is the same function over columns in their storage types, and returns ``result``. It returns NULL for
    NULL, never fails, has no side effects, and never sees a dictionary. If DuckDB is as fast (not ``is_worth_it``), the
    scan computes the value only as input of another. If texts repeat ``worth_at`` times, finding the distinct ones is
    faster than computing all (0: never).
    """

    __slots__ = ("compute", "is_worth_it", "result", "values", "worth_at")

    def __init__(
        self,
        sql: Fragment,
        values: Fragment | Sequence[Fragment],
        compute: Compute,
        result: pa.DataType,
        *,
        is_worth_it: bool = True,
        worth_at: int = 0,
    ) -> None:
        self.values = (values,) if isinstance(values, Fragment) else tuple(values)
        traits = sql.traits | SCANNABLE
        for value in self.values:
            traits |= value.traits
        super().__init__(sql.texts, sql.parts, sql.size, traits, sql.own_traits, sql.weight, sql.depth)
        self.compute = compute
        self.result = result
        self.is_worth_it = is_worth_it
        self.worth_at = worth_at


def parse_by_scan(sql: Fragment, texts: Fragment, compute: Compute, known: pa.DataType, rest: Rest) -> Fragment:
    """Lets a scan parse texts: it returns the known values, and the texts it leaves over for ``rest``.

    ``sql`` parses all texts without a scan. ``compute`` returns both (:func:`split_known_values`); a text that is
    neither is NULL. ``sql`` must be NULL for NULL.
    """
    read = Scannable(sql, texts, compute, pa.struct([("known", known), ("odd", pa.string())]), worth_at=2)

    def body(column: Fragment) -> Fragment:
        odd = fragment("struct_extract({}, 'odd')", column)
        other = fragment("CASE WHEN {} IS NOT NULL THEN {} END", odd, rest(odd))
        return fragment("coalesce(struct_extract({}, 'known'), {})", column, other)

    return BoundFragment(sql, read, body, keeps_null=True)


def parse_or_leave_over(sql: Fragment, texts: Fragment, compute: Compute, known: pa.DataType, rest: Rest) -> Fragment:
    """Lets a scan parse texts (:func:`parse_by_scan`); texts left over are NULL in ``compute``."""
    return parse_by_scan(sql, texts, partial(_leave_over_nulls, compute), known, rest)


def _leave_over_nulls(compute: Compute, texts: pa.Array) -> pa.Array:
    known = compute(texts)
    is_odd = pc.and_(pc.is_null(known), pc.is_valid(texts)) if known.null_count > texts.null_count else None
    return split_known_values(known, texts, np.zeros(len(texts), bool) if is_odd is None else np.asarray(is_odd))


def split_known_values(known: pa.Array, texts: pa.Array, is_odd: np.ndarray) -> pa.Array:
    """Returns a struct of the known values and the texts that are left over for DuckDB."""
    odd = pa.nulls(len(texts), pa.string())
    if is_odd.any():
        odd = pc.if_else(pa.array(is_odd), texts, pa.scalar(None, pa.string()))
    return pa.StructArray.from_arrays([known, odd], ["known", "odd"])


@dataclass(frozen=True, slots=True, eq=False)
class ScanComputation:
    """A computation over columns, by their names, and over other computations."""

    inputs: tuple[str | ScanComputation, ...]
    compute: Compute
    result: pa.DataType
    worth_at: int = 0
    columns: tuple[str, ...] = field(init=False)
    """The names of all columns that it reads, each once."""
    _steps: tuple[ScanComputation, ...] = field(init=False, repr=False)
    """All computations that it needs and itself, each after its inputs."""
    _worth_at: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns: dict[str, None] = {}
        steps: dict[ScanComputation, None] = {}
        for given in self.inputs:
            if isinstance(given, ScanComputation):
                columns.update(dict.fromkeys(given.columns))
                steps.update(dict.fromkeys(given._steps))
            else:
                columns[given] = None
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "_steps", (*steps, self))
        known = [step.worth_at for step in self._steps if step.worth_at]
        object.__setattr__(self, "_worth_at", min(known, default=0))

    def type_of(self, stored: Mapping[str, pa.DataType]) -> pa.DataType:
        """Returns the type of the result of :meth:`of` for columns of the given types."""
        stays = len(self.columns) == 1 and pa.types.is_dictionary(stored[self.columns[0]])
        return pa.dictionary(pa.int32(), pa.string()) if stays and pa.types.is_string(self.result) else self.result

    def of(self, *given: pa.Array) -> pa.Array:
        """Computes the value from ``columns``.

        For a dictionary only the distinct values are computed, and texts stay a dictionary.
        """
        if len(given) == 1 and pa.types.is_dictionary(given[0].type):
            values = self.of(given[0].dictionary)
            if pa.types.is_string(self.result):
                return pa.DictionaryArray.from_arrays(given[0].indices, values, safe=False)
            return values.take(given[0].indices)
        if len(given) == 1 and self._worth_at:
            different = _encode_repeats(given[0], self._worth_at)
            if different is not None:
                return self.of(different.dictionary).take(different.indices)
        plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in given]
        rows, size = len(plain[0]), _rows_at_once(plain)
        pieces = [
            self.of_plain([array.slice(begin, size) for array in plain]) for begin in range(0, max(1, rows), size)
        ]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def of_plain(self, given: Sequence[pa.Array]) -> pa.Array:
        """Computes the value at once from ``columns`` that are not dictionaries."""
        known: dict[str | ScanComputation, pa.Array] = dict(zip(self.columns, given, strict=True))
        for step in self._steps:
            known[step] = step.compute(*[known[value] for value in step.inputs])
        return known[self]


def _encode_repeats(array: pa.Array, times: int) -> pa.DictionaryArray | None:
    """Returns texts that repeat ``times`` times, or 8-bit numbers, as a dictionary; else ``None``."""
    if len(array) < _LEAST_ROWS:
        return None
    if array.type in _FEW_NUMBERS:
        return array.dictionary_encode()
    if not pa.types.is_string(array.type):
        return None
    sample = array.slice(0, _SAMPLE_ROWS)
    if len(pc.unique(sample)) * times > len(sample):
        return None
    found = array.dictionary_encode()
    return found if len(found.dictionary) * max(times, _ROWS_PER_TEXT) <= len(array) else None


def _rows_at_once(arrays: Sequence[pa.Array]) -> int:
    elements = max([len(array.values) if pa.types.is_list(array.type) else 0 for array in arrays])
    share = _ELEMENTS_AT_ONCE * max(1, len(arrays[0])) // max(1, elements)
    return min(_ROWS_AT_ONCE, max(1, share))
