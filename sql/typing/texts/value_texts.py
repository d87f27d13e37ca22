"""Formats values as texts and parses texts, as DuckDB expressions with ClickHouse's spelling.

Floats are written in the shortest form without ``.0``, Decimals without trailing zeros, instants in the zone of their
type. ``sql.typing.scalars`` says which type uses what.
"""

from __future__ import annotations

import re
from datetime import date
from functools import partial

import pyarrow as pa

from parts.types import (
    DataType,
    Date32Type,
    DateType,
    DecimalType,
)
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Scannable, parse_or_leave_over
from sql.typing.duckdb.bound_values import BoundFragment, bind_value
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.texts.time_columns import parse_days
from sql.typing.texts.usual_address_texts import pad_with_zeros
from sql.typing.times.date_ranges import clamp_date
from sql.typing.times.time_zones import wall_clock
from sql.typing.typed_expressions import Typed

_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH_DAY = date(1970, 1, 1)


def format_instant(value: Typed, precision: int, zone: str) -> Fragment:
    """Formats a DateTime or DateTime64 of ``precision`` in the zone of its type."""
    local = wall_clock(value, zone)
    if precision == 0:
        return fragment("CAST({} AS VARCHAR)", local)
    if precision > 6:
        return fragment("left(strftime({}, '%Y-%m-%d %H:%M:%S.%n'), {})", local, 20 + precision)
    return fragment("left(strftime({}, '%Y-%m-%d %H:%M:%S.%f'), {})", local, 20 + precision)


def format_decimal(sql: Fragment, type_: DecimalType) -> Fragment:
    """Formats a Decimal. Most values use all their digits or none, so few need zeros cut off."""
    template = """(CASE WHEN trunc({0}, {1}) <> {0} THEN CAST({0} AS VARCHAR)
        WHEN trunc({0}) = {0} THEN CAST(CAST({0} AS DECIMAL({2}, 0)) AS VARCHAR)
        ELSE pando_decimal_text(CAST({0} AS VARCHAR)) END)"""
    return bind_value(sql, "decimal", lambda v: fragment(template, v, type_.scale - 1, type_.precision))


def fixed_string_of_text(sql: Fragment, length: int) -> Fragment:
    """Pads a text with zero bytes. A text that is too long raises 131 at run time."""

    def padded_text(value: Fragment) -> Fragment:
        fixed = fragment("pando_to_fixed({}, {})", value, length)
        known = Scannable(fixed, value, partial(pad_with_zeros, length), pa.binary())
        return BoundFragment(fixed, known, lambda column: fragment("coalesce({}, {})", column, fixed))

    return bind_value(sql, "short", padded_text)


def decimal_of_text(sql: Fragment, goal: DecimalType, how: str = "CAST") -> Fragment:
    """Parses a Decimal; digits beyond its scale are cut off, not rounded."""
    kept = r"'\.\d*', ''" if goal.scale == 0 else fragment(r"'(\.\d{{{}}})\d+', '\1'", goal.scale)
    return fragment("{}(regexp_replace({}, {}) AS {})", how, sql, kept, duckdb_type(goal))


def without_exponent(value: Typed, sql: Fragment) -> Fragment:
    """Writes out the digits of a number with an exponent.

    DuckDB would round the number, and refuse one with more digits than the type.
    """
    if isinstance(value.value, str) and "e" not in value.value.lower():
        return sql
    has_one = "contains({0}, 'e') OR contains({0}, 'E')"
    text = f"(CASE WHEN {has_one} THEN pando_without_exponent({{0}}) ELSE {{0}} END)"
    return bind_value(sql, "spelled", lambda spelled: fragment(text, spelled))


