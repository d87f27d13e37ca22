"""Data that is read gives what ClickHouse gives for it."""

from __future__ import annotations

import pytest

from tests.sql.oracle import Oracle, columns_of, read, write

CASES: list[tuple[dict[str, str], str, str]] = [
    ({"a": "UInt8", "b": "String"}, "TSV", "1\ta\\tb\\\\n\\'q\\x41\\q\n+5\t\\N\n"),
    ({"a": "UInt8", "b": "String"}, "TSV", "1\tx\ry\n2\ta\\\nb\n3\t\\\rc\\\\\rd\n"),
    ({"a": "String", "b": "String"}, "TSV", "it\\'s\t\\x41\n\\x41\\'\t'\\'\n''\t\\\\Nx\\N\nx\\Ny\\xc3\\xa9\t\\\\x41\n"),
    ({"a": "String"}, "Values", "('\\x41'), ('\\''), ('a''b'), ('\\\\N'), ('x\\N'), ('\\xc3\\xa9'), ('a''\\x41')"),
    ({"a": "Nullable(UInt8)", "b": "Nullable(String)"}, "TSV", "\\N\t\\N\n1\t\n"),
    ({"a": "UInt8", "b": "String"}, "CSV", '1, x y \n2," x "\n"3","a""b,\nc"\n'),
    ({"a": "UInt8", "b": "String"}, "CSV", "1,x\r\n2,y\r\n"),
    ({"a": "UInt8", "b": "String"}, "CSV", '1,a"b\n2,"c"\n'),
    ({"a": "Nullable(UInt8)", "b": "Nullable(String)"}, "CSV", ',\n\\N,\\N\n5,""\n'),
    ({"a": "String", "b": "UInt8"}, "CSV", '12",1\nx,2\n'),
    ({"a": "String", "b": "String"}, "CSV", '5" pipe,"x\n,""y"""\n "12"",\n" , 12"\n'),
    ({"a": "String"}, "CSV", '12"\n"a\nb"\nx\n'),
    ({"a": "UInt8", "b": "String"}, "CSVWithNames", 'b , "a"\r\nx,1\r\n'),
    ({"a\nb": "String"}, "CSVWithNames", '"a\nb"\nx\n'),
    ({"s": "String", "d": "Date"}, "CSVWithNames", '"s",1d"\n"a b","2024-12-31"\n"12","2149-06-06"\n'),
    ({"a": "UInt8", 'b"': "String"}, "CSVWithNames", 'a,b"\n1,"x"\n2,"y"\n'),
    ({"a": "Tuple(UInt8, String)", "b": "Tuple(x Array(UInt8), y Tuple(Date, UInt8))"}, "CSV",
     '1,"x","[1,2]",2020-01-01,3\n'),
    ({"a": "Decimal(9, 2)"}, "TSV", "1.999\n-1.999\n1e2\n.5\n"),
    ({"a": "Decimal(9, 0)"}, "TSV", "1.9\n-1.9\n"),
    ({"a": "Date"}, "TSV", "2020-1-1\n20200101\n2020-01-02\n"),
    ({"a": "DateTime('UTC')"}, "TSV",
     "2020-01-01 00:00:01\n1577836801\n2020-01-01T00:00:01\n2020-01-01\n2020-01-01 00:00:00.123\n"
     "2020-01-01T00:00:01Z\n"),
    ({"a": "DateTime('Europe/Berlin')"}, "TSV", "2020-03-29 01:30:00\n2020-07-01 12:00:00\n1577836801\n"),
    ({"a": "DateTime64(3, 'UTC')"}, "TSV",
     "2020-01-01 00:00:01.12345\n1577836801.5\n1577836801123\n2020-01-01\n1577836801\n"),
    ({"a": "Bool"}, "TSV", "true\nfalse\n1\n0\nTrue\nTRUE\nyes\nt\non\n"),
    ({"a": "UUID"}, "TSV", "00112233-4455-6677-8899-aabbccddeeff\n00112233445566778899AABBCCDDEEFF\n"),
    ({"a": "IPv4", "b": "IPv6"}, "TSV", "1.2.3.4\t::1\n255.1.1.1\t1.2.3.4\n"),
    ({"a": "Float64"}, "TSV", "inf\n-inf\nnan\nNaN\nInf\n1.\n.5\n+5\n1e400\n"),
    ({"a": "Array(String)", "m": "Map(String, Int8)", "t": "Tuple(a Int8, b String)"}, "TSV",
     "['a\\'b', 'd\\te']\t{'k':1, 'l' : 2}\t(1,'x')\n[]\t{}\t(0,'')\n"),
    ({"a": "Array(UInt8)", "b": "Array(Array(Nullable(String)))"}, "TSV", "[1, 2 ,3]\t[['a',NULL],[]]\n[]\t[]\n"),
    ({"a": "LowCardinality(String)", "b": "LowCardinality(Nullable(UInt8))"}, "TSV", "x\t1\ny\t\\N\nx\t01\n"),
    ({"a": "Enum8('a' = 1, 'b' = 2)"}, "TSV", "b\n2\n1\n"),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow",
     '{"a":1,"b":"x"}\n{"b":"\\u00e9\\n"}\n{"a":null}\n{"a":"5","b":5}\n'),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow", '[{"a":1,"b":"x"},\n{"b":"y"}]'),
    ({"a": "UInt64", "b": "Bool"}, "JSONEachRow", '{"a":18446744073709551615,"b":true}\n{"a":"12","b":false}\n'),
    ({"a": "Array(UInt8)", "m": "Map(String, Nullable(Int8))", "t": "Tuple(a Int8, b String)",
      "u": "Tuple(UInt8, Date)"},
     "JSONEachRow", '{"a":[1,2],"m":{"k":1,"l":null},"t":{"a":1,"b":"z"},"u":[1,"2020-01-01"]}\n'
     '{"a":[],"m":{},"t":{"a":2,"b":"y"},"u":[0,"1970-01-01"]}\n'),
    ({"d": "Date", "t": "DateTime('UTC')", "x": "Decimal(18, 4)"}, "JSONEachRow",
     '{"d":"2020-01-01","t":"2020-01-01 00:00:01","x":12345678901234.5678}\n{"t":1577836801,"x":"1.5"}\n'),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow", '{\n "a": 1,\n "b": "x"\n}\n{"a":2}'),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow", '{"a":1,"b":"x\ny"}\n{"a":2,"b":"x},\n{\tz"},{"a":3,"b":"w"}\n'),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow", '{"a":1,"b":"x","a":2}\n'),
    ({"a": "UInt8", "m": "Map(String, UInt8)"}, "JSONEachRow", '\ufeff{"a":1,"m":{"k":1},"a":2}\n'),
    ({"m": "Map(String, UInt8)"}, "JSONEachRow", '[{"m":{"k":1,"k":2,"l":3}} ,{"m":{}}]\n;'),
    ({"a": "UInt8", "b": "String"}, "JSONEachRow", "[\n]"),
    ({"a": "UInt8", "b": "String"}, "Values", "\ufeff(0b11,'x'), (0x1F,'y')"),
    ({"a": "UInt8", "b": "String"}, "Values", "(1,'x'), (2,'it''s\\n'),(NULL,NULL)\n(3,'a;b') ;"),
    ({"d": "Date", "t": "DateTime('UTC')"}, "Values", "('2020-01-01',1577836801),('2020-01-02','2020-01-01 00:00:00')"),
    ({"a": "Array(UInt8)", "b": "Tuple(String, Nullable(Int8))", "m": "Map(String, String)"}, "Values",
     "([1,2],('a',NULL),{'k':'v'}),([],('',1),{})"),
    ({"a": "Bool", "b": "Nullable(Float64)", "c": "Int64"}, "Values", "(true,1.5,-1),(0,NULL,'5'),(false,1e3,+7)"),
    ({"a": "UInt8", "b": "String"}, "TSVWithNames", "b\tzz\ta\nx\ty\t5\n"),
    ({"a": "UInt8", "b": "String"}, "CSVWithNamesAndTypes", '"b","a"\n"String","UInt8"\n"x",5\n'),
]  # fmt: skip


