"""Compiled expressions: DuckDB SQL (``sql.typing.duckdb.sql_fragments``) with its ClickHouse type.

Invariants:

- ``sql`` can stand anywhere in an expression: it is a call, a cast, a name or in brackets.
- ``sql`` has the DuckDB type of ``type`` (``engine_types.duckdb_type``). Only a *condition*, a UInt8 of comparisons,
  may be a BOOLEAN: ``is_condition`` tells, and ``number`` gives the integer.
- ``sql`` is rendered with its statement, not before.
- ``value`` is the Python value of a literal, or ``NOT_LITERAL``. ``is_constant``: there is no column below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
)
from sql.typing.duckdb.engine_types import duckdb_field_names, duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, Piece, fragment, join_fragments, leaf

NOT_LITERAL: Any = object()
_CAPITAL = re.compile("[A-Z^]")
UINT8 = IntegerType(8, False)
UINT16 = IntegerType(16, False)
UINT32 = IntegerType(32, False)
UINT64 = IntegerType(64, False)
INT8 = IntegerType(8, True)
INT32 = IntegerType(32, True)
INT64 = IntegerType(64, True)
FLOAT32 = FloatType(32)
FLOAT64 = FloatType(64)
STRING = StringType()
BOOL = BoolType()
NOTHING = NothingType()
NULL_TYPE = NullableType(NOTHING)


@dataclass(frozen=True, slots=True)
class IntervalType(DataType):
    """The type of ``INTERVAL 1 DAY``: an Int64 with a unit. It exists only inside queries."""

    unit: str

    @property
    def name(self) -> str:
        return f"Interval{self.unit}"

    @property
    def arrow(self) -> Any:
        return INT64.arrow


def is_query_only_type(type_: DataType) -> bool:
    """Tells whether a type contains intervals or lambdas, which cannot be stored or returned."""
    match type_:
        case IntervalType() | LambdaType():
            return True
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return is_query_only_type(inner)
        case MapType(NothingType()):
            return True
        case MapType(key, value):
            return is_query_only_type(key) or is_query_only_type(value)
        case TupleType(elements):
            return any(is_query_only_type(inner) for _, inner in elements)
    return False


@dataclass(frozen=True, slots=True)
class LambdaType(DataType):
    """The type of ``x -> …``, which only higher-order functions take."""

    @property
    def name(self) -> str:
        return "Function"


@dataclass(frozen=True, slots=True)
class Typed:
    """A compiled expression: DuckDB SQL with its ClickHouse type, and what is known about its value."""

    sql: Fragment
    type: DataType
    value: Any = NOT_LITERAL
    is_constant: bool = False
    is_condition: bool = False
    elements: tuple[Typed, ...] | None = None
    """The parts of a ``tuple(…)`` or ``array(…)`` written in place."""
    apply: Callable[[list[Typed]], Typed] | None = None
    """For lambdas: compiles the body for given arguments."""

    @property
    def is_literal(self) -> bool:
        """Whether the value is a literal."""
        return self.value is not NOT_LITERAL

    @property
    def number(self) -> Fragment:
        """The SQL as a value of the DuckDB type, never a BOOLEAN for a UInt8."""
        return fragment("CAST({} AS UTINYINT)", self.sql) if self.is_condition else self.sql

    @property
    def plain(self) -> Typed:
        """The same expression with ``number`` as its SQL."""
        return replace(self, sql=self.number, is_condition=False) if self.is_condition else self

    @property
    def condition(self) -> Fragment:
        """The SQL as a BOOLEAN that is true where the value is not zero."""
        if self.is_condition or isinstance(_without_nullable(self.type), BoolType):
            return self.sql
        if isinstance(_without_nullable(self.type), NothingType):
            return fragment("CAST(NULL AS BOOLEAN)")
        return fragment("({} <> 0)", self.sql)


def _without_nullable(type_: DataType) -> DataType:
    from parts.types import strip_nullable

    return strip_nullable(type_)


def string_literal(value: str) -> Fragment:
    """Returns a DuckDB string literal."""
    return leaf(string_literal_text(value))


def string_literal_text(value: str) -> str:
    """Returns the text of a DuckDB string literal, for statements written as one text."""
    if "\0" in value:
        return "(" + " || chr(0) || ".join(map(string_literal_text, value.split("\0"))) + ")"
    return "'" + value.replace("'", "''") + "'"


def quote_identifier(name: str) -> str:
    """Returns a DuckDB identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache(4096)
def column_label(number: int, name: str) -> str:
    """Returns DuckDB's name of a column of source ``number``.

    A mark before each capital letter keeps names apart that differ only in case: DuckDB ignores the case of ASCII
    letters.
    """
    return f"{number}." + _CAPITAL.sub(r"^\g<0>", name)


def tuple_sql(type_: TupleType, parts: Iterable[Fragment]) -> Fragment:
    """Returns the SQL of a tuple with these elements."""
    named = [
        fragment("{} := {}", quote_identifier(name), part)
        for name, part in zip(duckdb_field_names(type_), parts, strict=True)
    ]
    return fragment("struct_pack({})", join_fragments(", ", named))


def element_sql(value: Piece, position: int) -> Fragment:
    """Returns the SQL of a tuple's element, counted from 1."""
    return fragment("struct_extract_at({}, {})", value, position)


def cast(sql: Piece, type_: DataType) -> Fragment:
    """Returns the SQL of a DuckDB cast to the type."""
    return fragment("CAST({} AS {})", sql, duckdb_type(type_))


def literal(value: object, written: str = "") -> Typed:
    """Returns a constant with ClickHouse's type: the narrowest integer, Float64, String, Bool or NULL."""
    if value is None:
        return Typed(fragment("NULL"), NULL_TYPE, None, True)
    if isinstance(value, bool):
        return Typed(fragment("true" if value else "false"), BOOL, value, True)
    if isinstance(value, int):
        type_ = integer_literal_type(value)
        return Typed(cast(str(value), type_), type_, value, True)
    if isinstance(value, float):
        return Typed(float_literal_text(value), FLOAT64, value, True)
    assert isinstance(value, str)
    return Typed(string_literal(value), STRING, value, True)


def float_literal_text(value: float) -> Fragment:
    """Returns the SQL of a Float64 literal."""
    digits = repr(value)
    if value != value or value in (float("inf"), float("-inf"), 0):
        return fragment("CAST('{}' AS DOUBLE)", digits)
    # With an exponent DuckDB reads a DOUBLE at once, without it a decimal that is rounded a second time.
    return fragment("CAST({} AS DOUBLE)", digits if "e" in digits else digits + "e0")


def integer_literal_type(value: int) -> IntegerType:
    """Returns the narrowest integer type of a literal, unsigned unless it is negative.

    Raises ``ValueError`` for more than 64 bits.
    """
    for bits in (8, 16, 32, 64):
        type_ = IntegerType(bits, value < 0)
        if type_.minimum <= value <= type_.maximum:
            return type_
    raise ValueError(value)