def date_of_text(sql: Fragment, goal: DataType, *, fails: bool) -> Fragment:
    """Parses a VARCHAR as a date; a Date is limited to its range.

    The usual spellings are fast. An invalid text is error 38 if ``fails``, else NULL.
    """
    is_narrow = isinstance(goal, DateType)
    rest = f"pando_day({{}}, '{goal.name}')" if fails else "pando_try_day({})"

    def day(value: Fragment) -> Fragment:
        other = fragment(rest, value)
        if not is_narrow:
            return fragment("coalesce(pando_plain_date32({}), {})", value, other)
        other = fragment("list_transform([{}], lambda day: {})[1]", other, clamp_date("day"))
        other = other if fails else fragment("CASE WHEN pando_may_be_day({}) THEN {} END", value, other)
        return fragment("coalesce(pando_plain_date({}), {})", value, other)

    whole, compute = bind_value(sql, "spelled", day), partial(parse_days, is_narrow=is_narrow)
    if not fails:
        return Scannable(whole, sql, compute, pa.date32(), worth_at=MIN_REPEATS_FOR_DICTIONARY)
    failure = f"CAST(pando_no_day({{}}, '{goal.name}') AS DATE)"
    return parse_or_leave_over(whole, sql, compute, pa.date32(), lambda odd: fragment(failure, odd))


def parse_constant_day(value: Typed, goal: DateType | Date32Type) -> date | None:
    """Returns the day of a literal ``YYYY-MM-DD``, or ``None``.

    DuckDB would plan the macros that parse any spelling again for every run.
    """
    if not isinstance(value.value, str) or not _ISO_DAY.fullmatch(value.value):
        return None
    try:
        day = date.fromisoformat(value.value)
    except ValueError:
        return None
    first, last = goal.days
    return day if first <= (day - _EPOCH_DAY).days <= last else None


def truncate_second_digits(instant: Fragment, precision: int) -> Fragment:
    """Cuts an instant to ``precision`` decimal digits of a second."""
    step = 10 ** (6 - precision)
    return instant if step == 1 else fragment("make_timestamp(epoch_us({}) // {step} * {step})", instant, step=step)


