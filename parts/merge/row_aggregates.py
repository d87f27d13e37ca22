"""Aggregates of summing and aggregating modes, over all keys of a block at once.

The rows of a key follow each other; ``starts`` are the positions of their first rows. A column keeps its storage type,
and a result may be an input again: the result of a key's first rows is aggregated with later ones.

Integers and decimals wrap around at their width. Floats are added one after the other in the order of the rows, as
ClickHouse adds them: another order would give other last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from parts.blocks.dictionary_strings import decode_dictionary
from parts.blocks.sort_order import encode_keys, pack_key_codes

_LONG = 64
"""Keys with more rows are summed one by one."""
_Reduce = Callable[[pa.Array, np.ndarray], pa.Array]


def aggregate_groups(function: str, column: pa.ChunkedArray, starts: np.ndarray) -> pa.Array:
    """Returns one value for each key. ``starts`` is not empty.

    ``function`` is one of ``parts.types.simple_aggregate_function``.
    """
    array = _whole(column)
    return _FUNCTIONS[function](array, starts)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pt.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks)


# One of the rows ------------------------------------------------------------------------------------------------------


def _first(array: pa.Array, starts: np.ndarray) -> pa.Array:
    there = _valid(array)
    places = np.minimum.reduceat(np.where(there, np.arange(len(array)), len(array)), starts)
    return array.take(pa.array(np.where(places < len(array), places, starts)))


def _last(array: pa.Array, starts: np.ndarray) -> pa.Array:
    return _at(array, _valid(array), starts)


def _first_row(array: pa.Array, starts: np.ndarray) -> pa.Array:
    return array.take(pa.array(starts))


def _last_row(array: pa.Array, starts: np.ndarray) -> pa.Array:
    return array.take(pa.array(np.append(starts[1:], len(array)) - 1))


def _extreme(array: pa.Array, starts: np.ndarray, extreme: np.ufunc, other: int) -> pa.Array:
    """Returns the least or greatest value of each key. ``other`` is the code of a row without a value."""
    there = _valid(array)
    codes = encode_keys([pa.chunked_array([array])], len(array))[0].codes
    codes = np.where(there, codes, np.uint64(other))
    found = np.repeat(extreme.reduceat(codes, starts), _sizes(starts, len(array)))
    return _at(array, there & (codes == found), starts)


def _at(array: pa.Array, chosen: np.ndarray, starts: np.ndarray) -> pa.Array:
    """Returns the last chosen row of each key, or its first row if none is chosen."""
    places = np.maximum.reduceat(np.where(chosen, np.arange(len(array)), -1), starts)
    return array.take(pa.array(np.where(places >= 0, places, starts)))


def _valid(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _sizes(starts: np.ndarray, rows: int) -> np.ndarray:
    return np.diff(starts, append=rows)


# Numbers --------------------------------------------------------------------------------------------------------------


def _sum(array: pa.Array, starts: np.ndarray) -> pa.Array:
    type_ = array.type
    if pt.is_dictionary(type_):
        return _sum(array.cast(type_.value_type), starts).cast(type_)
    if pt.is_boolean(type_):
        return _sum(array.cast(pa.uint8()), starts).cast(pa.bool_())
    if pt.is_decimal(type_):
        return _decimal_sum(array, starts)
    values = array.fill_null(0).to_numpy() if array.null_count else array.to_numpy()
    is_float = pt.is_floating(type_)
    sums = sum_floats(values, starts) if is_float else np.add.reduceat(values, starts, dtype=values.dtype)
    return pa.array(sums, type_, mask=_all_null(array, starts))


def sum_floats(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns the sums, each added up in the order of the rows, from zero on."""
    sizes = _sizes(starts, len(values))
    sums = np.zeros(len(starts), values.dtype)
    long = np.flatnonzero(sizes > _LONG)
    for place in long:  # at most one in 64 rows
        begin = starts[place]
        sums[place] = np.cumsum(values[begin : begin + sizes[place]])[-1] + 0.0
    sizes = np.where(sizes > _LONG, 0, sizes)
    for turn in range(int(sizes.max(initial=0))):
        active = np.flatnonzero(sizes > turn)
        sums[active] += values[starts[active] + turn]
    return sums


