"""Conversions: CAST, ``toT``, ``toTOrZero``, ``toTOrNull``, Decimals, IP addresses, intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
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
    TupleType,
    UUIDType,
    make_nullable,
    parse_type,
    strip_nullable,
)
from sql.functions.registry import Call, define, function
from sql.grammar.syntax_tree import Literal
from sql.typing.casts.casts import cast_checked, cast_to, parse_type_argument, with_source_zone
from sql.typing.casts.text_casts import value_or_null
from sql.typing.default_values import default_value
from sql.typing.duckdb.sql_fragments import fragment
from sql.typing.result_types import is_date_or_time, is_number, is_string
from sql.typing.texts.address_texts import ipv4_of_text, ipv6_of_text, uuid_of_text
from sql.typing.texts.integer_texts import parse_constant_integer
from sql.typing.typed_expressions import BOOL, NOT_LITERAL, STRING, UINT32, IntervalType, Typed, cast, string_literal

_INTEGERS = [IntegerType(bits, signed) for bits in (8, 16, 32, 64) for signed in (False, True)]


@function("CAST _CAST", 2, nulls=False)
def cast_exact(call: Call) -> Typed:
    """Compiles ``CAST(x AS T)``. A NULL in a T that is not Nullable is an error."""
    value, target = call.args[0], parse_type_argument(call.args[1], "CAST")
    return explicit_cast(call, value, target)


def explicit_cast(call: Call, value: Typed, target: DataType) -> Typed:
    """Converts a value to ``target`` as CAST does; integer and decimal literals are folded."""
    target = with_source_zone(target, strip_nullable(value.type))
    if value.type == target:
        return value
    if isinstance(strip_nullable(target), (IntegerType, FloatType)) and isinstance(value.value, int):
        bare = strip_nullable(target)
        if isinstance(bare, FloatType) or bare.minimum <= value.value <= bare.maximum:  # type: ignore[attr-defined]
            return Typed(cast(str(int(value.value)), bare), target, value.value)
    if isinstance(value.value, str) and isinstance(bare := strip_nullable(target), IntegerType):
        known = parse_constant_integer(value.value, bare)
        if known is not None and (not target.is_nullable or known == int(value.value)):
            return Typed(cast(str(known), bare), target, known)
    if isinstance(strip_nullable(target), DecimalType) and value.is_literal and call.node is not None:
        value = _literal_digits(call, value)
    return Typed(cast_checked(value, target, call.environment.zone), target)


def _literal_digits(call: Call, value: Typed) -> Typed:
    """Returns a float literal as the text that was written.

    ``1.1::Decimal(9, 2)`` takes these digits, not those of the nearest float.
    """
    node = call.node.args[0] if call.node is not None else None
    if isinstance(node, Literal) and node.text and isinstance(node.value, float) and "e" not in node.text.lower():
        return Typed(string_literal(node.text.replace("_", "")), STRING, node.text, True)
    return value


@function("toString", (1, 2))
def to_string(call: Call) -> Typed:
    """Compiles ``toString(value[, timezone])``. Raises ``UserError`` 43."""
    value = call.args[0]
    if len(call.args) == 2:
        zone = call.constant_zone(1)
        if isinstance(value.type, DateTimeType):
            value = replace(value, type=DateTimeType(zone))
        elif isinstance(value.type, DateTime64Type):
            value = replace(value, type=DateTime64Type(value.type.precision, zone))
        else:
            raise call.wrong_type(0, "DateTime")
    return Typed(cast_to(value, STRING, call.environment.zone), STRING)


def _convert(call: Call, value: Typed, target: DataType, zone: str) -> Typed:
    """Converts a value; an invalid text in a Nullable gives NULL."""
    if call.is_nullable and is_string(value.type):
        return Typed(value_or_null(value, target, zone), target)
    return Typed(cast_to(value, target, zone), target)


def _build_conversion(target: DataType) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        zone = call.constant_zone(1)
        if zone is not None and isinstance(value.type, DateTimeType):
            value = replace(value, type=DateTimeType(zone))
        elif zone is not None and isinstance(value.type, DateTime64Type):
            value = replace(value, type=DateTime64Type(value.type.precision, zone))
        known = value.value if type(value.value) is int else None
        if isinstance(target, IntegerType) and known is not None and target.minimum <= known <= target.maximum:
            return Typed(cast(str(value.value), target), target, value.value)
        if isinstance(target, FloatType) and isinstance(value.value, (int, float)) and abs(value.value) < 1e38:
            return Typed(cast(value.sql, target), target)
        return _convert(call, value, target, zone or call.environment.zone)

    return build


def _build_conversion_or(target: DataType, kind: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if not is_string(value.type):
            raise call.wrong_type(0, "String")
        parsed = value_or_null(value, target, call.environment.zone, basic=True)
        if kind == "Null":
            return Typed(parsed, make_nullable(target))
        default = "DATE '1900-01-01'" if isinstance(target, Date32Type) else default_value(target)
        return Typed(fragment("coalesce({}, {})", parsed, default), target)

    return build


for _type in [*_INTEGERS, FloatType(32), FloatType(64)]:
    define(f"to{_type.name}", _build_conversion(_type), 1)
    for _kind in ("Zero", "Null"):
        define(f"to{_type.name}Or{_kind}", _build_conversion_or(_type, _kind), 1)
for _type, _name in (
    (DateType(), "Date"),
    (UUIDType(), "UUID"),
    (Date32Type(), "Date32"),
    (IPv4Type(), "IPv4"),
    (IPv6Type(), "IPv6"),
):
    for _kind in ("Zero", "Null"):
        define(f"to{_name}Or{_kind}", _build_conversion_or(_type, _kind), 1)
define("toDate DATE", _build_conversion(DateType()), (1, 2))
define("toDate32", _build_conversion(Date32Type()), 1)
define("toBool", _build_conversion(BOOL), 1)
define("toUUID", _build_conversion(UUIDType()), 1)
define("toIPv4", _build_conversion(IPv4Type()), 1)
define("toIPv6", _build_conversion(IPv6Type()), 1)


@function("toDateTime timestamp", (1, 2))
def to_date_time(call: Call) -> Typed:
    """Compiles ``toDateTime(value[, timezone])``."""
    zone = call.constant_zone(1)
    value = call.args[0]
    if zone is None and isinstance(value.type, (DateTimeType, DateTime64Type)):
        zone = value.type.timezone
    return _convert(call, value, DateTimeType(zone), call.environment.zone)


def _build_date_time_or(kind: str) -> Callable[[Call], Typed]:
    return lambda call: _build_conversion_or(DateTimeType(call.constant_zone(1)), kind)(call)


def _build_date_time64_or(kind: str) -> Callable[[Call], Typed]:
    return lambda call: _build_conversion_or(DateTime64Type(call.constant_precision(1), call.constant_zone(2)), kind)(
        call
    )


for _kind in ("Zero", "Null"):
    define(f"toDateTimeOr{_kind}", _build_date_time_or(_kind), (1, 2))
    define(f"toDateTime64Or{_kind}", _build_date_time64_or(_kind), (2, 3))


@function("toDateTime64", (2, 3))
def to_date_time64(call: Call) -> Typed:
    """Compiles ``toDateTime64(value, precision[, timezone])``."""
    zone = call.constant_zone(2)
    value = call.args[0]
    if zone is None and isinstance(value.type, (DateTimeType, DateTime64Type)):
        zone = value.type.timezone
    type_ = DateTime64Type(call.constant_precision(1), zone)
    return Typed(cast_to(value, type_, call.environment.zone), type_)


@function("toDateTime32", (1, 2))
def to_date_time32(call: Call) -> Typed:
    """Compiles ``toDateTime32``, another name for ``toDateTime``."""
    return to_date_time(call)


@function("toUnixTimestamp", (1, 2))
def to_unix_timestamp(call: Call) -> Typed:
    """Compiles ``toUnixTimestamp(value[, timezone])``. Raises ``UserError`` 43."""
    value = call.args[0]
    zone = call.constant_zone(1) or call.environment.zone
    if is_string(value.type):
        value = _convert(call, value, DateTimeType(), zone)
    if not is_date_or_time(value.type):
        raise call.wrong_type(0, "Date, DateTime or String")
    if isinstance(value.type, (DateType, Date32Type)):
        value = Typed(cast_to(value, DateTimeType(), zone), DateTimeType())
    return Typed(cast_to(value, UINT32, zone), UINT32)


def _decimal_type(call: Call, width: int) -> DecimalType:
    scale = call.constant_int(1)
    if not 0 <= scale <= width:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"Scale {scale} of {call.name} is out of bounds: it is 0 to {width}")
    return DecimalType(width, scale)


def _build_decimal(width: int) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        target = _decimal_type(call, width)
        value = call.args[0]
        if value.is_literal and call.node is not None:
            value = _literal_digits(call, value)
        return _convert(call, value, target, call.environment.zone)

    return build


def _build_decimal_or(width: int, kind: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        return _build_conversion_or(_decimal_type(call, width), kind)(call)

    return build


for _width, _bits in ((9, 32), (18, 64), (38, 128)):
    define(f"toDecimal{_bits}", _build_decimal(_width), 2)
    define(f"toDecimal{_bits}OrNull", _build_decimal_or(_width, "Null"), 2)
    define(f"toDecimal{_bits}OrZero", _build_decimal_or(_width, "Zero"), 2)


@function("toFixedString", 2)
def to_fixed_string(call: Call) -> Typed:
    """Compiles ``toFixedString(text, length)``."""
    type_ = FixedStringType(call.constant_int(1))
    return Typed(cast_to(call.args[0], type_, call.environment.zone), type_)


_NEVER_LOW_CARDINALITY = (ArrayType, MapType, TupleType, DecimalType, EnumType, DateTime64Type, NothingType)


@function("toLowCardinality", 1, nulls=False)
def to_low_cardinality(call: Call) -> Typed:
    """Compiles ``toLowCardinality(value)``. Raises ``UserError`` 43."""
    value = call.args[0]
    if isinstance(strip_nullable(value.type), _NEVER_LOW_CARDINALITY):
        raise call.wrong_type(0, "numbers, strings or times")
    return value if isinstance(value.type, LowCardinalityType) else Typed(value.sql, LowCardinalityType(value.type))


@function("materialize", 1, nulls=False)
def materialize(call: Call) -> Typed:
    """Compiles ``materialize(value)``: the same value, but not known to be constant."""
    return Typed(call.args[0].sql, call.args[0].type)


@function("identity", 1, nulls=False)
def identity(call: Call) -> Typed:
    """Compiles ``identity(value)``: the same value."""
    return Typed(call.args[0].sql, call.args[0].type)


@function("UUIDStringToNum", 1)
def uuid_string_to_num(call: Call) -> Typed:
    """Compiles ``UUIDStringToNum(text)``: a FixedString(16)."""
    return Typed(uuid_of_text(call.args[0].sql), FixedStringType(16))


@function("IPv4NumToString", 1)
def ipv4_text(call: Call) -> Typed:
    """Compiles ``IPv4NumToString(number)``. Raises ``UserError`` 43."""
    if not is_number(call.args[0].type) and not isinstance(call.args[0].type, IPv4Type):
        raise call.wrong_type(0, "UInt32 or IPv4")
    return Typed(cast_to(Typed(call.args[0].sql, IPv4Type()), STRING), STRING)


@function("IPv4StringToNum", 1)
def ipv4_number(call: Call) -> Typed:
    """Compiles ``IPv4StringToNum(text)``."""
    return Typed(ipv4_of_text(call.args[0].sql), UINT32)


@function("IPv6NumToString", 1)
def ipv6_text(call: Call) -> Typed:
    """Compiles ``IPv6NumToString(bytes)``. Raises ``UserError`` 43."""
    if call.args[0].type not in (IPv6Type(), FixedStringType(16)):
        raise call.wrong_type(0, "FixedString(16) or IPv6")
    return Typed(cast_to(Typed(call.args[0].sql, IPv6Type()), STRING), STRING)


@function("IPv6StringToNum", 1)
def ipv6_number(call: Call) -> Typed:
    """Compiles ``IPv6StringToNum(text)``: a FixedString(16)."""
    return Typed(ipv6_of_text(call.args[0].sql), FixedStringType(16))


@function("defaultValueOfTypeName", 1)
def default_of_type_name(call: Call) -> Typed:
    """Compiles ``defaultValueOfTypeName('T')``."""
    type_ = parse_type(call.constant_text(0))
    return Typed(default_value(type_), type_)


@function("defaultValueOfArgumentType", 1, nulls=False)
def default_of_argument(call: Call) -> Typed:
    """Compiles ``defaultValueOfArgumentType(value)``."""
    return Typed(default_value(call.args[0].type), call.args[0].type)


def _build_interval(unit: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if not isinstance(value.type, (IntegerType, FloatType)) and not is_string(value.type):
            raise call.wrong_type(0, "an integer")
        spelled = fragment("trim({})", value.sql) if is_string(value.type) else value.sql
        number = cast(
            fragment("trunc({})", spelled) if isinstance(value.type, FloatType) else spelled, IntegerType(64, True)
        )
        return Typed(number, IntervalType(unit), value.value if isinstance(value.value, int) else NOT_LITERAL)

    return build


for _unit in (
    "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "Day", "Week", "Month", "Quarter", "Year",
):  # fmt: skip
    define(f"toInterval{_unit}", _build_interval(_unit), 1)
