"""Parse ClickHouse type names with aliases and arguments. Errors name position and expectation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from parts.common.errors import UserError
from parts.types.composites import ArrayType, LowCardinalityType, MapType, NullableType, TupleType
from parts.types.data_type import DataType
from parts.types.missing_types import refuse_missing
from parts.types.scalars import (
    BoolType,
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
    NothingType,
    StringType,
    UUIDType,
)
from parts.types.simple_aggregate_function import check_simple_aggregate
from parts.types.type_aliases import ALIASES, SIGNED
from parts.types.type_cursor import TypeCursor

_SIMPLE: dict[str, DataType] = {
    **{f"UInt{bits}": IntegerType(bits, False) for bits in (8, 16, 32, 64)},
    **{f"Int{bits}": IntegerType(bits, True) for bits in (8, 16, 32, 64)},
    "Float32": FloatType(32),
    "Float64": FloatType(64),
    "Bool": BoolType(),
    "String": StringType(),
    "Date": DateType(),
    "Date32": Date32Type(),
    "UUID": UUIDType(),
    "IPv4": IPv4Type(),
    "IPv6": IPv6Type(),
    "Nothing": NothingType(),
}
_COLUMN_WORDS = frozenset({"DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "CODEC", "COMMENT", "TTL"})
_MOST_LEVELS = 60
"""Levels of nested types. Arrow accepts 64 from another library. A Map is two levels: its pairs are a type too."""
_DECIMAL_WIDTHS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38}


def parse_type(text: str) -> DataType:
    """Parses a ClickHouse type name, also aliases (``INT``, ``VARCHAR(10)``, ``DOUBLE``).

    Raises ``UserError`` 50 (UNKNOWN_TYPE), 62 (SYNTAX_ERROR), 48 (NOT_IMPLEMENTED), or 43 for illegal nesting.
    """
    parser = TypeParser(text)
    result = parser.type()
    parser.expect_end()
    return result


def parse_structure(text: str) -> tuple[tuple[str | None, DataType], ...]:
    """Parses columns such as ``id UInt64 NOT NULL, name String``. All or none have names.

    Raises as ``parse_type``.
    """
    parser = TypeParser(text)
    columns = parser.columns()
    parser.expect_end()
    return columns


class TypeParser(TypeCursor):
    """A recursive-descent parser of one type name."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def type(self) -> DataType:
        """Parses a type, also inside another."""
        with self._nested():
            return self._type()

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _MOST_LEVELS:
            raise UserError(
                "TOO_DEEP_RECURSION",
                f"The data type is nested too deeply: at most {_MOST_LEVELS} levels, of which a Map is two",
            )
        yield
        self._depth -= 1

    def _type(self) -> DataType:
        word = self.word()
        name = word if word in _SIMPLE or word in _BUILDERS else ALIASES.get(word.lower(), word)
        if name in _SIMPLE:
            return self._simple(word, name)
        if name in _BUILDERS:
            return _BUILDERS[name](self, name)
        refuse_missing(word)
        near = difflib.get_close_matches(word, [*_SIMPLE, *_BUILDERS], n=2)
        hint = f". Maybe you meant: {', '.join(near)}" if near else ""
        raise UserError("UNKNOWN_TYPE", f"Unknown data type family: {word} (in {self.text!r}){hint}")

    def _simple(self, word: str, name: str) -> DataType:
        if self.accept("(") and not self.accept(")"):
            if word == name:
                raise self.syntax_error("')'")
            self.integer()  # VARCHAR(10): the length is ignored, as in ClickHouse
            self.expect(")")
        if word.lower() in SIGNED and self.accept_word("UNSIGNED"):
            return _SIMPLE[f"U{name}"]
        if word.lower() in SIGNED:
            self.accept_word("SIGNED")
        elif word.lower() == "double":
            self.accept_word("PRECISION")
        return _SIMPLE[name]

    def columns(self) -> tuple[tuple[str | None, DataType], ...]:
        """Parses the whole text as columns, each with an optional NULL or NOT NULL."""
        columns = []
        while True:
            name, type_ = self._tuple_element()
            columns.append((name, self._with_nullability(type_)))
            if not self.accept(","):
                break
        self._check_names(columns)
        return tuple(columns)

    def _with_nullability(self, type_: DataType) -> DataType:
        if self.accept_word("NOT"):
            if not self.accept_word("NULL"):
                raise self.syntax_error("NULL")
            if type_.is_nullable:
                raise UserError("ILLEGAL_SYNTAX_FOR_DATA_TYPE", f"{type_} cannot be NOT NULL (in {self.text!r})")
        elif self.accept_word("NULL"):
            return self._nullable_of(type_)
        token = self.peek()
        if token is not None and token[0] == "word" and token[1].upper() in _COLUMN_WORDS:
            raise UserError("NOT_IMPLEMENTED", f"{token[1].upper()} of a column of {self.text!r} is not supported")
        return type_

    def integer_argument(self) -> int:
        """Parses one number in parentheses."""
        self.expect("(")
        value = self.integer()
        self.expect(")")
        return value

    def simple_aggregate(self, _: str) -> DataType:
        """Parses SimpleAggregateFunction(f, T). Returns T; ``parse_aggregate_name`` gives f."""
        self.expect("(")
        function = self.word()
        if self.accept("("):
            self.integer()
            self.expect(")")
        self.expect(",")
        type_ = self.type()
        self.expect(")")
        check_simple_aggregate(function, type_)
        return type_

    def aggregate_state(self, _: str) -> DataType:
        """Raises 48 (NOT_IMPLEMENTED): states of aggregate functions are not supported."""
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{self.text}: states of aggregate functions are not supported; SimpleAggregateFunction is",
        )

    def decimal(self, name: str) -> DataType:
        """Parses the arguments of a Decimal. Raises 69 for a wrong precision or scale."""
        if name in _DECIMAL_WIDTHS:
            precision, scale = _DECIMAL_WIDTHS[name], self.integer_argument()
        else:
            precision, scale = 10, 0
            if self.accept("(") and not self.accept(")"):
                precision = self.integer()
                scale = self.integer() if self.accept(",") else 0
                self.expect(")")
        if not 1 <= precision <= 76:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {self.text}: must be 1 to 76")
        if precision > 38:
            raise UserError("NOT_IMPLEMENTED", f"{self.text}: decimals of more than 38 digits are not supported")
        if not 0 <= scale <= precision:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong scale {scale} of {self.text}: must be 0 to {precision}")
        return DecimalType(precision, scale)

    def datetime(self, name: str) -> DataType:
        """Parses the arguments of DateTime. ``DateTime(2)`` is ``DateTime64(2)``."""
        zone = None
        if self.accept("(") and not self.accept(")"):
            if (self.peek() or ("",))[0] == "number":
                return self._datetime_of_precision(name)
            zone = self.string()
            self.expect(")")
        return DateTimeType(check_timezone(zone))

    def _datetime_of_precision(self, name: str) -> DataType:
        if name == "DateTime32":
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"The argument of {self.text} must be a time zone")
        precision = self.integer()
        zone = check_timezone(self.string()) if self.accept(",") else None
        self.expect(")")
        self._check_precision(precision)
        return DateTime64Type(precision, zone) if precision else DateTimeType(zone)

    def datetime64(self, _: str) -> DataType:
        precision, zone = 3, None
        if self.accept("(") and not self.accept(")"):
            precision = self.integer()
            zone = self.string() if self.accept(",") else None
            self.expect(")")
        self._check_precision(precision)
        return DateTime64Type(precision, check_timezone(zone))

    def _check_precision(self, precision: int) -> None:
        if not 0 <= precision <= 9:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {self.text}: must be 0 to 9")

    def enum(self, name: str) -> DataType:
        """Parses the values of an Enum. Raises 36 for duplicates, 69 for numbers that do not fit."""
        pairs: list[tuple[str, int]] = []
        self.expect("(")
        while True:
            label = self.string()
            number = self.integer() if self.accept("=") else (pairs[-1][1] + 1 if pairs else 1)
            pairs.append((label, number))
            if not self.accept(","):
                break
        self.expect(")")
        if len({p[0] for p in pairs}) < len(pairs) or len({p[1] for p in pairs}) < len(pairs):
            raise UserError("BAD_ARGUMENTS", f"Names and numbers of {self.text} must each be unique")
        fits_8 = all(-128 <= number <= 127 for _, number in pairs)
        bits = 16 if name == "Enum16" or (name == "Enum" and not fits_8) else 8
        if (bits == 8 and not fits_8) or not all(-32768 <= number <= 32767 for _, number in pairs):
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"A number of {self.text} does not fit {bits} bits")
        return EnumType(bits, tuple(sorted(pairs, key=lambda pair: pair[1])))

    def nullable(self, _: str) -> DataType:
        return self._nullable_of(self._one_argument())

    def _nullable_of(self, inner: DataType) -> DataType:
        if inner.is_nullable or isinstance(inner, (ArrayType, MapType, TupleType, LowCardinalityType)):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {inner} cannot be inside Nullable type")
        return NullableType(inner)

    def low_cardinality(self, _: str) -> DataType:
        inner = self._one_argument()
        bare = inner.inner if isinstance(inner, NullableType) else inner
        if isinstance(bare, (ArrayType, MapType, TupleType, LowCardinalityType, DecimalType, EnumType, BoolType)):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"LowCardinality({inner}) is not allowed")
        return LowCardinalityType(inner)

    def array(self, _: str) -> DataType:
        return ArrayType(self._one_argument())

    def map(self, _: str) -> DataType:
        self.expect("(")
        key = self.type()
        self.expect(",")
        with self._nested():
            value = self.type()
        self.expect(")")
        if key.is_nullable or isinstance(key, (ArrayType, MapType, TupleType, FloatType)):
            raise UserError("BAD_ARGUMENTS", f"Map cannot have a key of type {key}")
        return MapType(key, value)

    def tuple_type(self, _: str) -> DataType:
        elements: list[tuple[str | None, DataType]] = []
        self.expect("(")
        while True:
            elements.append(self._tuple_element())
            if not self.accept(","):
                break
        self.expect(")")
        self._check_names(elements)
        return TupleType(tuple(elements))

    def _check_names(self, elements: list[tuple[str | None, DataType]]) -> None:
        if len({name is None for name, _ in elements}) > 1:
            raise UserError("BAD_ARGUMENTS", f"Either all or no elements of {self.text} have names")

    def nested(self, family: str) -> DataType:
        """Parses Nested as the type of a value: an array of its rows."""
        rows = self.tuple_type(family)
        assert isinstance(rows, TupleType)
        if any(name is None for name, _ in rows.elements):
            raise UserError("BAD_ARGUMENTS", f"The elements of {self.text} need names")
        return ArrayType(rows)

    def _tuple_element(self) -> tuple[str | None, DataType]:
        start = self.position
        first = self.next("a type or a name")
        follows_type = self.peek() is not None and (self.peek() or ("",))[0] in ("word", "quoted")
        if first[0] == "quoted" or (first[0] == "word" and follows_type):
            return first[1], self.type()
        self.position = start
        return None, self.type()

    def _one_argument(self) -> DataType:
        self.expect("(")
        inner = self.type()
        self.expect(")")
        return inner


