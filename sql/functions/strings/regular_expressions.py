"""Regular expressions, which both ClickHouse and DuckDB run with RE2.

Most texts do not match; a plain search for a needed substring finds that faster.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import ArrayType
from sql.functions.registry import Call, define, function
from sql.functions.strings.basic_strings import string_argument
from sql.functions.strings.pattern_analysis import analyze_pattern, skip_impossible_matches
from sql.functions.strings.search import any_needle, constant_needles, count_substrings
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.typed_expressions import STRING, UINT8, UINT64, Typed, cast, literal, string_literal

_ALWAYS = "(strlen({}) >= 0)"
"""True for every text, NULL for NULL."""


def _compile_match(value: Fragment, pattern: Fragment, known: object) -> Fragment:
    if not isinstance(known, str):
        return fragment("regexp_matches({}, {}, 's')", value, pattern)
    if not known:
        return fragment(_ALWAYS, value)
    exact = analyze_pattern(known).literal
    if exact is not None:
        return fragment("contains({}, {})", value, string_literal(exact))
    matched = fragment("regexp_matches({}, {}, 's')", value, pattern)
    return skip_impossible_matches(known, value, matched, fragment("false"))


@function("match REGEXP_MATCHES", 2)
def match(call: Call) -> Typed:
    """Compiles ``match(text, pattern)``."""
    pattern, known = string_argument(call, 1), call.args[1].value
    found = bind_value(string_argument(call, 0), "subject", lambda v: _compile_match(v, pattern, known))
    return Typed(found, UINT8, is_condition=True)


@function("multiMatchAny", 2)
def multi_match_any(call: Call) -> Typed:
    """Compiles ``multiMatchAny(text, patterns)``."""
    if call.args[1].elements is None:
        return any_needle(call, string_argument(call, 0), "regexp_matches({}, needle, 's')")
    patterns = [(element.sql, element.value) for element in constant_needles(call)]

    def found(value: Fragment) -> Fragment:
        return fragment(
            "({})", join_fragments(" OR ", [_compile_match(value, *pattern) for pattern in patterns]) or "false"
        )

    return Typed(bind_value(string_argument(call, 0), "subject", found), UINT8, is_condition=True)


def _compile_extract(call: Call, pattern: str, group: int) -> Typed:
    template = "coalesce(regexp_extract({}, {}, {}, 's'), '')"
    if not pattern:
        return Typed(fragment("left({}, 0)", string_argument(call, 0)), STRING)

    def extracted(value: Fragment) -> Fragment:
        matched = fragment(template, value, string_literal(pattern), group)
        return skip_impossible_matches(pattern, value, matched, fragment("''"))

    return Typed(bind_value(string_argument(call, 0), "subject", extracted), STRING)


@function("extract", 2)
def extract(call: Call) -> Typed:
    """Compiles ``extract(text, pattern)``: the first group of the first match, or the whole match."""
    pattern = call.constant_text(1)
    return _compile_extract(call, pattern, 1 if analyze_pattern(pattern).groups else 0)


@function("regexpExtract REGEXP_EXTRACT", (2, 3))
def regexp_extract(call: Call) -> Typed:
    """Compiles ``regexpExtract(text, pattern[, group])``. Raises ``UserError`` 353 for a wrong group."""
    pattern = call.constant_text(1)
    groups = analyze_pattern(pattern).groups
    group = call.constant_int(2, 1 if groups else 0)
    if not 0 <= group <= groups:
        raise UserError(
            "INDEX_OF_POSITIONAL_ARGUMENT_IS_OUT_OF_RANGE",
            f"regexpExtract: the index {group} must be from 0 to {groups}, the groups of the pattern",
        )
    return _compile_extract(call, pattern, group)


@function("extractAll", 2)
def extract_all(call: Call) -> Typed:
    """Compiles ``extractAll(text, pattern)``: the first group, or the whole, of each match."""
    pattern = call.constant_text(1)
    known = analyze_pattern(pattern)
    if known.matches_empty:  # an empty match ends the search
        return Typed(fragment("[]::VARCHAR[]"), ArrayType(STRING))
    group = 1 if known.groups else 0

    def extracted(value: Fragment) -> Fragment:
        matched = fragment("regexp_extract_all({}, {}, {}, 's')", value, string_literal(pattern), group)
        return skip_impossible_matches(pattern, value, matched, fragment("[]::VARCHAR[]"))

    return Typed(bind_value(string_argument(call, 0), "subject", extracted), ArrayType(STRING))


@function("countMatches", 2)
def count_matches(call: Call) -> Typed:
    """Compiles ``countMatches(text, pattern)``. Empty matches do not count."""
    pattern = call.constant_text(1)
    known = analyze_pattern(pattern)
    if not pattern:
        return Typed(cast(fragment("strlen(left({}, 0))", string_argument(call, 0)), UINT64), UINT64)
    if known.literal is not None:
        return count_substrings(Call("countSubstrings", (call.args[0], literal(known.literal)), call.environment))

    def counted(value: Fragment) -> Fragment:
        found = fragment("regexp_extract_all({}, {}, 0, 's')", value, string_literal(pattern))
        if set(pattern) & set(r"*?^$|\\({"):
            found = fragment("list_filter({}, lambda m: m <> '')", found)
        return cast(skip_impossible_matches(pattern, value, fragment("len({})", found), fragment("0")), UINT64)

    return Typed(bind_value(string_argument(call, 0), "subject", counted), UINT64)


_ANCHORS = {"^": "({1} || {0})", "$": "({0} || {1})"}
_GROUP = re.compile(r"\\([0\\])")
_PLAIN = re.compile(r"(?:[^\\]|\\[0\\])*")


def _build_replace(options: str) -> Callable[[Call], Typed]:
    def build(call: Call) -> Typed:
        pattern, new = (string_argument(call, position) for position in (1, 2))
        known, given = call.args[1].value, call.args[2].value

        def replaced(value: Fragment) -> Fragment:
            matched = fragment("regexp_replace({}, {}, {}, '{}')", value, pattern, new, options)
            if not isinstance(known, str):
                return fragment("(CASE WHEN {} = '' THEN {} ELSE {} END)", pattern, value, matched)
            if not known:
                return value
            if known in _ANCHORS and isinstance(given, str) and "\\" not in given:
                return fragment(_ANCHORS[known], value, new)
            exact = analyze_pattern(known).literal
            if exact and options == "gs" and isinstance(given, str):
                written = _expand_replacement(given, exact)
                if written is not None:
                    return fragment("replace({}, {}, {})", value, string_literal(exact), string_literal(written))
            return skip_impossible_matches(known, value, matched, value)

        return Typed(bind_value(string_argument(call, 0), "subject", replaced), STRING)

    return build


def _expand_replacement(replacement: str, match: str) -> str | None:
    r"""Returns the text that replaces a match, or ``None`` if it refers to groups other than ``\0``."""
    if _PLAIN.fullmatch(replacement) is None:
        return None
    return _GROUP.sub(lambda found: match if found.group(1) == "0" else "\\", replacement)


define("replaceRegexpAll REGEXP_REPLACE", _build_replace("gs"), 3)
define("replaceRegexpOne", _build_replace("s"), 3)
