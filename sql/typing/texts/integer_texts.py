"""Parses integers by ClickHouse's rules: an optional sign and digits, nothing else.

A conversion keeps the low bits of a number that does not fit its type; the ``…OrNull`` functions return NULL instead.
Unsigned types refuse a minus. Most texts fit: they cost one match and one cast. Numbers that fit 64 bits cost twice as
much. Only the others reach the macros, where the text is bound once.
"""

from __future__ import annotations

import re
from functools import partial

from parts.types import IntegerType
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Scannable, parse_by_scan
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.texts.number_columns import fitting_integers, parse_integers
from sql.typing.typed_expressions import INT64, UINT64, cast

_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"\+?[0-9]+")
_MASK = 18446744073709551615


def _pattern(goal: IntegerType) -> re.Pattern[str]:
    return _SIGNED if goal.signed else _UNSIGNED


def parse_constant_integer(text: str, goal: IntegerType) -> int | None:
    """Returns the value of a constant text, or ``None`` if it is invalid.

    The conversion of an invalid text fails when it runs.
    """
    if len(text) > 1000 or _pattern(goal).fullmatch(text) is None:
        return None
    return (int(text) - goal.minimum) % (1 << goal.bits) + goal.minimum


def integer_or_null(sql: Fragment, goal: IntegerType) -> Fragment:
    """Parses a VARCHAR; NULL if it is not an integer of ``goal``."""
    return Scannable(
        _parse_matching(sql, goal, goal),
        sql,
        partial(fitting_integers, goal=goal),
        goal.arrow,
        worth_at=MIN_REPEATS_FOR_DICTIONARY,
    )


def _parse_matching(sql: Fragment, goal: IntegerType, read: IntegerType) -> Fragment:
    spelled = fragment("regexp_full_match({}, '{}')", sql, _pattern(goal).pattern)
    return fragment("(CASE WHEN {} THEN TRY_CAST({} AS {}) END)", spelled, sql, duckdb_type(read))


def integer_of_text(sql: Fragment, goal: IntegerType) -> Fragment:
    """Parses a VARCHAR; an invalid text is error 6, 32 or 72 at run time."""
    tiers: list[Fragment] = [_parse_matching(sql, goal, goal)]
    if goal.bits < INT64.bits:
        low = wrap_integer(fragment("low"), INT64, goal)
        tiers.append(fragment("list_transform([{}], lambda low: {})[1]", _parse_matching(sql, goal, INT64), low))
    wrapped = wrap_integer(
        fragment("pando_low_digits(digits, '{}', '{}')", _pattern(goal).pattern, goal.name), UINT64, goal
    )
    whole = fragment(
        "coalesce({}, list_transform([{}], lambda digits: {})[1])", join_fragments(", ", tiers), sql, wrapped
    )
    compute = partial(parse_integers, goal=goal)
    return parse_by_scan(whole, sql, compute, goal.arrow, lambda odd: _parse_error(odd, goal))


def _parse_error(sql: Fragment, goal: IntegerType) -> Fragment:
    return cast(fragment("pando_no_integer({}, '{}')", sql, goal.name), goal)


MACROS = define_macros(
    # 10^64 is a multiple of 2^64, so only the last 64 digits matter. Two halves of 32 digits fit 128 bits.
    rf"""pando_low_of_halves(s) AS (((CAST(left(s, 32) AS UHUGEINT) & {_MASK}::UHUGEINT)
        * {10**32 % (_MASK + 1)}::UHUGEINT & {_MASK}::UHUGEINT) + (CAST(right(s, 32) AS UHUGEINT) & {_MASK}::UHUGEINT))
        & {_MASK}::UHUGEINT""",
    rf"""pando_low_of_digits(t) AS list_transform([pando_low_of_halves(lpad(right(ltrim(t, '+-'), 64), 64, '0'))],
        lambda v: CAST(CASE WHEN starts_with(t, '-') THEN ({_MASK + 1}::UHUGEINT - v) & {_MASK}::UHUGEINT ELSE v END
            AS UBIGINT))[1]""",
    r"""pando_low_digits(t, pattern, name) AS CASE WHEN t IS NULL THEN NULL
        WHEN regexp_full_match(t, pattern) THEN pando_low_of_digits(t)
        ELSE pando_no_integer(t, name) END""",
    r"""pando_no_integer(t, name) AS CASE
        WHEN t = '' THEN error('pando:32:Attempt to read after eof: Cannot parse ' || name || ' from an empty String')
        WHEN regexp_full_match(t, '-[0-9]+')
        THEN error('pando:72:Unsigned type must not contain ''-'' symbol: Cannot parse ' || name || ' from ' || t)
        ELSE error('pando:6:Cannot parse string ''' || t || ''' as ' || name || ': syntax error') END""",
)
