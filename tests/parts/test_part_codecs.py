"""Codec texts are checked at CREATE; every chain gives back the bytes it was given."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.codecs import BufferKind, ChainError, decode, parse_codec
from parts.errors import UserError
from parts.types import parse_type

TEXTS = ["", "NONE", "LZ4", "LZ4HC", "LZ4HC(12)", "ZSTD", "ZSTD(7)", "Delta, LZ4", "Delta(2), ZSTD(1)",
         "DoubleDelta, ZSTD(3)",
         "DoubleDelta(1), LZ4HC(3)", "Delta, Delta(4), LZ4", "Default", "Delta, Default"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 20), kind=st.integers(0, 5), values=st.booleans())
def test_chain_round_trip(text: str, data: bytes, repeat: int, kind: int, values: bool) -> None:
    codec = parse_codec(text, parse_type("Int64"))
    kinds = [(0, ""), (0, "unsigned"), (1, "signed"), (2, "unsigned"), (3, "signed"), (4, "signed")]
    log2_width, integers = kinds[kind]
    raw = (data * repeat)[: len(data) * repeat >> log2_width << log2_width]
    chain, stored = codec.encode(pa.py_buffer(raw), BufferKind(log2_width, integers, values))
    back = decode(chain, pa.py_buffer(stored), len(raw))
    assert back.to_pybytes() == raw


@pytest.mark.parametrize("numbers", [
    [5] * 100, list(range(100)), [-(2**63), 2**63 - 1] * 50, [2**40 + i * 300 for i in range(100)], [-7, 3] * 60,
])  # fmt: skip
@pytest.mark.parametrize("text", ["LZ4", "Delta, ZSTD(1)", "DoubleDelta, LZ4", "NONE"])
def test_integers_and_decimals(numbers: list[int], text: str) -> None:
    codec = parse_codec(text, parse_type("Int64"))
    raw = np.array(numbers, "<i8").tobytes()
    wide = b"".join(n.to_bytes(16, "little", signed=True) for n in numbers)
    for data, kind in ((raw, BufferKind(3, "signed", True)), (wide, BufferKind(4, "signed", True))):
        chain, stored = codec.encode(pa.py_buffer(data), kind)
        assert decode(chain, pa.py_buffer(stored), len(data)).to_pybytes() == data


def test_large_decimals_are_not_narrowed() -> None:
    wide = (10**30).to_bytes(16, "little") * 100
    codec = parse_codec("LZ4", parse_type("Decimal(38,0)"))
    chain, stored = codec.encode(pa.py_buffer(wide), BufferKind(4, "signed", True))
    assert chain == b"\x01"
    assert decode(chain, pa.py_buffer(stored), len(wide)).to_pybytes() == wide


@pytest.mark.parametrize(("text", "type_", "name"), [
    ("Delta", "Int64", "BAD_ARGUMENTS"), ("Delta, LZ4", "String", "BAD_ARGUMENTS"), ("Delta(3), LZ4", "Int64",
    "BAD_ARGUMENTS"),
    ("LZ4, Delta", "Int64", "BAD_ARGUMENTS"), ("LZ4, ZSTD", "Int64", "BAD_ARGUMENTS"), ("ZSTD(23)", "Int64",
    "BAD_ARGUMENTS"),
    ("ZSTD('a')", "Int64", "BAD_ARGUMENTS"), ("Brotli", "Int64", "BAD_ARGUMENTS"), ("Gorilla, LZ4", "Float64",
    "NOT_IMPLEMENTED"),
    ("T64", "Int64", "NOT_IMPLEMENTED"), ("LZ4,", "Int64", "SYNTAX_ERROR"), ("LZ4 ZSTD", "Int64", "SYNTAX_ERROR"),
    ("LZ4(1)", "Int64", "BAD_ARGUMENTS"), ("Delta, NONE", "Int64", "BAD_ARGUMENTS"), ("DoubleDelta, LZ4", "UUID",
    "BAD_ARGUMENTS"),
])  # fmt: skip
def test_wrong_codecs_are_refused(text: str, type_: str, name: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_codec(text, parse_type(type_))
    assert caught.value.name == name


@pytest.mark.parametrize(
    "type_",
    ["UInt8", "Bool", "Nullable(Int16)", "Array(Float32)", "Decimal(9,2)", "DateTime", "IPv4", "Enum8('a'=1)"],
)
def test_delta_takes_fixed_width_types(type_: str) -> None:
    assert parse_codec("Delta, LZ4", parse_type(type_)).transforms


@given(chain=st.binary(min_size=1, max_size=8), stored=st.binary(max_size=200), size=st.integers(0, 500))
def test_nonsense_chains_raise_one_error(chain: bytes, stored: bytes, size: int) -> None:
    try:
        result = decode(chain, pa.py_buffer(stored), size)
    except ChainError:
        return
    assert result.size == size
