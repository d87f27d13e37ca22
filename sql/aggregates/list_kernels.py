"""Kernels over lists of collected values: quantiles by position, and the most frequent values.

``list(x)`` costs DuckDB a tenth of sorting the values or of counting them. A vector has one list for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
)
from sql.typing.column_kernels.kernels import Kernel, text_offsets, validity_buffer
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import Typed, cast

_NUMBERS = ("bigint", "ubigint", "double")
_LONG_LIST = 1000
"""Average length from which lists are partitioned one by one, not sorted together."""
_SPARSE_FACTOR = 4
"""Counters per key up to which keys are counted in an array, not by sorting."""
_NARROW_DIGITS = 18
"""Decimals of up to this many digits fit 64-bit integers."""


Collect = Callable[[Fragment], Fragment]
"""Returns the DuckDB aggregate that collects a value in a list."""


def values_at_levels(value: Typed, collect: Collect, levels: Sequence[float]) -> list[Fragment] | None:
    """Returns the values at ``floor(level * n)`` of the sorted values, without NULL and NaN.

    A value is NULL if there are none. Returns ``None`` for a type without a kernel.
    """
    kind = _kernel_kind(value.type)
    if not kind:
        return None
    collected = collect(_as_number(value.sql, value.type))
    numbers = fragment(f"pando_levels_{kind}({{}}, [{', '.join(map(repr, levels))}]::DOUBLE[])", collected)
    return [_from_number(fragment("{}[{}]", numbers, place), value.type) for place in range(1, len(levels) + 1)]


def _kernel_kind(type_: DataType) -> str:
    match type_:
        case IntegerType(_, signed):
            return "bigint" if signed else "ubigint"
        case FloatType():
            return "double"
        case DateType() | Date32Type() | DateTimeType() | DateTime64Type():
            return "bigint"
        case DecimalType(precision, _):
            return "bigint" if precision <= _NARROW_DIGITS else ""
    return ""


def _as_number(value: Fragment, type_: DataType) -> Fragment:
    match type_:
        case DateType() | Date32Type():
            return fragment("CAST({} - DATE '1970-01-01' AS BIGINT)", value)
        case DateTimeType() | DateTime64Type():
            return fragment("epoch_ns({})" if duckdb_type(type_) == "TIMESTAMP_NS" else "epoch_us({})", value)
        case DecimalType(_, scale) if scale:  # integer and fraction are scaled apart: their product may overflow
            rest = fragment("CAST({} % 1 AS DECIMAL({}, {}))", value, scale + 1, scale)
            units = fragment("CAST({} * CAST({} AS DECIMAL({}, 0)) AS BIGINT)", rest, 10**scale, scale + 1)
            return fragment("(CAST(trunc({}) AS BIGINT) * {} + {})", value, 10**scale, units)
    return fragment("CAST({} AS {})", value, _kernel_kind(type_).upper())


def _from_number(number: Fragment, type_: DataType) -> Fragment:
    match type_:
        case DateType() | Date32Type():
            return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", number)
        case DateTimeType() | DateTime64Type():
            maker = "make_timestamp_ns({})" if duckdb_type(type_) == "TIMESTAMP_NS" else "make_timestamp({})"
            return fragment(maker, number)
        case DecimalType(_, scale) if scale:
            unit = "0." + "1".rjust(scale, "0")
            return cast(fragment("({} * CAST('{}' AS DECIMAL({s}, {s})))", number, unit, s=scale), type_)
    return cast(number, type_)


def find_most_frequent(value: Typed, collect: Collect, most: int) -> Fragment | None:
    """Returns the most frequent values, equally frequent ones in ascending order.

    Returns ``None`` for a type without a kernel.
    """
    match value.type:
        case StringType():
            return fragment("pando_frequent_varchar({}, {})", collect(value.sql), most)
        case IntegerType():
            numbers = collect(_as_number(value.sql, value.type))
            return cast(
                fragment(f"pando_frequent_{_kernel_kind(value.type)}({{}}, {{}})", numbers, most), ArrayType(value.type)
            )
    return None


def _known_values(lists: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Returns the values that are neither NULL nor NaN, and the number of each one's list."""
    offsets = text_offsets(lists)
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    owners = np.repeat(np.arange(len(lists)), np.diff(offsets))
    keep = np.asarray(pc.is_valid(values)) if values.null_count else None
    if pa.types.is_floating(values.type):
        known = ~np.isnan(np.asarray(values))
        keep = known if keep is None else keep & known
    if keep is None or keep.all():
        return values, owners
    return values.filter(pa.array(keep)), owners[keep]


