"""Scan kernels that search arrays, compare their elements and take parts of them.

They work on ``sql.typing.column_kernels.list_arrays``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    Date32Type,
    DateType,
    FloatType,
    IntegerType,
    NullableType,
    StringType,
)
from sql.typing.column_kernels.list_arrays import (
    MAX_FLAGS,
    ListValues,
    are_far_apart,
    build_lists,
    first_occurrences,
    first_shared_occurrences,
    interleave,
    repeat_positions,
    select_shared_keys,
    value_codes,
)
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import Typed

_MAX_CONSTANTS = 32
_FEW_PAIRS = 4
Each = Callable[[ListValues], pa.Array]


def is_discrete(type_: DataType) -> bool:
    """Tells whether equal values are equal bytes, stored alike in Arrow and DuckDB."""
    return isinstance(_without_nullable(type_), (IntegerType, StringType, DateType, Date32Type))


def is_plain(type_: DataType) -> bool:
    """Tells whether values are stored alike in Arrow and DuckDB."""
    if isinstance(type_, ArrayType):
        return is_plain(type_.inner)
    return is_discrete(type_) or isinstance(_without_nullable(type_), FloatType)


def _without_nullable(type_: DataType) -> DataType:
    return type_.inner if isinstance(type_, NullableType) else type_


def scan_array(
    sql: Fragment, array: Typed, compute: Each, result: pa.DataType, known: Callable[[DataType], bool]
) -> Fragment:
    """Adds the scan kernel ``compute`` to ``sql`` if the array's elements are of a ``known`` type."""
    if not isinstance(array.type, ArrayType) or not known(array.type.inner):
        return sql
    return Scannable(sql, array.sql, lambda given: compute(build_lists(given)), result)


# One value ------------------------------------------------------------------------------------------------------------


def search_array(sql: Fragment, find: str, array: Typed, value: Typed) -> Fragment:
    """Adds a scan kernel for a search in an array to ``sql``, if the types allow one.

    ``find`` is ``any`` (is the value there), ``count`` or ``place`` (its position from 1, or 0).
    """
    if not isinstance(array.type, ArrayType) or not is_discrete(array.type.inner):
        return sql
    finish, result = _SEARCHES[find]
    inner = _without_nullable(array.type.inner)
    if value.is_literal:
        constant = constant_as_element(value, inner)
        if constant is None:
            return sql
        return Scannable(sql, array.sql, lambda given: _search_constant(finish, constant, given), result)
    common = _comparable_type([inner, value.type])
    if common is None or array.type.inner.is_nullable:
        return sql
    return Scannable(sql, (array.sql, value.sql), partial(_search_column, finish, common), result)


def _comparable_type(types: Sequence[DataType]) -> pa.DataType | None:
    """Returns the Arrow type in which values of discrete types can be compared, or ``None``."""
    if not all(is_discrete(type_) and not type_.is_nullable for type_ in types):
        return None
    if len({type(type_) for type_ in types}) > 1:
        return None
    if isinstance(types[0], IntegerType):
        signs = {type_.signed for type_ in types if isinstance(type_, IntegerType)}
        if len(signs) > 1 and any(type_ == IntegerType(64, False) for type_ in types):
            return None
    return supertype(types).arrow


def constant_as_element(value: Typed, type_: DataType) -> pa.Scalar | None:
    """Returns a literal as an Arrow scalar of the type; NULL if the type cannot hold it.

    Returns ``None`` if a scan cannot compare it.
    """
    known = value.value
    if known is None:
        return pa.scalar(None, pa.null())
    if isinstance(known, bool) or isinstance(type_, (DateType, Date32Type)):
        return None
    if isinstance(type_, IntegerType) and isinstance(known, int):
        return pa.scalar(known if type_.minimum <= known <= type_.maximum else None, type_.arrow)
    return pa.scalar(known, pa.string()) if isinstance(type_, StringType) and isinstance(known, str) else None


def _search_constant(
    finish: Callable[[ListValues, np.ndarray], pa.Array], constant: pa.Scalar, given: pa.Array
) -> pa.Array:
    lists = build_lists(given)
    return finish(lists, find_equal(lists.values, constant))


def find_equal(values: pa.Array, constant: pa.Scalar) -> np.ndarray:
    """Returns as NumPy booleans which values equal the constant; NULL equals NULL."""
    if not constant.is_valid:  # NULL equals NULL; a constant that the type cannot hold equals nothing
        if pa.types.is_null(constant.type) and values.null_count:
            return np.asarray(pc.is_null(values))
        return np.zeros(len(values), bool)
    return np.asarray(pc.fill_null(pc.equal(values, constant), False))


def _search_column(
    finish: Callable[[ListValues, np.ndarray], pa.Array], common: pa.DataType, given: pa.Array, wanted: pa.Array
) -> pa.Array:
    lists = build_lists(given)
    repeated = wanted.cast(common).take(pa.array(lists.owners))
    return finish(lists, np.asarray(pc.equal(lists.values.cast(common), repeated)))


