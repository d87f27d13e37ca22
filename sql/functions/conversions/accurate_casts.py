"""``accurateCast``, its OrNull and OrDefault variants, and ``toTOrDefault``.

A value that the type does not hold exactly gives an error, NULL or the default.
"""

from __future__ import annotations

from collections.abc import Callable

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
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    StringType,
    TupleType,
    UUIDType,
    make_nullable,
    strip_nullable,
)
from sql.functions.registry import Call, define, function
from sql.typing.casts.casts import cast_to, parse_type_argument, with_source_zone
from sql.typing.casts.text_casts import is_null_if_misspelled, value_or_null
from sql.typing.default_values import default_value
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_number, is_string
from sql.typing.typed_expressions import Typed, cast, float_literal_text, string_literal

# Lowest and highest number that is converted; for Date32 the years 0 to 9999.
_LIMITS: dict[type[DataType], tuple[int, int]] = {
    DateType: (0, 4294967295), DateTimeType: (0, 4294967295), Date32Type: (-719528, 253402300799),
}  # fmt: skip


def cast_exactly_or_null(call: Call, value: Typed, target: DataType) -> Fragment:
    """Returns the SQL of a value in ``target``; NULL where it cannot be converted exactly."""
    source, zone = strip_nullable(value.type), call.environment.zone
    value = Typed(value.number, source)
    if isinstance(source, StringType) and is_null_if_misspelled(target):
        return value_or_null(value, target, zone)
    if isinstance(source, StringType) and isinstance(target, BoolType):
        return fragment("pando_try_bool({})", value.sql)
    if is_number(source) and is_number(target):
        return _cast_number(call, value, target)
    if is_number(source) and type(target) in _LIMITS and not isinstance(source, DecimalType):
        return _cast_counted(value, target, zone)
    if _is_always_null(source, target):
        return cast("NULL", target)
    return cast_to(value, target, zone)


def _is_always_null(source: DataType, target: DataType) -> bool:
    """Tells whether ClickHouse answers NULL for every value of this pair of types.

    Other pairs without a conversion are refused.
    """
    if isinstance(target, (IPv4Type, IPv6Type, UUIDType)):
        return isinstance(source, (IntegerType, FloatType, BoolType))
    if isinstance(source, (ArrayType, MapType, TupleType, UUIDType, IPv4Type, IPv6Type)):
        return isinstance(target, (DecimalType, DateTime64Type, EnumType))
    if isinstance(source, EnumType):
        return isinstance(target, (DecimalType, DateTime64Type))
    return (
        isinstance(target, EnumType)
        and not isinstance(source, (IntegerType, FloatType, BoolType))
        and not is_string(source)
    )


def _cast_counted(value: Typed, target: DataType, zone: str) -> Fragment:
    """Converts a number of days or seconds; NULL for fractions and numbers out of range."""
    low, high = _LIMITS[type(target)]
    if isinstance(value.type, BoolType):
        return cast_to(value, target, zone)
    known = fragment("{} BETWEEN {} AND {}", value.sql, low, high)
    if isinstance(value.type, FloatType):
        known = fragment("{} AND {value} = trunc({value})", known, value=value.sql)
    return fragment("(CASE WHEN {} THEN {} END)", known, cast_to(value, target, zone))


def _cast_number(call: Call, value: Typed, target: DataType) -> Fragment:
    source, sql, engine = value.type, value.sql, duckdb_type(target)
    match source, target:
        case FloatType(), IntegerType():
            template = "(CASE WHEN {0} = trunc({0}) AND {0} >= {1} AND {0} < {2} THEN CAST({0} AS {3}) END)"
            low, high = (float_literal_text(float(border)) for border in (target.minimum, target.maximum + 1))
            return bind_value(sql, "real", lambda v: fragment(template, v, low, high, engine))
        case FloatType(64), FloatType(32):
            return fragment(
                "(CASE WHEN CAST(TRY_CAST({sql} AS FLOAT) AS DOUBLE) = {sql} THEN TRY_CAST({sql} AS FLOAT) END)",
                sql=sql,
            )
        case ((IntegerType() | BoolType()), IntegerType()):
            if isinstance(source, BoolType):
                return fragment("CAST({} AS {})", sql, engine)
            template = "(CASE WHEN {0} BETWEEN {1} AND {2} THEN CAST({0} AS {3}) END)"
            inner = max(source.minimum, target.minimum), min(source.maximum, target.maximum)
            borders = [cast(f"'{border}'", source) for border in inner]
            return bind_value(sql, "whole", lambda v: fragment(template, v, *borders, engine))
        case IntegerType(), FloatType():
            real = cast(sql, target)
            return fragment(
                "(CASE WHEN TRY_CAST({real} AS HUGEINT) = CAST({} AS HUGEINT) THEN {real} END)", sql, real=real
            )
        case DecimalType(), IntegerType():
            whole = fragment("CAST(trunc({}) AS HUGEINT)", sql)
            return cast(
                fragment("pando_checked({}, {}::HUGEINT, {}::HUGEINT)", whole, target.minimum, target.maximum), target
            )
        case _, DecimalType():
            return fragment("TRY({})", cast_to(value, target, call.environment.zone))
    return cast_to(value, target, call.environment.zone)