# The macros of this module; the executor creates them once. A macro repeats its argument wherever its body names it, so
# that nested macros grow exponentially. `list_transform([x], lambda y: …)[1]` names a value once.
MACROS = define_macros(
    r"""pando_is_plain(t) AS (strlen(t) = 10 AND t LIKE '____-__-__')
        OR (strlen(t) = 19 AND t LIKE '____-__-__ __:__:__')""",
    r"""pando_try_ipv4(t) AS CASE WHEN t >= '0' AND t < ':' AND strlen(t) BETWEEN 7 AND 15
        THEN pando_plain_ipv4(encode(t)) END""",
    r"""pando_no_ipv6(t) AS CASE WHEN t IS NOT NULL
        THEN CAST(error('pando:676:Cannot parse IPv6 from ''' || t || '''') AS BLOB) END""",
    r"pando_tidy_float(t) AS CASE WHEN ends_with(t, '.0') THEN left(t, length(t) - 2) ELSE t END",
    r"""pando_exponent(t) AS
        regexp_replace(regexp_replace(regexp_replace(t, '\.0e', 'e'), 'e\+0*', 'e'), 'e-0+', 'e-')""",
    # A number with up to three digits after the point is written as a Decimal, in a third of the time.
    r"pando_is_level(x, unit) AS round(x * unit) / unit = x",
    r"""pando_short_text(x) AS CASE
        WHEN pando_is_level(x, 10) THEN CAST(CAST(x AS DECIMAL(18, 1)) AS VARCHAR)
        WHEN pando_is_level(x, 100) THEN CAST(CAST(x AS DECIMAL(18, 2)) AS VARCHAR)
        WHEN pando_is_level(x, 1000) THEN CAST(CAST(x AS DECIMAL(18, 3)) AS VARCHAR)
        ELSE CAST(x AS VARCHAR) END""",
    r"""pando_float_text(x) AS CASE
        WHEN x = trunc(x) AND x <> 0 AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
        WHEN abs(x) >= 1e-3 AND abs(x) < 1e11 THEN pando_short_text(x)
        ELSE pando_odd_float_text(x) END""",
    r"""pando_float32_text(x) AS CASE
        WHEN x = trunc(x) AND x <> 0 AND abs(x) < 16777216 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
        WHEN abs(x) >= 1e-3 AND abs(x) < 1e3 THEN pando_short_text(x)
        ELSE pando_odd_float_text(x) END""",
    r"""pando_odd_float_text(x) AS CASE
        WHEN x = 0 THEN CASE WHEN signbit(x) THEN '-0' ELSE '0' END
        WHEN isnan(x) THEN 'nan'
        WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'inf' ELSE '-inf' END
        WHEN abs(x) >= 1e16 AND abs(x) < 1e21 THEN pando_digits(x)
        WHEN abs(x) < 1e-4 AND abs(x) >= 1e-6 THEN pando_small(pando_exponent(CAST(x AS VARCHAR)))
        WHEN abs(x) >= 1e-4 AND abs(x) < 1e16 THEN pando_tidy_float(CAST(x AS VARCHAR))
        ELSE pando_exponent(CAST(x AS VARCHAR)) END""",
    r"""pando_digits(x) AS CASE WHEN x < 0 THEN '-' ELSE '' END || rpad(replace(split_part(
        pando_exponent(CAST(abs(x) AS VARCHAR)), 'e', 1), '.', ''),
        1 + CAST(split_part(pando_exponent(CAST(abs(x) AS VARCHAR)), 'e', 2) AS INTEGER), '0')""",
    r"""pando_small(t) AS CASE WHEN starts_with(t, '-') THEN '-' ELSE '' END || '0.'
        || repeat('0', abs(CAST(split_part(t, 'e', 2) AS INTEGER)) - 1)
        || replace(replace(split_part(t, 'e', 1), '.', ''), '-', '')""",
    r"""pando_quoted(t) AS CASE WHEN regexp_matches(t, '[\x00\x08\x09\x0a\x0c\x0d]')
        THEN replace(replace(replace(replace(replace(replace(pando_quoted_plain(t), chr(0), '\0'), chr(8), '\b'),
            chr(9), '\t'), chr(10), '\n'), chr(12), '\f'), chr(13), '\r')
        ELSE pando_quoted_plain(t) END""",
    r"pando_quoted_plain(t) AS replace(replace(t, '\', '\\'), '''', '\''')",
    r"pando_decimal_text(t) AS CASE WHEN contains(t, '.') THEN rtrim(rtrim(t, '0'), '.') ELSE t END",
    # DuckDB parses some more spellings, but slowly.
    r"""pando_try_uuid(t) AS CASE WHEN strlen(t) >= 32
        THEN coalesce(pando_plain_uuid(encode(t)), CAST(TRY_CAST(t AS UUID) AS BLOB)) END""",
    r"""pando_fixed_text(b) AS CASE WHEN ends_with(decode(b), chr(0)) THEN rtrim(decode(b), chr(0))
        ELSE decode(b) END""",
    r"""pando_to_fixed(t, n) AS CASE WHEN strlen(t) > n
        THEN error('pando:131:String too long for type FixedString(' || n || ')')
        ELSE encode(t || repeat(chr(0), n - strlen(t))) END""",
    # A day beyond the month's end flows into the next month; an invalid month gives the first date.
    r"""pando_day_of(y, m, d) AS CASE WHEN m >= 1 AND m <= 12 AND d >= 1 AND d <= 31
        THEN make_date(y, m, 1::BIGINT) + CAST(d - 1 AS INTEGER) ELSE DATE '1900-01-01' END""",
    r"""pando_split_day(t) AS CASE
        WHEN regexp_full_match(t, '[0-9]{8}') THEN pando_day_of(TRY_CAST(left(t, 4) AS BIGINT),
            TRY_CAST(substr(t, 5, 2) AS BIGINT), TRY_CAST(substr(t, 7, 2) AS BIGINT))
        WHEN regexp_full_match(t, '[0-9]{4}[\x01-/:-\x7f](?:[0-9]{1,2}[\x01-/:-\x7f][0-9]{1,2}'
            || '|[0-9]{2}[\x01-/:-\x7f][0-9]{2}[ T]([0-9]{2}:){2}[0-9]{2}([.][0-9]+)?)')
        THEN pando_day_of(
            TRY_CAST(left(t, 4) AS BIGINT), TRY_CAST(regexp_extract(t, '^.{5}([0-9]+)', 1) AS BIGINT),
            TRY_CAST(regexp_extract(t, '^.{5}[0-9]+.([0-9]+)', 1) AS BIGINT)) END""",
    r"""pando_plain_date(t) AS CASE WHEN t >= '1970-01-01' AND t < '2149-06-07' AND pando_is_plain(t)
        THEN TRY_CAST(left(t, 10) AS DATE) END""",
    "pando_plain_date32(t) AS CASE WHEN pando_is_plain(t) THEN TRY_CAST(left(t, 10) AS DATE) END",
    "pando_may_be_day(t) AS strlen(t) >= 8 AND t >= '0' AND t < ':'",
    r"""pando_try_day(t) AS CASE WHEN NOT pando_may_be_day(t) THEN NULL WHEN strlen(t) = 10 AND t[5] = '-'
        THEN coalesce(TRY_CAST(t AS DATE), pando_split_day(t)) ELSE pando_split_day(t) END""",
    r"""pando_day(t, name) AS CASE WHEN t IS NULL THEN NULL
        ELSE coalesce(pando_try_day(t), pando_no_day(t, name)) END""",
    r"pando_no_day(t, name) AS error('pando:38:Cannot parse ' || name || ' from ''' || t || '''')",
    r"""pando_float_spelling(t) AS CASE
        WHEN regexp_full_match(t, '[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i)[+-]?(inf|infinity|nan)')
        THEN t END""",
    r"""pando_decimal_spelling(t) AS regexp_replace(CASE WHEN contains(t, '.') THEN split_part(t, '.', 1) || '.'
        || replace(substr(t, strpos(t, '.') + 1), '.', '') ELSE t END, '^([+-]?)([.eE]|$)', '\10\2')""",
    r"""pando_shifted(digits, point) AS CASE WHEN point <= 0 THEN '0.' || repeat('0', -point) || digits
        WHEN point >= strlen(digits) THEN digits || repeat('0', point - strlen(digits))
        ELSE left(digits, point) || '.' || substr(digits, point + 1) END""",
    r"""pando_without_exponent(t) AS list_transform([regexp_extract(t,
        '^([+-]?)([0-9]*)[.]?([0-9]*)[eE]([+-]?[0-9]{1,9})$', ['sign', 'whole', 'rest', 'power'])],
        lambda p: CASE WHEN p.power = '' OR p.whole || p.rest = '' THEN t ELSE p.sign || pando_shifted(
            p.whole || p.rest, strlen(p.whole) + greatest(-400, least(400, CAST(p.power AS INTEGER)))) END)[1]""",
    r"""pando_no_ipv4(t) AS CASE WHEN t IS NOT NULL
        THEN CAST(error('pando:675:Cannot parse IPv4 from ''' || t || '''') AS UINTEGER) END""",
    r"""pando_try_bool(t) AS CASE WHEN lower(t) IN ('1', 'true', 't', 'yes', 'y', 'on', 'enable', 'enabled') THEN true
        WHEN lower(t) IN ('0', 'false', 'f', 'no', 'n', 'off', 'disable', 'disabled') THEN false END""",
    r"""pando_bool(t) AS list_transform([t], lambda whole: coalesce(pando_try_bool(whole), CASE WHEN whole IS NOT NULL
        THEN CAST(error('pando:467:Cannot parse boolean value here: ' || whole) AS BOOLEAN) END))[1]""",
)
