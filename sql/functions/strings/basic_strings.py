"""Functions that make strings. Positions and lengths count bytes, or code points if named …UTF8.

DuckDB's strings are UTF-8. A byte function that would cut a character in half works on the BLOB and fails to decode the
result. In ASCII texts, the usual case, bytes and code points are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import (
    ArrayType,
    FixedStringType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    MapType,
    UUIDType,
)
from sql.functions import memory_guards
from sql.functions.registry import Call, define, function
from sql.functions.strings.case_kernels import capitalize_words
from sql.functions.strings.string_kernels import (
    append_suffix,
    fixed_strings_as_text,
    replace_text,
    slice_characters,
    substrings_before_delimiter,
    trim_text,
)
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Compute, Scannable, parse_by_scan
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, Piece, fragment, function_call
from sql.typing.integer_conversions import wrap_integer
from sql.typing.result_types import bool_as_integer, is_integer, is_string
from sql.typing.typed_expressions import INT64, STRING, UINT8, UINT64, Typed, cast, string_literal

MAX_UNGUARDED_REPEATS = 8
"""Repetition up to this factor needs no memory check: other functions grow texts as much."""
MAX_SCANNED_PIECE_CHARACTERS = 1000
"""Positions and sizes from this number on have no scan kernel."""


def string_argument(call: Call, position: int) -> Fragment:
    """Returns the argument as VARCHAR; a FixedString keeps the zero bytes at its end.

    Raises ``UserError`` 43 if it is neither a String nor a FixedString.
    """
    value = call.args[position]
    if not is_string(value.type):
        raise call.wrong_type(position, "String")
    return fragment("decode({})", value.sql) if isinstance(value.type, FixedStringType) else value.sql


def integer_argument(call: Call, position: int) -> Fragment:
    """Returns the argument as BIGINT."""
    return fragment("CAST({} AS BIGINT)", call.args[position].sql)


def _build_simple(template: str, strings: int) -> Callable[[Call], Typed]:
    """Builds a function from a template; the first ``strings`` arguments are strings, the rest integers."""

    def build(call: Call) -> Typed:
        texts = [string_argument(call, i) if i < strings else integer_argument(call, i) for i in range(len(call.args))]
        return Typed(fragment(template, *texts), STRING)

    return build


def change_ascii_case(value: Fragment, case: str) -> Fragment:
    """Changes the case of ASCII letters alone, as ClickHouse's byte functions do.

    ``case`` is ``lower`` or ``upper``.
    """
    template = "(CASE WHEN strlen({0}) = length({0}) THEN {1} ELSE {2} END)"
    sql = bind_value(
        value,
        "letters",
        lambda v: fragment(
            template, v, function_call(case, v), function_call(f"pando_ascii_{case}", fragment("encode({})", v))
        ),
    )
    return Scannable(sql, value, pc.ascii_lower if case == "lower" else pc.ascii_upper, pa.string())


def _build_case_change(case: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value = call.args[0]
        if isinstance(value.type, FixedStringType):  # the length and the zero bytes stay
            return Typed(fragment("encode({})", function_call(f"pando_ascii_{case}", value.sql)), value.type)
        return Typed(change_ascii_case(string_argument(call, 0), case), STRING)

    return build


def _build_scanned(template: str, compute: Compute) -> Callable[[Call], Typed]:
    """Builds a function of one text from an SQL template and a scan kernel."""
    return lambda call: Typed(
        Scannable(fragment(template, string_argument(call, 0)), string_argument(call, 0), compute, pa.string()), STRING
    )


define("lower lcase", _build_case_change("lower"), 1)
define("upper ucase", _build_case_change("upper"), 1)
define("lowerUTF8", _build_simple("lower({0})", 1), 1)
define("upperUTF8", _build_simple("upper(replace({0}, 'ß', 'SS'))", 1), 1)
define("reverseUTF8", _build_simple("reverse({0})", 1), 1)
define("initcap", _build_scanned("pando_initcap(encode({}))", capitalize_words), 1)


def _build_character_slice(template: str, bounds: Callable[[int], tuple[int, int | None]]) -> Callable[[Call], Typed]:
    """Builds a function that takes a slice of characters; a scan computes it for a literal count."""

    def build(call: Call) -> Typed:
        sql, count = fragment(template, string_argument(call, 0), integer_argument(call, 1)), call.args[1].value
        if type(count) is int and abs(count) < MAX_SCANNED_PIECE_CHARACTERS:
            sql = Scannable(sql, string_argument(call, 0), slice_characters(*bounds(count)), pa.string())
        return Typed(sql, STRING)

    return build


def _build_byte_slice(name: str, places: str) -> Callable[[Call], Typed]:
    """Builds ``left`` or ``right``, by bytes; ``places`` are the SQL of the first and the last byte.

    DuckDB's functions count characters, so they serve for ASCII texts alone.
    """
    sql = f"(CASE WHEN strlen({{0}}) = length({{0}}) THEN {name}({{0}}, {{2}}) "
    sql += f"ELSE decode(array_slice(encode({{0}}), {places})) END)"

    def build(call: Call) -> Typed:
        count, type_ = integer_argument(call, 1), call.args[1].type
        is_short = isinstance(type_, IntegerType) and type_.bits < 64
        least = count if is_short else fragment(_SHORT, count)
        return Typed(bind_value(string_argument(call, 0), "whole", lambda v: fragment(sql, v, count, least)), STRING)

    return build


_SHORT = "-greatest(least(-{}, 4294967295), -4294967295)"
"""No text is longer. The smallest Int64 cannot be negated and fails, as in ClickHouse."""
_LEFT_PLACES = "1, CASE WHEN {1} >= 0 THEN {1} ELSE strlen({0}) + {1} END"
_RIGHT_PLACES = "CASE WHEN {1} >= 0 THEN greatest(strlen({0}) - {1}, 0) + 1 ELSE 1 - {1} END, strlen({0})"
define("leftUTF8", _build_character_slice("left({0}, {1})", lambda count: (0, count)), 2)
define("rightUTF8", _build_character_slice("right({0}, {1})", lambda count: (-count, None) if count else (0, 0)), 2)
define("left", _build_byte_slice("left", _LEFT_PLACES), 2)
define("right", _build_byte_slice("right", _RIGHT_PLACES), 2)
define("base64Encode TO_BASE64", _build_simple("to_base64(encode({0}))", 1), 1)
define("base64Decode FROM_BASE64", _build_simple("decode(from_base64({0}))", 1), 1)
define("encodeURLComponent", _build_simple("url_encode({0})", 1), 1)
define("decodeURLComponent", _build_simple("url_decode({0})", 1), 1)
define("unhex", _build_simple("decode(unhex({0}))", 1), 1)
define("toValidUTF8", _build_simple("{0}", 1), 1)
define("normalizeUTF8NFC", _build_simple("nfc_normalize({0})", 1), 1)


@function("appendTrailingCharIfAbsent", 2)
def append_trailing_char(call: Call) -> Typed:
    """Compiles ``appendTrailingCharIfAbsent(text, end)``."""
    value, end = string_argument(call, 0), string_argument(call, 1)
    sql = fragment("(CASE WHEN {0} = '' OR ends_with({0}, {1}) THEN {0} ELSE {0} || {1} END)", value, end)
    known = call.args[1].value
    return Typed(
        Scannable(sql, value, append_suffix(known), pa.string(), worth_at=MIN_REPEATS_FOR_DICTIONARY)
        if isinstance(known, str)
        else sql,
        STRING,
    )


@function("replaceAll replace", 3)
def replace_all(call: Call) -> Typed:
    """Compiles ``replaceAll(text, old, new)``, with a memory check if the text may grow much."""
    value, old, new = (string_argument(call, position) for position in range(3))
    lengths = [len(arg.value.encode()) if isinstance(arg.value, str) else -1 for arg in call.args[1:]]
    known = [arg.value for arg in call.args[1:]]
    if lengths[0] > 0 and 0 <= lengths[1] <= lengths[0] * MAX_UNGUARDED_REPEATS:
        sql = fragment("replace({}, {}, {})", value, old, new)
        return Typed(
            Scannable(sql, value, replace_text(*known), pa.string(), worth_at=MIN_REPEATS_FOR_DICTIONARY), STRING
        )
    if 0 <= lengths[1] <= max(lengths[0], 1):
        return Typed(fragment("pando_replace({}, {}, {})", value, old, new), STRING)
    room = memory_guards.guarded_size(
        fragment("strlen({}) // greatest(strlen({}), 1)", value, old), fragment("strlen({})", new)
    )
    return Typed(
        fragment("pando_replace({}, {}, CASE WHEN {} IS NULL THEN NULL ELSE {} END)", value, old, room, new), STRING
    )


@function("replaceOne", 3)
def replace_one(call: Call) -> Typed:
    """Compiles ``replaceOne(text, old, new)``, which replaces the first occurrence."""
    value, old, new = (string_argument(call, position) for position in range(3))
    found = fragment("instr({}, {})", value, old)
    cut = fragment(
        "left({value}, {found} - 1) || {} || substr({value}, {found} + length({}))", new, old, value=value, found=found
    )
    return Typed(fragment("(CASE WHEN {} = '' OR {} = 0 THEN {} ELSE {} END)", old, found, value, cut), STRING)


# Lengths --------------------------------------------------------------------------------------------------------------


@function("length OCTET_LENGTH", 1)
def length(call: Call) -> Typed:
    """Compiles ``length`` of an array or map (elements) or of a string (bytes)."""
    value = call.args[0]
    if isinstance(value.type, (ArrayType, MapType)):
        return Typed(cast(fragment("len({})", value.sql), UINT64), UINT64)
    if isinstance(value.type, FixedStringType):
        return Typed(cast(fragment("octet_length({})", value.sql), UINT64), UINT64)
    return Typed(cast(fragment("strlen({})", string_argument(call, 0)), UINT64), UINT64)


@function("lengthUTF8 char_length character_length", 1)
def length_utf8(call: Call) -> Typed:
    """Compiles ``lengthUTF8(text)``, in code points."""
    return Typed(cast(fragment("length({})", string_argument(call, 0)), UINT64), UINT64)


def _is_empty(call: Call) -> Fragment:
    value = call.args[0]
    if isinstance(value.type, (ArrayType, MapType)):
        return fragment("(len({}) = 0)", value.sql)
    if isinstance(value.type, IPv4Type):
        return fragment("({} = 0)", value.sql)
    if isinstance(value.type, (UUIDType, IPv6Type, FixedStringType)):
        size = value.type.length if isinstance(value.type, FixedStringType) else 16
        return fragment("({} = unhex(repeat('00', {})))", value.sql, size)
    return fragment("({} = '')", string_argument(call, 0))


define("empty", lambda call: Typed(_is_empty(call), UINT8, is_condition=True), 1)
define("notEmpty", lambda call: Typed(fragment("(NOT {})", _is_empty(call)), UINT8, is_condition=True), 1)


@function("reverse", 1)
def reverse(call: Call) -> Typed:
    """Compiles ``reverse`` of an array, or of the bytes of a string."""
    if isinstance(call.args[0].type, ArrayType):
        return Typed(fragment("list_reverse({})", call.args[0].sql), call.args[0].type)
    if isinstance(call.args[0].type, FixedStringType):
        return Typed(fragment("encode(pando_byte_reverse(decode({})))", call.args[0].sql), call.args[0].type)
    return Typed(fragment("pando_byte_reverse({})", string_argument(call, 0)), STRING)


# Parts ----------------------------------------------------------------------------------------------------------------


def _build_substring(macro: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        size: Piece = 1099511627776
        if len(call.args) > 2:
            size = _limited_argument(call, 2, -4294967296)
        if call.args[1].value == 0:
            return Typed(fragment("(CASE WHEN {} IS NULL THEN NULL ELSE '' END)", string_argument(call, 0)), STRING)
        sql = function_call(
            macro,
            string_argument(call, 0),
            _limited_argument(call, 1, -4294967296 if len(call.args) > 2 else -4294967295),
            size,
        )
        known = [arg.value for arg in call.args[1:]]
        if macro == "pando_substring" and all(
            type(n) is int and 0 < abs(n) < MAX_SCANNED_PIECE_CHARACTERS for n in known
        ):
            bounds = _slice_bounds(*known)
            sql = (
                sql
                if bounds is None
                else Scannable(sql, string_argument(call, 0), slice_characters(*bounds), pa.string())
            )
        return Typed(sql, STRING)

    return build


def _limited_argument(call: Call, position: int, least: int) -> Fragment:
    """Returns a position or size as BIGINT, limited to DuckDB's bounds.

    ClickHouse reads a UInt64 as an Int64. Only constants are read so here: a column's value is a position that was
    found.
    """
    value = call.args[position]
    if is_integer(value.type) and bool_as_integer(value.type).bits == 64:
        signed = (
            wrap_integer(value.sql, bool_as_integer(value.type), INT64)
            if value.is_constant
            else integer_argument(call, position)
        )
        return fragment("greatest({}, least(4294967295, {}))", least, signed)
    return integer_argument(call, position)


def _slice_bounds(start: int, size: int | None = None) -> tuple[int, int | None] | None:
    """Returns the bounds of a Python slice for a position and a size, or ``None``."""
    begin = start - 1 if start > 0 else start
    if size is None:
        return begin, None
    end = begin + size
    return (begin, None if begin < 0 <= end else end) if size > 0 else None


define("substring substr mid byteSlice", _build_substring("pando_byte_substring"), (2, 3))
define("substringUTF8", _build_substring("pando_substring"), (2, 3))


@function("substringIndex SUBSTRING_INDEX", 3)
def substring_index(call: Call) -> Typed:
    """Compiles ``substringIndex(text, delimiter, count)``."""
    value, delimiter, count = string_argument(call, 0), string_argument(call, 1), call.constant_int(2)
    words = fragment("string_split({}, {})", value, delimiter)
    if count == 0:
        return Typed(fragment("''"), STRING)
    piece = fragment("{}[1:{}]", words, count) if count > 0 else fragment("{}[{}:]", words, count)
    sql = fragment("array_to_string({}, {})", piece, delimiter)
    known = call.args[1].value
    if isinstance(known, str) and known:
        sql = Scannable(
            sql, value, substrings_before_delimiter(known, count), pa.string(), worth_at=MIN_REPEATS_FOR_DICTIONARY
        )
    return Typed(sql, STRING)


_SPACES = {
    name: f"(CASE WHEN {test} THEN {name}({{0}}, ' ') ELSE {{0}} END)"
    for name, test in (
        ("trim", "starts_with({0}, ' ') OR ends_with({0}, ' ')"),
        ("ltrim", "starts_with({0}, ' ')"),
        ("rtrim", "ends_with({0}, ' ')"),
    )
}
"""Most texts have no spaces at their ends; for these DuckDB need not look at every character."""


def _build_trim(name: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value, characters = string_argument(call, 0), call.args[1].value if len(call.args) > 1 else " "
        if characters == "":
            return Typed(value, STRING)
        if len(call.args) > 1:
            sql = function_call(name, value, string_argument(call, 1))
        else:
            sql = bind_value(value, "padded", lambda v: fragment(_SPACES[name], v))
        if not isinstance(characters, str):
            return Typed(sql, STRING)
        compute = trim_text(name, characters)
        if not isinstance(call.args[0].type, FixedStringType):
            return Typed(Scannable(sql, value, compute, pa.string()), STRING)
        return Typed(_trim_fixed_string(sql, call.args[0].sql, compute, name, characters), STRING)

    return build


def _trim_fixed_string(sql: Fragment, value: Fragment, compute: Compute, name: str, characters: str) -> Fragment:
    def rest(odd: Fragment) -> Fragment:
        return function_call(name, fragment("decode(unhex({}))", odd), string_literal(characters))

    return parse_by_scan(sql, value, fixed_strings_as_text(compute), pa.string(), rest)


define("trimBoth trim", _build_trim("trim"), (1, 2))
define("trimLeft ltrim", _build_trim("ltrim"), (1, 2))
define("trimRight rtrim", _build_trim("rtrim"), (1, 2))


MACROS = define_macros(
    r"pando_replace(s, old, new) AS CASE WHEN old = '' THEN s ELSE replace(s, old, new) END",
    r"""pando_substring(s, start, size) AS CASE
        WHEN start = 0 THEN ''
        WHEN start < 0 AND -start > length(s) AND size >= 0
        THEN substr(s, 1, greatest(length(s) + start + least(size, 4294967295), 0))
        WHEN size < 0 THEN substr(s, start, greatest(length(substr(s, start)) + size, 0))
        ELSE substr(s, start, least(size, 4294967295)) END""",
    r"""pando_byte_substring(s, start, size) AS CASE WHEN strlen(s) = length(s) THEN pando_substring(s, start, size)
        ELSE decode(array_slice(encode(s), pando_first(start, strlen(s)), pando_last(start, size, strlen(s)))) END""",
    r"""pando_first(start, n) AS CASE
        WHEN start > 0 THEN start WHEN start = 0 THEN n + 1 ELSE greatest(n + start + 1, 1) END""",
    r"""pando_last(start, size, n) AS CASE WHEN size < 0 THEN n + size
        WHEN start > 0 THEN least(start - 1 + least(size, n), n) ELSE least(n + start + least(size, n), n) END""",
    r"""pando_byte_reverse(s) AS CASE WHEN strlen(s) = length(s) THEN reverse(s)
        ELSE error('pando:48:reverse of a string that is not ASCII is not supported: use reverseUTF8') END""",
)