def _pick_levels(lists: pa.Array, levels: pa.Array) -> pa.Array:
    """Returns for each list the sorted values at the levels, NULL for a list without values."""
    values, owners = _known_values(lists)
    numbers = np.asarray(values)
    counts = np.bincount(owners, minlength=len(lists))
    begins = np.cumsum(counts) - counts
    width = len(levels[0]) if len(levels) else 0
    given = np.asarray(levels.flatten()).reshape(-1, width) if width else np.empty((len(lists), 0))
    places = np.where(given < 1, given * counts[:, None], counts[:, None]).astype(np.int64)
    places = np.clip(places, 0, np.maximum(counts - 1, 0)[:, None])
    if len(numbers) >= _LONG_LIST * len(lists):
        numbers = numbers.copy()
        for begin, count, wanted in zip(begins.tolist(), counts.tolist(), places, strict=True):
            if count:
                numbers[begin : begin + count].partition(wanted)
    else:
        numbers = numbers[np.lexsort((numbers, owners))]
    found = (begins[:, None] + places).ravel()
    found[found >= len(numbers)] = 0
    chosen = numbers[found] if len(numbers) else np.zeros(len(found), numbers.dtype)
    offsets = pa.py_buffer(np.arange(len(lists) + 1, dtype=np.int32) * np.int32(width))
    return pa.Array.from_buffers(
        pa.list_(values.type), len(lists), [validity_buffer(counts > 0), offsets], children=[pa.array(chosen)]
    )


def _pick_frequent(lists: pa.Array, most: pa.Array) -> pa.Array:
    """Returns for each list its most frequent values, at most ``most``."""
    values, owners = _known_values(lists)
    coded = values.dictionary_encode()
    words = len(coded.dictionary)
    ranks = np.empty(words, np.int64)
    ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(words)
    keys, counts = _count_keys(owners * max(1, words) + ranks[np.asarray(coded.indices)])
    owners = keys // max(1, words)
    order = np.lexsort((keys, -counts, owners))
    owners, keys = owners[order], keys[order]
    first = np.searchsorted(owners, owners)
    kept = np.arange(len(keys)) - first < np.asarray(most)[owners]
    order = np.argsort(ranks)
    chosen = coded.dictionary.take(pa.array(order[keys[kept] % max(1, words)]))
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(np.bincount(owners[kept], minlength=len(lists)), out=offsets[1:])
    nulls = validity_buffer(np.asarray(pc.is_valid(lists))) if lists.null_count else None
    return pa.Array.from_buffers(pa.list_(values.type), len(lists), [nulls, pa.py_buffer(offsets)], children=[chosen])


def _count_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the different keys in order, and how often each occurs."""
    if len(keys) and int(keys[-1]) < _SPARSE_FACTOR * len(keys):  # the last list has the greatest keys
        counts = np.bincount(keys)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(keys, return_counts=True)


_LEVELS = ((f"pando_levels_{kind}", (f"{kind}[]", "DOUBLE[]"), f"{kind}[]") for kind in _NUMBERS)
_FREQUENT = ((f"pando_frequent_{kind}", (f"{kind}[]", "BIGINT"), f"{kind}[]") for kind in ("varchar", *_NUMBERS[:2]))
KERNELS = (*(Kernel(*kind, _pick_levels) for kind in _LEVELS), *(Kernel(*kind, _pick_frequent) for kind in _FREQUENT))
