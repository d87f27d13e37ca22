"""Functions that take one element out of a JSON text, and ``isValidJSON``."""

from __future__ import annotations

from collections.abc import Callable

from sql.functions.registry import Call, function
from sql.functions.strings.basic_strings import string_argument
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_integer, is_string
from sql.typing.typed_expressions import FLOAT64, INT64, STRING, UINT8, UINT64, Typed, cast, string_literal


def _json_element(call: Call, document: Fragment) -> Fragment:
    """Returns the SQL of the element that the keys and indexes lead to.

    An index counts the elements of an array or the members of an object, from 1, or from the end if negative. Raises
    ``UserError`` 43.
    """
    path = "$"
    for position in range(1, len(call.args)):
        value = call.args[position].value
        if isinstance(value, str):
            path += '."' + value.replace('"', '\\"') + '"'
            continue
        holder = document if path == "$" else fragment("json_extract({}, {})", document, string_literal(path))
        path = "$"
        if isinstance(value, int):
            document = fragment("pando_json_member({}, {})", holder, int(value))
        elif is_integer(call.types[position]):
            document = fragment("pando_json_member({}, CAST({} AS BIGINT))", holder, call.args[position].sql)
        elif is_string(call.types[position]):
            document = fragment("pando_json_key({}, {})", holder, string_argument(call, position))
        else:
            raise call.wrong_type(position, "a key or an index")
    return fragment("json_extract({}, {})", document, string_literal(path))


def extract_element(call: Call) -> Fragment:
    """Returns the SQL of an element of the first argument; NULL if that is not valid JSON."""
    document = string_argument(call, 0)
    return _json_element(call, fragment("(CASE WHEN json_valid({document}) THEN {document} END)", document=document))


def _json_value(call: Call, convert: Callable[[Fragment, Fragment], Typed]) -> Typed:
    element = extract_element(call)
    return convert(element, fragment("json_extract_string({}, '$')", element))


@function("JSONExtractString", (1, None))
def json_extract_string(call: Call) -> Typed:
    """Compiles ``JSONExtractString``; other values than strings are returned as JSON."""
    return _json_value(
        call,
        lambda json, plain: Typed(
            fragment("coalesce(CASE WHEN json_type({}) = 'NULL' THEN '' ELSE {} END, '')", json, plain), STRING
        ),
    )


@function("JSONExtractRaw", (1, None))
def json_extract_raw(call: Call) -> Typed:
    """Compiles ``JSONExtractRaw``: the element as JSON text."""
    return _json_value(call, lambda json, plain: Typed(fragment("coalesce(CAST({} AS VARCHAR), '')", json), STRING))


@function("JSONExtractInt", (1, None))
def json_extract_int(call: Call) -> Typed:
    """Compiles ``JSONExtractInt``; a missing or invalid number is 0."""
    return _json_value(call, lambda json, plain: Typed(fragment("coalesce(pando_json_integer({}), 0)", plain), INT64))


@function("JSONExtractUInt", (1, None))
def json_extract_uint(call: Call) -> Typed:
    """Compiles ``JSONExtractUInt``; a missing or invalid number is 0."""
    return _json_value(call, lambda json, plain: Typed(fragment("coalesce(pando_json_unsigned({}), 0)", plain), UINT64))


@function("JSONExtractFloat", (1, None))
def json_extract_float(call: Call) -> Typed:
    """Compiles ``JSONExtractFloat``; a missing or invalid number is 0."""
    return _json_value(call, lambda json, plain: Typed(fragment("coalesce(TRY_CAST({} AS DOUBLE), 0)", plain), FLOAT64))


@function("JSONExtractBool", (1, None))
def json_extract_bool(call: Call) -> Typed:
    """Compiles ``JSONExtractBool``; integers other than 0 are true."""
    return _json_value(
        call,
        lambda json, plain: Typed(
            fragment(
                "coalesce(CASE json_type({}) WHEN 'BOOLEAN' THEN {plain} = 'true' "
                "WHEN 'BIGINT' THEN {plain} <> '0' WHEN 'UBIGINT' THEN {plain} <> '0' END, false)",
                json,
                plain=plain,
            ),
            UINT8,
            is_condition=True,
        ),
    )


@function("JSONHas", (1, None))
def json_has(call: Call) -> Typed:
    """Compiles ``JSONHas``: whether the element exists."""
    return _json_value(call, lambda json, plain: Typed(fragment("({} IS NOT NULL)", json), UINT8, is_condition=True))


@function("JSONLength", (1, None))
def json_length(call: Call) -> Typed:
    """Compiles ``JSONLength``: the number of elements or members, 0 for other values."""
    return _json_value(
        call,
        lambda json, plain: Typed(
            cast(fragment("coalesce(CASE json_type({0}) WHEN 'ARRAY' THEN json_array_length({0}) "
                          "WHEN 'OBJECT' THEN len(json_keys({0})) END, 0)", json), UINT64), UINT64),
    )  # fmt: skip


@function("isValidJSON", 1)
def is_valid_json(call: Call) -> Typed:
    """Compiles ``isValidJSON(text)``."""
    return Typed(fragment("pando_json_valid({})", string_argument(call, 0)), UINT8, is_condition=True)


MACROS = define_macros(
    # DuckDB accepts NaN, Infinity, comments and a comma after the last value; ClickHouse does not.
    r"""pando_json_valid(t) AS json_valid(t) AND (NOT regexp_matches(t, '(?i)nan|inf|/[/*]|,\s*[\]}]')
        OR NOT regexp_matches(regexp_replace(t, '"(?:[^"\\]|\\.)*"', '""', 'g'), '(?i)nan|inf|/[/*]|,\s*[\]}]'))""",
    r"""pando_json_member(j, n) AS CASE json_type(j)
        WHEN 'ARRAY' THEN json_extract(j, '$[*]')[n] WHEN 'OBJECT' THEN json_extract(j, '$.*')[n] END""",
    r"""pando_json_key(j, k) AS CASE json_type(j)
        WHEN 'OBJECT' THEN json_extract(j, '/' || replace(replace(k, '~', '~0'), '/', '~1')) END""",
    r"""pando_json_integer(t) AS CASE WHEN regexp_full_match(t, '-?[0-9]+') THEN TRY_CAST(t AS BIGINT)
        ELSE TRY_CAST(trunc(TRY_CAST(t AS DOUBLE)) AS BIGINT) END""",
    r"""pando_json_unsigned(t) AS CASE WHEN regexp_full_match(t, '[0-9]+') THEN TRY_CAST(t AS UBIGINT)
        ELSE TRY_CAST(trunc(TRY_CAST(t AS DOUBLE)) AS UBIGINT) END""",
)
