"""Searching in strings: position, LIKE, tokens, counts; and the parts of URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import ArrayType, IntegerType
from sql.functions.registry import Call, define, function
from sql.functions.strings.basic_strings import (
    MAX_SCANNED_PIECE_CHARACTERS,
    change_ascii_case,
    integer_argument,
    string_argument,
)
from sql.functions.strings.character_positions import find_character_position
from sql.functions.strings.string_kernels import count_occurrences, find_position, ilike_test, token_test
from sql.functions.strings.urls.url_kernels import (
    cut_queries,
    url_fragments,
    url_hosts,
    url_paths,
    url_queries,
    url_schemes,
)
from sql.typing.column_kernels.scannable import Compute, Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call, join_fragments
from sql.typing.typed_expressions import STRING, UINT8, UINT64, Typed, cast, literal, string_literal

_START_BITS = 32


def _find_first_byte(haystack: Fragment, needle: Fragment) -> Fragment:
    """Returns the byte position of the needle, from 1, or 0. In ASCII a byte is a character."""
    template = """(CASE WHEN strlen({haystack}) = length({haystack}) THEN instr({haystack}, {needle})
        WHEN contains({haystack}, {needle}) THEN strlen(left({haystack}, instr({haystack}, {needle}) - 1)) + 1
        ELSE 0 END)"""
    return bind_value(
        haystack, "haystack", lambda h: bind_value(needle, "needle", lambda n: fragment(template, haystack=h, needle=n))
    )


def _build_position(fold: Callable[[Fragment], Fragment] | None, length: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        haystack, needle = (fold(string_argument(call, i)) if fold else string_argument(call, i) for i in (0, 1))
        known = call.args[1].value
        if fold and isinstance(known, str) and (length == "bytes" or known.isascii()):
            known = known.encode().lower().decode()  # ``bytes.lower`` changes ASCII letters only
            needle = string_literal(known)
        if len(call.args) > 2:
            macro = "pando_position_from" if length == "bytes" else "pando_character_from"
            found = function_call(macro, haystack, needle, fragment("greatest({}, 1)", integer_argument(call, 2)))
            sql = cast(found, UINT64)
            return Typed(sql if length == "bytes" else _scan_position(sql, call, folds_case=fold is not None), UINT64)
        if length == "bytes":
            found = _find_first_byte(haystack, needle)
            if needle == string_literal(""):
                found = fragment("CASE WHEN {} IS NOT NULL THEN 1 END", haystack)
            elif isinstance(known, str):
                return Typed(Scannable(cast(found, UINT64), haystack, find_position(known), pa.uint64()), UINT64)
        else:
            found = fragment("instr({}, {})", haystack, needle)
            return Typed(_scan_position(cast(found, UINT64), call, folds_case=fold is not None), UINT64)
        return Typed(cast(found, UINT64), UINT64)

    return build


def _scan_position(sql: Fragment, call: Call, *, folds_case: bool) -> Fragment:
    """Adds a scan kernel that finds a literal needle's position in characters."""
    known = call.args[1].value
    start = call.args[2] if len(call.args) > 2 else literal(1)
    if not isinstance(known, str):
        return sql
    if start.is_literal:
        if type(start.value) is not int or start.value >= MAX_SCANNED_PIECE_CHARACTERS:
            return sql
    elif not isinstance(start.type, IntegerType) or start.type.bits > _START_BITS:
        return sql
    compute = find_character_position(
        known.lower() if folds_case else known, start.value if start.is_literal else None, folds_case=folds_case
    )
    columns = () if start.is_literal else (start.sql,)
    return Scannable(sql, (string_argument(call, 0), *columns), compute, pa.uint64())


define("position", _build_position(None, "bytes"), (2, 3))
define("positionUTF8", _build_position(None, "characters"), (2, 3))
define("positionCaseInsensitive", _build_position(lambda sql: change_ascii_case(sql, "lower"), "bytes"), (2, 3))
define("positionCaseInsensitiveUTF8", _build_position(lambda sql: function_call("lower", sql), "characters"), (2, 3))


@function("locate instr", (2, 3))
def locate(call: Call) -> Typed:
    """Compiles ``locate(needle, haystack)`` and ``instr(haystack, needle)``."""
    args = (
        call.args
        if call.node is not None and call.node.name.lower() == "instr"
        else (call.args[1], call.args[0], *call.args[2:])
    )
    return _build_position(None, "bytes")(Call("position", args, call.environment))


