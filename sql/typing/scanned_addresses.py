"""Addresses and their texts, as scans compute them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sql.typing.ipv6_texts import read_plain, write_plain
from sql.typing.kernels import numbers, of_size, text_bytes, text_offsets, validity
from sql.typing.plain_texts import ipv4_numbers
from sql.typing.scannable import known_and_odd
from sql.typing.text_words import rows_that_begin

_OCTETS = np.array([int.from_bytes(f"{number}.".encode(), "little") for number in range(256)], "<u4")
"""The digits of each number and a point."""
_IN_IPV6 = np.zeros(256, np.int32)
_IN_IPV6[list(b"0123456789abcdefABCDEF:.")] = 1
_MAPPED = np.array([0] * 10 + [255] * 2, np.uint8)
"""Begins an IPv6 address that stands for an IPv4 one."""


def ipv4_texts(addresses: pa.Array) -> pa.Array:
    """Of an integer of 32 bits or fewer."""
    values = numbers(pc.cast(addresses, pa.uint32(), safe=False), np.uint32)
    return _with_nulls(_ipv4_texts(values.astype(">u4").view(np.uint8).reshape(-1, 4)), addresses)


def _ipv4_texts(octets: np.ndarray) -> pa.Array:
    spelled = _OCTETS[octets].view(np.uint8)
    is_kept = spelled != 0
    last_points = is_kept[:, 12:].sum(axis=1) + 11
    is_kept[np.arange(len(octets)), last_points] = False
    offsets = np.zeros(len(octets) + 1, np.int32)
    np.cumsum(is_kept.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(spelled[is_kept])]
    return pa.Array.from_buffers(pa.string(), len(octets), buffers)


def _with_nulls(values: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(like), values, pa.scalar(None, values.type)) if like.null_count else values


def ipv6_texts(addresses: pa.Array) -> pa.Array:
    given = _fixed(addresses, 16)
    texts = write_plain(given)
    is_mapped = (given[:, :12] == _MAPPED).all(axis=1)
    if is_mapped.any():
        short = pc.binary_join_element_wise("::ffff:", _ipv4_texts(given[:, 12:]), "")
        texts = pc.if_else(pa.array(is_mapped), short, texts)
    return _with_nulls(texts, addresses)


def _fixed(array: pa.Array, width: int) -> np.ndarray:
    """A column of fixed width as a matrix; anything where it is NULL."""
    if pa.types.is_fixed_size_binary(array.type):
        data = np.frombuffer(array.buffers()[1], np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)
    rows, given = of_size(array, width)
    whole = np.zeros((len(array), width), np.uint8)
    whole[rows] = given
    return whole


def _may_be_ipv6(texts: pa.Array) -> np.ndarray:
    """Whether all characters are such as addresses have."""
    offsets = text_offsets(texts)
    data = text_bytes(texts)[offsets[0] : offsets[-1]]
    counts = np.zeros(len(data) + 1, np.int32)
    np.cumsum(_IN_IPV6[data], out=counts[1:])
    return np.diff(counts[offsets - offsets[0]]) == np.diff(offsets)


def ipv6_values(texts: pa.Array) -> pa.Array:
    """The 16 bytes of addresses that are all of colons, or IPv4's; a text with colons and points is odd."""
    some = rows_that_begin(texts, _IN_IPV6 == 1)
    if len(some) == len(texts):
        return _ipv6_values(texts)
    places = np.full(len(texts), -1)
    places[some] = np.arange(len(some))
    return _ipv6_values(texts.take(pa.array(some))).take(pa.array(places, mask=places < 0))


def _ipv6_values(given: pa.Array) -> pa.Array:
    """Of texts that are not NULL."""
    may_be = _may_be_ipv6(given)
    has_colon, has_point = (np.asarray(pc.match_substring(given, mark)) & may_be for mark in (":", "."))
    values, is_known = np.zeros((len(given), 16), np.uint8), np.zeros(len(given), bool)
    rows = np.flatnonzero(has_colon & ~has_point)
    if len(rows):
        values[rows], is_known[rows] = read_plain(given.take(pa.array(rows)))
    rows = np.flatnonzero(has_point & ~has_colon)
    if len(rows):
        short = ipv4_numbers(given.take(pa.array(rows)))
        values[rows, :12] = _MAPPED
        values[rows, 12:] = numbers(short, np.uint32).astype(">u4").view(np.uint8).reshape(-1, 4)
        is_known[rows] = np.asarray(pc.is_valid(short))
    offsets = np.arange(0, values.size + 1, 16, dtype=np.int32)
    buffers = [validity(is_known), pa.py_buffer(offsets), pa.py_buffer(values)]
    return known_and_odd(pa.Array.from_buffers(pa.binary(), len(given), buffers), given, has_colon & has_point)
