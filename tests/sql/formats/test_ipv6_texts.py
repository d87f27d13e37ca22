"""IPv6 addresses of whole columns, against the standard library's one by one."""

from __future__ import annotations

import ipaddress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parts.types import parse_type
from sql.formats.converters.text_parsing import parse_texts
from sql.formats.converters.text_rendering import render_plain
from sql.formats.format_options import BadValueError, FormatOptions
from sql.typing.texts.ip_address_texts import format_ipv6, parse_hexadecimal_ipv6

ADDRESS = parse_type("IPv6")
GROUP = st.sampled_from([0, 0, 0, 1, 0x10, 0xABC, 0xFFFF])
MAPPED = b"\0" * 10 + b"\xff\xff"
PACKED = st.lists(GROUP, min_size=8, max_size=8).map(lambda groups: b"".join(g.to_bytes(2) for g in groups))
PIECES = st.sampled_from(["", "0", "1", "Ab", "0ffe", "12345", "g", ":", "1.2.3.4", "%1"])
TEXTS = st.one_of(
    PACKED.map(lambda packed: str(ipaddress.IPv6Address(packed))),
    PACKED.map(lambda packed: ipaddress.IPv6Address(packed).exploded.upper()),
    st.lists(PIECES, max_size=10).map(":".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=4).map("::ffff:{}".format),
)


def by_library(text: str) -> bytes | None:
    """ClickHouse takes a gap of no zeros too, but not at the end."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        if text.count("::") == 1 and ":::" not in text and not text.endswith("::"):
            return by_library(text.removeprefix("::").replace("::", ":"))
        return None
    return (address if address.version == 6 else ipaddress.IPv6Address(f"::ffff:{address}")).packed


@pytest.mark.long
@settings(deadline=None, max_examples=500)
@given(st.lists(TEXTS | st.none(), max_size=8))
@example([":::", "::", "::1", "1::", ":1::", "1::1:", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::8", "::2:3:4:5:6:7:8:9", "1"])
@example(["1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", None, "1::2::3"])
@example([":0::0:0:0:0:0:0:0"])
def test_texts_are_read_as_the_library_reads_them(texts: list[str | None]) -> None:
    expected = [text and by_library(text) for text in texts]
    array = pa.array(["ff", *texts, ":"], pa.string()).slice(1, len(texts))
    wrong = [i for i, text in enumerate(texts) if text is not None and not expected[i]]
    if not wrong:
        assert parse_texts(array, ADDRESS, FormatOptions()).to_pylist() == expected
        return
    with pytest.raises(BadValueError) as raised:
        parse_texts(array, ADDRESS, FormatOptions())
    assert (raised.value.index, raised.value.name) == (wrong[0], "CANNOT_PARSE_IPV6")


@given(st.lists(st.one_of(PACKED, st.none(), PACKED.map(lambda packed: MAPPED + packed[:4])), max_size=8))
def test_addresses_are_written_as_the_library_writes_them(packed: list[bytes | None]) -> None:
    texts = [value and ipaddress.IPv6Address(value).compressed for value in packed]
    for index, value in enumerate(packed):
        if value and value.startswith(MAPPED):
            texts[index] = f"::ffff:{ipaddress.IPv4Address(value[12:])}"
        elif value and value.startswith(bytes(12)) and value[12:14] != bytes(2):
            texts[index] = f"::{ipaddress.IPv4Address(value[12:])}"
    array = pa.array([b"x" * 16, *packed], pa.binary(16)).slice(1)
    assert render_plain(array, ADDRESS, FormatOptions()).to_pylist() == texts


def test_all_places_of_zeros_are_read_and_written() -> None:
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    matrix = np.repeat(bits, 2, axis=1)
    texts = format_ipv6(matrix)
    is_ipv4 = [text.count(".") == 3 for text in texts.to_pylist()]
    expected = [ipaddress.IPv6Address(row.tobytes()).compressed for row in matrix]
    assert [ipaddress.IPv6Address(text).compressed for text in texts.to_pylist()] == expected
    read, is_plain = parse_hexadecimal_ipv6(texts)
    assert (is_plain != is_ipv4).all()
    assert (read[is_plain] == matrix[is_plain]).all()