def _target_type(call: Call) -> DataType:
    target = parse_type_argument(call.args[1], call.name)
    if isinstance(target, LowCardinalityType):
        raise UserError("NOT_IMPLEMENTED", f"{call.name} to {target} is not supported")
    return with_source_zone(target, strip_nullable(call.args[0].type))


@function("accurateCastOrNull", 2, nulls=False)
def accurate_cast_or_null(call: Call) -> Typed:
    """Compiles ``accurateCastOrNull(value, type)``. Raises ``UserError`` 43, 48."""
    target = _target_type(call)
    if isinstance(target, (ArrayType, MapType)):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {target} cannot be inside Nullable type")
    return Typed(cast_exactly_or_null(call, call.args[0], strip_nullable(target)), make_nullable(target))


@function("accurateCast", 2, nulls=False)
def accurate_cast(call: Call) -> Typed:
    """Compiles ``accurateCast(value, type)``; inexact values give error 6 or 70 at run time.

    Raises ``UserError`` 48.
    """
    value, target = call.args[0], _target_type(call)
    if target.is_composite:
        raise UserError("NOT_IMPLEMENTED", f"{call.name} to {target} is not supported")
    code = 6 if is_string(value.type) else 70
    message = f"pando:{code}:Value in column {value.type} cannot be safely converted into type {target}"
    failure = cast(fragment("error({})", string_literal(message)), target)
    exact = fragment("coalesce({}, {})", cast_exactly_or_null(call, value, strip_nullable(target)), failure)
    if not value.type.is_nullable:
        return Typed(exact, target)
    missing = cast("NULL", target)
    if not target.is_nullable:
        missing = cast(fragment("error('pando:349:Cannot convert NULL value to non-Nullable type')"), target)
    return Typed(fragment("(CASE WHEN {} IS NULL THEN {} ELSE {} END)", value.sql, missing, exact), target)


@function("accurateCastOrDefault", (2, 3), nulls=False)
def accurate_cast_or_default(call: Call) -> Typed:
    """Compiles ``accurateCastOrDefault(value, type[, default])``. Raises ``UserError`` 36, 48."""
    return _cast_or_default(call, _target_type(call), 2)


def _cast_or_default(call: Call, target: DataType, position: int) -> Typed:
    """Returns the value in ``target``; the default where it cannot be converted exactly."""
    default = _type_default(target)
    if len(call.args) > position:
        given = call.args[position]
        if given.type != target:
            raise UserError(
                "BAD_ARGUMENTS",
                f"{call.name}: the default must be {target} like the result, not {given.type}: convert it",
            )
        default = given.sql
    return Typed(fragment("coalesce({}, {})", cast_exactly_or_null(call, call.args[0], target), default), target)


def _to_or_default(target: DataType) -> Callable[[Call], Typed]:
    return lambda call: _cast_or_default(call, target, 1)


def _type_default(target: DataType) -> Fragment:
    return fragment("DATE '1900-01-01'") if isinstance(target, Date32Type) else default_value(target)


for _type in (
    *(IntegerType(bits, signed) for bits in (8, 16, 32, 64) for signed in (False, True)),
    FloatType(32), FloatType(64), DateType(), Date32Type(), DateTimeType(), UUIDType(), IPv4Type(), IPv6Type(),
):  # fmt: skip
    define(f"to{_type.name}OrDefault", _to_or_default(_type), (1, 2), nulls=False)
