"""Keeps dates and times within the range of their type, as ClickHouse does.

Conversions from text and from numbers stop at the limits of Date and DateTime. Arithmetic, and conversions between
dates and times, wrap around. DuckDB's DATE and TIMESTAMP go far beyond ClickHouse's; a value outside would be stored as
garbage.

A macro repeats its argument wherever its body names it. So the argument should be short, or DuckDB must find the common
expression.
"""

from __future__ import annotations

from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, Piece, fragment

_DAY_MASK = 65535
_SECOND_MASK = 4294967295


def wrap_day(days: Fragment) -> Fragment:
    """Returns a Date from a BIGINT of days since the epoch: its low 16 bits."""
    return fragment("(DATE '1970-01-01' + CAST(({}) & {} AS INTEGER))", days, _DAY_MASK)


def clamp_date(sql: Piece) -> Fragment:
    """Limits a DATE to Date's range."""
    return fragment("pando_clamped_date({})", sql)


def wrap_seconds(seconds: Fragment) -> Fragment:
    """Returns a DateTime from a BIGINT of seconds: its low 32 bits."""
    return fragment("make_timestamp((({}) & {}) * 1000000)", seconds, _SECOND_MASK)


def wrap_instant(sql: Fragment) -> Fragment:
    """Wraps a TIMESTAMP around to whole seconds in DateTime's range."""
    return wrap_seconds(fragment("epoch_us({}) // 1000000", sql))


def clamp_instant(sql: Piece) -> Fragment:
    """Limits a TIMESTAMP to DateTime's range."""
    return fragment("pando_clamped_instant({})", sql)


def clamp_seconds(number: Fragment) -> Fragment:
    """Limits an integer or float to DateTime's seconds, as BIGINT."""
    return fragment("pando_clamped_seconds({})", number)