def _decimal_sum(array: pa.Array, starts: np.ndarray) -> pa.Array:
    """Returns sums modulo the width of ClickHouse's integers for such decimals: 32, 64 or 128 bits."""
    nulls = _all_null(array, starts)
    filled = array.fill_null(0) if array.null_count else array
    halves = np.frombuffer(filled.buffers()[1], "<u4", 4 * len(filled), 16 * filled.offset).reshape(-1, 4)
    limbs = [np.add.reduceat(halves[:, n].astype(np.uint64), starts) for n in range(4)]
    words = np.empty((len(starts), 4), np.uint32)
    carry = np.zeros(len(starts), np.uint64)
    for n, limb in enumerate(limbs):
        total = limb + carry
        words[:, n] = total & np.uint64(0xFFFFFFFF)
        carry = total >> np.uint64(32)
    kept = 1 if array.type.precision <= 9 else 2 if array.type.precision <= 18 else 4
    sign = (words[:, kept - 1].view(np.int32) >> 31).view(np.uint32)
    for n in range(kept, 4):
        words[:, n] = sign
    bitmap = None if nulls is None else pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(array.type, len(starts), [bitmap, pa.py_buffer(words)])


def _bits(array: pa.Array, starts: np.ndarray, operation: np.ufunc, neutral: int) -> pa.Array:
    numbers = array.to_numpy() if not array.null_count else array.fill_null(pa.scalar(0, array.type)).to_numpy()
    if array.null_count:
        numbers = np.where(_valid(array), numbers, np.array(neutral).astype(numbers.dtype))
    return pa.array(operation.reduceat(numbers, starts), array.type, mask=_all_null(array, starts))


def _all_null(array: pa.Array, starts: np.ndarray) -> np.ndarray | None:
    return ~np.logical_or.reduceat(_valid(array), starts) if array.null_count else None


# Arrays and maps ------------------------------------------------------------------------------------------------------


def _joined_arrays(array: pa.Array, starts: np.ndarray) -> pa.Array:
    bounds = _element_bounds(array, starts)
    offsets = pa.array((bounds - bounds[0]).astype(np.int32))
    return _lists(array.type, offsets, array.values.slice(bounds[0], bounds[-1] - bounds[0]))


def _unique_elements(array: pa.Array, starts: np.ndarray) -> pa.Array:
    """Returns the distinct elements in the order of first appearance."""
    bounds = _element_bounds(array, starts)
    values = array.values.slice(bounds[0], bounds[-1] - bounds[0])
    groups = np.repeat(np.arange(len(starts)), np.diff(bounds))
    codes = _codes([values], groups)
    _, first = np.unique(codes, return_index=True)
    first.sort()
    return _lists(array.type, _offsets(groups[first], len(starts)), values.take(pa.array(first)))


def sum_maps(columns: Sequence[pa.ChunkedArray], starts: np.ndarray) -> list[pa.Array]:
    """Sums arrays of keys and of one or more values to arrays in key order.

    Values of equal keys are summed; an element whose sums are all zero is removed.
    """
    return _maps([_whole(column) for column in columns], starts, _sum, leaves_out_zeros=True)


def _maps(arrays: Sequence[pa.Array], starts: np.ndarray, reduce: _Reduce, *, leaves_out_zeros: bool) -> list[pa.Array]:
    bounds = [_element_bounds(array, starts) for array in arrays]
    keys, *values = (
        array.values.slice(bound[0], bound[-1] - bound[0]) for array, bound in zip(arrays, bounds, strict=True)
    )
    groups = np.repeat(np.arange(len(starts)), np.diff(bounds[0]))
    if not len(groups):
        empty = pa.array(np.zeros(len(starts) + 1, np.int32))
        return [_lists(array.type, empty, array.values.slice(0, 0)) for array in arrays]
    codes = _codes([keys], groups)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    found = [reduce(value.take(pa.array(order)), firsts) for value in values]
    stays = np.ones(len(firsts), np.bool_)
    if leaves_out_zeros:
        stays = ~np.logical_and.reduce([find_zeros(array) for array in found])
    kept = np.flatnonzero(stays)
    offsets = _offsets(groups[order[firsts[kept]]], len(starts))
    flat = [keys.take(pa.array(order[firsts[kept]])), *(array.take(pa.array(kept)) for array in found)]
    return [_lists(array.type, offsets, elements) for array, elements in zip(arrays, flat, strict=True)]


