"""Parse ClickHouse type names with aliases and arguments. Errors name position and expectation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from parts.common.errors import UserError
from parts.types.composites import ArrayType, LowCardinalityType, MapType, NullableType, TupleType
from parts.types.data_type import DataType
from parts.types.missing_types import refuse_missing
from parts.types.scalar_type import PLAIN_TYPES, TYPE_PARSERS
from parts.types.simple_aggregate_function import check_simple_aggregate
from parts.types.type_aliases import ALIASES, SIGNED
from parts.types.type_cursor import TypeCursor

_COLUMN_WORDS = frozenset({"DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "CODEC", "COMMENT", "TTL"})
_MOST_LEVELS = 60
"""Levels of nested types. Arrow accepts 64 from another library. A Map is two levels: its pairs are a type too."""


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
        name = (
            word
            if word in PLAIN_TYPES or word in _BUILDERS or word in TYPE_PARSERS
            else ALIASES.get(word.lower(), word)
        )
        if name in PLAIN_TYPES:
            return self._simple(word, name)
        if name in TYPE_PARSERS:
            return TYPE_PARSERS[name](self, name)
        if name in _BUILDERS:
            return _BUILDERS[name](self, name)
        refuse_missing(word)
        near = difflib.get_close_matches(word, [*PLAIN_TYPES, *TYPE_PARSERS, *_BUILDERS], n=2)
        hint = f". Maybe you meant: {', '.join(near)}" if near else ""
        raise UserError("UNKNOWN_TYPE", f"Unknown data type family: {word} (in {self.text!r}){hint}")

    def _simple(self, word: str, name: str) -> DataType:
        if self.accept("(") and not self.accept(")"):
            if word == name:
                raise self.syntax_error("')'")
            self.integer()  # VARCHAR(10): the length is ignored, as in ClickHouse
            self.expect(")")
        if word.lower() in SIGNED and self.accept_word("UNSIGNED"):
            return PLAIN_TYPES[f"U{name}"]
        if word.lower() in SIGNED:
            self.accept_word("SIGNED")
        elif word.lower() == "double":
            self.accept_word("PRECISION")
        return PLAIN_TYPES[name]

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

    def nullable(self, _: str) -> DataType:
        return self._nullable_of(self._one_argument())

    def _nullable_of(self, inner: DataType) -> DataType:
        if inner.is_nullable or not inner.may_be_nullable:
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {inner} cannot be inside Nullable type")
        return NullableType(inner)

    def low_cardinality(self, _: str) -> DataType:
        inner = self._one_argument()
        bare = inner.inner if isinstance(inner, NullableType) else inner
        if not bare.may_be_low_cardinality:
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
        if key.is_nullable or not key.may_be_map_key:
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
    names = [(name, "") for name in (*PLAIN_TYPES, *TYPE_PARSERS, *_BUILDERS)]
    return sorted([*names, *((alias.upper(), name) for alias, name in ALIASES.items() if alias != name.lower())])