MACROS = define_macros(
    r"pando_low_unsigned(x) AS CAST(x & 18446744073709551615::HUGEINT AS UBIGINT)",
    # The body names x once: DuckDB expands a macro's argument at every use, and sums are nested.
    r"""pando_low_signed(x) AS CAST(xor(x & 18446744073709551615::HUGEINT, 9223372036854775808::HUGEINT)
        - 9223372036854775808::HUGEINT AS BIGINT)""",
    # The time floored to a multiple of width within its period, both in microseconds.
    r"""pando_start_of_clock(t, period, width) AS
        make_timestamp(epoch_us(t) - (epoch_us(t) % period + period) % period % width)""",
    r"""pando_clamped_date(d) AS CASE WHEN d < DATE '1970-01-01' THEN DATE '1970-01-01'
        WHEN d > DATE '2149-06-06' THEN DATE '2149-06-06' ELSE d END""",
    r"""pando_clamped_instant(t) AS CASE WHEN t < TIMESTAMP '1970-01-01' THEN TIMESTAMP '1970-01-01'
        WHEN t > TIMESTAMP '2106-02-07 06:28:15' THEN TIMESTAMP '2106-02-07 06:28:15' ELSE t END""",
    r"""pando_month_date(d) AS CASE WHEN d < DATE '1970-01-01' THEN DATE '1970-01-01'
        ELSE DATE '1970-01-01' + CAST((d - DATE '1970-01-01') & 65535 AS INTEGER) END""",
    r"""pando_month_instant(t) AS CASE WHEN t < TIMESTAMP '1970-01-01' THEN TIMESTAMP '1970-01-01'
        ELSE make_timestamp((epoch_us(t) // 1000000 & 4294967295) * 1000000) END""",
    r"""pando_make_date(y, m, d) AS CASE
        WHEN y >= 1970 AND y <= 2149 AND m >= 1 AND m <= 12 AND d >= 1 AND d <= 31
            AND (y < 2149 OR m < 6 OR (m = 6 AND d <= 6))
        THEN make_date(y, m, 1::BIGINT) + CAST(d - 1 AS INTEGER)
        WHEN y IS NOT NULL AND m IS NOT NULL AND d IS NOT NULL THEN DATE '1970-01-01' END""",
    r"""pando_make_day(y, d) AS CASE WHEN y >= 1970 AND y <= 2149 AND d >= 1 AND d <= 365 AND (y < 2149 OR d <= 157)
        THEN make_date(y, 1::BIGINT, 1::BIGINT) + CAST(d - 1 AS INTEGER)
        WHEN y IS NOT NULL AND d IS NOT NULL THEN DATE '1970-01-01' END""",
    r"""pando_make_time(y, mo, d, h, mi, s) AS CASE
        WHEN y > 2106 THEN TIMESTAMP '2149-01-01'
        WHEN y >= 1969 AND mo >= 1 AND mo <= 12 AND d >= 1 AND d <= 31 AND h >= 0 AND h < 100 AND mi >= 0
            AND mi < 100 AND s >= 0 AND s < 100
        THEN make_timestamp((((make_date(y, mo, 1::BIGINT) - DATE '1970-01-01' + d - 1) * 24 + h) * 60 + mi) * 60000000
            + s * 1000000)
        WHEN y IS NOT NULL AND mo IS NOT NULL AND d IS NOT NULL AND h IS NOT NULL AND mi IS NOT NULL
            AND s IS NOT NULL THEN TIMESTAMP '1900-01-01' END""",
    r"""pando_clamped_seconds(x) AS CASE WHEN x <= 0 THEN 0::BIGINT WHEN x >= 4294967295 THEN 4294967295::BIGINT
        ELSE CAST(trunc(x) AS BIGINT) END""",
    # The years 0 to 9999, in seconds.
    r"""pando_clamped_moment(x) AS CASE WHEN x < -62167219200 THEN -62167219200::BIGINT
        WHEN x > 253402300799 THEN 253402300799::BIGINT ELSE CAST(trunc(x) AS BIGINT) END""",
    r"""pando_clamped_units(x, per_second, micros) AS CASE WHEN x < -62167219200 THEN -62167219200000000::BIGINT
        WHEN isnan(x) OR isinf(x) THEN error('pando:407:Cannot convert infinity or NaN to DateTime64')
        WHEN x >= 253402300800 THEN 253402300800000000::BIGINT - micros
        ELSE CAST(trunc(x * per_second) AS BIGINT) * micros END""",
    r"pando_clamped_day_number(n) AS CASE WHEN n < 0 THEN 0 WHEN n > 65535 THEN 65535 ELSE n END",
    r"pando_time_of_day(l) AS (epoch_us(l) % 86400000000 + 86400000000) % 86400000000",
    # Seconds to microseconds; the last instant has its fraction.
    r"""pando_moment(x, fraction) AS CASE WHEN x < -62167219200 THEN -62167219200000000::BIGINT
        WHEN x > 253402300799 THEN 253402300799000000::BIGINT + fraction ELSE CAST(x AS BIGINT) * 1000000 END""",
    r"""pando_float_nanoseconds(x, per_second, step) AS make_timestamp_ns(CASE WHEN isnan(x) OR isinf(x)
        THEN error('pando:407:Cannot convert infinity or NaN to DateTime64')
        ELSE CAST(trunc(x * per_second) AS BIGINT) * step END)""",
    r"pando_low_unsigned_wide(x) AS x & 18446744073709551615::UHUGEINT",
    r"pando_slice_bound(x) AS CAST(greatest(least(x, 4294967296), -4294967296) AS BIGINT)",
    r"""pando_known(x) AS CASE WHEN isnan(x) OR isinf(x)
        THEN error('pando:70:Unexpected inf or nan to integer conversion') ELSE x END""",
    # A float to an integer by the rules of the processor: out of range gives the least Int64.
    r"""pando_float_64(x) AS CASE WHEN x > -9223372036854775808.0 AND x < 9223372036854775808.0
        THEN CAST(trunc(x) AS BIGINT)
        WHEN isnan(x) OR isinf(x) THEN error('pando:70:Unexpected inf or nan to integer conversion')
        WHEN x IS NOT NULL THEN (-9223372036854775807 - 1)::BIGINT END""",
    r"""pando_float_unsigned_64(x) AS CASE WHEN x >= 9223372036854775808.0 AND x < 18446744073709551616.0
        THEN CAST(trunc(x) AS UBIGINT)
        WHEN x >= 18446744073709551616.0 AND NOT isinf(x) AND NOT isnan(x) THEN 9223372036854775808::UBIGINT
        ELSE pando_low_unsigned(CAST(pando_float_64(x) AS HUGEINT)) END""",
    r"""pando_float_32(x) AS CASE WHEN x > -2147483649.0 AND x < 2147483648.0 THEN CAST(trunc(x) AS INTEGER)
        WHEN isnan(x) OR isinf(x) THEN error('pando:70:Unexpected inf or nan to integer conversion')
        WHEN x IS NOT NULL THEN (-2147483647 - 1)::INTEGER END""",
    r"""pando_narrow_float(x) AS CASE WHEN isnan(x) OR abs(x) < 3.4028235677973366e38 THEN CAST(x AS FLOAT)
        WHEN x IS NOT NULL THEN CASE WHEN x > 0 THEN CAST('inf' AS FLOAT) ELSE CAST('-inf' AS FLOAT) END END""",
    r"""pando_checked(x, low, high) AS CASE WHEN x < low OR x > high THEN error('pando:407:Convert overflow')
        ELSE x END""",
    r"""pando_slice_start(start, size) AS CASE WHEN start < 0 THEN size + start + 1 WHEN start = 0 THEN size + 1
        ELSE start END""",
)