@pytest.mark.parametrize(("types", "format", "data"), CASES, ids=range(len(CASES)))
def test_read_as_clickhouse_does(oracle: Oracle, types: dict[str, str], format: str, data: str) -> None:
    from parts.table.table_description import TableSchema
    from sql.definitions.column_defaults import complete_block

    columns = columns_of(types)
    ours = complete_block(read(data.encode(), columns, format), TableSchema(tuple(columns)))
    definition = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    oracle.query("SET allow_suspicious_low_cardinality_types = 1")
    oracle.query("DROP TABLE IF EXISTS given")
    oracle.query(f"CREATE TABLE given ({definition}) ENGINE = Memory")
    oracle.query(f"INSERT INTO given FORMAT {format}\n{data}")
    assert write(ours, columns, "TSV").decode() == oracle.query("SELECT * FROM given", "TSV").decode()


@pytest.mark.parametrize("format", ["CSVWithNames", "TSVWithNames", "CSVWithNamesAndTypes", "TSVWithNamesAndTypes"])
def test_no_data_at_all_has_no_header_either(format: str) -> None:
    assert read(b"", columns_of({"a": "UInt8"}), format).num_rows == 0


def test_empty_lines_are_rows_of_one_column() -> None:
    rows = read(b'"a\n\nb"\n\nx\n', columns_of({"a": "Nullable(String)"}), "CSV")
    assert rows.column("a").to_pylist() == ["a\n\nb", None, "x"]


def test_bytes_of_a_fixed_string_need_not_be_text(oracle: Oracle) -> None:
    sql = r"SELECT toFixedString(unhex('FF00C3275C0922'), 8) AS f, toFixedString('é', 2) AS g"
    columns = columns_of({"f": "FixedString(8)", "g": "FixedString(2)"})
    table = read(oracle.query(sql, "TSV"), columns, "TSV")
    assert table.column("f").to_pylist() == [b"\xff\x00\xc3'\\\t\"\x00"]
    assert write(table, columns, "TSV") == oracle.query(sql, "TSV")
    assert write(table, columns, "CSV") == oracle.query(sql, "CSV")
    assert read(write(table, columns, "CSV"), columns, "CSV").equals(table)
    assert "�" in write(table, columns, "Pretty").decode()
