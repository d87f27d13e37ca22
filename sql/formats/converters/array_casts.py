"""Casts a column from one ClickHouse type to another, for INSERT … SELECT or a DEFAULT.

It works as ClickHouse's CAST, but a number that does not fit is refused (321) and not wrapped around. Null stays null
whatever the target: :mod:`sql.definitions.column_defaults` decides what a null in a column that is not Nullable means.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
    strip_nullable,
)
from sql.formats.converters.arrow_type_mapping import (
    decode_utf8,
    enum_names,
    from_arrow_file,
    in_unit,
    list_parts,
)
from sql.formats.converters.invalid_rows import first_invalid_row
from sql.formats.converters.literal_parsing import parse_literals
from sql.formats.converters.text_parsing import pad_fixed, parse_texts
from sql.formats.converters.text_rendering import render_plain
from sql.formats.converters.time_parsing import truncate_fraction, wall_clocks_to_utc
from sql.formats.converters.wall_clocks import to_wall_clock
from sql.formats.format_options import BadValueError, FormatOptions, range_error
from sql.grammar.text_escapes import shorten_for_message

_NUMERIC = (IntegerType, FloatType, DecimalType, BoolType)
_DATES = (DateType, Date32Type)
_TIMES = (DateTimeType, DateTime64Type)
_INT32 = (-(1 << 31), (1 << 31) - 1)


def cast_array(
    array: pa.Array | pa.ChunkedArray, source: DataType, target: DataType, options: FormatOptions | None = None
) -> pa.Array:
    """Casts ``array`` from the storage of ``source`` to that of ``target``.

    Raises ``BadValueError`` and ``UserError`` 53.
    """
    options = options or FormatOptions()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks else pa.nulls(0, array.type)
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks)
    if source == target:
        return array
    if isinstance(target, LowCardinalityType):
        inner = cast_array(_decode_dictionary(array), _without_low_cardinality(source), target.inner, options)
        return pc.dictionary_encode(inner)
    if isinstance(target, NullableType):
        return cast_array(array, source, target.inner, options)
    array, source = _decode_dictionary(array), strip_nullable(source)
    if source == target:
        return array
    if isinstance(source, NothingType):
        return pa.nulls(len(array), target.arrow)
    return _cast(array, source, target, options)


_LIMITS: dict[type[DataType], tuple[pa.DataType, int, int]] = {
    DateType: (pa.int32(), 0, 65535),
    DateTimeType: (pa.int64(), 0, 2**32 - 1),
}


def check_range(array: pa.Array, type_: DataType) -> pa.Array:
    """Returns the array itself if every Date or DateTime is in range.

    Arrow's ranges are wider, and a query may compute what no table may hold. Raises ``BadValueError`` (321).
    """
    limits = _LIMITS.get(type(strip_nullable(type_)))
    if limits is None or not len(array):
        return array
    arrow, low, high = limits
    numbers = pc.cast(_decode_dictionary(array), arrow)
    bounds = pc.min_max(numbers)
    if bounds["min"].is_valid and not low <= bounds["min"].as_py() <= bounds["max"].as_py() <= high:
        index = int(pc.index(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), pa.scalar(True)).as_py())
        raise range_error(index, str(array[index].as_py()), type_)
    return array


def _decode_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _without_low_cardinality(type_: DataType) -> DataType:
    return type_.inner if isinstance(type_, LowCardinalityType) else type_


def _cast(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, FixedStringType) and not isinstance(target, FixedStringType):
        decode_utf8(pc.cast(array, pa.binary()))
    if isinstance(target, StringType):
        text = render_plain(array, source, options)
        return pc.utf8_rtrim(text, "\0") if isinstance(source, FixedStringType) else text
    if isinstance(source, (StringType, FixedStringType)):
        return _from_text(array, source, target, options)
    if isinstance(target, FixedStringType):
        return pad_fixed(pc.cast(render_plain(array, source, options), pa.binary()), target)
    if isinstance(source, EnumType):
        if isinstance(target, EnumType):
            return parse_texts(enum_names(array, source), target, options)
        if isinstance(target, _NUMERIC):
            return _cast(array, IntegerType(source.bits, True), target, options)
    if isinstance(target, _NUMERIC):
        return _to_number(array, source, target)
    if isinstance(target, EnumType) and isinstance(source, IntegerType):
        return from_arrow_file(_to_number(array, source, IntegerType(target.bits, True)), target, options)
    if isinstance(target, _DATES):
        return _to_date(array, source, target, options)
    if isinstance(target, _TIMES):
        return _to_time(array, source, target, options)
    if isinstance(target, (ArrayType, MapType, TupleType)):
        return _to_composite(array, source, target, options)
    return _to_other(array, source, target, options)


def _mismatch_error(source: DataType, target: DataType) -> UserError:
    return UserError("TYPE_MISMATCH", f"Cannot convert {source} to {target}")


def _from_text(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, FixedStringType):
        if isinstance(target, FixedStringType):
            return pad_fixed(pc.cast(array, pa.binary()), target)
        array = pc.utf8_rtrim(render_plain(array, source, options), "\0")
    try:
        if isinstance(target, (ArrayType, MapType, TupleType)):
            return parse_literals(array, target, options)
        return parse_texts(array, target, options)
    except BadValueError as error:
        name = "CANNOT_PARSE_TEXT" if error.name == "CANNOT_PARSE_INPUT_ASSERTION_FAILED" else error.name
        detail = f"Cannot parse string {shorten_for_message(error.text)!r} as {target}"
        raise BadValueError(name, error.index, error.text, detail) from None


def _to_number(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if isinstance(source, _DATES):
        array, source = pc.cast(array, pa.int32()), IntegerType(32, True)
    elif isinstance(source, DateTimeType):
        array, source = pc.cast(array, pa.int64()), IntegerType(64, True)
    elif isinstance(source, DateTime64Type):
        whole = pc.cast(pc.floor_temporal(array, unit="second"), pa.timestamp("s"))
        array, source = pc.cast(whole, pa.int64()), IntegerType(64, True)
    elif isinstance(source, IPv4Type):
        source = IntegerType(32, False)
    if not isinstance(source, _NUMERIC):
        raise _mismatch_error(source, target)
    if isinstance(target, BoolType):
        return pc.not_equal(array, pa.scalar(0).cast(array.type)) if not isinstance(source, BoolType) else array
    if isinstance(source, BoolType):
        array = pc.cast(array, pa.uint8())
    if isinstance(target, DecimalType):
        return _to_decimal(array, source, target)
    if isinstance(target, FloatType):
        return pc.cast(array, target.arrow, safe=False)
    if isinstance(source, (FloatType, DecimalType)):
        array = pc.trunc(array)
    return _checked_cast(array, target)


def _checked_cast(array: pa.Array, target: DataType) -> pa.Array:
    try:
        return pc.cast(array, target.arrow)
    except pa.ArrowInvalid:
        index = first_invalid_row(array, target.arrow)
        raise range_error(index, str(array[index].as_py()), target) from None


def _to_decimal(array: pa.Array, source: DataType, target: DecimalType) -> pa.Array:
    if isinstance(source, FloatType):
        # Rounded toward zero, as in ClickHouse: the scaled number's whole part is the unscaled value.
        scaled = pc.trunc(pc.multiply(pc.cast(array, pa.float64()), float(10**target.scale)))
        unscaled = pc.cast(_checked_cast(scaled, IntegerType(64, True)), pa.decimal128(38, 0))
        wide = pa.Array.from_buffers(
            pa.decimal128(38, target.scale), len(unscaled), unscaled.buffers(), offset=unscaled.offset
        )
        return _checked_cast(wide, target)
    if isinstance(source, DecimalType) and source.scale > target.scale:
        array = pc.cast(array, pa.decimal128(38, target.scale), safe=False)
    elif isinstance(source, IntegerType):
        array = pc.cast(array, pa.decimal128(20, 0))
        if 20 + target.scale <= 38:
            array = pc.cast(array, pa.decimal128(20 + target.scale, target.scale))
    return _checked_cast(array, target)


def _to_date(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, _TIMES):
        array = _to_wall_clock(array, source, options)
        return from_arrow_file(pc.cast(array, pa.date32(), safe=False), target, options)
    if isinstance(source, _DATES):
        return from_arrow_file(array, target, options)
    if isinstance(source, IntegerType):
        if pa.types.is_uint64(array.type):
            array = pc.min_element_wise(array, pa.scalar((1 << 63) - 1, pa.uint64()), skip_nulls=False)
        days = pc.cast(array, pa.int64())
        # A number beyond the last day is seconds since the epoch, as in ClickHouse.
        seconds = pc.cast(pc.floor(pc.divide(days, 86400)), pa.int64())
        days = pc.if_else(pc.greater(days, 65535), seconds, days)
        least, most = (pa.scalar(bound, pa.int64()) for bound in _INT32)
        days = pc.min_element_wise(pc.max_element_wise(days, least, skip_nulls=False), most, skip_nulls=False)
        return from_arrow_file(pc.cast(days, pa.int32()), target, options)
    raise _mismatch_error(source, target)


def _to_wall_clock(array: pa.Array, source: DataType, options: FormatOptions) -> pa.Array:
    assert isinstance(source, (DateTimeType, DateTime64Type))
    zone = source.timezone or options.timezone
    if zone == "UTC":
        return array
    return to_wall_clock(array, zone)


def _to_time(
    array: pa.Array, source: DataType, target: DateTimeType | DateTime64Type, options: FormatOptions
) -> pa.Array:
    if isinstance(source, _DATES):
        midnight = wall_clocks_to_utc(in_unit(array, target), target.timezone or options.timezone)
        return from_arrow_file(midnight, target, options)
    if isinstance(source, _TIMES):
        if isinstance(target, DateTime64Type):
            return truncate_fraction(in_unit(array, target), target)
        return from_arrow_file(pc.cast(pc.floor_temporal(array, unit="second"), target.arrow), target, options)
    if isinstance(source, (IntegerType, FloatType, DecimalType)):
        if isinstance(target, DateTimeType):
            seconds = _to_number(array, source, IntegerType(64, True))
            return from_arrow_file(pc.cast(seconds, target.arrow), target, options)
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[target.unit]
        exact = _to_decimal(array, source, DecimalType(38, digits))
        ticks = pa.Array.from_buffers(pa.decimal128(38, 0), len(exact), exact.buffers(), offset=exact.offset)
        return truncate_fraction(pc.cast(_checked_cast(ticks, IntegerType(64, True)), target.arrow), target)
    raise _mismatch_error(source, target)


def _to_composite(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        offsets, mask, flat = list_parts(array)
        inner = _elements(flat, source.inner, target.inner, offsets, options)
        return pa.ListArray.from_arrays(offsets, inner, type=target.arrow, mask=mask)
    if isinstance(source, MapType) and isinstance(target, MapType):
        offsets, _, flat = list_parts(array)
        keys = _elements(flat.field(0), source.key, target.key, offsets, options)
        values = _elements(flat.field(1), source.value, target.value, offsets, options)
        return pa.MapArray.from_arrays(offsets, keys, values, type=target.arrow)
    if isinstance(source, TupleType) and isinstance(target, TupleType) and len(source.elements) == len(target.elements):
        children = [
            _check_not_null(cast_array(child, old, new, options), new)
            for child, (_, old), (_, new) in zip(array.flatten(), source.elements, target.elements, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(target.arrow))
    raise _mismatch_error(source, target)


def _elements(
    flat: pa.Array, source: DataType, target: DataType, offsets: pa.Array, options: FormatOptions
) -> pa.Array:
    try:
        return _check_not_null(cast_array(flat, source, target, options), target)
    except BadValueError as error:
        row = int(pc.index(pc.greater(offsets, error.index), pa.scalar(True)).as_py()) - 1
        raise error.with_index(row) from None


def _check_not_null(array: pa.Array, target: DataType) -> pa.Array:
    if array.null_count and not target.is_nullable:
        index = int(pc.index(pc.is_null(array), pa.scalar(True)).as_py())
        raise BadValueError("TYPE_MISMATCH", index, "NULL", f"Cannot convert NULL to {target} inside another type")
    return array


def _to_other(array: pa.Array, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    if isinstance(target, IPv4Type) and isinstance(source, IntegerType):
        return _checked_cast(array, IntegerType(32, False))
    if isinstance(target, IPv6Type) and isinstance(source, IPv4Type):
        return parse_texts(render_plain(array, source, options), target, options)
    raise _mismatch_error(source, target)
