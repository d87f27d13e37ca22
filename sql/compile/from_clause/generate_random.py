"""The table function generateRandom: endless rows of random values of any types.

Every value is made of hashes of the row's number, the column, the position in an array, and the seed. Equal seeds give
equal rows, but not ClickHouse's.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

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
    LowCardinalityType,
    MapType,
    NullableType,
    ScalarType,
    StringType,
    TupleType,
    parse_structure,
)
from sql.compile.compiler_interfaces import FromClauseCompiling
from sql.compile.expressions.constant_numbers import evaluate_row_count
from sql.compile.names.scope import column_sql
from sql.grammar.syntax_tree import Literal, Node, TableFunction
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.typed_expressions import UINT64, tuple_sql

_MAX_ROWS = 9_223_372_036_854_775_807
_MAX_LENGTH = 65_536
_NULL_EVERY = 16


def compile_generate_random(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    """Compiles ``generateRandom(structure[, seed[, max_string_length[, max_array_length]]])``.

    Raises ``UserError`` 36, 42, 48, 69.
    """
    if not 1 <= len(node.args) <= 4:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "generateRandom takes one to four arguments")
    structure = clause.query.constant(clause.rows.compile(node.args[0]))
    if not isinstance(structure, str):
        raise UserError("BAD_ARGUMENTS", "generateRandom needs a structure, a constant text, as its first argument")
    columns = [(name or f"c{place}", type_) for place, (name, type_) in enumerate(parse_structure(structure), 1)]
    given = [_optional_count(clause, arg) for arg in node.args[1:]]
    seed, text_length, array_length = (*given, None, None, None)[:3]
    seed = int(clause.query.environment.now * 1_000_000) if seed is None else seed
    text_length = 10 if text_length is None else text_length
    array_length = 10 if array_length is None else array_length
    if max(text_length, array_length) > _MAX_LENGTH:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"generateRandom: lengths are at most {_MAX_LENGTH}")
    source = clause.add_source(node.alias, columns)
    values = _RandomValues(seed, text_length, array_length)
    made = [
        fragment("{} AS {}", values.value_of(type_, fragment("n")), column_sql(source.number, name))
        for name, type_ in columns
    ]  # fmt: skip
    return fragment("(SELECT {} FROM range({}) AS g(n))", join_fragments(", ", made), _MAX_ROWS)


def _optional_count(clause: FromClauseCompiling, node: Node) -> int | None:
    return None if node == Literal(None) else evaluate_row_count(node, clause.rows, "An argument of generateRandom")


class _RandomValues:
    """A writer of the SQL of random values; each use of randomness has a number of its own."""

    def __init__(self, seed: int, text_length: int, array_length: int) -> None:
        self._seed, self._text_length, self._array_length = seed, text_length, array_length
        self._numbers = itertools.count()

    def _random_bits(self, row: Fragment) -> Fragment:
        """Returns 64 random bits.

        ``row`` is the SQL of a number, or of several separated by commas; each combination has its own bits.
        """
        return fragment("hash({}, {}, {})", row, next(self._numbers), self._seed)

    def _random_below(self, row: Fragment, limit: int) -> Fragment:
        return fragment("CAST({} % {} AS BIGINT)", self._random_bits(row), limit)

    def value_of(self, type_: DataType, row: Fragment) -> Fragment:
        """Returns the SQL of a random value of a type. Raises ``UserError`` 48 for unsupported types."""
        match type_:
            case NullableType(inner):
                return fragment(
                    "CASE WHEN {} <> 0 THEN {} END", self._random_below(row, _NULL_EVERY), self.value_of(inner, row)
                )
            case LowCardinalityType(inner):
                return self.value_of(inner, row)
            case ArrayType(inner):
                return self._random_list(inner, row)
            case MapType(key, value):
                return self._random_list(TupleType((("key", key), ("value", value))), row)
            case TupleType(elements):
                return tuple_sql(type_, (self.value_of(inner, row) for _, inner in elements))
        return fragment("CAST({} AS {})", self._random_scalar(type_, row), duckdb_type(type_))

    def _random_list(self, inner: DataType, row: Fragment) -> Fragment:
        variable = f"i{next(self._numbers)}"
        element = self.value_of(inner, fragment("{}, {}", row, variable))
        count = self._random_below(row, self._array_length + 1)
        return fragment("list_transform(range({}), lambda {}: {})", count, variable, element)

    def _random_scalar(self, type_: DataType, row: Fragment) -> Fragment:
        match type_:
            case BoolType():
                return fragment("{} = 0", self._random_below(row, 2))
            case FloatType(bits):
                return function_call(f"pando_float{bits}_of_bits", self._random_bits(row))
            case DecimalType(precision, scale) if precision <= 18:
                number = fragment("{} - {}", self._random_below(row, 2 * 10**precision - 1), 10**precision - 1)
                return fragment(
                    "CAST({} AS DECIMAL(19, 0)) * CAST('1e-{scale}' AS DECIMAL({}, {scale}))",
                    number,
                    scale + 1,
                    scale=scale,
                )
            case EnumType():
                numbers = join_fragments(", ", (str(number) for _, number in type_.values))
                return fragment("[{}][{} + 1]", numbers, self._random_below(row, len(type_.values)))
            case StringType():
                return self._random_text(row)
            case DateType():
                return fragment("DATE '1970-01-01' + CAST({} AS INTEGER)", self._random_below(row, 65_536))
            case Date32Type():
                return fragment("DATE '1900-01-01' + CAST({} AS INTEGER)", self._random_below(row, 146_097))
            case DateTimeType():
                return fragment("make_timestamp({} * 1000000)", self._random_below(row, 1 << 32))
            case DateTime64Type(precision):
                return self._random_instant(row, precision)
            case ScalarType(arrow=arrow) if pa.types.is_integer(arrow):
                stored = IntegerType(arrow.bit_width, pa.types.is_signed_integer(arrow))
                return wrap_integer(self._random_bits(row), UINT64, stored)
            case ScalarType(arrow=arrow) if pa.types.is_fixed_size_binary(arrow):
                return self._random_bytes(row, arrow.byte_width)
        raise UserError("NOT_IMPLEMENTED", f"generateRandom makes no values of type {type_}")

    def _random_instant(self, row: Fragment, precision: int) -> Fragment:
        digits = 6 if precision <= 6 else 9
        fine = fragment("{} * {}", self._random_below(row, 10**precision), 10 ** (digits - precision))
        name = "make_timestamp" if digits == 6 else "make_timestamp_ns"
        return fragment("{}({} * {} + {})", name, self._random_below(row, 1 << 32), 10**digits, fine)

    def _random_text(self, row: Fragment) -> Fragment:
        """Returns the SQL of a random text of printable ASCII characters."""
        variable = f"i{next(self._numbers)}"
        letter = self._random_below(fragment("{}, {}", row, variable), 95)
        count = self._random_below(row, self._text_length + 1)
        return fragment(
            "array_to_string(list_transform(range({}), lambda {}: chr(CAST(32 + {} AS INTEGER))), '')",
            count, variable, letter,
        )  # fmt: skip

    def _random_bytes(self, row: Fragment, length: int) -> Fragment:
        variable = f"i{next(self._numbers)}"
        sixteen = fragment("md5(CAST({} AS VARCHAR))", self._random_bits(fragment("{}, {}", row, variable)))
        digits = fragment(
            "array_to_string(list_transform(range({}), lambda {}: {}), '')", -(-length // 16), variable, sixteen
        )
        return fragment("unhex(left({}, {}))", digits, 2 * length)