def _first_position(lists: ListValues, found: np.ndarray) -> pa.Array:
    numbers = np.flatnonzero(found)[::-1]
    result = np.zeros(len(lists.given), np.int64)
    result[lists.owners[numbers]] = lists.places[numbers] + 1
    return lists.column(result, pa.uint64())


_SEARCHES: dict[str, tuple[Callable[[ListValues, np.ndarray], pa.Array], pa.DataType]] = {
    "any": (lambda lists, found: lists.column(lists.counts(found) > 0, pa.bool_()), pa.bool_()),
    "count": (lambda lists, found: lists.column(lists.counts(found), pa.uint64()), pa.uint64()),
    "place": (_first_position, pa.uint64()),
}


# Several arrays -------------------------------------------------------------------------------------------------------


def has_any_or_all(sql: Fragment, first: Typed, second: Typed, *, needs_all: bool) -> Fragment:
    """Adds a scan kernel for ``hasAny`` or ``hasAll`` of two arrays to ``sql``. NULL equals NULL."""
    common = _comparable_element_type([first, second])
    if common is None:
        return sql
    if second.elements is not None:
        constants = _constant_scalars(second, common)
        if constants is None:
            return sql
        return Scannable(sql, first.sql, partial(_test_constants, needs_all, common, constants), pa.bool_())
    if first.elements is not None:
        return sql
    return Scannable(sql, (first.sql, second.sql), partial(_test_arrays, needs_all, common), pa.bool_())


def _comparable_element_type(arrays: Sequence[Typed]) -> pa.DataType | None:
    """Returns the Arrow type in which the arrays' elements can be compared, or ``None``.

    Elements of the literal ``[]`` fit any type.
    """
    inner = [array.type.inner for array in arrays if isinstance(array.type, ArrayType) and array.elements != ()]
    some = [_without_nullable(type_) for type_ in inner if _without_nullable(type_).name != "Nothing"]
    return _comparable_type(some) if some else None


def _constant_scalars(array: Typed, common: pa.DataType) -> list[pa.Scalar] | None:
    elements = array.elements or ()
    if len(elements) > _MAX_CONSTANTS or not all(element.is_literal for element in elements):
        return None
    if pa.types.is_date(common):
        return None
    known = [element.value for element in elements]
    if any(isinstance(value, (bool, float)) for value in known):
        return None
    return [pa.scalar(value, common if value is not None else pa.null()) for value in dict.fromkeys(known)]


def _test_constants(needs_all: bool, common: pa.DataType, constants: list[pa.Scalar], given: pa.Array) -> pa.Array:
    lists = build_lists(given)
    values = lists.values.cast(common)
    combine = np.logical_and if needs_all else np.logical_or
    result = np.full(len(given), needs_all)
    for constant in constants:
        combine(result, lists.counts(find_equal(values, constant)) > 0, out=result)
    return lists.column(result, pa.bool_())


def _keys(lists: ListValues, coded: np.ndarray, most: int) -> np.ndarray:
    return lists.owners * most + coded


