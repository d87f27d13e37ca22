"""A few rows are written as many are."""

from __future__ import annotations

import datetime
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.types import parse_type
from sql.formats.registry import write_blocks
from sql.formats.text import small_results
from sql.settings.session_settings import (
    make_settings,
)

_TYPES = {
    "UInt64": st.integers(0, 2**64 - 1),
    "Int8": st.integers(-128, 127),
    "String": st.text(max_size=8) | st.sampled_from(["a\tb\\\n'", 'say "x"/y', "\u2028", "\0\b\f\r", "Über", ""]),
    "Date": st.dates(datetime.date(1970, 1, 1), datetime.date(2149, 6, 6)),
    "Date32": st.dates(datetime.date(1900, 1, 1), datetime.date(2299, 12, 31)),
    "Float64": st.floats(),
    "Array(UInt8)": st.lists(st.integers(0, 255), max_size=3),
}
_FORMATS = (
    "TabSeparated", "TabSeparatedRaw", "TabSeparatedWithNamesAndTypes", "JSON", "JSONCompact", "JSONEachRow",
    "JSONCompactEachRow", "JSONCompactEachRowWithNamesAndTypes", "JSONEachRowWithProgress", "JSONStrings",
)  # fmt: skip
_names = st.sampled_from([*_TYPES, "Nullable(Int8)", "Nullable(String)", "Nullable(Date)", "LowCardinality(String)"])


@st.composite
def _columns(draw: st.DrawFn) -> list[tuple[str, list[object]]]:
    rows = draw(st.integers(1, 70))
    columns = []
    for name in draw(st.lists(_names, min_size=1, max_size=4)):
        inner = name.removesuffix(")").split("(")[-1] if name not in _TYPES else name
        value = _TYPES[inner] | st.none() if name.startswith("Nullable") else _TYPES[inner]
        columns.append((name, draw(st.lists(value, min_size=rows, max_size=rows))))
    return columns


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(_columns(), st.sampled_from(_FORMATS), st.booleans())
def test_the_same_bytes(columns: list[tuple[str, list[object]]], format: str, is_quoted: bool) -> None:
    types = [parse_type(name) for name, _ in columns]
    arrays = []
    for type_, (_, values) in zip(types, columns, strict=True):
        array = pa.array(values, type_.arrow.value_type if pa.types.is_dictionary(type_.arrow) else type_.arrow)
        arrays.append(array.dictionary_encode() if pa.types.is_dictionary(type_.arrow) else array)
    names = [f'c"{number}/' for number in range(len(arrays))]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    changes = {
        "output_format_json_quote_64bit_integers": is_quoted,
        "output_format_json_escape_forward_slashes": not is_quoted,
    }

    def written() -> bytes:
        given = list(zip(names, types, strict=True))
        batches = iter([batch, batch.slice(0, 1), batch])
        return b"".join(write_blocks(format, given, batches, settings=make_settings(changes)))

    few = written()
    with patch.object(small_results, "_KINDS", {}):
        assert few == written()


@pytest.mark.parametrize("format", ["TabSeparated", "JSONEachRow"])
def test_bytes_that_are_no_text(format: str) -> None:
    array = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\t")])
    batch = pa.RecordBatch.from_arrays([array], names=["s"])
    written = b"".join(write_blocks(format, [("s", parse_type("String"))], iter([batch])))
    with patch.object(small_results, "_KINDS", {}):
        assert written == b"".join(write_blocks(format, [("s", parse_type("String"))], iter([batch])))


@pytest.mark.parametrize("format", ["TabSeparated", "JSON", "JSONEachRow"])
def test_days_beyond_the_years_of_python(format: str) -> None:
    array = pa.array([-(10**6), 10**7], pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_arrays([array], names=["d"])
    written = b"".join(write_blocks(format, [("d", parse_type("Date32"))], iter([batch])))
    with patch.object(small_results, "_KINDS", {}):
        again = b"".join(write_blocks(format, [("d", parse_type("Date32"))], iter([batch])))
    assert written == again


def test_much_in_a_few_rows_is_written_otherwise() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["x" * 70_000])], names=["s"])
    assert not small_results.is_small_result(batch, 32)
    assert small_results.is_small_result(batch.slice(0, 0), 32)
