"""UUIDs and IP addresses in queries."""

from __future__ import annotations

import ipaddress
from typing import ClassVar

import pyarrow as pa

from parts.common.errors import UserError
from parts.types import BoolType, DataType, IntegerType, IPv4Type, IPv6Type, UUIDType
from sql.typing.column_kernels.scannable import MIN_REPEATS_FOR_DICTIONARY, Scannable
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.integer_conversions import wrap_integer
from sql.typing.result_types import is_integer
from sql.typing.scalars.scalar import Scalar, counted, register, require_match
from sql.typing.texts.address_columns import format_ipv4_numbers, format_ipv6_values, format_uuids, ipv6_of_ipv4
from sql.typing.texts.address_texts import ipv4_of_text, ipv6_of_text, ipv6_or_null, uuid_of_text, uuid_or_null
from sql.typing.texts.usual_address_texts import parse_ipv4
from sql.typing.typed_expressions import UINT32, UINT64, Typed, cast
from sql.typing.uuid_order import swap_uuid_halves

_UUID = r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}"


class UUIDScalar(Scalar[UUIDType]):
    """``UUID``."""

    is_null_if_misspelled: ClassVar[bool] = True
    has_own_order: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: UUIDType, zone: str) -> Fragment:
        sql = value.number
        return Scannable(fragment("CAST(CAST({} AS UUID) AS VARCHAR)", sql), sql, format_uuids, pa.string())

    def from_text(self, value: Typed, sql: Fragment, type_: UUIDType, zone: str) -> Fragment:
        return uuid_of_text(sql)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: UUIDType, zone: str, *, basic: bool) -> Fragment:
        return uuid_or_null(sql)

    def check_constant(self, text: str, type_: UUIDType) -> None:
        require_match(_UUID, text, type_, "CANNOT_PARSE_UUID")

    def order_key(self, sql: Fragment) -> Fragment:
        return swap_uuid_halves(sql)


class IPv4Scalar(Scalar[IPv4Type]):
    """``IPv4``."""

    is_null_if_misspelled: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: IPv4Type, zone: str) -> Fragment:
        sql = value.number
        octets = (fragment("CAST(({} >> {}) & 255 AS VARCHAR)", sql, shift) for shift in (24, 16, 8, 0))
        spelled = fragment("({})", join_fragments(" || '.' || ", octets))
        return Scannable(spelled, sql, format_ipv4_numbers, pa.string(), worth_at=MIN_REPEATS_FOR_DICTIONARY)

    def from_text(self, value: Typed, sql: Fragment, type_: IPv4Type, zone: str) -> Fragment:
        return ipv4_of_text(sql)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: IPv4Type, zone: str, *, basic: bool) -> Fragment:
        return Scannable(fragment("pando_try_ipv4({})", sql), sql, parse_ipv4, pa.uint32(), worth_at=2)

    def check_constant(self, text: str, type_: IPv4Type) -> None:
        _check_address(text, type_, "CANNOT_PARSE_IPV4", (4,))

    def compared_number(self, value: Typed, type_: IPv4Type, beside: DataType) -> Typed | None:
        return counted(self.to_integer(value, type_, UINT32), UINT32) if is_integer(beside) else None

    def to_integer(self, value: Typed, type_: IPv4Type, goal: IntegerType) -> Fragment | None:
        return cast(value.sql, goal) if goal in (UINT32, UINT64) else None

    def cast_from(self, value: Typed, source: DataType, type_: IPv4Type, zone: str) -> Fragment | None:
        if isinstance(source, BoolType):
            return cast(value.sql, type_)
        is_unsigned = isinstance(source, IntegerType) and not source.signed
        return wrap_integer(value.sql, source, UINT32) if is_unsigned else None  # type: ignore[arg-type]


class IPv6Scalar(Scalar[IPv6Type]):
    """``IPv6``."""

    is_null_if_misspelled: ClassVar[bool] = True

    def to_text(self, value: Typed, type_: IPv6Type, zone: str) -> Fragment:
        sql = value.number
        return Scannable(fragment("pando_ipv6_text({})", sql), sql, format_ipv6_values, pa.string())

    def from_text(self, value: Typed, sql: Fragment, type_: IPv6Type, zone: str) -> Fragment:
        return ipv6_of_text(sql)

    def from_text_or_null(self, value: Typed, sql: Fragment, type_: IPv6Type, zone: str, *, basic: bool) -> Fragment:
        return ipv6_or_null(sql)

    def check_constant(self, text: str, type_: IPv6Type) -> None:
        _check_address(text, type_, "CANNOT_PARSE_IPV6", (4, 6))

    def cast_from(self, value: Typed, source: DataType, type_: IPv6Type, zone: str) -> Fragment | None:
        if not isinstance(source, IPv4Type):
            return None
        spelled = fragment("unhex('00000000000000000000FFFF' || lpad(to_hex({}), 8, '0'))", value.sql)
        return Scannable(spelled, value.sql, ipv6_of_ipv4, pa.binary())


def _check_address(text: str, goal: DataType, error: str, versions: tuple[int, ...]) -> None:
    try:
        version: int = ipaddress.ip_address(text).version
    except ValueError:
        version = 0
    if version not in versions:
        raise UserError(error, f"Cannot convert string {text!r} to type {goal.name}")


register(UUIDScalar(), UUIDType)
register(IPv4Scalar(), IPv4Type)
register(IPv6Scalar(), IPv6Type)