def _map_value(array: pa.Array, starts: np.ndarray, reduce: _Reduce, leaves_out_zeros: bool) -> pa.Array:
    """Combines a column that is a Tuple(Array, Array …) or a Map."""
    if pt.is_map(array.type):
        lists = [pa.ListArray.from_arrays(array.offsets, elements) for elements in (array.keys, array.items)]
        keys, values = _maps(lists, starts, reduce, leaves_out_zeros=leaves_out_zeros)
        return pa.MapArray.from_arrays(keys.offsets, keys.values, values.values, type=array.type)
    found = _maps(array.flatten(), starts, reduce, leaves_out_zeros=leaves_out_zeros)
    return pa.StructArray.from_arrays(found, fields=list(array.type))


def find_zeros(array: pa.Array) -> np.ndarray:
    """Returns a mask of the values that are their type's default: NULL if there are NULLs, otherwise 0."""
    if array.null_count:
        return ~_valid(array)
    if pt.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pt.is_decimal(array.type):
        halves = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array), 16 * array.offset).reshape(-1, 2)
        return np.asarray((halves == 0).all(axis=1))
    return np.asarray(array.to_numpy(zero_copy_only=False) == 0)


def _element_bounds(array: pa.Array, starts: np.ndarray) -> np.ndarray:
    """Returns where each key's elements begin, and where the last one's end."""
    offsets = array.offsets.to_numpy()
    return np.append(offsets[starts], offsets[len(array)])


def _codes(columns: Sequence[pa.Array], groups: np.ndarray) -> np.ndarray:
    """Returns codes in the order of group and values, equal where both are."""
    rows = len(groups)
    arrays = [pa.chunked_array([decode_dictionary(array)]) for array in (pa.array(groups), *columns)]
    words = pack_key_codes(encode_keys(arrays, rows), rows)
    if len(words) == 1:
        return words[0].codes
    _, ranks = np.unique(np.stack([word.codes for word in words], axis=1), axis=0, return_inverse=True)
    return np.asarray(ranks).reshape(-1)


def _offsets(groups: np.ndarray, count: int) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count)))).astype(np.int32))


def _lists(type_: pa.DataType, offsets: pa.Array, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, values, type=type_)


_smallest = partial(_extreme, extreme=np.minimum, other=(1 << 64) - 1)
_greatest = partial(_extreme, extreme=np.maximum, other=0)
FUNCTIONS_THAT_CHANGE_SINGLE_ROWS = frozenset({"groupUniqArrayArray", "sumMap", "minMap", "maxMap"})
"""Functions that may change even a single value."""
_FUNCTIONS: dict[str, _Reduce] = {
    "any": _first,
    "anyLast": _last,
    "any_respect_nulls": _first_row,
    "anyLast_respect_nulls": _last_row,
    "min": _smallest,
    "max": _greatest,
    "sum": _sum,
    "sumWithOverflow": _sum,
    "groupBitAnd": partial(_bits, operation=np.bitwise_and, neutral=-1),
    "groupBitOr": partial(_bits, operation=np.bitwise_or, neutral=0),
    "groupBitXor": partial(_bits, operation=np.bitwise_xor, neutral=0),
    "groupArrayArray": _joined_arrays,
    "groupUniqArrayArray": _unique_elements,
    "sumMap": partial(_map_value, reduce=_sum, leaves_out_zeros=True),
    "minMap": partial(_map_value, reduce=_smallest, leaves_out_zeros=False),
    "maxMap": partial(_map_value, reduce=_greatest, leaves_out_zeros=False),
}
