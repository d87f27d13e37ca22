"""Array functions. Indexes count from 1, from the end if negative; out of range gives the default."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    make_nullable,
    parse_type,
    strip_nullable,
)
from sql.functions import memory_guards
from sql.functions.list_kernels import array_search, array_slices
from sql.functions.list_kernels.array_search import (
    Each,
    intersect_arrays,
    is_discrete,
    is_plain,
    row_arrays,
    scan_array,
)
from sql.functions.maps_and_tuples.maps_and_tuples import make_tuple, map_element, zip_arrays_of_equal_size
from sql.functions.registry import Call, define, function
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.column_kernels.float_bits import bits_to_floats, floats_to_bits
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.result_types import bool_as_integer, is_integer, supertype
from sql.typing.typed_expressions import NOTHING, UINT32, UINT64, Typed, cast


def array_type(call: Call, position: int = 0) -> ArrayType:
    """Returns the argument's Array type without Nullable. Raises ``UserError`` 43."""
    type_ = strip_nullable(call.args[position].type)
    if not isinstance(type_, ArrayType):
        raise call.wrong_type(position, "Array")
    return type_


@function("array", (0, None), nulls=False)
def make_array(call: Call) -> Typed:
    """Compiles ``array(…)`` or ``[…]``. The elements are kept for functions that look at constants."""
    if not call.args:
        return Typed(fragment("CAST([] AS INTEGER[])"), ArrayType(NOTHING), elements=())
    inner = supertype(arg.type for arg in call.args)
    zone = call.environment.zone
    texts = join_fragments(", ", [convert_to_supertype(arg, inner, zone) for arg in call.args])
    return Typed(row_arrays(fragment("[{}]", texts), call.args, inner), ArrayType(inner), elements=call.args)


def _empty_array(inner: DataType) -> Callable[[Call], Typed]:
    type_ = ArrayType(inner)
    return lambda call: Typed(cast("[]", type_), type_)


for _name in (
    "UInt8", "UInt16", "UInt32", "UInt64", "Int8", "Int16", "Int32", "Int64", "Float32", "Float64", "Date", "DateTime",
    "String",
):  # fmt: skip
    define(f"emptyArray{_name}", _empty_array(parse_type(_name)), 0)


@function("emptyArrayToSingle", 1)
def empty_array_to_single(call: Call) -> Typed:
    """Compiles ``emptyArrayToSingle``: an empty array becomes one default value."""
    type_ = array_type(call)
    if type_.inner == NOTHING:
        raise UserError("NOT_IMPLEMENTED", "emptyArrayToSingle has no value for an array of type Nothing")
    value = call.args[0].sql
    single = fragment("[{}]", default_value(type_.inner))
    return Typed(fragment("(CASE WHEN len({}) = 0 THEN {} ELSE {} END)", value, single, value), type_)


@function("replicate", (2, None), nulls=False)
def array_replicate(call: Call) -> Typed:
    """Compiles ``replicate(value, array)``: the value as often as the array has elements."""
    value, array = call.args[:2]
    for position in range(1, len(call.args)):
        if not isinstance(call.args[position].type, ArrayType):
            raise call.wrong_type(position, "Array")
    size = memory_guards.guarded_size(fragment("CAST(len({}) AS BIGINT)", array.sql), _value_bytes(value))
    sql = fragment("list_transform(range({}), lambda n: {})", size, value.sql)
    return Typed(cast(sql, ArrayType(value.type)), ArrayType(value.type))


def _value_bytes(value: Typed) -> Fragment:
    """Returns the SQL of the value's size in bytes."""
    if isinstance(strip_nullable(value.type), (ArrayType, MapType, StringType, TupleType)):
        return fragment("CAST(16 + coalesce(strlen(CAST({} AS VARCHAR)), 0) AS BIGINT)", value.sql)
    return fragment("16")


@function("arrayElement", 2)
def array_element(call: Call) -> Typed:
    """Compiles ``array[index]`` and ``map[key]``. Raises ``UserError`` 43, and 135 for the index 0."""
    value, index = call.args
    if isinstance(value.type, MapType):
        return map_element(call, value, index)
    inner = array_type(call).inner
    if not is_integer(index.type):
        raise call.wrong_type(1, "an integer")
    if index.value == 0:
        raise UserError("ZERO_ARRAY_OR_TUPLE_INDEX", "Array indices are 1-based: 0 is no index")
    found = _extract_element(value, index)
    return Typed(found if inner.is_nullable else fragment("coalesce({}, {})", found, default_value(inner)), inner)


@function("arrayElementOrNull", 2)
def array_element_or_null(call: Call) -> Typed:
    """Compiles ``arrayElementOrNull``: NULL where the index is out of range."""
    return Typed(_extract_element(*call.args), make_nullable(array_type(call).inner))


def _extract_element(array: Typed, index: Typed) -> Fragment:
    """Returns the SQL of an element. An index beyond Int64 finds none."""
    how = "TRY_CAST" if bool_as_integer(strip_nullable(index.type)) == UINT64 else "CAST"
    return fragment(f"list_extract({{}}, {how}({{}} AS BIGINT))", array.sql, index.sql)


