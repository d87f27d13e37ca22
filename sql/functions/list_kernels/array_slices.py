"""Scan kernels over arrays by position: slices, resized, zipped, flattened and joined arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import ArrayType, DataType, IntegerType, NullableType, StringType
from sql.functions.lambda_bodies import find_text_conversion
from sql.functions.list_kernels.array_search import is_discrete, is_plain
from sql.functions.list_kernels.lambda_results import constant_elements, scan_arrays
from sql.typing.column_kernels.list_arrays import ListValues, build_lists
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.typed_expressions import Typed

_MAX_RESIZED = 100


def slice_arrays(sql: Fragment, array: Typed, start: Typed, size: Typed | None) -> Fragment:
    """Adds a scan kernel for a slice of an array to ``sql``, if the arguments allow one."""
    numbers = [start] if size is None else [start, size]
    if not is_plain(array.type) or not all(map(_is_short, numbers)):
        return sql
    constants = [number.value if number.is_literal else None for number in numbers]

    def compute(given: pa.Array, *columns: pa.Array) -> pa.Array:
        left = iter(columns)
        return _slice(
            build_lists(given), *[np.asarray(next(left), np.int64) if known is None else known for known in constants]
        )

    columns = [number.sql for number in numbers if not number.is_literal]
    return Scannable(sql, (array.sql, *columns), compute, array.type.arrow)


def _is_short(number: Typed) -> bool:
    """Tells whether a number is an integer small enough to be added to positions."""
    if number.is_literal:
        return type(number.value) is int and abs(number.value) < 1 << 32
    return isinstance(number.type, IntegerType) and number.type.bits <= 32


def _slice(lists: ListValues, start: np.ndarray | int, size: np.ndarray | int | None = None) -> pa.Array:
    lengths = lists.lengths
    first = np.where(np.equal(start, 0), lengths, np.where(np.less(start, 0), lengths + start, np.subtract(start, 1)))
    last = lengths if size is None else np.where(np.less(size, 0), lengths + size, first + size)
    return lists.between(np.clip(first, 0, lengths), np.clip(last, 0, lengths))


def resize_arrays(sql: Fragment, array: Typed, size: Typed, fill: object) -> Fragment:
    """Adds a scan kernel for ``arrayResize`` to a literal size to ``sql``, if the types allow one."""
    count = size.value
    inner = array.type.inner if isinstance(array.type, ArrayType) else array.type
    if not is_discrete(inner) or inner.is_nullable or type(count) is not int or not 0 <= count <= _MAX_RESIZED:
        return sql
    if isinstance(inner, IntegerType) and not (isinstance(fill, int) and inner.minimum <= fill <= inner.maximum):
        return sql
    if isinstance(inner, StringType) != isinstance(fill, str):
        return sql

    def compute(given: pa.Array) -> pa.Array:
        lists = build_lists(given)
        values = pa.concat_arrays([lists.values, pa.array([fill], inner.arrow)])
        places = np.arange(count)
        found = np.where(places < lists.lengths[:, None], lists.offsets[:-1, None] + places, len(values) - 1)
        return lists.like(values.take(pa.array(found.ravel())), np.full(len(given), count))

    return Scannable(sql, array.sql, compute, array.type.arrow)


def zip_arrays(sql: Fragment, arrays: Sequence[Typed], inner: Sequence[DataType], name: str) -> Fragment:
    """Adds a scan kernel for ``arrayZip`` to ``sql``, if the types allow one."""
    if not all(map(is_plain, inner)):
        return sql
    names = [str(place) for place in range(1, len(inner) + 1)]

    def compute(lists: Sequence[ListValues], _: Sequence[pa.Array]) -> pa.Array:
        return lists[0].like(pa.StructArray.from_arrays([one.values for one in lists], names))

    result = pa.list_(pa.struct(list(zip(names, [type_.arrow for type_ in inner], strict=True))))
    return scan_arrays(sql, [constant_elements(array) for array in arrays], (), name, compute, result)


def flatten_arrays(lists: ListValues) -> pa.Array:
    """Removes one level of nesting from arrays of arrays."""
    inner = build_lists(lists.values)
    return ListValues(lists.given, inner.values, inner.offsets[lists.offsets]).like(inner.values)


def join_array_texts(sql: Fragment, array: Typed, separator: Typed | None) -> Fragment:
    """Adds a scan kernel for ``arrayStringConcat`` with a literal separator to ``sql``.

    NULL elements are left out. Elements may be texts or numbers.
    """
    between = "" if separator is None else separator.value
    inner = array.type.inner if isinstance(array.type, ArrayType) else array.type
    bare = inner.inner if isinstance(inner, NullableType) else inner
    spell = find_text_conversion(bare)
    if spell is None or not isinstance(between, str):
        return sql

    def compute(given: pa.Array) -> pa.Array:
        lists = build_lists(given)
        if lists.values.null_count:
            lists = build_lists(lists.where(np.asarray(pc.is_valid(lists.values))))
        return pc.binary_join(lists.like(spell(lists.values)), between)

    return Scannable(sql, array.sql, compute, pa.string())