_BUILDERS: dict[str, Callable[[TypeParser, str], DataType]] = {
    "FixedString": lambda parser, _: _fixed_string(parser.integer_argument()),
    "Decimal": TypeParser.decimal,
    "Decimal32": TypeParser.decimal,
    "Decimal64": TypeParser.decimal,
    "Decimal128": TypeParser.decimal,
    "DateTime": TypeParser.datetime,
    "DateTime32": TypeParser.datetime,
    "DateTime64": TypeParser.datetime64,
    "Enum": TypeParser.enum,
    "Enum8": TypeParser.enum,
    "Enum16": TypeParser.enum,
    "Nullable": TypeParser.nullable,
    "LowCardinality": TypeParser.low_cardinality,
    "Array": TypeParser.array,
    "Map": TypeParser.map,
    "Tuple": TypeParser.tuple_type,
    "Nested": TypeParser.nested,
    "SimpleAggregateFunction": TypeParser.simple_aggregate,
    "AggregateFunction": TypeParser.aggregate_state,
}


def list_type_families() -> list[tuple[str, str]]:
    """Returns every name that a type may begin with, and the type it is an alias of, or ``""``."""
    names = [(name, "") for name in (*_SIMPLE, *_BUILDERS)]
    return sorted([*names, *((alias.upper(), name) for alias, name in ALIASES.items() if alias != name.lower())])


def _fixed_string(length: int) -> DataType:
    if not 1 <= length <= 0xFFFFFF:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"FixedString({length}): the size must be 1 to 16777215")
    return FixedStringType(length)


def check_timezone(zone: str | None) -> str | None:
    """Returns the zone, or raises 36 (BAD_ARGUMENTS) if it does not exist."""
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise UserError("BAD_ARGUMENTS", f"Cannot load time zone {zone!r}: no such zone") from None
    return zone
