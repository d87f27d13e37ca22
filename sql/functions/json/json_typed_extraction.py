"""``JSONExtract`` with a type, and the arrays and members of JSON texts.

Values are read as ClickHouse reads them: numbers also from strings, strings also from numbers. A value that does not
fit the type becomes the type's default, or NULL in a Nullable. An array or tuple without any fitting element does not
fit itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    DateTime64Type,
    DateTimeType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    NullableType,
    StringType,
    TupleType,
    parse_type,
)
from sql.functions.json.json_elements import extract_element
from sql.functions.registry import Call, function
from sql.typing.casts.casts import cast_to
from sql.typing.casts.text_casts import is_null_if_misspelled, value_or_null
from sql.typing.default_values import default_value
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.typed_expressions import FLOAT64, STRING, UINT8, Typed, quote_identifier, string_literal, tuple_sql

_PAIRS = ArrayType(TupleType(((None, STRING), (None, STRING))))


@function("JSONExtract", (2, None), low_cardinality=False)
def json_extract(call: Call) -> Typed:
    """Compiles ``JSONExtract(json, [path…,] type)``. Raises ``UserError`` 43, 44."""
    type_ = _last_type(call)
    return _extract(call, type_, lambda json: _ValueConverter(call).convert(json, type_), tail=1)


@function("JSONExtractKeysAndValues", (2, None))
def json_extract_pairs(call: Call) -> Typed:
    """Compiles ``JSONExtractKeysAndValues``; members whose value does not fit are left out.

    Raises ``UserError`` 48 for a Nullable type.
    """
    inner = _last_type(call)
    if inner.is_nullable:
        raise UserError("NOT_IMPLEMENTED", f"{call.name} with values of type {inner} is not supported")
    pair = TupleType(((None, STRING), (None, inner)))

    def make(json: Fragment) -> Fragment:
        values = _ValueConverter(call)
        pairs = _members(json, pair, lambda value: values.convert(value, inner))
        return pairs if inner.is_nullable else fragment('list_filter({}, lambda pair: pair."2" IS NOT NULL)', pairs)

    return _extract(call, ArrayType(pair), make, tail=1)


@function("JSONExtractArrayRaw", (1, None))
def json_extract_array_raw(call: Call) -> Typed:
    """Compiles ``JSONExtractArrayRaw``: the elements as JSON texts."""
    listed = "CASE WHEN json_type({0}) = 'ARRAY' THEN CAST(json_extract({0}, '$[*]') AS VARCHAR[]) END"
    return _extract(call, ArrayType(STRING), lambda json: fragment(listed, json))


@function("JSONExtractKeysAndValuesRaw", (1, None))
def json_extract_pairs_raw(call: Call) -> Typed:
    """Compiles ``JSONExtractKeysAndValuesRaw``: the keys, and the values as JSON texts."""
    return _extract(call, _PAIRS, lambda json: _members(json, _PAIRS.inner, lambda value: _raw(value)))


@function("JSONExtractKeys", (1, None))
def json_extract_keys(call: Call) -> Typed:
    """Compiles ``JSONExtractKeys``."""
    keys = "CASE WHEN json_type({0}) = 'OBJECT' THEN json_keys({0}) END"
    return _extract(call, ArrayType(STRING), lambda json: fragment(keys, json))


def _last_type(call: Call) -> DataType:
    value = call.args[-1].value
    if not isinstance(value, str):
        raise UserError(
            "ILLEGAL_COLUMN", f"The last argument of function {call.name} must be a constant string, the type of values"
        )
    return parse_type(value)


def _extract(call: Call, type_: DataType, make: Callable[[Fragment], Fragment], *, tail: int = 0) -> Typed:
    """Converts the element that the arguments lead to; the last ``tail`` arguments are no path."""
    if call.is_nullable and isinstance(type_, (ArrayType, MapType)):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {type_} cannot be inside Nullable type")
    element = extract_element(replace(call, args=call.args[: len(call.args) - tail]))
    value = bind_value(element, "json", make)
    if not type_.is_nullable:
        value = fragment("coalesce({}, {})", value, default_value(type_))
    return Typed(value, type_)


def _raw(value: Fragment) -> Fragment:
    return fragment("CAST({} AS VARCHAR)", value)


def _members(
    json: Fragment, pair: DataType, make: Callable[[Fragment], Fragment], variable: str = "member"
) -> Fragment:
    """Returns the SQL of an object's keys and values as structs named as ``pair``'s engine type."""
    key, value = ("key", "value") if isinstance(pair, MapType) else ("1", "2")
    return fragment(
        "CASE WHEN json_type({json}) = 'OBJECT' THEN list_transform(list_zip(json_keys({json}), "
        "json_extract({json}, '$.*')), lambda {variable}: struct_pack({key} := {variable}[1], {value} := {made})) END",
        json=json, variable=variable, key=quote_identifier(key), value=quote_identifier(value),
        made=make(fragment("{}[2]", variable)),
    )  # fmt: skip


class _ValueConverter:
    """A converter of JSON to values of any type; NULL where the JSON does not fit.

    Each nested lambda has its own name.
    """

    def __init__(self, call: Call) -> None:
        self._zone = call.environment.zone
        self._depth = 0

    def convert(self, json: Fragment, type_: DataType) -> Fragment:
        """Returns the SQL of a value of any type; NULL where the JSON does not fit."""
        match type_:
            case NullableType(inner) | LowCardinalityType(inner):
                return self.convert(json, inner)
            case ArrayType(inner):
                return self._array(json, inner)
            case TupleType():
                return self._tuple(json, type_)
            case MapType():
                return self._map(json, type_)
        return _ScalarConverter(json, self._zone).value(type_)

    def _map(self, json: Fragment, type_: MapType) -> Fragment:
        if not isinstance(type_.key, StringType):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Keys of JSON objects are String, not {type_.key}")
        return _members(json, type_, lambda value: self._convert_or_default(value, type_.value), self._variable())

    def _variable(self) -> str:
        self._depth += 1
        return f"element{self._depth}"

    def _convert_or_default(self, json: Fragment, type_: DataType) -> Fragment:
        """Returns the SQL of a part of a value: the default where the JSON does not fit."""
        value = bind_value(json, self._variable(), lambda json: self.convert(json, type_))
        return value if type_.is_nullable else fragment("coalesce({}, {})", value, default_value(type_))

    def _array(self, json: Fragment, inner: DataType) -> Fragment:
        variable = self._variable()
        made = self.convert(fragment("{}", variable), inner)
        listed = fragment(
            "CASE WHEN json_type({json}) = 'ARRAY' THEN list_transform(json_extract({json}, '$[*]'), "
            "lambda {variable}: {made}) END",
            json=json, variable=variable, made=made,
        )  # fmt: skip
        if inner.is_nullable:
            return listed
        filled = "list_transform({0}, lambda {1}: coalesce({1}, {2}))"
        return bind_value(listed, self._variable(), lambda values: fragment(
            "CASE WHEN len(list_filter({values}, lambda {variable}: {variable} IS NOT NULL)) > 0 THEN {filled} END",
            values=values, variable=variable, filled=fragment(filled, values, variable, default_value(inner)),
        ))  # fmt: skip

    def _tuple(self, json: Fragment, type_: TupleType) -> Fragment:
        """Reads a tuple from an object by the members' names, or from an array by position."""
        parts = []
        known = []
        for place, (name, inner) in enumerate(type_.elements, 1):
            element = fragment("pando_json_member({}, {})", json, place)
            if name is not None:
                path = string_literal('$."' + name.replace('"', '\\"') + '"')
                named = fragment("json_extract({}, {})", json, path)
                element = fragment("CASE WHEN json_type({}) = 'OBJECT' THEN {} ELSE {} END", json, named, element)
            value = bind_value(element, self._variable(), lambda json, inner=inner: self.convert(json, inner))  # type: ignore[misc]
            known.append(fragment("({} IS NOT NULL)", element if inner.is_nullable else value))
            parts.append(value if inner.is_nullable else fragment("coalesce({}, {})", value, default_value(inner)))
        return fragment("CASE WHEN {} THEN {} END", join_fragments(" OR ", known), tuple_sql(type_, parts))


