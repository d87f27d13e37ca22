"""Parses ClickHouse type names, aliases and all their arguments; the grammar's errors carry position and
expectation."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from parts.errors import UserError
from parts.types.aggregates import check_aggregate
from parts.types.base import DataType
from parts.types.nested import ArrayType, LowCardinalityType, MapType, NullableType, TupleType
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

_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)|(-?\d+)|'((?:[^'\\]|\\.|'')*)'|`([^`]+)`|([(),=]))")

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
_ALIASES = {
    "tinyint": "Int8", "smallint": "Int16", "int": "Int32", "integer": "Int32", "bigint": "Int64",
    "float": "Float32", "real": "Float32", "double": "Float64", "boolean": "Bool", "bool": "Bool",
    "text": "String", "varchar": "String", "char": "String", "blob": "String", "timestamp": "DateTime",
    "date": "Date", "datetime": "DateTime", "decimal": "Decimal", "dec": "Decimal", "numeric": "Decimal",
}  # fmt: skip
_MOST_LEVELS = 60
"""One type in another, of which Arrow takes 64 from another library. A Map is two: its pairs are a type too."""
_DECIMAL_WIDTHS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38}


def parse_type(text: str) -> DataType:
    """Parses a ClickHouse type name, aliases included (``INT``, ``VARCHAR(10)``, ``DOUBLE``).

    Raises ``UserError`` 50 (UNKNOWN_TYPE), 62 (SYNTAX_ERROR), 48 (NOT_IMPLEMENTED), or 43 for illegal nesting.
    """
    parser = TypeParser(text)
    result = parser.type()
    parser.expect_end()
    return result


class TypeParser:
    """Recursive descent over one type name."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def type(self) -> DataType:
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
        word = self._word()
        name = word if word in _SIMPLE or word in _BUILDERS else _ALIASES.get(word.lower(), word)
        if name in _SIMPLE:
            if word != name and self._accept("("):  # VARCHAR(10): the length is ignored, as in ClickHouse
                self._integer()
                self._expect(")")
            return _SIMPLE[name]
        if name in _BUILDERS:
            return _BUILDERS[name](self, name)
        near = difflib.get_close_matches(word, [*_SIMPLE, *_BUILDERS], n=2)
        hint = f". Maybe you meant: {', '.join(near)}" if near else ""
        raise UserError("UNKNOWN_TYPE", f"Unknown data type family: {word} (in {self._text!r}){hint}")

    def expect_end(self) -> None:
        if self._text[self._position :].strip():
            raise self._syntax_error("end of the type")

    def integer_argument(self) -> int:
        self._expect("(")
        value = self._integer()
        self._expect(")")
        return value

    def simple_aggregate(self, _: str) -> DataType:
        """T: what it is in a table ``aggregate_of`` tells."""
        self._expect("(")
        function = self._word()
        if self._accept("("):
            self._integer()
            self._expect(")")
        self._expect(",")
        type_ = self.type()
        self._expect(")")
        check_aggregate(function, type_)
        return type_

    def aggregate_state(self, _: str) -> DataType:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{self._text}: states of aggregate functions are not supported; SimpleAggregateFunction is",
        )

    def decimal(self, name: str) -> DataType:
        if name in _DECIMAL_WIDTHS:
            precision, scale = _DECIMAL_WIDTHS[name], self.integer_argument()
        else:
            precision, scale = 10, 0
            if self._accept("("):
                precision = self._integer()
                scale = self._integer() if self._accept(",") else 0
                self._expect(")")
        if not 1 <= precision <= 76:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {self._text}: must be 1 to 76")
        if precision > 38:
            raise UserError("NOT_IMPLEMENTED", f"{self._text}: decimals of more than 38 digits are not supported")
        if not 0 <= scale <= precision:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong scale {scale} of {self._text}: must be 0 to {precision}")
        return DecimalType(precision, scale)

    def datetime(self, _: str) -> DataType:
        zone = None
        if self._accept("("):
            zone = self._string()
            self._expect(")")
        return DateTimeType(check_timezone(zone))

    def datetime64(self, _: str) -> DataType:
        precision, zone = 3, None
        if self._accept("("):
            precision = self._integer()
            zone = self._string() if self._accept(",") else None
            self._expect(")")
        if not 0 <= precision <= 9:
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"Wrong precision {precision} of {self._text}: must be 0 to 9")
        return DateTime64Type(precision, check_timezone(zone))

    def enum(self, name: str) -> DataType:
        pairs: list[tuple[str, int]] = []
        self._expect("(")
        while True:
            label = self._string()
            number = self._integer() if self._accept("=") else (pairs[-1][1] + 1 if pairs else 1)
            pairs.append((label, number))
            if not self._accept(","):
                break
        self._expect(")")
        if len({p[0] for p in pairs}) < len(pairs) or len({p[1] for p in pairs}) < len(pairs):
            raise UserError("BAD_ARGUMENTS", f"Names and numbers of {self._text} must each be unique")
        fits_8 = all(-128 <= number <= 127 for _, number in pairs)
        bits = 16 if name == "Enum16" or (name == "Enum" and not fits_8) else 8
        if (bits == 8 and not fits_8) or not all(-32768 <= number <= 32767 for _, number in pairs):
            raise UserError("ARGUMENT_OUT_OF_BOUND", f"A number of {self._text} does not fit {bits} bits")
        return EnumType(bits, tuple(sorted(pairs, key=lambda pair: pair[1])))

    def nullable(self, _: str) -> DataType:
        inner = self._one_argument()
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
        self._expect("(")
        key = self.type()
        self._expect(",")
        with self._nested():
            value = self.type()
        self._expect(")")
        if key.is_nullable or isinstance(key, (ArrayType, MapType, TupleType, FloatType)):
            raise UserError("BAD_ARGUMENTS", f"Map cannot have a key of type {key}")
        return MapType(key, value)

    def tuple_type(self, _: str) -> DataType:
        elements: list[tuple[str | None, DataType]] = []
        self._expect("(")
        while True:
            elements.append(self._tuple_element())
            if not self._accept(","):
                break
        self._expect(")")
        if len({name is None for name, _ in elements}) > 1:
            raise UserError("BAD_ARGUMENTS", f"Either all or no elements of {self._text} have names")
        return TupleType(tuple(elements))

    def nested(self, family: str) -> DataType:
        """As the type of a value: the rows of the structure."""
        rows = self.tuple_type(family)
        assert isinstance(rows, TupleType)
        if any(name is None for name, _ in rows.elements):
            raise UserError("BAD_ARGUMENTS", f"The elements of {self._text} need names")
        return ArrayType(rows)

    def _tuple_element(self) -> tuple[str | None, DataType]:
        start = self._position
        first = self._next("a type or a name")
        follows_type = self._peek() is not None and (self._peek() or ("",))[0] in ("word", "quoted")
        if first[0] == "quoted" or (first[0] == "word" and follows_type):
            return first[1], self.type()
        self._position = start
        return None, self.type()

    def _one_argument(self) -> DataType:
        self._expect("(")
        inner = self.type()
        self._expect(")")
        return inner

    def _peek(self) -> tuple[str, str] | None:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            return None
        kinds = ("word", "number", "string", "quoted", "mark")
        index = (match.lastindex or 1) - 1
        return kinds[index], match.group(index + 1)

    def _next(self, expected: str) -> tuple[str, str]:
        token = self._peek()
        match = _TOKEN.match(self._text, self._position)
        if token is None or match is None:
            raise self._syntax_error(expected)
        self._position = match.end()
        return token

    def _accept(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self._next(mark)
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._syntax_error(f"{mark!r}")

    def _word(self) -> str:
        kind, text = self._next("a type name")
        if kind != "word":
            raise self._syntax_error("a type name")
        return text

    def _integer(self) -> int:
        kind, text = self._next("a number")
        if kind != "number":
            raise self._syntax_error("a number")
        return int(text)

    def _string(self) -> str:
        kind, text = self._next("a quoted string")
        if kind != "string":
            raise self._syntax_error("a quoted string")
        return re.sub(r"\\(.)|'(')", lambda m: m.group(1) or m.group(2), text)

    def _syntax_error(self, expected: str) -> UserError:
        rest = self._text[self._position :]
        return UserError(
            "SYNTAX_ERROR",
            f"Syntax error in the data type {self._text!r} at position {self._position} ({rest!r}): "
            f"expected {expected}",
        )


_BUILDERS: dict[str, Callable[[TypeParser, str], DataType]] = {
    "FixedString": lambda parser, _: _fixed_string(parser.integer_argument()),
    "Decimal": TypeParser.decimal,
    "Decimal32": TypeParser.decimal,
    "Decimal64": TypeParser.decimal,
    "Decimal128": TypeParser.decimal,
    "DateTime": TypeParser.datetime,
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


def type_families() -> list[tuple[str, str]]:
    """(name, the type it is an alias of, or ``""``) of every name that a type may begin with."""
    names = [(name, "") for name in (*_SIMPLE, *_BUILDERS)]
    return sorted([*names, *((alias.upper(), name) for alias, name in _ALIASES.items() if alias != name.lower())])


def _fixed_string(length: int) -> DataType:
    if not 1 <= length <= 0xFFFFFF:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"FixedString({length}): the size must be 1 to 16777215")
    return FixedStringType(length)


def check_timezone(zone: str | None) -> str | None:
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise UserError("BAD_ARGUMENTS", f"Cannot load time zone {zone!r}: no such zone") from None
    return zone
