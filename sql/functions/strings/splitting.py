"""Functions that split texts into arrays of words, and ``arrayStringConcat``, which joins them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parts.common.errors import UserError
from parts.types import ArrayType, StringType
from sql.functions.list_kernels.array_slices import join_array_texts
from sql.functions.registry import Call, function
from sql.functions.strings.basic_strings import string_argument
from sql.functions.strings.pattern_analysis import analyze_pattern
from sql.functions.strings.string_kernels import (
    ALPHA,
    NO_PUNCTUATION,
    NO_SPACE,
    WORDS,
    byte_class_runs,
    split_into_words,
)
from sql.typing.casts.text_casts import to_text
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Scannable
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.typed_expressions import STRING, Typed, literal, string_literal


def _split(separator: Fragment, value: Fragment, limit: int) -> Typed:
    words = fragment("string_split({}, {})", value, separator)
    if limit > 0:
        words = fragment("{}[1:{}]", words, limit)
    return Typed(words, ArrayType(STRING))


@function("splitByChar splitByString", (2, 3))
def split_by_separator(call: Call) -> Typed:
    """Compiles ``splitByChar`` and ``splitByString``. Raises ``UserError`` 36."""
    limit = call.constant_int(2, 0)
    value = string_argument(call, 1)
    if call.args[0].value == "" and call.node is not None and call.node.name == "splitByChar":
        raise UserError("BAD_ARGUMENTS", "Illegal separator for function splitByChar. Must be exactly one byte")
    if call.args[0].value == "":
        letters = _split(string_literal(""), value, limit)
        return replace(letters, sql=fragment("(CASE WHEN {} = '' THEN [] ELSE {} END)", value, letters.sql))
    words, known = _split(string_argument(call, 0), value, limit), call.args[0].value
    if isinstance(known, str):
        words = replace(
            words,
            sql=Scannable(words.sql, value, split_into_words(known, limit), WORDS, worth_at=MIN_REPEATS_FOR_DICTIONARY),
        )
    return words


@function("splitByWhitespace", (1, 2))
def split_by_whitespace(call: Call) -> Typed:
    """Compiles ``splitByWhitespace(text[, limit])``."""
    words = fragment("list_filter(regexp_split_to_array({}, '\\s+'), lambda w: w <> '')", string_argument(call, 0))
    return _scan_runs(call, words, NO_SPACE)


@function("splitByNonAlpha", (1, 2))
def split_by_non_alpha(call: Call) -> Typed:
    """Compiles ``splitByNonAlpha(text[, limit])``: words between blanks and punctuation."""
    words = fragment(
        "list_filter(regexp_split_to_array({}, '[\\s[:punct:]]+'), lambda w: w <> '')", string_argument(call, 0)
    )
    return _scan_runs(call, words, NO_PUNCTUATION)


@function("splitByRegexp", (2, 3))
def split_by_regexp(call: Call) -> Typed:
    """Compiles ``splitByRegexp(pattern, text[, limit])``."""
    pattern = call.constant_text(0)
    known = analyze_pattern(pattern).literal
    if known is not None or not pattern:
        limit = call.args[2:]
        return split_by_separator(Call("splitByString", (literal(known or ""), call.args[1], *limit), call.environment))
    return _limit_words(
        call, fragment("regexp_split_to_array({}, {})", string_argument(call, 1), string_literal(pattern)), 2
    )


def _limit_words(call: Call, words: Fragment, position: int) -> Typed:
    """Limits the number of words to the argument at ``position``; 0 is no limit."""
    limit = call.constant_int(position, 0)
    return Typed(fragment("{}[1:{}]", words, limit) if limit > 0 else words, ArrayType(STRING))


@function("alphaTokens", (1, 2))
def alpha_tokens(call: Call) -> Typed:
    """Compiles ``alphaTokens(text[, limit])``: the runs of ASCII letters."""
    return _scan_runs(call, fragment("regexp_extract_all({}, '[a-zA-Z]+')", string_argument(call, 0)), ALPHA)


def _scan_runs(call: Call, words: Fragment, kind: np.ndarray) -> Typed:
    limited = _limit_words(call, words, 1)
    compute = byte_class_runs(kind, call.constant_int(1, 0))
    return replace(limited, sql=Scannable(limited.sql, string_argument(call, 0), compute, WORDS, worth_at=2))


@function("arrayStringConcat", (1, 2))
def array_string_concat(call: Call) -> Typed:
    """Compiles ``arrayStringConcat(array[, separator])``."""
    array = call.args[0]
    if not isinstance(array.type, ArrayType):
        raise call.wrong_type(0, "Array")
    separator = string_argument(call, 1) if len(call.args) > 1 else string_literal("")
    inner = to_text(Typed(fragment("x"), array.type.inner), call.environment.zone)
    items = (
        array.sql
        if isinstance(array.type.inner, StringType)
        else fragment("list_transform({}, lambda x: {})", array.sql, inner)
    )
    sql = fragment("coalesce(array_to_string({}, {}), '')", items, separator)
    return Typed(join_array_texts(sql, array, call.args[1] if len(call.args) > 1 else None), STRING)
