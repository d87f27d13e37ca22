"""Parses instants in ClickHouse's two ways, *free* and *basic*.

*Free* (toDateTime, toDateTime64, CAST): the order of year, month and day, the separators, the digits of each number,
the time of day and its zone may vary, and months may have names. Integers of 9 and 10, 13, 16 and 19 digits are seconds
to nanoseconds since the epoch. Free spellings that depend on the clock (a day without a month, a time without a day)
are not supported.

*Basic* (the OrNull and OrZero functions): ``YYYY-MM-DD``, optionally with ``hh:mm:ss``, or 5 digits and more for
seconds.

``YYYY-MM-DD`` and ``YYYY-MM-DD hh:mm:ss`` cost a comparison and a cast; they must lie far enough inside DateTime's
range to do so in every zone. Only other texts reach the macros, where they are bound once. All macros return the wall
clock that is written, or NULL. If ``pando_is_utc`` holds for a text, they return the instant.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from sql.typing.column_kernels.scannable import Scannable, parse_by_scan
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment, function_call
from sql.typing.texts.time_columns import parse_basic_instants, parse_usual_instants
from sql.typing.times.date_ranges import clamp_instant
from sql.typing.times.time_zones import zone_to_utc

_TIME = (
    r"(?:[ T]+([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:[.]([0-9]*))?)?)?)?"
    r"(?: *([AaPp])[Mm])? *(?:Z|UTC|GMT)?(?:([+-])([0-9]{2})(?::?([0-9]{2}))?)? *"
)
_FREE = rf" *([0-9]{{4}})[-/.]([0-9]{{1,2}})[-/.]([0-9]{{1,2}}){_TIME}"
_BASIC = (
    r"([0-9]{4})[^0-9]([0-9]{2})[^0-9]([0-9]{2})"
    r"(?:[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.]([0-9]*))?)?()()()()"
)
_PARTS = "['y', 'm', 'd', 'h', 'i', 's', 'f', 'half', 'sign', 'oh', 'om']"
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR_LAST = (
    "(?i)^ *(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?(?:"
    rf"([0-9]{{1,2}})[-/. ]+({_MONTH})(?:[-/. ,]+([0-9]{{4}})|[-/.]([0-9]{{2}}))"
    rf"|({_MONTH}) +([0-9]{{1,2}}),? +([0-9]{{4}})"
    rf"|([0-9]{{4}}) +({_MONTH}) +([0-9]{{1,2}})"
    r"|([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})"
    r"|([0-9]{1,2})[-/.]([0-9]{1,2})[-/.](?:([0-9]{4})|([0-9]{2}))"
    r")(?: *, *(.+)|([T ].*)|)$"
)
"""Days whose year comes last, whose month has a name, or that are followed by a comma; the time is last."""
_YEAR_LAST_PARTS = (
    "['d1', 'n1', 'y1', 's1', 'n2', 'd2', 'y2', 'y3', 'n3', 'd3', 'y5', 'm5', 'd5', 'd4', 'm4', 'y4', 's4', 't1', 't2']"
)


def instant_of_text(sql: Fragment, zone: str, *, fine: bool) -> Fragment:
    """Parses a VARCHAR in the free spelling as a UTC instant; an invalid text is error 41.

    ``fine``: for DateTime64, with fractions of a second; else whole seconds in DateTime's range.
    """
    rest = fragment("coalesce({}, pando_no_instant(spelled))", _read_free(zone, fine))
    return _with_fallback(sql, zone, rest, fine, may_be_none=False)


def instant_or_null(sql: Fragment, zone: str, *, fine: bool) -> Fragment:
    """Parses a VARCHAR as :func:`instant_of_text`, with NULL for an invalid text."""
    return _with_fallback(sql, zone, _read_free(zone, fine), fine, may_be_none=True)


def basic_instant_or_null(sql: Fragment, zone: str, *, fine: bool) -> Fragment:
    """Parses a VARCHAR in the basic spelling as a UTC instant, or NULL."""
    clock = fragment("pando_basic_clock(spelled, {})", str(fine).lower())
    seconds = fragment("pando_basic_unix(spelled, {})", str(fine).lower())
    rest = fragment("coalesce({}, {})", zone_to_utc(clock, zone), seconds)
    begins = "(strlen({0}) >= 5 AND {0} >= '0' AND {0} < ':' AND regexp_matches({0}, '^[0-9]{{4}}'))"
    if fine:
        begins = f"{begins} OR starts_with({{0}}, '-')"

    def read(value: Fragment) -> Fragment:
        other = fragment("CASE WHEN {} THEN {} END", fragment(begins, value), _read_other(value, rest, fine))
        return fragment("coalesce({}, {})", _read_usual(value, zone, fine), other)

    compute = partial(parse_basic_instants, zone=zone, fine=fine)
    return Scannable(bind_value(sql, "given", read), sql, compute, pa.timestamp("us"), worth_at=2)


def timestamp_ns_of_text(sql: Fragment, instant: Fragment) -> Fragment:
    """Adds the digits after the microseconds, from the text, as a TIMESTAMP_NS."""
    return fragment("pando_nanoseconds({}, {})", instant, sql)


def _read_free(zone: str, fine: bool) -> Fragment:
    read = fragment("pando_any_clock(spelled, {})", str(fine).lower())
    local = zone_to_utc(read, zone)
    return read if local == read else fragment("CASE WHEN pando_is_utc(spelled) THEN {} ELSE {} END", read, local)


def _with_fallback(sql: Fragment, zone: str, rest: Fragment, fine: bool, *, may_be_none: bool) -> Fragment:
    """Parses usual spellings fast, and others with ``rest``, which names the text ``spelled``."""

    def read(value: Fragment) -> Fragment:
        return fragment("coalesce({}, {})", _read_usual(value, zone, fine), _read_other(value, rest, fine))

    compute = partial(parse_usual_instants, zone=zone, fine=fine, may_be_none=may_be_none)
    whole = bind_value(sql, "given", read)
    return parse_by_scan(whole, sql, compute, pa.timestamp("us"), lambda odd: _read_other(odd, rest, fine))


def _read_usual(value: Fragment, zone: str, fine: bool) -> Fragment:
    """Parses the usual spellings; NULL for others."""
    return zone_to_utc(function_call("pando_plain_clock" if fine else "pando_plain_second", value), zone)


def _read_other(value: Fragment, rest: Fragment, fine: bool) -> Fragment:
    instant = fragment("list_transform([{}], lambda spelled: {})[1]", value, rest)
    if fine:
        return instant
    whole = clamp_instant("date_trunc('second', moment)")
    return fragment("list_transform([{}], lambda moment: {})[1]", instant, whole)


MACROS = define_macros(
    r"""pando_plain_second(t) AS CASE WHEN t >= '1970-01-02' AND t <= '2106-02-06' AND pando_is_plain(t)
        THEN TRY_CAST(t AS TIMESTAMP) END""",
    r"""pando_plain_clock(t) AS CASE WHEN pando_is_plain(t) OR (strlen(t) > 20 AND t LIKE '____-__-__ __:__:__.%'
        AND regexp_full_match(t, '.{20}[0-9]{1,6}')) THEN TRY_CAST(t AS TIMESTAMP) END""",
    r"""pando_part(t) AS coalesce(TRY_CAST(t AS BIGINT), 0)""",
    r"""pando_hour(hour, half) AS CASE WHEN half = '' THEN hour WHEN half IN ('p', 'P')
        THEN CASE WHEN hour < 12 THEN hour + 12 ELSE hour END ELSE CASE WHEN hour = 12 THEN 0 ELSE hour END END""",
    # Hours, minutes and seconds beyond their limit are carried over.
    r"""pando_clock_of(day, p) AS CAST(day AS TIMESTAMP) + to_microseconds(
        ((pando_hour(pando_part(p.h), p.half) * 60 + pando_part(p.i)) * 60 + pando_part(p.s)) * 1000000
        + pando_part(rpad(left(p.f, 6), 6, '0'))
        - CASE p.sign WHEN '-' THEN -1 ELSE 1 END * (pando_part(p.oh) * 60 + pando_part(p.om)) * 60000000)""",
    rf"""pando_free_clock(t) AS list_transform([regexp_extract(t, '^{_FREE}$', {_PARTS})],
        lambda p: pando_clock_of(TRY_CAST(p.y || '-' || p.m || '-' || p.d AS DATE), p))[1]""",
    r"""pando_time_moved(t) AS regexp_replace(regexp_replace(
        t, '^ *([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?) +(.*[^ ]) *$', '\2 \1'),
        '([A-Za-z] +[0-9]{1,2}) +([0-9]{1,2}:[0-9]{2}:[0-9]{2}) +([0-9]{4})$', '\1 \3 \2')""",
    r"""pando_whole_year(short) AS CASE WHEN short = '' THEN '' WHEN short < '70' THEN '20' ELSE '19' END || short""",
    r"""pando_month(name) AS CASE WHEN name = '' THEN ''
        ELSE CAST(strpos('janfebmaraprmayjunjulaugsepoctnovdec', lower(left(name, 3))) // 3 + 1 AS VARCHAR) END""",
    # A month beyond December is the day.
    rf"""pando_year_moved(t) AS list_transform([regexp_extract(t, '{_YEAR_LAST}', {_YEAR_LAST_PARTS})],
        lambda p: pando_whole_year(p.s1 || p.s4) || p.y1 || p.y2 || p.y3 || p.y4 || p.y5 || '-'
        || CASE WHEN p.m4 <> '' AND pando_part(p.m4) > 12 THEN p.d4 || '-' || p.m4
            ELSE pando_month(p.n1 || p.n2 || p.n3) || p.m4 || p.m5 || '-' || p.d1 || p.d2 || p.d3 || p.d4 || p.d5 END
        || ' ' || p.t1 || p.t2)[1]""",
    r"""pando_year_first(t) AS CASE
        WHEN regexp_matches(t, '^ *[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?:[^0-9,]|$)') THEN t
        WHEN regexp_matches(t, '^ *[0-9]{1,2}[-/.](?:1[0-2]|0?[0-9])[-/.][0-9]{4}(?:[ T]|$)')
        THEN regexp_replace(t, '^ *([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})', '\3-\2-\1')
        WHEN regexp_matches(t, '^[0-9]{8}(?:$|[ T,-]|[0-9]{6}(?:[^0-9]|$))') THEN regexp_replace(regexp_replace(
            regexp_replace(t, '^([0-9]{4})([0-9]{2})([0-9]{2})', '\1-\2-\3 '),
            ' (?:[ T-]|, *)?([0-9]{2})([0-9]{2})([0-9]{2})([^0-9]|$)', ' \1:\2:\3\4'),
            ' (?: |, *)?([0-9]{2})([0-9]{2})$', ' \1:\2')
        WHEN regexp_matches(t, '^[0-9]{4}$') THEN t || '-01-01'
        WHEN regexp_matches(t, '^[0-9]{4}[-/][0-9]{1,2} *$') THEN rtrim(t) || '-01'
        ELSE pando_year_moved(pando_time_moved(regexp_replace(t, '^([A-Za-z]{3,} +[0-9]{4}) *$', '1 \1'))) END""",
    r"""pando_unix(t) AS make_timestamp(CAST(split_part(t, '.', 1) AS BIGINT) * 1000000
        + CASE WHEN regexp_matches(t, '^-0*[1-9]') THEN -1 ELSE 1 END
        * pando_part(rpad(left(split_part(t, '.', 2), 6), 6, '0')))""",
    r"""pando_any_unix(t, fine) AS CASE
        WHEN regexp_full_match(t, '[0-9]{13}') THEN make_timestamp(CAST(t AS BIGINT) * 1000)
        WHEN regexp_full_match(t, '[0-9]{16}') THEN make_timestamp(CAST(t AS BIGINT))
        WHEN regexp_full_match(t, '[0-9]{19}') THEN make_timestamp(TRY_CAST(t AS BIGINT) // 1000)
        WHEN regexp_full_match(t, '[0-9]{9,10}') OR (fine AND regexp_full_match(t, '[0-9]{9,10}[.][0-9]+'))
        THEN pando_unix(t) END""",
    # Every valid text has four digits in a row, or two after a day and a month.
    r"""pando_any_clock(t, fine) AS CASE WHEN strlen(t) >= 4 AND regexp_matches(t, '[0-9]{4}|[0-9A-Za-z][-/.][0-9]{2}')
        THEN coalesce(pando_any_unix(t, fine), pando_free_clock(pando_year_first(t))) END""",
    r"""pando_is_utc(t) AS regexp_matches(t,
        '^[0-9]{9,10}([.][0-9]+)?$|^[0-9]{13}([0-9]{3}){0,2}$|(Z|UTC|GMT)$|'
        || '([:T][0-9]+|[AaPp][Mm])([.][0-9]*)? *[+-][0-9]{2}(:?[0-9]{2})?$')""",
    rf"""pando_basic_clock(t, fine) AS CASE WHEN fine OR NOT contains(t, '.') OR strlen(t) = 10
        THEN list_transform([regexp_extract(t, '^{_BASIC}$', {_PARTS})], lambda p: CASE WHEN p.y <> ''
            THEN pando_clock_of(pando_day_of(CAST(p.y AS BIGINT), CAST(p.m AS BIGINT), CAST(p.d AS BIGINT)), p)
            END)[1] END""",
    r"""pando_basic_unix(t, fine) AS CASE
        WHEN fine AND regexp_full_match(t, '(-[0-9]{1,12}|[0-9]{5,12})([.][0-9]*)?') THEN pando_unix(t)
        WHEN fine AND regexp_full_match(t, '[0-9]{13,15}') THEN make_timestamp(CAST(t AS BIGINT) * 1000)
        WHEN NOT fine AND regexp_full_match(t, '[0-9]{5,20}')
        THEN make_timestamp(pando_clamped_seconds(TRY_CAST(t AS UBIGINT)) * 1000000) END""",
    r"""pando_no_instant(t) AS CASE WHEN t IS NOT NULL
        THEN CAST(error('pando:41:Cannot parse DateTime from ''' || t || '''') AS TIMESTAMP) END""",
    r"""pando_nanoseconds(instant, t) AS CASE WHEN NOT contains(t, '.') THEN make_timestamp_ns(epoch_us(instant) * 1000)
        ELSE make_timestamp_ns(epoch_us(date_trunc('second', instant)) * 1000
        + pando_part(rpad(left(regexp_extract(t, '(?::[0-9]+|^[0-9]{9,10})[.]([0-9]+)', 1), 9), 9, '0'))) END""",
)
