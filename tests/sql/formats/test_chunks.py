"""Chunks of text are parsed several at a time, and read as if they were one."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from parts.common.errors import UserError
from sql.formats.streams import row_chunks as chunks
from sql.formats.streams.row_chunks import parse_chunks, resize_blocks, row_chunks
from sql.formats.text import csv_grammar, values_reader
from tests.sql.oracle import columns_of, read


@pytest.fixture(autouse=True)
def parse_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_PARSE_INLINE_BYTES", 0)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "__kwdefaults__", {"first": b"", "size": 1000})
    monkeypatch.setattr(values_reader, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(csv_grammar, "_CUT_TAIL_BYTES", 8)


def _numbers(chunk: bytes) -> pa.Table:
    return pa.table({"n": [int(text) for text in chunk.split()]})


def test_tables_come_in_order_though_a_later_chunk_is_parsed_first() -> None:
    second_is_parsed = threading.Event()

    def parse(chunk: bytes, first_row: int) -> pa.Table:
        if chunk == b"1 2":
            assert second_is_parsed.wait(30)
        else:
            second_is_parsed.set()
        return _numbers(chunk)

    tables = list(parse_chunks([b"1 2", b"3"], parse))
    assert pa.concat_tables(tables).column("n").to_pylist() == [1, 2, 3]


def test_a_failed_chunk_is_told_by_its_own_row_behind_the_good_ones() -> None:
    def parse(chunk: bytes, first_row: int) -> pa.Table:
        if b"bad" in chunk:
            raise UserError("INCORRECT_DATA", f"bad at row {first_row}")
        return _numbers(chunk)

    tables = parse_chunks([b"1 2", b"3 4", b"bad", b"5", b"bad"], parse, 10)
    assert [next(tables).num_rows, next(tables).num_rows] == [2, 2]
    with pytest.raises(UserError, match="bad at row 14 "):
        next(tables)


def test_an_error_of_the_source_comes_behind_those_of_the_chunks_before() -> None:
    def source() -> Iterator[bytes]:
        yield b"1"
        yield b"bad"
        raise UserError("INCORRECT_DATA", "the source ends at row 3")

    with pytest.raises(ValueError, match="bad"):
        list(parse_chunks(source(), lambda chunk, first_row: _numbers(chunk)))


def test_few_chunks_are_held() -> None:
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(50):
            taken += 1
            yield b"1"

    for given, _ in enumerate(parse_chunks(source(), lambda chunk, first_row: _numbers(chunk))):
        assert taken - given <= chunks._MOST_IN_FLIGHT + 1
    assert taken == 50


ROWS = {
    "TSV": [b"%d\tplain %d\n", b"%d\ta\\tb\\\\%d\n", b"%d\tbreak \\\n in %d\n", b"%d\t\\N %d\n", b"%d\t\xc3\xa9 %d\n"],
    "CSV": [b"%d,some %d\n", b'%d,"a ""quoted"" %d"\n', b'%d,"break\n in %d"\n', b"%d , b %d\n", b"%d,\xc3\xa9%d\r\n",
            b'%d,12" x %d\n'],
    "Values": [b"(%d,'plain %d')", b",\n(%d , 'a ),('',\\' %d')", b",(%d, 'x' || '%d')", b"(1 + %d - 1, '%d')"],
    "JSONEachRow": [b'{"a":%d,"b":"plain %d"}\n', b'{"a":"%d","b":"x}\\n{%d"}\n'],
}  # fmt: skip


@pytest.mark.parametrize("format", ROWS)
@pytest.mark.usefixtures("small_chunks")
def test_many_chunks_read_as_one(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = columns_of({"a": "UInt32", "b": "String"})
    forms = ROWS[format]
    data = b"".join(forms[number * number % len(forms)] % (number, number) for number in range(3000))
    cut = read(data, columns, format)
    monkeypatch.setattr(row_chunks, "__kwdefaults__", {"first": b"", "size": 1 << 30})
    monkeypatch.setattr(values_reader, "CHUNK_BYTES", 1 << 30)
    assert cut.column("a").to_pylist() == list(range(3000))
    assert cut.combine_chunks().equals(read(data, columns, format).combine_chunks())


@pytest.mark.parametrize(("between", "behind"), [(",\n", "\n]\n"), ("\n,", "\n]"), ("\n, ", "]")])
def test_a_json_array_may_be_cut_anywhere(between: str, behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = columns_of({"a": "UInt32", "m": "Map(String, UInt8)"})
    data = "[" + between.join(f'{{"a":{number},"m":{{"k":1}}}}' for number in range(50)) + behind
    for size in (60, 200, len(data) - 1, len(data)):
        monkeypatch.setattr(row_chunks, "__kwdefaults__", {"first": b"", "size": size})
        assert read(data.encode(), columns, "JSONEachRow").column("a").to_pylist() == list(range(50))


@pytest.mark.usefixtures("small_chunks")
def test_rows_longer_than_a_chunk() -> None:
    texts = ["short", "line\n" * 40_000, "", 'a "quoted"\n' * 20_000, "end"]
    data = "".join('{},"{}"\n'.format(number, text.replace('"', '""')) for number, text in enumerate(texts))
    rows = read(data.encode(), columns_of({"a": "UInt8", "b": "String"}), "CSV")
    assert rows.column("b").to_pylist() == texts


@pytest.mark.parametrize(
    ("format", "row", "bad", "code", "told"),
    [
        ("TSV", b"1\tx\n", b"q\tx\n", 27, "at row 70001, column a UInt8"),
        ("TSV", b"1\tx\n", b"1\n", 27, "1 fields instead of 2.*at row 70001"),
        ("TSV", b"1\tx\n", b"1\t\xff\n", 117, "column b at row 70001"),
        ("CSV", b"1,x\n", b"300,x\n", 321, "at row 70001, column a UInt8"),
        ("CSV", b'1,"x\n\n"\n', b"1,x,y\n", 27, "3 fields instead of 2.*at row 70001"),
        ("Values", b"(1,'x')", b"('q','x')", 27, "at row 70001, column a UInt8"),
        ("Values", b"(1,'x')", b"(300,'x')" + b"(1,'x')" * 20_000 + b"(1)", 321, "at row 70001, column a UInt8"),
        ("Values", b"(1,'x')", b"(1,'x','y')", 62, "the row has 3 values.*at row 70001"),
        ("JSONEachRow", b'{"a":1}\n', b'{"a":[]}\n', 27, "at row 70001, column a UInt8"),
    ],
)
@pytest.mark.usefixtures("small_chunks")
def test_a_bad_row_is_numbered_across_chunks(format: str, row: bytes, bad: bytes, code: int, told: str) -> None:
    data = row * 70_000 + bad + row * 5000
    with pytest.raises(UserError, match=told) as caught:
        read(data, columns_of({"a": "UInt8", "b": "String"}), format)
    assert caught.value.code == code


@pytest.mark.usefixtures("small_chunks")
def test_a_header_counts_as_rows() -> None:
    data = b"a\tb\nUInt8\tString\n" + b"1\tx\n" * 3000 + b"300\tx\n"
    with pytest.raises(UserError, match="at row 3003, column a"):
        read(data, columns_of({"a": "UInt8", "b": "String"}), "TSVWithNamesAndTypes")


@pytest.mark.parametrize(
    ("max_rows", "max_bytes", "blocks"),
    [(10, 0, [10, 4]), (10, 56, [7, 7]), (10, 1, [7, 7]), (10, 57, [10, 4]), (3, 1, [3, 3, 3, 3, 2]), (14, 200, [14])],
)
def test_blocks_end_at_rows_or_bytes(max_rows: int, max_bytes: int, blocks: list[int]) -> None:
    tables = [pa.table({"n": pa.array(range(start, start + 7), pa.int64())}) for start in (0, 7)]
    made = list(resize_blocks(tables, max_rows, max_bytes))
    assert [block.num_rows for block in made] == blocks
    assert pa.concat_tables(made)["n"].to_pylist() == list(range(14))


def test_chunks_end_where_rows_end() -> None:
    stream = io.BytesIO(b"aa\nbb\ncc")
    assert list(row_chunks(stream, lambda data: data.rfind(b"\n") + 1, size=4)) == [b"aa\nbb\n", b"cc"]


def test_a_long_row_is_read_in_pieces_and_searched_only_behind_a_line_end() -> None:
    asked: list[int] = []
    searched: list[int] = []

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size or -1)
            return super().read(size)

    def cut(data: bytearray) -> int:
        searched.append(len(data))
        return data.rfind(b"\n") + 1

    row = b"a" * (20 << 20)
    found = list(row_chunks(Stream(row + b"\n" + b"b\n"), cut))
    assert b"".join(found) == row + b"\nb\n"
    assert max(asked) <= chunks.CHUNK_BYTES
    assert not [size for size in searched if size < len(row)]
