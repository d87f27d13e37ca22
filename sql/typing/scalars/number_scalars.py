"""Integers, floats, Bool and Decimal in queries."""

from __future__ import annotations

import re
from functools import partial
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import (
    BoolType,
    DataType,
    DateTimeType,
    DecimalType,
    FixedStringType,
    FloatType,
    IntegerType,
    strip_nullable,
)
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.integer_conversions import float_to_integer, wrap_integer
from sql.typing.scalars.scalar import DayType, Scalar, TimeType, bits_of_ticks, find_scalar, register, require_match
from sql.typing.texts.float_texts import format_floats
from sql.typing.texts.integer_texts import integer_of_text, integer_or_null, parse_constant_integer
from sql.typing.texts.number_columns import parse_decimals, parse_floats
from sql.typing.texts.text_or_null import decimal_or_null, float_or_null
from sql.typing.texts.value_texts import decimal_of_text, format_decimal, without_exponent
from sql.typing.times.time_casts import (
    decimal_to_instant,
    float_to_instant,
    integer_to_instant,
    number_to_day,
    seconds_to_instant,
)
from sql.typing.typed_expressions import Typed, cast

_REAL = r"[+-]?(\d++\.?\d*+|\.\d++)([eE][+-]?\d++)?|[+-]?(inf|infinity|nan)"
_TRUTH = r"true|false|t|f|yes|no|y|n|on|off|1|0|enable|disable|enabled|disabled"


class IntegerScalar(Scalar[IntegerType]):
    """``UInt8`` to ``Int64``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True
    needs_quotes: ClassVar[bool] = False

    def from_text(self, value: Typed, sql: Fragment, type_: IntegerType, zone: str) -> Fragment:
        known = parse_constant_integer(value.value, type_) if isinstance(value.value, str) else None
        return cast(str(known), type_) if known is not None else integer_of_text(_zero_if_empty(value, sql), type_)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: IntegerType, zone: str, *, basic: bool) -> Fragment:
        return integer_or_null(_zero_if_empty(value, sql), type_)

    def check_constant(self, text: str, type_: IntegerType) -> None:
        require_match(r"[+-]?\d+" if type_.signed else r"\+?\d+", text, type_)

    def to_integer(self, value: Typed, type_: IntegerType, goal: IntegerType) -> Fragment | None:
        if value.is_literal and isinstance(value.value, int) and goal.minimum <= value.value <= goal.maximum:
            return cast(str(value.value), goal)
        return wrap_integer(value.sql, type_, goal)

    def to_real(self, value: Typed, type_: IntegerType, goal: FloatType | DecimalType) -> Fragment | None:
        return cast(value.sql, goal)

    def to_day(self, value: Typed, type_: IntegerType, goal: DayType, zone: str) -> Fragment | None:
        return number_to_day(value.sql, goal, zone, bits=type_.bits, is_float=False)

    def to_instant(self, value: Typed, type_: IntegerType, goal: TimeType, zone: str) -> Fragment | None:
        return integer_to_instant(value.sql, type_.bits, goal)

    def cast_from(self, value: Typed, source: DataType, type_: IntegerType, zone: str) -> Fragment | None:
        scalar = find_scalar(source)
        return scalar.to_integer(value, source, type_) if scalar is not None else None


class FloatScalar(Scalar[FloatType]):
    """``Float32`` and ``Float64``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True
    needs_quotes: ClassVar[bool] = False

    def to_text(self, value: Typed, type_: FloatType, zone: str) -> Fragment:
        sql = value.number
        if type_.bits == 32:
            return bind_value(sql, "real", lambda v: fragment("pando_float32_text({})", v))
        spelled = bind_value(sql, "real", lambda v: fragment("pando_float_text({})", v))
        return Scannable(spelled, sql, format_floats, pa.string())

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: FloatType, zone: str, *, basic: bool) -> Fragment:
        return Scannable(float_or_null(sql, type_), sql, partial(parse_floats, bits=type_.bits), type_.arrow)

    def check_constant(self, text: str, type_: FloatType) -> None:
        has_number = re.match(r"\s*[+-]?\.?\d", text) is not None
        require_match(_REAL, text, type_, "TYPE_MISMATCH" if has_number else "CANNOT_PARSE_NUMBER")

    def memory_bits(self, value: Typed, type_: FloatType) -> Fragment:
        return function_call(f"pando_bits_of_float{type_.bits}", value.sql)

    def to_integer(self, value: Typed, type_: FloatType, goal: IntegerType) -> Fragment | None:
        return float_to_integer(value.sql, goal)

    def to_real(self, value: Typed, type_: FloatType, goal: FloatType | DecimalType) -> Fragment | None:
        if isinstance(goal, DecimalType):
            return _float_to_decimal(value.sql, type_, goal)
        is_narrowed = type_.bits > goal.bits
        return fragment("pando_narrow_float({})", value.sql) if is_narrowed else cast(value.sql, goal)

    def to_day(self, value: Typed, type_: FloatType, goal: DayType, zone: str) -> Fragment | None:
        return number_to_day(value.sql, goal, zone, bits=type_.bits, is_float=True)

    def to_instant(self, value: Typed, type_: FloatType, goal: TimeType, zone: str) -> Fragment | None:
        if isinstance(goal, DateTimeType):
            return seconds_to_instant(fragment("pando_known({})", value.sql))
        return float_to_instant(value.sql, type_, goal)

    def cast_from(self, value: Typed, source: DataType, type_: FloatType, zone: str) -> Fragment | None:
        return _real_of(value, source, type_)