@function("range", (1, 3))
def number_range(call: Call) -> Typed:
    """Compiles ``range([start,] end[, step])``, with a memory check for large results."""
    for position, arg in enumerate(call.args):
        if not is_integer(arg.type):
            raise call.wrong_type(position, "an integer")
    inner = supertype(arg.type for arg in call.args)
    numbers = [fragment("CAST({} AS BIGINT)", arg.sql) for arg in call.args]
    if not all(map(_has_few_elements, call.args)):
        numbers = _guarded_range(call.args[0], numbers)
    return Typed(cast(fragment("range({})", join_fragments(", ", numbers)), ArrayType(inner)), ArrayType(inner))


_MAX_UNGUARDED_ELEMENTS = 10_000
"""Ranges up to this many elements need no memory check."""


def _has_few_elements(number: Typed) -> bool:
    if number.is_literal:
        return isinstance(number.value, int) and abs(number.value) <= _MAX_UNGUARDED_ELEMENTS
    return isinstance(number.type, IntegerType) and number.type.bits == 8


_RANGE = memory_guards.SizeLimit(
    "ARGUMENT_OUT_OF_BOUND", 500_000_000, True,
    "A call to function range would produce {size} array elements, "
    "which is greater than the allowed maximum of {maximum}",
)  # fmt: skip
_RESIZE = memory_guards.SizeLimit(
    "TOO_LARGE_ARRAY_SIZE", 1 << 30, False, "Too large array size: {size}, maximum: {maximum}"
)  # fmt: skip


def _guarded_range(first: Typed, numbers: list[Fragment]) -> list[Fragment]:
    if len(numbers) == 1:
        return [memory_guards.guarded_size_for(first, numbers[0], 8, _RANGE)]
    start, end, *step = numbers
    if not step:
        count = memory_guards.guarded_size(fragment("greatest({} - {}, 0)", end, start), 8, _RANGE)
        return [start, fragment("{} + {}", start, count)]
    count = fragment("greatest(({} - {}) // nullif({}, 0) + 1, 0)", end, start, step[0])
    start = fragment("CASE WHEN {} IS NULL THEN NULL ELSE {} END", memory_guards.guarded_size(count, 8, _RANGE), start)
    return [start, end, step[0]]


@function("arrayConcat", (1, None))
def array_concat(call: Call) -> Typed:
    """Compiles ``arrayConcat(…)``."""
    type_ = supertype(array_type(call, position) for position in range(len(call.args)))
    zone = call.environment.zone
    return Typed(_concatenate([convert_to_supertype(arg, type_, zone) for arg in call.args]), type_)


def _concatenate(arrays: list[Fragment]) -> Fragment:
    """Concatenates arrays with ``flatten``; DuckDB's own concatenation takes three times as long."""
    return fragment("flatten([{}])", join_fragments(", ", arrays)) if len(arrays) > 1 else arrays[0]


def _pushed_arguments(call: Call) -> tuple[Fragment, Fragment, ArrayType]:
    inner = supertype([array_type(call).inner, call.args[1].type])
    zone = call.environment.zone
    return (
        convert_to_supertype(call.args[0], ArrayType(inner), zone),
        convert_to_supertype(call.args[1], inner, zone),
        ArrayType(inner),
    )


@function("arrayPushBack", 2, nulls=False)
def array_push_back(call: Call) -> Typed:
    """Compiles ``arrayPushBack(array, value)``."""
    array, value, type_ = _pushed_arguments(call)
    return Typed(_concatenate([array, fragment("[{}]", value)]), type_)


@function("arrayPushFront", 2, nulls=False)
def array_push_front(call: Call) -> Typed:
    """Compiles ``arrayPushFront(array, value)``."""
    array, value, type_ = _pushed_arguments(call)
    return Typed(_concatenate([fragment("[{}]", value), array]), type_)


def _build_same_type(template: str, compute: Each) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        type_ = array_type(call)
        return Typed(
            scan_array(fragment(template, call.args[0].sql), call.args[0], compute, type_.arrow, is_plain), type_
        )

    return build


define("arrayReverse", _build_same_type("list_reverse({})", array_search.reverse_elements), 1)
define("arrayPopBack", _build_same_type("{}[1:-2]", array_search.drop_last), 1)
define("arrayPopFront", _build_same_type("{}[2:]", array_search.drop_first), 1)


@function("arrayFlatten", 1)
def array_flatten(call: Call) -> Typed:
    """Compiles ``arrayFlatten``, which removes one level of nesting."""
    flat, inner = fragment("flatten({})", call.args[0].sql), array_type(call).inner
    if isinstance(inner, ArrayType):
        flat = scan_array(flat, call.args[0], array_slices.flatten_arrays, inner.arrow, is_plain)
    return Typed(flat, inner)


