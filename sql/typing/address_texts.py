"""UUIDs and addresses that texts spell, as DuckDB expressions; their macros stand in ``sql.typing.texts``."""

from __future__ import annotations

import pyarrow as pa

from sql.typing.bound import bound
from sql.typing.fragments import Fragment, fragment
from sql.typing.plain_texts import ipv4_numbers, uuids
from sql.typing.scannable import Scannable, read_by_scan
from sql.typing.scanned_addresses import ipv6_values


def uuid_of_text(sql: Fragment) -> Fragment:
    """The 16 bytes of a UUID's text. A wrong one fails when it is met."""

    def read(value: Fragment) -> Fragment:
        plain = Scannable(fragment("pando_plain_uuid(encode({}))", value), value, uuids, pa.binary())
        return fragment("coalesce({}, CAST(CAST({} AS UUID) AS BLOB))", plain, value)  # some more spellings, but slowly

    return bound(sql, "spelled", read)


def ipv4_of_text(sql: Fragment) -> Fragment:
    """The UINTEGER of an address. A wrong one fails when it is met."""

    def read(value: Fragment) -> Fragment:
        plain = Scannable(fragment("pando_plain_ipv4(encode({}))", value), value, ipv4_numbers, pa.uint32())
        return fragment("coalesce({}, pando_ipv4({}))", plain, value)

    return bound(sql, "spelled", read)


def ipv6_of_text(sql: Fragment) -> Fragment:
    """The 16 bytes of an address. A wrong one fails when it is met."""
    return bound(sql, "spelled", lambda v: fragment("coalesce({}, pando_no_ipv6({}))", ipv6_or_null(v), v))


def ipv6_or_null(text: Fragment) -> Fragment:
    """The 16 bytes of an address, NULL where there is none."""
    whole = bound(text, "spelled", lambda v: fragment("pando_try_ipv6({})", v))
    return read_by_scan(whole, text, ipv6_values, pa.binary(), lambda odd: fragment("pando_try_ipv6({})", odd))