def _test_arrays(needs_all: bool, common: pa.DataType, given: pa.Array, wanted: pa.Array) -> pa.Array:
    """Computes ``hasAny`` or ``hasAll`` of two columns of arrays.

    The values' spread decides how: by comparing pairs, by bit flags of few codes, or by sorted keys.
    """
    lists, others = build_lists(given), build_lists(wanted)
    both = lists.values.cast(common), others.values.cast(common)
    if are_far_apart(both) and lists.lengths @ others.lengths <= _FEW_PAIRS * (len(both[0]) + len(both[1])):
        counted = others.counts(_compare_pairs(lists, others, *map(np.asarray, both)))
        return lists.column(counted == others.lengths if needs_all else counted > 0, pa.bool_())
    (own, sought), most = value_codes(both)
    if most <= MAX_FLAGS:
        known, wanted_flags = lists.flags(own, most), others.flags(sought, most)
        rest = wanted_flags & ~known if needs_all else wanted_flags & known
        return lists.column((rest == 0) == needs_all, pa.bool_())
    found = select_shared_keys(
        _keys(lists, own, most), _keys(others, sought, most), most * len(given), missing=needs_all
    )
    result = np.full(len(given), needs_all)
    result[found // most] = not needs_all
    return lists.column(result, pa.bool_())


def _compare_pairs(lists: ListValues, others: ListValues, own: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """Tells which of the others' values occur in their row's list, comparing all pairs."""
    each = lists.lengths[others.owners]
    ends = np.cumsum(each)
    begins = lists.offsets[:-1][others.owners]
    which = repeat_positions(each)
    compared_with = np.arange(len(which)) + (begins - (ends - each))[which]
    equal = own[compared_with] == sought[which]
    counted = np.concatenate([[0], np.cumsum(equal)])
    return counted[ends] > counted[ends - each]


def intersect_arrays(sql: Fragment, arrays: Sequence[Typed], inner: DataType) -> Fragment:
    """Adds a scan kernel for ``arrayIntersect`` to ``sql``, if the types allow one.

    The result has each common value once, in the order of the first array.
    """
    common = _comparable_element_type(arrays)
    if common is None or arrays[0].elements is not None:
        return sql
    constants = [_constant_scalars(array, common) for array in arrays if array.elements is not None]
    if any(known is None for known in constants):
        return sql
    columns = [array.sql for array in arrays if array.elements is None]
    compute = partial(_intersect, common, [known for known in constants if known is not None])
    return Scannable(sql, columns, lambda *given: compute(given), pa.list_(inner.arrow))


def _intersect(common: pa.DataType, constants: list[list[pa.Scalar]], given: Sequence[pa.Array]) -> pa.Array:
    """Computes ``arrayIntersect`` of columns of arrays and of constant arrays."""
    every = [build_lists(array) for array in given]
    if not all(constants):
        return every[0].like(pa.array([], common), np.zeros(len(given[0]), np.int64))
    coded, most = value_codes([lists.values.cast(common) for lists in every])
    keys = [_keys(lists, own, most) for lists, own in zip(every, coded, strict=True)]
    first = every[0]
    most *= len(given[0])
    kept = np.ones(len(first.values), bool) if keys[1:] else first_occurrences(keys[0], most)
    for others in keys[1:]:
        kept &= first_shared_occurrences(keys[0], others, most)
    values = first.values.cast(common)
    for known in constants:
        found = np.zeros(len(values), bool)
        for constant in known:
            found |= find_equal(values, constant)
        kept &= found
    return ListValues(first.given, values, first.offsets).where(kept)


# One array ------------------------------------------------------------------------------------------------------------


def _mark_first_occurrences(lists: ListValues) -> np.ndarray:
    (own,), most = value_codes([lists.values])
    return first_occurrences(_keys(lists, own, most), most * len(lists.given))


def distinct_elements(lists: ListValues) -> pa.Array:
    """Returns each list's different values, without NULL."""
    kept = _mark_first_occurrences(lists)
    return lists.where(kept & np.asarray(pc.is_valid(lists.values)) if lists.values.null_count else kept)


def count_distinct(lists: ListValues) -> pa.Array:
    """Counts each list's different values; NULL counts as one."""
    (own,), most = value_codes([lists.values])
    if most <= MAX_FLAGS:
        return lists.column(np.bitwise_count(lists.flags(own, most)), pa.uint32())
    return lists.column(lists.counts(_mark_first_occurrences(lists)), pa.uint32())


def compact_elements(lists: ListValues) -> pa.Array:
    """Drops elements that equal the one before them."""
    (own,), _ = value_codes([lists.values])
    kept = np.ones(len(own), bool)
    kept[1:] = own[1:] != own[:-1]
    kept |= lists.places == 0
    return lists.where(kept)


def enumerate_elements(lists: ListValues) -> pa.Array:
    """Returns [1, 2, …, length] for each list."""
    return lists.like(pa.array((lists.places + 1).astype(np.uint32)))


def reverse_elements(lists: ListValues) -> pa.Array:
    """Reverses each list."""
    order = np.repeat(lists.offsets[:-1] + lists.offsets[1:] - 1, lists.lengths) - np.arange(len(lists.values))
    return lists.like(lists.values.take(pa.array(order)))


def drop_first(lists: ListValues) -> pa.Array:
    """Drops each list's first value."""
    return lists.between(np.minimum(lists.lengths, 1), lists.lengths)


def drop_last(lists: ListValues) -> pa.Array:
    """Drops each list's last value."""
    return lists.between(np.zeros(len(lists.given), np.int64), lists.lengths - 1)


def row_arrays(sql: Fragment, elements: Sequence[Typed], inner: DataType) -> Fragment:
    """Adds a scan kernel for ``[…]`` of a row's values to ``sql``; it alone is not worth a column."""
    columns = [element for element in elements if not element.is_literal]
    if not columns or not is_plain(inner) or isinstance(inner, ArrayType) or not all(map(_can_scan, elements)):
        return sql
    type_ = inner.arrow
    constants = [pa.array([element.value], type_) if element.is_literal else None for element in elements]

    def compute(*given: pa.Array) -> pa.Array:
        left, rows = iter(given), len(given[0])
        pieces = [next(left).cast(type_) if known is None else known for known in constants]
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(len(pieces)))
        return pa.ListArray.from_arrays(offsets, interleave(pieces, rows))

    return Scannable(sql, [column.sql for column in columns], compute, pa.list_(type_), is_worth_it=False)


def _can_scan(element: Typed) -> bool:
    if element.is_literal:
        return not isinstance(element.value, bool)
    return is_plain(element.type) and not element.is_condition
