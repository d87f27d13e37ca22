"""Strings and enums in queries."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pyarrow as pa

from parts.types import (
    BoolType,
    DataType,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    StringType,
    strip_nullable,
)
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.scalars.scalar import DayType, Scalar, TimeType, counted, find_scalar, register
from sql.typing.texts.usual_address_texts import widen_fixed_strings
from sql.typing.texts.value_texts import fixed_string_of_text
from sql.typing.times.date_ranges import wrap_day, wrap_seconds
from sql.typing.typed_expressions import STRING, Typed, cast, string_literal


class StringScalar(Scalar[StringType]):
    """``String``."""

    has_key_constants: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: StringType, zone: str) -> Fragment:
        return value.number

    def quoted_text(self, text: Fragment) -> Fragment:
        return fragment("'''' || pando_quoted({}) || ''''", text)

    def from_text(self, value: Typed, sql: Fragment, type_: StringType, zone: str) -> Fragment:
        return sql


class FixedStringScalar(Scalar[FixedStringType]):
    """``FixedString(N)``."""

    is_null_if_misspelled: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: FixedStringType, zone: str) -> Fragment:
        return fragment("pando_fixed_text({})", value.number)

    def from_text(self, value: Typed, sql: Fragment, type_: FixedStringType, zone: str) -> Fragment:
        given = strip_nullable(value.type)
        if isinstance(given, FixedStringType) and given.length < type_.length:
            longer = fragment("({} || unhex(repeat('00', {})))", value.sql, type_.length - given.length)
            return Scannable(longer, value.sql, partial(widen_fixed_strings, type_.length), pa.binary())
        return fixed_string_of_text(sql, type_.length)

    def from_text_or_null(
        self, value: Typed, sql: Fragment, type_: FixedStringType, zone: str, *, basic: bool
    ) -> Fragment:
        return fragment(
            "pando_to_fixed(CASE WHEN octet_length(encode({sql})) <= {length} THEN {sql} END, {length})",
            sql=sql,
            length=type_.length,
        )

    def cast_from(self, value: Typed, source: DataType, type_: FixedStringType, zone: str) -> Fragment | None:
        scalar = find_scalar(source)
        if scalar is None or not isinstance(source, (BoolType, EnumType)):
            return None
        text = scalar.to_text(value, source, zone)
        return self.from_text(Typed(text, STRING), text, type_, zone)


class EnumScalar(Scalar[EnumType]):
    """``Enum8`` and ``Enum16``, which are their numbers."""

    has_key_constants: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: EnumType, zone: str) -> Fragment:
        arms = [fragment("WHEN {} THEN {}", number, string_literal(name)) for name, number in type_.values]
        return fragment("(CASE {} {} END)", value.number, join_fragments(" ", arms))

    def from_text(self, value: Typed, sql: Fragment, type_: EnumType, zone: str) -> Fragment:
        arms = [fragment("WHEN {} THEN {}", string_literal(name), number) for name, number in type_.values]
        unknown = string_literal(f" of type {type_.name}")
        failure = fragment("error('pando:691:Unknown element ' || {} || {})", sql, unknown)
        known = join_fragments(" ", arms)
        return cast(fragment("CASE {} {} WHEN NULL THEN NULL ELSE {} END", sql, known, failure), type_)

    def compared_number(self, value: Typed, type_: EnumType, beside: DataType) -> Typed | None:
        number = IntegerType(type_.bits, True)
        return None if isinstance(beside, DecimalType) else counted(self.to_integer(value, type_, number), number)

    def to_integer(self, value: Typed, type_: EnumType, goal: IntegerType) -> Fragment | None:
        return wrap_integer(value.sql, IntegerType(type_.bits, True), goal)

    def to_real(self, value: Typed, type_: EnumType, goal: FloatType | DecimalType) -> Fragment | None:
        return cast(value.sql, goal) if isinstance(goal, FloatType) else None

    def to_day(self, value: Typed, type_: EnumType, goal: DayType, zone: str) -> Fragment | None:
        number = fragment("CAST({} AS BIGINT)", value.sql)
        if isinstance(goal, DateType):
            return wrap_day(number)
        return fragment("(DATE '1970-01-01' + CAST({} AS INTEGER))", number)

    def to_instant(self, value: Typed, type_: EnumType, goal: TimeType, zone: str) -> Fragment | None:
        is_narrow = isinstance(goal, DateTimeType)
        return wrap_seconds(fragment("CAST({} AS BIGINT)", value.sql)) if is_narrow else None

    def cast_from(self, value: Typed, source: DataType, type_: EnumType, zone: str) -> Fragment | None:
        return _to_enum(value, source, type_)


def _to_enum(value: Typed, source: DataType, goal: EnumType) -> Fragment | None:
    if isinstance(source, EnumType):
        names = dict(source.values)
        numbers = {names[name]: number for name, number in goal.values if name in names}
        arms = join_fragments(" ", [fragment("WHEN {} THEN {}", old, new) for old, new in numbers.items()])
        return cast(
            fragment(
                "CASE {} {} ELSE error('pando:691:Unknown element of {}') END",
                value.sql,
                arms,
                _escape_quotes(goal.name),
            ),
            goal,
        )
    if not isinstance(source, (IntegerType, FloatType, BoolType)):
        return None
    return bind_value(value.number, "number", lambda number: _number_to_enum(number, source, goal))


def _number_to_enum(sql: Fragment, source: DataType, goal: EnumType) -> Fragment:
    """Converts a number to an Enum; a float loses its fraction, NaN is 0."""
    number = sql if isinstance(source, IntegerType) else fragment("CAST({} AS INTEGER)", sql)
    if isinstance(source, FloatType):
        number = fragment("(CASE WHEN isnan({0}) THEN 0 ELSE TRY_CAST(trunc({0}) AS INTEGER) END)", sql)
    known = join_fragments(" ", [fragment("WHEN {number} THEN {number}", number=number) for _, number in goal.values])
    limit = 1 << (goal.bits - 1)
    within = fragment(f"({{0}} BETWEEN {-limit} AND {limit - 1} OR isnan(CAST({{0}} AS DOUBLE)))", sql)
    return cast(
        fragment(
            "CASE WHEN NOT {within} THEN error('pando:70:Value ' || {sql} || ' cannot be converted to enum type') "
            "ELSE CASE {number} {known} ELSE CASE WHEN {sql} IS NOT NULL "
            "THEN error('pando:691:Unexpected value ' || {sql} || ' in enum') END END END",
            within=within, sql=sql, number=number, known=known,
        ),
        goal,
    )  # fmt: skip


def _escape_quotes(name: str) -> str:
    return name.replace("'", "''")


register(StringScalar(), StringType)
register(FixedStringScalar(), FixedStringType)
register(EnumScalar(), EnumType)
