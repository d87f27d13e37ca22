"""Parses UUIDs and IP addresses, as DuckDB expressions.

The macros are in ``sql.typing.texts.value_texts``.
"""

from __future__ import annotations

import pyarrow as pa

from sql.typing.column_kernels.scannable import Scannable, parse_or_leave_over
from sql.typing.duckdb.bound_values import BoundFragment, bind_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.texts.address_columns import parse_ipv6
from sql.typing.texts.usual_address_texts import parse_ipv4, parse_uuids


def uuid_of_text(sql: Fragment) -> Fragment:
    """Parses a UUID as 16 bytes. An invalid text raises an error at run time."""
    rest = "CAST(CAST({} AS UUID) AS BLOB)"  # some more spellings, but slowly
    whole = bind_value(sql, "spelled", lambda v: fragment(f"coalesce(pando_plain_uuid(encode({{}})), {rest})", v, v))
    return parse_or_leave_over(whole, sql, parse_uuids, pa.binary(), lambda odd: fragment(rest, odd))


def uuid_or_null(sql: Fragment) -> Fragment:
    """Parses a UUID as 16 bytes, with NULL for an invalid text."""
    whole = bind_value(sql, "spelled", lambda v: fragment("pando_try_uuid({})", v))
    plain = Scannable(fragment("pando_plain_uuid(encode({}))", sql), sql, parse_uuids, pa.binary())
    rest = "coalesce({plain}, CASE WHEN strlen({text}) >= 32 THEN CAST(TRY_CAST({text} AS UUID) AS BLOB) END)"
    return BoundFragment(whole, plain, lambda column: fragment(rest, plain=column, text=sql), keeps_null=True)


def ipv4_of_text(sql: Fragment) -> Fragment:
    """Parses an IPv4 address as UINTEGER. An invalid text is error 675 at run time."""
    whole = bind_value(
        sql, "spelled", lambda v: fragment("coalesce(pando_plain_ipv4(encode({})), pando_no_ipv4({}))", v, v)
    )
    return parse_or_leave_over(whole, sql, parse_ipv4, pa.uint32(), lambda odd: fragment("pando_no_ipv4({})", odd))


def ipv6_of_text(sql: Fragment) -> Fragment:
    """Parses an IPv6 address as 16 bytes. An invalid text is error 676 at run time."""
    whole = bind_value(
        sql, "spelled", lambda v: fragment("coalesce(pando_try_ipv6(encode({})), pando_no_ipv6({}))", v, v)
    )
    return parse_or_leave_over(whole, sql, parse_ipv6, pa.binary(), lambda odd: fragment("pando_no_ipv6({})", odd))


def ipv6_or_null(text: Fragment) -> Fragment:
    """Parses an IPv6 address as 16 bytes, with NULL for an invalid text."""
    return Scannable(fragment("pando_try_ipv6(encode({}))", text), text, parse_ipv6, pa.binary(), worth_at=2)
