"""Conversions of texts that give NULL for an invalid text.

They serve the ``…OrNull`` and ``…OrZero`` functions, ``accurateCast…`` and CAST to a Nullable type.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from parts.types import (
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    FixedStringType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    StringType,
    UUIDType,
)
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.texts.address_texts import ipv6_or_null, uuid_or_null
from sql.typing.texts.instant_texts import basic_instant_or_null, instant_or_null, timestamp_ns_of_text
from sql.typing.texts.integer_texts import integer_or_null
from sql.typing.texts.number_columns import decimal_pattern, parse_decimals, parse_floats
from sql.typing.texts.usual_address_texts import parse_ipv4
from sql.typing.texts.value_texts import date_of_text, decimal_of_text, from_text, truncate_second_digits
from sql.typing.typed_expressions import STRING, Typed

SPELLED = (
    IntegerType, FloatType, DecimalType, DateType, Date32Type, DateTimeType, DateTime64Type, UUIDType, IPv4Type,
    IPv6Type, FixedStringType,
)  # fmt: skip
"""The types for which an invalid text gives NULL, not an error."""


def value_or_null(value: Typed, target: DataType, zone: str, *, basic: bool = False) -> Fragment:
    """Converts a String or FixedString, with NULL for an invalid text.

    ``basic``: instants only in the basic spelling.
    """
    sql = value.sql
    if isinstance(value.type, FixedStringType):
        sql = fragment("pando_fixed_text({})", sql)
        if isinstance(target, IntegerType):
            sql = fragment("coalesce(nullif({}, ''), '0')", sql)
    match target:
        case DateType() | Date32Type():
            return date_of_text(sql, target, fails=False)
        case DateTimeType() | DateTime64Type():
            return _parse_instant(sql, target, zone, basic=basic)
        case FloatType():
            return Scannable(_parse_float(sql, target), sql, partial(parse_floats, bits=target.bits), target.arrow)
        case DecimalType():
            known = pa.decimal128(target.precision, target.scale)
            return Scannable(_parse_decimal(sql, target), sql, partial(parse_decimals, goal=target), known, worth_at=2)
        case IntegerType():
            return integer_or_null(sql, target)
        case UUIDType():
            return uuid_or_null(sql)
        case IPv4Type():
            return Scannable(fragment("pando_try_ipv4({})", sql), sql, parse_ipv4, pa.uint32(), worth_at=2)
        case IPv6Type():
            return ipv6_or_null(sql)
        case FixedStringType(length):
            return fragment(
                "pando_to_fixed(CASE WHEN octet_length(encode({sql})) <= {length} THEN {sql} END, {length})",
                sql=sql,
                length=length,
            )
        case StringType():
            return sql
    return from_text(Typed(sql, STRING), target, zone)


def _parse_float(sql: Fragment, target: FloatType) -> Fragment:
    spelled = bind_value(sql, "spelled", lambda v: fragment("pando_float_spelling({})", v))
    return fragment("TRY_CAST({} AS {})", spelled, duckdb_type(target))


def _parse_decimal(sql: Fragment, target: DecimalType) -> Fragment:
    return bind_value(sql, "given", lambda given: _parse_bound_decimal(given, target))


def _parse_bound_decimal(sql: Fragment, target: DecimalType) -> Fragment:
    """Parses a Decimal; digits beyond its scale are cut off, not rounded."""
    spelled = function_call("pando_decimal_spelling", sql)
    plain = decimal_of_text(spelled, target, "TRY_CAST")
    goal = duckdb_type(target)
    fine = fragment("TRY_CAST(trunc(TRY_CAST({} AS DECIMAL(38, 20)), {}) AS {})", spelled, target.scale, goal)
    rounded = fragment("TRY_CAST({} AS {})", spelled, goal)
    with_exponent = fragment("coalesce({}, {})", fine, rounded) if target.scale <= 18 else rounded
    return fragment(
        "(CASE WHEN {sql} = '' OR NOT regexp_full_match({sql}, '{}') THEN NULL "
        "WHEN regexp_matches({sql}, '[eE]') THEN {} ELSE {} END)",
        decimal_pattern(target), with_exponent, plain, sql=sql,
    )  # fmt: skip


def _parse_instant(sql: Fragment, target: DateTimeType | DateTime64Type, zone: str, *, basic: bool) -> Fragment:
    read = basic_instant_or_null if basic else instant_or_null
    fine = isinstance(target, DateTime64Type)
    instant = read(sql, target.timezone or zone, fine=fine)
    if isinstance(target, DateTimeType):
        return instant
    return (
        timestamp_ns_of_text(sql, instant)
        if target.precision > 6
        else truncate_second_digits(instant, target.precision)
    )
