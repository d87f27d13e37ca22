"""Scan kernels and DuckDB kernels that parse and format IP addresses and UUIDs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.column_kernels.kernels import (
    Kernel,
    blob_column,
    fixed_width_values,
    text_bytes,
    text_offsets,
    texts_of_size,
)
from sql.typing.column_kernels.text_words import rows_that_begin
from sql.typing.texts.ip_address_texts import format_ipv4, format_ipv6, parse_hexadecimal_ipv6
from sql.typing.texts.usual_address_texts import parse_ipv4

_MAPPED = np.array([0] * 10 + [255] * 2, np.uint8)
"""The prefix of an IPv6 address that stands for an IPv4 one."""
_MAPPED_TEXT = "::ffff:"
_BEGINS_IPV6 = np.isin(np.arange(256), list(b"0123456789abcdefABCDEF:"))
_PAIRS = np.frombuffer(b"".join(b"%02x" % number for number in range(256)), "<u2")


def _with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(like), values, pa.scalar(None, values.type)) if like.null_count else values


def _byte_matrix(array: pa.Array, width: int) -> np.ndarray:
    """Returns a column of fixed width as a byte matrix; rows under a NULL are arbitrary."""
    if pa.types.is_fixed_size_binary(array.type):
        data = np.frombuffer(array.buffers()[1], np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
    rows, given = texts_of_size(array, width)
    if len(rows) == len(array):
        return given
    whole = np.zeros((len(array), width), np.uint8)
    whole[rows] = given
    return whole


# To texts -------------------------------------------------------------------------------------------------------------


def format_ipv4_numbers(addresses: pa.Array) -> pa.Array:
    """Formats integers of up to 32 bits as IPv4 addresses."""
    values = fixed_width_values(pc.cast(addresses, pa.uint32(), safe=False), np.uint32)
    return _with_nulls(format_ipv4(values.astype(">u4").view(np.uint8).reshape(-1, 4)), addresses)


def format_ipv6_values(addresses: pa.Array) -> pa.Array:
    """Formats 16-byte values as IPv6 addresses."""
    return _with_nulls(format_ipv6(_byte_matrix(addresses, 16)), addresses)


def ipv6_of_ipv4(addresses: pa.Array) -> pa.Array:
    """Returns the 16 bytes of the IPv6 addresses that stand for IPv4 addresses."""
    values = np.empty((len(addresses), 16), np.uint8)
    values[:, :12] = _MAPPED
    values[:, 12:] = fixed_width_values(addresses, np.uint32).astype(">u4").view(np.uint8).reshape(-1, 4)
    return blob_column(values, np.asarray(pc.is_valid(addresses)))


def format_uuids(values: pa.Array) -> pa.Array:
    """Formats 16-byte values as UUIDs."""
    digits = _PAIRS[_byte_matrix(values, 16)].view(np.uint8)
    spelled = np.full((len(values), 36), ord("-"), np.uint8)
    for source, target, length in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
        spelled[:, target : target + length] = digits[:, source : source + length]
    offsets = np.arange(0, spelled.size + 1, 36, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(spelled)]
    return _with_nulls(pa.Array.from_buffers(pa.string(), len(values), buffers), values)


# Of texts -------------------------------------------------------------------------------------------------------------


def parse_ipv6(texts: pa.Array) -> pa.Array:
    """Parses IPv6 and IPv4 addresses as 16 bytes; NULL for invalid texts."""
    rows = rows_that_begin(texts, _BEGINS_IPV6)
    if not len(rows):
        return pa.nulls(len(texts), pa.binary())
    given = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
    has_colon, has_point = (_contain(given, mark) for mark in ":.")
    is_mapped = has_point & (~has_colon | np.asarray(pc.starts_with(given, _MAPPED_TEXT)))
    values, is_known = np.zeros((len(texts), 16), np.uint8), np.zeros(len(texts), bool)
    is_mapped &= has_colon | ~_have_leading_zero(given)
    kinds = (
        (parse_hexadecimal_ipv6, ~has_point),
        (_parse_mapped_ipv4, is_mapped),
        (_parse_mixed, has_colon & has_point & ~is_mapped),
    )
    for read, which in kinds:
        if which.all():
            values[rows], is_known[rows] = read(given)
        elif which.any():
            values[rows[which]], is_known[rows[which]] = read(given.filter(pa.array(which)))
    return blob_column(values, is_known)


def _contain(texts: pa.Array, mark: str) -> np.ndarray:
    if not (text_bytes(texts) == ord(mark)).any():  # as in columns of addresses of one kind
        return np.zeros(len(texts), bool)
    return np.asarray(pc.match_substring(texts, mark))


def _have_leading_zero(texts: pa.Array) -> np.ndarray:
    """Tells which texts begin with a zero and another digit, which makes an IPv4 address invalid."""
    begins, data = text_offsets(texts)[:-1], np.append(text_bytes(texts), np.zeros(2, np.uint8))
    behind = data[begins + 1]
    return (data[begins] == ord("0")) & (behind >= ord("0")) & (behind <= ord("9"))


def _parse_mapped_ipv4(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Parses IPv4 addresses, alone or after ``::ffff:``."""
    short = parse_ipv4(pc.replace_substring(texts, _MAPPED_TEXT, "", max_replacements=1))
    values = np.empty((len(texts), 16), np.uint8)
    values[:, :12] = _MAPPED
    values[:, 12:] = fixed_width_values(short, np.uint32).astype(">u4").view(np.uint8).reshape(-1, 4)
    return values, np.asarray(pc.is_valid(short))


def _parse_mixed(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Parses IPv6 addresses whose last two groups are an IPv4 address, rewritten as groups."""
    short = parse_ipv4(pc.replace_substring_regex(texts, "^.*:", ""))
    pairs = fixed_width_values(short, np.uint32)
    high, low = (_group_texts().take(pa.array(part)) for part in (pairs >> np.uint32(16), pairs & np.uint32(0xFFFF)))
    begins = pc.binary_join_element_wise(pc.replace_substring_regex(texts, "[^:]*$", ""), high, "")
    values, is_known = parse_hexadecimal_ipv6(pc.binary_join_element_wise(begins, low, ":"))
    return values, is_known & np.asarray(pc.is_valid(short))


@cache
def _group_texts() -> pa.Array:
    return pa.array([f"{group:x}" for group in range(1 << 16)])


KERNELS = (
    Kernel("pando_ipv6_text", ("BLOB",), "VARCHAR", format_ipv6_values),
    Kernel("pando_try_ipv6", ("BLOB",), "BLOB", lambda texts: parse_ipv6(texts.cast(pa.string()))),
)
