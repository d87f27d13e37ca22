"""Codec texts are checked at CREATE; every chain gives back the bytes it was given."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import UserError
from parts.format.codecs import BufferKind, ChainError, DenseEncoder, decode_chain, parse_codec
from parts.format.codecs.buffer_slices import decode_slice
from parts.types import parse_type
from tests.portions import one_in

TEXTS = ["", "NONE", "LZ4", "LZ4HC", "LZ4HC(12)", "ZSTD", "ZSTD(7)", "Delta, LZ4", "Delta(2), ZSTD(1)",
         "DoubleDelta, ZSTD(3)",
         "DoubleDelta(1), LZ4HC(3)", "Delta, Delta(4), LZ4", "Default", "Delta, Default"]  # fmt: skip


@pytest.mark.parametrize("text", one_in(3, TEXTS))
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 20), kind=st.integers(0, 5), values=st.booleans())
def test_chain_round_trip(text: str, data: bytes, repeat: int, kind: int, values: bool) -> None:
    codec = parse_codec(text, parse_type("Int64"))
    kinds = [(0, ""), (0, "unsigned"), (1, "signed"), (2, "unsigned"), (3, "signed"), (4, "signed")]
    log2_width, integers = kinds[kind]
    raw = (data * repeat)[: len(data) * repeat >> log2_width << log2_width]
    chain, stored = codec.encode(pa.py_buffer(raw), BufferKind(log2_width, integers, values))
    back = decode_chain(chain, pa.py_buffer(stored), len(raw))
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
        assert decode_chain(chain, pa.py_buffer(stored), len(data)).to_pybytes() == data


def test_large_decimals_are_not_narrowed() -> None:
    wide = (10**30).to_bytes(16, "little") * 100
    codec = parse_codec("LZ4", parse_type("Decimal(38,0)"))
    chain, stored = codec.encode(pa.py_buffer(wide), BufferKind(4, "signed", True))
    assert chain == b"\x01"
    assert decode_chain(chain, pa.py_buffer(stored), len(wide)).to_pybytes() == wide


@pytest.mark.parametrize(("text", "type_", "name"), [
    ("Delta", "Int64", "BAD_ARGUMENTS"), ("Delta, LZ4", "String", "BAD_ARGUMENTS"), ("Delta(3), LZ4", "Int64",
    "BAD_ARGUMENTS"),
    ("LZ4, Delta", "Int64", "BAD_ARGUMENTS"), ("LZ4, ZSTD", "Int64", "BAD_ARGUMENTS"), ("ZSTD(23)", "Int64",
    "BAD_ARGUMENTS"),
    ("ZSTD('a')", "Int64", "BAD_ARGUMENTS"), ("Brotli", "Int64", "UNKNOWN_CODEC"), ("Gorilla, LZ4", "Float64",
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
        result = decode_chain(chain, pa.py_buffer(stored), size)
    except ChainError:
        return
    assert result.size == size


KINDS = {"u8": (0, "unsigned"), "i16": (1, "signed"), "u32": (2, "unsigned"), "i64": (3, "signed"), "f8": (3, ""),
         "f4": (2, "")}  # fmt: skip
SHAPES = ["sorted hashes", "few", "steps", "chance", "equal"]


def values_of(shape: str, dtype: str, rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    numbers = {
        "sorted hashes": lambda: np.sort(random.integers(0, 2**32, rows)),
        "few": lambda: random.integers(0, 1000, rows),
        "steps": lambda: np.arange(rows) * 3 - 1000,
        "chance": lambda: random.integers(-(2**62), 2**62, rows),
        "equal": lambda: np.full(rows, 77),
    }[shape]()
    return numbers / 7 if dtype.startswith("f") else numbers


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("second", SHAPES)
def test_dense_chains_give_back_every_frame_and_window(first: str, second: str, dtype: str) -> None:
    """Also when the values of a column change their shape, so that the choice made for the first ones is wrong."""
    codec = parse_codec("", parse_type("Int64"))
    encoder, again = DenseEncoder(codec), DenseEncoder(codec)
    log2_width, integers = KINDS[dtype]
    kind = BufferKind(log2_width, integers, True)
    for number, shape in enumerate([first] * 3 + [second] * 3):
        raw = values_of(shape, dtype, 5000 + number, number).astype(
            np.dtype(f"<{dtype[0]}{1 << log2_width}"), copy=False
        )
        buffer = pa.py_buffer(raw.tobytes())
        chain, stored = encoder.encode(buffer, kind, 1)
        assert (chain, bytes(stored)) == tuple(map(bytes, again.encode(buffer, kind, 1))), "depends on the values alone"
        assert memoryview(stored).nbytes <= memoryview(codec.encode(buffer, kind)[1]).nbytes + buffer.size // 8
        assert decode_chain(chain, pa.py_buffer(stored), buffer.size).to_pybytes() == buffer.to_pybytes()
        for begin, end in ((0, 1), (17, 4000), (4999, 5000)):
            window = decode_slice(
                chain, pa.py_buffer(stored), buffer.size, begin << log2_width, (end - begin) << log2_width
            )
            assert window.to_pybytes() == raw[begin:end].tobytes()


def test_dense_values_are_smaller() -> None:
    """Sorted hashes of 32 bits differ in three bytes only; few decimal fractions have few patterns."""
    codec = parse_codec("", parse_type("UInt64"))
    hashes = pa.py_buffer(values_of("sorted hashes", "u64", 100_000, 1).astype("<u8").tobytes())
    encoder = DenseEncoder(codec)
    assert encoder.version == (1, 0)
    chain, stored = encoder.encode(hashes, BufferKind(3, "unsigned", True), 0)
    assert len(memoryview(stored)) < 0.8 * len(memoryview(codec.encode(hashes, BufferKind(3, "unsigned", True))[1]))
    assert (chain, encoder.version) == (b"\x5a\x32\x02", (2, 0))
    fractions = pa.py_buffer((values_of("few", "f8", 100_000, 1) * 7 / 10).tobytes())
    _, stored = DenseEncoder(codec).encode(fractions, BufferKind(3, "", True), 0)
    assert len(memoryview(stored)) < 0.7 * len(memoryview(codec.encode(fractions, BufferKind(3, "", True))[1]))


def test_what_is_not_values_keeps_the_codec() -> None:
    codec = parse_codec("", parse_type("String"))
    text = pa.py_buffer(b"some words, and some words again; " * 1000)
    assert DenseEncoder(codec).encode(text, BufferKind(), 2)[0] == codec.encode(text, BufferKind())[0] == b"\x01"


@pytest.mark.parametrize(
    "odd", [None, -0.0, float("nan"), float("inf"), -float("inf"), 0.1 + 0.2, 1e300, 5e-324, 2.0**53 + 2]
)
@pytest.mark.parametrize("exponent", [0, 1, 2, 6])
def test_decimal_fractions_come_back_bit_for_bit(odd: float | None, exponent: int) -> None:
    """Frames of decimal fractions, then one with another value in its midst, or at its end where no sample looks."""
    encoder = DenseEncoder(parse_codec("", parse_type("Float64")))
    kind = BufferKind(3, "", True)
    chains = []
    for seed in range(4):
        values = np.random.default_rng(seed).integers(-(10**5), 10**5, 20_000) / 10**exponent
        if odd is not None and seed >= 2:
            values[(10_000, -1)[seed - 2]] = odd
        buffer = pa.py_buffer(values.tobytes())
        chain, stored = encoder.encode(buffer, kind, 0)
        chains.append(chain)
        assert decode_chain(chain, pa.py_buffer(stored), buffer.size).to_pybytes() == buffer.to_pybytes()
        window = decode_slice(chain, pa.py_buffer(stored), buffer.size, 8 * 19_000, 8 * 1000)
        assert window.to_pybytes() == values[19_000:].tobytes()
    assert [chain[0] for chain in chains[:2]] == [0x70 + exponent] * 2
    assert odd is None or 0x70 + exponent not in (chains[2][0], chains[3][0])
