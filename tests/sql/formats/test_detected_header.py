"""A first row of plain CSV or TabSeparated that names columns is a header, as in ClickHouse."""

from __future__ import annotations

import pytest

from sql.formats.streams.row_chunks import MAX_HEADER_BYTES
from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.formats.test_column_names import stored
from tests.sql.oracle import Oracle, columns_of, read

_TWO = "a String, b String"
_TUPLE = "a Tuple(x String, y Tuple(String, String)), b String"
_BOTH = [
    (_TWO, "a,b\nx,y"),
    (_TWO, "b,a\nx,y"),
    (_TWO, "A,b\nx,y"),
    (_TWO, "b\nx\ny"),
    (_TWO, "b,z,a\nx,y,z"),
    (_TWO, "b,z,a,a\nx,y,z,w"),
    (_TWO, "a,a\nx,y"),
    (_TWO, ",a,b\nx,y,z"),
    (_TWO, "a,b\n"),
    (_TWO, "a,b"),
    (_TWO, "a,b\nString,String\nx,y"),
    (_TWO, "a,b\nString,UInt8\nx,y"),
    (_TWO, "a,b\nString\nx,y"),
    (_TWO, "a,b\nString,String"),
    (_TWO, "String,String\nx,y"),
    (_TWO, "\n"),
    ("a String", "a\n"),
    ("a String", "a\nString\nb"),
    ("a String", "a\nUInt8\nb"),
    ("a String, b Nullable(String)", "b,a\nNullable(String),String\n\\N,x"),
    ("a UInt8", "A\n1"),
    ("`1` UInt8, `2` UInt8", "1,2\n3,4"),
    ("a String, A String", "A,a\nx,y"),
    ("a String, b UInt8 DEFAULT 7, c UInt8 MATERIALIZED 8", "a\nx"),
    ("a String, b UInt8 DEFAULT 7, c UInt8 MATERIALIZED 8", "a,c,b\nx,5,8"),
    ("a String, b UInt8", "a,b\nx,y"),
]
_CSV = [
    (_TWO, '"b","a"\nx,y'),
    (_TWO, ' "b" , a \r\nx,y\r\n'),
    (_TWO, "'b','a'\nx,y"),
    (_TWO, '"b""",a\nx,y'),
    (_TWO, "a,b,\nx,y,"),
    (_TWO, "a,b,\nx,y,z"),
    (_TWO, '"a"x,b\n'),
    ("`a\nb` String, b String", 'b,"a\nb"\nx,y'),
    ("a String, b Decimal(9, 2)", 'a,b\nString,"Decimal(9, 2)"\nx,1'),
    (_TUPLE, "a,b\n1,2,3,4"),
    (_TUPLE, "b,a\n4,1,2,3"),
    (_TUPLE, "a.x,a.y.1,a.y.2,b\n1,2,3,4"),
    ("a Tuple(x UInt8, y UInt8) DEFAULT (1, 2), b String", "b\nx"),
]
_TSV = [
    (_TWO, "\\x62\ta\nx\ty"),
    (_TWO, '"b"\t"a"\nx\ty'),
    (_TWO, "a\tb\r\nx\ty\r\n"),
    ("a String", "a\tb\r\nx\ty\r\n"),
    ("`a\tb` String, b String", "b\ta\\tb\nx\ty"),
]
_CASES = [
    *((types, "CSV", data) for types, data in _BOTH + _CSV),
    *((types, "TSV", data.replace(",", "\t")) for types, data in _BOTH),
    *((types, "TSV", data) for types, data in _TSV),
]


@pytest.mark.parametrize(("types", "format", "data"), one_in(3, _CASES), ids=range(len(_CASES)))
def test_a_row_of_names_is_a_header(oracle: Oracle, pando: Pando, types: str, format: str, data: str) -> None:
    insert = f"FORMAT {format}\n{data}"
    ours, theirs = stored(pando, types, insert), stored(oracle, types, insert)
    assert ours == theirs or {ours, theirs} == {"error 27", "error 117"}


@pytest.mark.parametrize(
    "insert",
    [
        "(b) FORMAT CSV\na,b\nx,y",
        "(b, a) FORMAT CSV\na,b\nx,y",
        "(b) FORMAT CSV\na\nx",
        "SETTINGS input_format_csv_detect_header = 0 FORMAT CSV\na,b\nx,y",
        "SETTINGS input_format_tsv_detect_header = 0 FORMAT CSV\nb,a\nx,y",
        "SETTINGS input_format_tsv_detect_header = 0 FORMAT TSV\na\tb\nx\ty",
        "SETTINGS compatibility = '22.12' FORMAT TSV\na\tb\nx\ty",
        "SETTINGS input_format_skip_unknown_fields = 0 FORMAT CSV\na,b,c\nx,y,z",
        "SETTINGS input_format_skip_unknown_fields = 0 FORMAT CSV\nb\nx",
        "SETTINGS input_format_column_name_matching_mode = 'ignore_case' FORMAT CSV\nA,b\nx,y",
        "SETTINGS format_csv_delimiter = ';' FORMAT CSV\nb;a\nx;y",
    ],
)
def test_columns_and_settings_of_the_insert(oracle: Oracle, pando: Pando, insert: str) -> None:
    assert stored(pando, _TWO, insert) == stored(oracle, _TWO, insert)


def test_a_first_row_longer_than_a_header_is_a_row() -> None:
    long = "x" * (MAX_HEADER_BYTES + 10)
    rows = read(f"a,{long}\nb,c\n".encode(), columns_of({"a": "String", "b": "String"}), "CSV")
    assert rows.column("b").to_pylist() == [long, "c"]


def test_rows_behind_a_header_are_numbered_with_it() -> None:
    columns = columns_of({"a": "UInt8"})
    with pytest.raises(Exception, match="at row 3"):
        read(b"a\nUInt8\nx\n", columns, "CSV")