def _build_test(template: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        return Typed(fragment(template, string_argument(call, 0), string_argument(call, 1)), UINT8, is_condition=True)

    return build


define("startsWith startsWithUTF8", _build_test("starts_with({0}, {1})"), 2)
define("endsWith endsWithUTF8", _build_test("ends_with({0}, {1})"), 2)
_NO_TOKEN = r"[^a-zA-Z0-9\x{80}-\x{10FFFF}]"
_TOKENS = rf"({{1}} <> '' AND list_contains(regexp_split_to_array({{0}}, '{_NO_TOKEN}+'), {{1}}))"
_TOKEN = re.compile(r"[a-zA-Z0-9\x80-\U0010FFFF]+")


@function("hasToken", 2)
def has_token(call: Call) -> Typed:
    """Compiles ``hasToken(text, token)``."""
    whole, token, known = string_argument(call, 0), string_argument(call, 1), call.args[1].value
    if isinstance(known, str) and _TOKEN.fullmatch(known):
        pattern = string_literal(f"(?:^|{_NO_TOKEN}){known}(?:$|{_NO_TOKEN})")
        template = "(contains({0}, {1}) AND regexp_matches({0}, {2}))"
        sql = bind_value(whole, "whole", lambda v: fragment(template, v, token, pattern))
        return Typed(Scannable(sql, whole, token_test(known), pa.bool_()), UINT8, is_condition=True)
    template = _TOKENS.replace("{80}", "{{80}}").replace("{10FFFF}", "{{10FFFF}}")
    return Typed(bind_value(whole, "whole", lambda v: fragment(template, v, token)), UINT8, is_condition=True)


_LONE_ESCAPE = re.compile(r"\\(.|$)", re.DOTALL)


def _build_like(operator: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        value, pattern = string_argument(call, 0), call.args[1]
        known = pattern.value
        if isinstance(known, str):
            if known.lower() == known.upper():
                return Typed(_compile_like(value, known, operator.replace("ILIKE", "LIKE")), UINT8, is_condition=True)
            sql = _compile_like(value, known, operator)
            if "ILIKE" in operator and known.isascii() and "\\" not in known:
                like = Scannable(_compile_like(value, known, "ILIKE"), value, ilike_test(known), pa.bool_())
                sql = like if operator == "ILIKE" else fragment("(NOT {})", like)
            return Typed(sql, UINT8, is_condition=True)
        return Typed(
            fragment("({} {} {} ESCAPE '\\')", value, operator, string_argument(call, 1)), UINT8, is_condition=True
        )

    return build


def _compile_like(value: Fragment, pattern: str, operator: str) -> Fragment:
    escape = " ESCAPE '\\'" if "\\" in pattern else ""
    return fragment(
        "({} {} {}{})", value, operator, string_literal(_LONE_ESCAPE.sub(_double_plain_escape, pattern)), escape
    )


def _double_plain_escape(found: re.Match[str]) -> str:
    """Doubles a backslash before an ordinary letter, where it stands for itself. Raises ``UserError`` 25."""
    if found[1] == "":
        raise UserError(
            "CANNOT_PARSE_ESCAPE_SEQUENCE",
            f"Invalid escape sequence at the end of LIKE pattern '{found.string}': write \\\\ for a backslash",
        )
    return found[0] if found[1] in "%_\\" else "\\" + found[0]


define("like", _build_like("LIKE"), 2)
define("notLike", _build_like("NOT LIKE"), 2)
define("ilike", _build_like("ILIKE"), 2)
define("notILike", _build_like("NOT ILIKE"), 2)


@function("countSubstrings", 2)
def count_substrings(call: Call) -> Typed:
    """Compiles ``countSubstrings(text, needle)``."""
    value, needle, known = string_argument(call, 0), string_argument(call, 1), call.args[1].value
    found = fragment(
        "((strlen({value}) - strlen(replace({value}, {needle}, ''))) // greatest(strlen({needle}), 1))",
        value=value,
        needle=needle,
    )
    count = cast(found, UINT64)
    if isinstance(known, str) and known:
        count = Scannable(count, value, count_occurrences(known), pa.uint64())
    return Typed(count, UINT64)


def constant_needles(call: Call) -> tuple[Typed, ...]:
    """Returns the elements of a constant array of needles. Raises ``UserError`` 43."""
    elements = call.args[1].elements
    if elements is None:
        raise call.wrong_type(1, "a constant array of strings")
    return elements


def any_needle(call: Call, value: Fragment, test: str) -> Typed:
    """Compiles a test of ``value`` against each ``needle`` of an array that is not constant.

    Raises ``UserError`` 43, 44.
    """
    if call.args[1].type != ArrayType(STRING):
        raise call.wrong_type(1, "an array of strings")
    if call.args[0].is_constant:
        raise UserError("ILLEGAL_COLUMN", f"Function {call.name} of a constant takes an array of constants")
    found = fragment("len(list_filter({}, lambda needle: {}))", call.args[1].sql, fragment(test, value))
    return Typed(fragment("({} > 0)", found), UINT8, is_condition=True)


@function("multiSearchAny", 2)
def multi_search_any(call: Call) -> Typed:
    """Compiles ``multiSearchAny(text, needles)``."""
    value = string_argument(call, 0)
    if call.args[1].elements is None:
        return any_needle(call, value, "{0} <> '' AND contains({0}, needle)")
    test = "({needle} <> '' AND contains({value}, {needle}))"
    tests = [fragment(test, value=value, needle=needle.sql) for needle in constant_needles(call)]
    return Typed(fragment("({})", join_fragments(" OR ", tests) or "false"), UINT8, is_condition=True)


# URLs -------------------------------------------------------------------------------------------------------------


def _build_url_part(template: str, compute: Compute, *pieces: str) -> Callable[[Call], Typed]:
    """Builds a function of one URL from an SQL template and a scan kernel."""

    def build(call: Call) -> Typed:
        sql = bind_value(string_argument(call, 0), "url", lambda v: fragment(template, v, *pieces))
        return Typed(Scannable(sql, string_argument(call, 0), compute, pa.string(), worth_at=2), STRING)

    return build


_MATCHED = "(CASE WHEN contains({0}, '{1}') THEN coalesce(regexp_extract({0}, '{2}', 1), '') ELSE '' END)"
"""First group of pattern {2}. Texts without {1} cannot match, which is cheaper to find."""

define("protocol", _build_url_part(_MATCHED, url_schemes, "://", "^([a-zA-Z][a-zA-Z0-9+.-]*)://(?s:.)"), 1)
# A host has a dot and no character that is illegal in hosts. After something like a scheme there must be a host.
_HOST = r"[^\s<>%{}|\\^~\[\];=&@:/?#]"
_HOST_END = _HOST.replace("[^", "[^.")
_HOST_PATTERN = rf"(?:{_HOST}*@)?({_HOST}*\.{_HOST}*{_HOST_END})(?:[:/?#]|$)"
_SCHEME = "^[a-zA-Z0-9+.-]+://"
_HOST_SQL = """(CASE WHEN NOT contains({0}, '.') THEN ''
    WHEN regexp_matches({0}, '{1}') THEN coalesce(regexp_extract({0}, '{1}{2}', 1), '')
    ELSE coalesce(regexp_extract({0}, '^(?://)?{2}', 1), '') END)"""
_NO_WWW = "(CASE WHEN starts_with({0}, 'www.') THEN substr({0}, 5) ELSE {0} END)"


def _build_host(*, without_www: bool) -> Callable[[Call], Typed]:
    compute = partial(url_hosts, without_www=without_www)

    def build(call: Call) -> Typed:
        sql = bind_value(string_argument(call, 0), "url", lambda v: fragment(_HOST_SQL, v, _SCHEME, _HOST_PATTERN))
        if without_www:
            sql = bind_value(sql, "host", lambda v: fragment(_NO_WWW, v))
        return Typed(Scannable(sql, string_argument(call, 0), compute, pa.string(), worth_at=2), STRING)

    return build


define("domain", _build_host(without_www=False), 1)
define("domainWithoutWWW", _build_host(without_www=True), 1)


@function("path", 1)
def url_path(call: Call) -> Typed:
    """Compiles ``path(url)``."""
    behind = fragment("regexp_replace({}, '^[^/?#]*//', '')", string_argument(call, 0))
    sql = fragment("regexp_extract({}, '^[^/?#]*(/[^?#]*)', 1)", behind)
    return Typed(Scannable(sql, string_argument(call, 0), url_paths, pa.string(), worth_at=2), STRING)


_BEHIND = "(CASE WHEN contains({{0}}, '{0}') THEN {1} ELSE {2} END)"
_QUERY = "split_part(substr({0}, instr({0}, '?') + 1), '#', 1)"
_WITHOUT_QUERY = "left({0}, instr({0}, '?') - 1) || regexp_extract(substr({0}, instr({0}, '?')), '#.*$', 0, 's')"
define("queryString", _build_url_part(_BEHIND.format("?", _QUERY, "''"), url_queries), 1)
define("fragment", _build_url_part(_BEHIND.format("#", "substr({0}, instr({0}, '#') + 1)", "''"), url_fragments), 1)
define("cutQueryString", _build_url_part(_BEHIND.format("?", _WITHOUT_QUERY, "{0}"), cut_queries), 1)


MACROS = define_macros(
    r"""pando_position_from(s, needle, start) AS CASE WHEN start > strlen(s) + 1 THEN 0
        WHEN needle = '' THEN start
        ELSE list_transform([pando_byte_substring(s, start, 1099511627776)], lambda r: CASE WHEN contains(r, needle)
            THEN strlen(left(r, instr(r, needle) - 1)) + start ELSE 0 END)[1] END""",
    r"""pando_character_from(s, needle, start) AS CASE WHEN start > length(s) + 1 THEN 0
        WHEN needle = '' THEN start
        ELSE list_transform([substr(s, start)], lambda r: CASE WHEN contains(r, needle)
            THEN instr(r, needle) + start - 1 ELSE 0 END)[1] END""",
)
