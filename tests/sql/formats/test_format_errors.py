"""What bad data is told: the code, the row, the column, the text."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from tests.sql.oracle import columns_of, read

AB = {"a": "UInt8", "b": "String"}

CASES: list[tuple[str, dict[str, str], bytes, int, list[str]]] = [
    ("TSV", AB, b"1\tx\nabc\ty\n", 27, ["expected UInt8 before: 'abc'", "(at row 2, column a UInt8)"]),
    ("TSV", AB, b"1\tx\n300\ty\n", 321, ["300", "row 2, column a"]),
    ("TSV", AB, b"1\tx\n2\n", 27, ["expected '\\t'", "1 fields instead of 2", "(at row 2)"]),
    ("TSV", AB, b"1\tx\tz\n", 27, ["expected the end of the row", "(at row 1)"]),
    ("TSV", AB, b"1\tx\r\n2\ty\r\n", 117, ["carriage return"]),
    ("TSV", AB, b"1\tx\n2\t\xff\n", 117, ["UTF-8", "column b at row 2"]),
    ("TSV", AB, b"\tx\n", 27, ["row 1, column a"]),
    ("TSVWithNames", AB, b"a\tb\n1\tx\n-1\ty\n", 321, ["row 3, column a"]),
    ("TSVWithNamesAndTypes", AB, b"a\tb\nUInt16\tString\n", 117, ["Type of 'a' must be UInt8, not UInt16"]),
    ("TSVWithNames", AB, b"a\ta\n", 117, ["twice"]),
    ("CSV", AB, b"1,x\n2,y\nx3,z\n", 27, ["'x3'", "row 3, column a"]),
    ("CSV", AB, b'1,"x\n2,y\n', 27, ["CSV", "row 1"]),
    ("CSV", AB, b'1,x"y\n2,"y\n', 27, ["closing quote", "row 2"]),
    ("CSV", AB, b'1,"x"\n2,"y"z\n', 117, ["closing quote", "row 2"]),
    ("CSV", AB, b'1,x"\n2," y" z,\n', 117, ["closing quote", "row 2"]),
    ("CSV", AB, b'1,"x\ny"\n\n2,y\n', 27, ["empty", "row 2"]),
    ("CSV", AB, b'1,x"y\r\n \r\n', 27, ["empty", "row 2"]),
    ("CSV", AB, b"1,x\n\n", 27, ["empty", "row 2"]),
    ("CSV", AB, b"1,x\r2,y\n", 117, ["carriage return", "row 1"]),
    ("CSV", AB, b'1,"x\n"\n2,y\r', 117, ["carriage return", "row 2"]),
    ("CSV", AB, b'1,x"\n2,y\r3,z\n', 117, ["carriage return", "row 2"]),
    ("TSV", {"a": "String", "b": "String"}, b"x\ty\n\nz\tw\n", 27, ["empty", "row 2"]),
    ("JSONEachRow", AB, b'{"a":1}\n{"a":2,"b":"\\ud83d"}\n', 117, ["surrogate", "row 2"]),
    ("CSV", {"a": "Array(UInt8)"}, b'"[1,2]"\n"[1,2"\n', 27, ["row 2, column a Array(UInt8)"]),
    ("CSV", {"a": "Array(UInt8)"}, b'"[1,2]"\n"[1,999]"\n', 321, ["row 2"]),
    ("CSV", {"a": "Map(String, UInt8)"}, b"\"{'a':1}\"\n\"{'a'}\"\n", 27, ["row 2"]),
    ("CSV", {"a": "Array(UInt8)"}, b'"[NULL]"\n', 27, ["NULL"]),
    ("JSONEachRow", AB, b'{"a":1,"b":"x"}\n{"a":"abc"}\n', 27, ["'abc'", "row 2, column a"]),
    ("JSONEachRow", AB, b'{"a":1,"b":"x"}\n{"a":300}\n', 321, ["300", "row 2"]),
    ("JSONEachRow", AB, b'{"a":1}\n{"a":1.5}\n', 27, ["'1.5'", "row 2"]),
    ("JSONEachRow", AB, b'{"a":1}\n{"a":2.}\n', 27, ["row 2"]),
    ("JSONEachRow", AB, b'{"a":1}\n{"a":2,}\n', 27, ["row 2"]),
    ("JSONEachRow", AB, b'{"a":1}\n[1]\n', 27, ["expected an object", "row 2"]),
    ("JSONEachRow", AB, b'{"a":1,"b":"\xff"}\n', 117, ["UTF-8", "row 1"]),
    ("JSONEachRow", AB, b'{"a":1,"b":{"c":1}}\n', 27, ["row 1, column b"]),
    ("JSONEachRow", {"a": "Array(UInt8)"}, b'{"a":[1]}\n{"a":[null]}\n', 27, ["row 2"]),
    ("JSONEachRow", AB, b'[{"a":1},{"a":2}', 27, ["']' at the end"]),
    ("JSONEachRow", AB, b'[{"a":1},', 27, ["']' at the end"]),
    ("JSONEachRow", AB, b'[{"a":1},{"a":x}', 27, ["row 2"]),
    ("JSONStringsEachRow", AB, b'[{"a":"1"}', 27, ["']' at the end"]),
    ("JSONEachRow", AB, b'{"a":1}]', 27, ["row 2"]),
    ("CSVWithNames", AB, b"a;b\n1;x\n", 8, ["(a;b) is one of a, b"]),
    ("JSONCompactEachRowWithNames", AB, b'["z"]\n[1]\n', 8, ["(z)"]),
    ("Values", AB, b"(1,'x'),('abc','y')", 27, ["'abc'", "row 2, column a"]),
    ("Values", AB, b"(1,'x'),(300,'y')", 321, ["row 2, column a"]),
    ("Values", AB, b"(1,'x'), (2)", 62, ["',' after the value of column a", "row 2"]),
    ("Values", AB, b"(1,'x','z')", 62, ["')' after the value of column b", "row 1"]),
    ("Values", AB, b"(1,'x') x (2,'y')", 27, ["expected '('", "x (2", "row 2"]),
    ("Values", AB, b"(1,'x'), (2,'y", 27, ["complete row", "row 2"]),
    ("Values", AB, b"(1,'x'); (2,'y')", 27, ["row 2"]),
    ("Values", AB, b"(1,'x\xff')", 117, ["UTF-8", "row 1"]),
    ("TSV", {"d": "Date"}, b"2020-01-01\n2020-13-01\n", 38, ["2020-13-01", "row 2, column d Date"]),
    ("TSV", {"d": "Date"}, b"1969-12-31\n", 321, ["row 1"]),
    ("TSV", {"t": "DateTime"}, b"2020-01-01 00:00:00\nnoon\n", 41, ["noon", "row 2"]),
    ("TSV", {"t": "DateTime"}, b"2200-01-01 00:00:00\n", 321, ["row 1"]),
    ("TSV", {"x": "Decimal(9, 2)"}, b"1.5\n12345678901.5\n", 69, ["row 2"]),
    ("TSV", {"x": "Decimal(9, 2)"}, b"1.5\nabc\n", 27, ["row 2"]),
    ("TSV", {"x": "Float64"}, b"1.5\n1..5\n", 72, ["1..5", "row 2"]),
    ("TSV", {"x": "Bool"}, b"true\nmaybe\n", 467, ["maybe", "row 2"]),
    ("TSV", {"x": "UUID"}, b"00112233-4455-6677-8899-aabbccddeeff\nzz\n", 376, ["row 2"]),
    ("TSV", {"x": "IPv4"}, b"1.2.3.4\n1.2.3.256\n", 675, ["row 2"]),
    ("TSV", {"x": "IPv6"}, b"::1\n::g\n", 676, ["row 2"]),
    ("TSV", {"x": "Enum8('a' = 1)"}, b"a\nb\n", 691, ["'b'", "row 2"]),
    ("TSV", {"x": "FixedString(2)"}, b"ab\nabc\n", 131, ["row 2"]),
    ("TSV", {"x": "LowCardinality(UInt8)"}, b"1\n1\nx\n", 27, ["row 3"]),
    ("TSV", {"t": "Tuple(UInt8, String)"}, b"(1,'a')\n(1)\n", 27, ["row 2"]),
    ("Parquet", AB, b"nonsense", 117, ["Parquet"]),
    ("Arrow", AB, b"nonsense", 117, ["Arrow"]),
    ("ArrowStream", AB, b"nonsense", 117, ["Arrow"]),
    ("Pretty", AB, b"", 73, ["only for output"]),
    ("Nonsense", AB, b"", 73, ["Unknown format Nonsense"]),
    ("JSONEachRows", AB, b"", 73, ["Maybe you meant JSONEachRow"]),
]  # fmt: skip


@pytest.mark.parametrize(("format", "types", "data", "code", "told"), CASES)
def test_bad_data(format: str, types: dict[str, str], data: bytes, code: int, told: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        read(data, columns_of(types), format)
    assert caught.value.code == code, caught.value
    for piece in told:
        assert piece in caught.value.message


@pytest.mark.long
def test_rows_are_counted_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from sql.formats.streams import row_chunks
    from sql.formats.text import values_reader

    monkeypatch.setattr(row_chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(row_chunks.row_chunks, "__kwdefaults__", {"first": b"", "size": 1000})
    monkeypatch.setattr(values_reader, "CHUNK_BYTES", 1000)
    filler = {"TSV": b"1\tx\n", "CSV": b"1,x\n", "JSONEachRow": b'{"a":1,"b":"x"}\n', "Values": b"(1,'x')\n"}
    bad = {"TSV": b"q\tx\n", "CSV": b"q,x\n", "JSONEachRow": b'{"a":"q","b":"x"}\n', "Values": b"('q','x')\n"}
    for format, row in filler.items():
        with pytest.raises(UserError, match="at row 70001, column a"):
            read(row * 70000 + bad[format] + row * 10, columns_of(AB), format)


def test_unknown_fields() -> None:
    columns = columns_of(AB)
    data = {"CSVWithNames": b"a,zz,b\n1,2,x\n", "JSONEachRow": b'{"a":1,"zz":2,"b":"x"}\n'}
    for format, text in data.items():
        assert read(text, columns, format).select(["a", "b"]).to_pylist() == [{"a": 1, "b": "x"}]
        with pytest.raises(UserError, match="zz"):
            read(text, columns, format, input_format_skip_unknown_fields=0)


def test_settings() -> None:
    columns = columns_of(AB)
    assert read(b"1;x\n", columns, "CSV", format_csv_delimiter=";").to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(UserError, match="format_csv_delimiter"):
        read(b"", columns, "CSV", format_csv_delimiter="ab")
    with pytest.raises(UserError, match="allow_errors_num"):
        read(b"", columns, "CSV", input_format_allow_errors_num=1)