class DecimalScalar(Scalar[DecimalType]):
    """``Decimal(P, S)``."""

    has_key_constants: ClassVar[bool] = True
    is_null_if_misspelled: ClassVar[bool] = True
    needs_quotes: ClassVar[bool] = False

    def to_text(self, value: Typed, type_: DecimalType, zone: str) -> Fragment:
        return format_decimal(value.number, type_) if type_.scale else super().to_text(value, type_, zone)

    def from_text(self, value: Typed, sql: Fragment, type_: DecimalType, zone: str) -> Fragment:
        return decimal_of_text(without_exponent(value, sql), type_)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: DecimalType, zone: str, *, basic: bool) -> Fragment:
        parse = partial(parse_decimals, goal=type_)
        return Scannable(decimal_or_null(sql, type_), sql, parse, type_.arrow, worth_at=2)

    def check_constant(self, text: str, type_: DecimalType) -> None:
        require_match(_REAL, text, type_)

    def memory_bits(self, value: Typed, type_: DecimalType) -> Fragment:
        scale = type_.scale
        ticks = fragment("CAST(CAST({} AS DECIMAL(38, {})) * {} AS BIGINT)", value.sql, scale, 10**scale)
        return bits_of_ticks(ticks, type_)

    def to_integer(self, value: Typed, type_: DecimalType, goal: IntegerType) -> Fragment | None:
        return cast(fragment("trunc({})", value.sql) if type_.scale else value.sql, goal)

    def to_real(self, value: Typed, type_: DecimalType, goal: FloatType | DecimalType) -> Fragment | None:
        is_cut = isinstance(goal, DecimalType) and type_.scale > goal.scale
        return cast(fragment("trunc({}, {})", value.sql, goal.scale) if is_cut else value.sql, goal)  # type: ignore[union-attr]

    def to_instant(self, value: Typed, type_: DecimalType, goal: TimeType, zone: str) -> Fragment | None:
        if isinstance(goal, DateTimeType):
            raise UserError("ILLEGAL_COLUMN", f"Illegal column {type_} of first argument of function toDateTime")
        return decimal_to_instant(value.sql, type_, goal)

    def cast_from(self, value: Typed, source: DataType, type_: DecimalType, zone: str) -> Fragment | None:
        return _real_of(value, source, type_)


class BoolScalar(Scalar[BoolType]):
    """``Bool``."""

    has_key_constants: ClassVar[bool] = True
    needs_quotes: ClassVar[bool] = False

    def from_text(self, value: Typed, sql: Fragment, type_: BoolType, zone: str) -> Fragment:
        return fragment("pando_bool({})", sql)

    def check_constant(self, text: str, type_: BoolType) -> None:
        require_match(_TRUTH, text, type_, "CANNOT_PARSE_BOOL")

    def to_integer(self, value: Typed, type_: BoolType, goal: IntegerType) -> Fragment | None:
        return cast(value.sql, goal)

    def to_real(self, value: Typed, type_: BoolType, goal: FloatType | DecimalType) -> Fragment | None:
        return cast(value.sql, goal)

    def to_day(self, value: Typed, type_: BoolType, goal: DayType, zone: str) -> Fragment | None:
        return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", value.sql)

    def to_instant(self, value: Typed, type_: BoolType, goal: TimeType, zone: str) -> Fragment | None:
        micros = fragment("CAST({} AS BIGINT) * 1000000", value.sql)
        return fragment("CAST(make_timestamp({}) AS {})", micros, duckdb_type(goal))

    def cast_from(self, value: Typed, source: DataType, type_: BoolType, zone: str) -> Fragment | None:
        scalar = find_scalar(source)
        return scalar.to_condition(value, source) if scalar is not None else None


def _real_of(value: Typed, source: DataType, goal: FloatType | DecimalType) -> Fragment | None:
    scalar = find_scalar(source)
    return scalar.to_real(value, source, goal) if scalar is not None else None


def _zero_if_empty(value: Typed, sql: Fragment) -> Fragment:
    """Returns the text; an empty FixedString is 0."""
    is_fixed = isinstance(strip_nullable(value.type), FixedStringType)
    return fragment("coalesce(nullif({}, ''), '0')", sql) if is_fixed else sql


def _float_to_decimal(sql: Fragment, source: FloatType, goal: DecimalType) -> Fragment:
    """Converts a float to a Decimal; digits beyond the scale are cut off."""
    scale = goal.scale
    units = fragment("trunc({} * CAST({} AS {}))", sql, 10**scale, duckdb_type(source))
    if scale > 15:
        return cast(fragment("CAST({} AS DECIMAL(38, 0)) / {}", units, 10**scale), goal)
    unit = fragment("CAST({} AS DECIMAL(16, {}))", f"{10.0**-scale:.{scale}f}", scale)
    short = cast(fragment("(CAST({} AS DECIMAL(22, 0)) * {})", units, unit), goal)
    if goal.precision <= 22:
        return short
    # A float this large has no digits behind the scale, so there is nothing to cut off.
    return fragment("CASE WHEN abs({}) < 1e21 THEN {} ELSE {} END", units, short, cast(sql, goal))


register(IntegerScalar(), IntegerType)
register(FloatScalar(), FloatType)
register(DecimalScalar(), DecimalType)
register(BoolScalar(), BoolType)