@function("arrayDistinct", 1)
def array_distinct(call: Call) -> Typed:
    """Compiles ``arrayDistinct``: each value once, in order of first appearance, without NULL."""
    inner = array_type(call).inner
    value = floats_to_bits(call.args[0].sql, ArrayType(inner))
    kept = fragment("list_filter({value}, lambda x, i: x IS NOT NULL AND list_position({value}, x) = i)", value=value)
    type_ = ArrayType(inner.inner if isinstance(inner, NullableType) else inner)
    return Typed(
        scan_array(bits_to_floats(kept, type_), call.args[0], array_search.distinct_elements, type_.arrow, is_discrete),
        type_,
    )


@function("arrayUniq", 1)
def array_uniq(call: Call) -> Typed:
    """Compiles ``arrayUniq(array)``: the number of different elements, NULL included."""
    value = floats_to_bits(call.args[0].sql, array_type(call))
    count = fragment("list_unique({})", value)
    if array_type(call).inner.is_nullable:
        has_null = fragment("len(list_filter({}, lambda q: q IS NULL)) > 0", value)
        count = fragment("{} + CASE WHEN {} THEN 1 ELSE 0 END", count, has_null)
    found = cast(fragment("({})", count), UINT32)
    return Typed(scan_array(found, call.args[0], array_search.count_distinct, pa.uint32(), is_discrete), UINT32)


@function("arrayEnumerate", 1)
def array_enumerate(call: Call) -> Typed:
    """Compiles ``arrayEnumerate(array)``: [1, 2, …, length]."""
    array_type(call)
    numbers, type_ = fragment("range(1, len({}) + 1)", call.args[0].sql), ArrayType(UINT32)
    return Typed(
        scan_array(cast(numbers, type_), call.args[0], array_search.enumerate_elements, type_.arrow, is_plain), type_
    )


@function("arraySlice", (2, 3), nulls=False)
def array_slice(call: Call) -> Typed:
    """Compiles ``arraySlice(array, offset[, length])``.

    A NULL offset means the first element, a NULL length all the rest.
    """
    array, *others = call.args
    if array.type.is_nullable:
        return array
    value, type_ = array.sql, array_type(call)
    start = fragment("pando_slice_start({}, len({}))", _slice_bound(others[0], fragment("1")), value)
    if len(others) == 1:
        rest = fragment("list_slice({value}, greatest({}, 1), len({value}))", start, value=value)
        return Typed(array_slices.slice_arrays(rest, array, others[0], None), type_)
    size = _slice_bound(others[1], fragment("4294967296"))
    last = fragment("(CASE WHEN {size} < 0 THEN len({}) + {size} ELSE {} + {size} - 1 END)", value, start, size=size)
    part = fragment("list_slice({}, greatest({}, 1), greatest({}, 0))", value, start, last)
    return Typed(array_slices.slice_arrays(part, array, *others), type_)


def _slice_bound(number: Typed, absent: Fragment) -> Fragment:
    known = fragment("coalesce({}, {})", number.sql, absent) if number.type.is_nullable else number.sql
    return fragment("pando_slice_bound({})", known)


@function("arrayResize", (2, 3))
def array_resize(call: Call) -> Typed:
    """Compiles ``arrayResize(array, size[, fill])``, with a memory check."""
    type_ = array_type(call)
    fill = convert_to_supertype(call.args[2], type_.inner) if len(call.args) > 2 else default_value(type_.inner)
    size = memory_guards.guarded_size_for(call.args[1], fragment("CAST({} AS BIGINT)", call.args[1].sql), 16, _RESIZE)
    known = call.args[2].value if len(call.args) > 2 else type_.inner.default
    sql = fragment("list_resize({}, {}, {})", call.args[0].sql, size, fill)
    return Typed(array_slices.resize_arrays(sql, call.args[0], call.args[1], known), type_)


@function("arrayZip", (1, None))
def array_zip(call: Call) -> Typed:
    """Compiles ``arrayZip(…)``: an array of tuples. Arrays of different sizes give error 190."""
    inner = [array_type(call, position).inner for position in range(len(call.args))]
    parts = [Typed(fragment("z[{}]", position), type_) for position, type_ in enumerate(inner, 1)]
    body = make_tuple(parts)
    arrays = zip_arrays_of_equal_size(call.args, call.name)
    sql = fragment("list_transform({}, lambda z: {})", arrays, body.sql)
    return Typed(array_slices.zip_arrays(sql, call.args, inner, call.name), ArrayType(body.type))


@function("arrayIntersect", (1, None))
def array_intersect(call: Call) -> Typed:
    """Compiles ``arrayIntersect(…)``."""
    type_ = supertype(array_type(call, position) for position in range(len(call.args)))
    first, *others = (floats_to_bits(convert_to_supertype(arg, type_), type_) for arg in call.args)
    text = fragment("list_distinct({})", first)
    for other in others:
        text = fragment("list_intersect({}, {})", text, other)
    assert isinstance(type_, ArrayType)
    return Typed(intersect_arrays(bits_to_floats(text, type_), call.args, type_.inner), type_)
