"""Whether values are UTF-8 is told for all of them at once, and as Python's decoder would tell for each."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import UserError
from sql.grammar.text_escapes import has_pattern, is_valid_utf8, view_as_text
from tests.sql.oracle import columns_of, read

PIECES = st.sampled_from([b"", b"a", b"\xc3\xa9", b"\xc3", b"\xa9", b"\xf0\x9f\x98\x80", b"\x80", b"\xff", b"\xe6\xbc"])
VALUES = st.lists(st.none() | st.lists(PIECES, max_size=3).map(b"".join), max_size=6)


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


@given(values=VALUES, first=st.integers(0, 3))
def test_as_the_decoder_tells(values: list[bytes | None], first: int) -> None:
    array = pa.array(values, pa.binary())[first:]
    expected = all(_is_utf8(value) for value in values[first:])
    assert is_valid_utf8(array) is expected
    assert is_valid_utf8(view_as_text(array)) is expected


def test_a_character_may_not_be_cut_in_two() -> None:
    assert is_valid_utf8(pa.array(["é".encode(), "é".encode()], pa.binary()))
    assert not is_valid_utf8(pa.array(["é".encode()[:1], "é".encode()[1:]], pa.binary()))
    assert not is_valid_utf8(pa.array([b"", "é".encode()[:1], b"", "é".encode()[1:]], pa.binary()))


def test_what_lies_under_a_null_does_not_count() -> None:
    validity = pa.py_buffer(b"\x01")
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    array = pa.Array.from_buffers(pa.binary(), 2, [validity, offsets, pa.py_buffer(b"a\xff")])
    assert array.to_pylist() == [b"a", None]
    assert is_valid_utf8(array)


@given(
    data=st.lists(st.sampled_from([b"\\", b"x", b"n", b"\n"]), max_size=8).map(b"".join),
    pattern=st.sampled_from([b"\\", b"\\x", b"\\\n", b"xn\\", b"''"]),
)
def test_patterns_are_found_as_bytes_are(data: bytes, pattern: bytes) -> None:
    assert has_pattern(np.frombuffer(data, np.uint8), pattern) == (pattern in data)


@pytest.mark.parametrize("offsets", [[0, 9, 2], [0, 1, 99], [-5, 1, 2]])
def test_arrow_data_with_impossible_offsets_is_refused(offsets: list[int]) -> None:
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, pa.schema([("s", pa.string())])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([pa.array(["ab", "cdefgh"])], names=["s"]))
    whole = stream.getvalue()
    broken = whole.replace(np.array([0, 2, 8], np.int32).tobytes(), np.array(offsets, np.int32).tobytes())
    assert broken != whole
    with pytest.raises(UserError) as caught:
        read(broken, columns_of({"s": "String"}), "ArrowStream")
    assert caught.value.code == 117