class _ScalarConverter:
    """A JSON value that is neither array nor object."""

    def __init__(self, json: Fragment, zone: str) -> None:
        self._json, self._zone = json, zone
        self._plain = fragment("json_extract_string({}, '$')", json)
        self._text = fragment("CASE WHEN json_type({}) = 'VARCHAR' THEN {} END", json, self._plain)
        self._is_number = fragment("json_type({}) IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')", json)

    def value(self, type_: DataType) -> Fragment:
        """Returns the SQL of the value in a type. Raises ``UserError`` 43 for an unsupported type."""
        match type_:
            case StringType():
                return self._string()
            case IntegerType(_, signed):
                name = "pando_json_integer" if signed else "pando_json_unsigned"
                return self._with_bool(fragment("TRY_CAST({}({}) AS {})", name, self._plain, duckdb_type(type_)), type_)
            case FloatType():
                return self._with_bool(value_or_null(Typed(self._plain, STRING), type_, self._zone), type_)
            case BoolType():
                return fragment("({} <> 0)", self.value(UINT8))
            case EnumType():
                return self._enum(type_)
            case FixedStringType():
                return value_or_null(Typed(self._string(), STRING), type_, self._zone)
            case DecimalType():
                kinds = fragment("CASE WHEN json_type({}) <> 'BOOLEAN' THEN {} END", self._json, self._plain)
                return value_or_null(Typed(kinds, STRING), type_, self._zone)
            case DateTimeType() | DateTime64Type():
                seconds = Typed(fragment("TRY_CAST({} AS DOUBLE)", self._plain), FLOAT64)
                of_number = cast_to(seconds, type_, self._zone)
                of_text = value_or_null(Typed(self._text, STRING), type_, self._zone)
                return fragment("CASE WHEN {} THEN {} ELSE {} END", self._is_number, of_number, of_text)
        if is_null_if_misspelled(type_):
            return value_or_null(Typed(self._text, STRING), type_, self._zone)
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"JSON is not read as {type_}")

    def _string(self) -> Fragment:
        return fragment("CASE json_type({json}) WHEN 'NULL' THEN NULL WHEN 'VARCHAR' THEN {} ELSE CAST({json} AS "
                        "VARCHAR) END", self._plain, json=self._json)  # fmt: skip

    def _with_bool(self, number: Fragment, type_: DataType) -> Fragment:
        one = fragment("CAST({} = 'true' AS {})", self._plain, duckdb_type(type_))
        return fragment("CASE WHEN json_type({}) = 'BOOLEAN' THEN {} ELSE {} END", self._json, one, number)

    def _enum(self, type_: EnumType) -> Fragment:
        names = join_fragments(
            " ", (fragment("WHEN {} THEN {}", string_literal(name), number) for name, number in type_.values)
        )
        numbers = join_fragments(", ", (str(number) for _, number in type_.values))
        return fragment(
            "CAST(CASE WHEN {} THEN CASE WHEN TRY_CAST({plain} AS INTEGER) IN ({}) THEN TRY_CAST({plain} AS INTEGER) "
            "END ELSE CASE {} {} END END AS {})",
            self._is_number, numbers, self._text, names, duckdb_type(type_), plain=self._plain,
        )  # fmt: skip
