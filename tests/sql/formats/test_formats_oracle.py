"""Every format's text is ClickHouse's, byte for byte, for a table with every type; and can be read back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.definitions.column_defaults import complete_block
from tests.portions import one_in
from tests.sql.oracle import Oracle, columns_of, read, without_statistics, write

TYPES = {
    "i8": "Int8", "u64": "UInt64", "f32": "Float32", "f64": "Float64", "b": "Bool", "d": "Decimal(9, 4)",
    "d2": "Decimal(38, 20)", "s": "String", "fs": "FixedString(4)", "dt": "Date", "d32": "Date32",
    "t": "DateTime('Europe/Berlin')", "tu": "DateTime", "t64": "DateTime64(3, 'UTC')",
    "t1": "DateTime64(1, 'Asia/Tokyo')", "t9": "DateTime64(9)", "u": "UUID", "i4": "IPv4", "i6": "IPv6",
    "e": "Enum8('a\\'x' = 1, 'b' = 2)", "n": "Nullable(String)", "ni": "Nullable(Int32)",
    "lc": "LowCardinality(Nullable(String))", "a": "Array(String)", "an": "Array(Nullable(Float64))",
    "ad": "Array(Array(Date))", "m": "Map(String, Array(UInt8))", "tp": "Tuple(Int8, String)",
    "tn": "Tuple(a Int8, b Array(Tuple(x UInt8, y Map(String, Date))))", "mm": "Map(String, Map(UInt8, String))",
    "am": "Array(Map(String, UInt8))", "al": "Array(LowCardinality(String))",
}  # fmt: skip
ROWS = [
    r"""(-5,18446744073709551615,0.1,1e100,true,1.5,-0.00000000000000000001,'a\tb\\n\'q"/é\0\n\r\b\f\x01','ab',
    '2020-01-02','1925-01-02','2020-07-01 00:00:00','2021-01-01 01:02:03','2020-01-01 00:00:00.123',
    '2020-01-01 00:00:00.5','2020-01-01 00:00:00.123456789','00112233-4455-6677-8899-aabbccddeeff','1.2.3.4',
    '::ffff:1.2.3.4','a\'x','x',5,'z',['a\'b','c"\td'],[1.5,NULL,inf,nan],[['2020-01-01'],[]],{'k':[1,2],'l"':[]},
    (1,'x\'y'),(1,[(1,{'q':'2020-01-01'}),(2,{})]),{'a':{1:'x'},'b':{}},[{'a':1,'b':2},{}],['p','p'])""",
    """(127,0,1e10,0,false,0,12345678901234567.5,'','abcd','1970-01-01','2299-12-31','1970-01-01 12:00:00',
    '1970-01-01 00:00:00','1970-01-01 00:00:00.000','2019-12-31 00:00:00.9','1970-01-01 00:00:00',
    '00000000-0000-0000-0000-000000000000','0.0.0.0','::','b',NULL,NULL,NULL,[],[],[],{},(0,''),(0,[]),{},[],[])""",
    r"""(0,1,3.4e38,-0.0,true,-1.2345,1,'日本','x','2149-06-06','2000-01-01','2100-01-01 00:00:00',
    '2106-02-07 06:28:15','2200-01-01 00:00:00.999','2020-01-01 00:00:00','2020-01-01 00:00:00.1',
    'ffffffff-ffff-ffff-ffff-ffffffffffff','255.255.255.255','2001:db8::1','b','\\N',0,'',[''],[1e21,1e20,1e-7,1e-6,123456.789,1e15,123456789012345680000],
    [[]],{'':[0]},(-1,'\n'),(1,[(3,{'z':'1970-01-01'})]),{'':{0:''}},[{}],[''])""",
]
EXACT = ["TSV", "TSVWithNames", "TSVWithNamesAndTypes", "TSVRaw", "CSV", "CSVWithNames", "CSVWithNamesAndTypes",
         "JSONEachRow", "JSONCompactEachRow", "JSON", "JSONCompact", "Values",
         "Pretty", "PrettyCompact", "PrettySpace", "Vertical", "TSVRawWithNames", "TSVRawWithNamesAndTypes",
         "JSONStringsEachRow", "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes",
         "JSONCompactStringsEachRow", "JSONCompactStringsEachRowWithNames",
         "JSONCompactStringsEachRowWithNamesAndTypes",
         "JSONStrings", "JSONCompactStrings", "JSONEachRowWithProgress", "JSONStringsEachRowWithProgress",
         "JSONCompactEachRowWithProgress", "JSONCompactStringsEachRowWithProgress", "Markdown", "TSKV",
         "LineAsString"]  # fmt: skip
READABLE = ["TSV", "TSVWithNames", "TSVWithNamesAndTypes", "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "Values",
            "JSONEachRow", "JSONStringsEachRow", "JSONCompactEachRow", "JSONCompactEachRowWithNames",
            "JSONCompactEachRowWithNamesAndTypes", "JSONCompactStringsEachRow", "JSONCompactStringsEachRowWithNames",
            "JSONCompactStringsEachRowWithNamesAndTypes"]  # fmt: skip
QUERY = "SELECT * FROM every_type ORDER BY i8 = 127, i8 = 0"


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    asked = Oracle()
    definition = ", ".join(f"`{name}` {text}" for name, text in TYPES.items())
    asked.query(f"CREATE OR REPLACE TABLE every_type ({definition}) ENGINE = Memory")
    asked.query(f"INSERT INTO every_type VALUES {', '.join(ROWS)}")
    yield asked
    asked.close()


@pytest.fixture(scope="module")
def columns() -> list[Column]:
    return columns_of(TYPES)


@pytest.fixture(scope="module")
def table(oracle: Oracle, columns: list[Column]) -> pa.Table:
    return read(oracle.query(QUERY, "Values"), columns, "Values")


@pytest.mark.parametrize("format", one_in(3, EXACT))
def test_text_is_the_same(oracle: Oracle, columns: list[Column], table: pa.Table, format: str) -> None:
    ours = write(table, columns, format)
    assert without_statistics(ours).decode() == without_statistics(oracle.query(QUERY, format)).decode()


@pytest.mark.parametrize("format", READABLE)
def test_text_is_read_back(oracle: Oracle, columns: list[Column], table: pa.Table, format: str) -> None:
    again = read(oracle.query(QUERY, format), columns, format)
    has_no_inf = format.startswith("JSON") and "Strings" not in format
    skipped = {"an"} if has_no_inf else set()
    for column in columns:
        if column.name not in skipped:
            assert repr(again.column(column.name).to_pylist()) == repr(table.column(column.name).to_pylist())


@pytest.mark.parametrize("format", ["Parquet", "Arrow", "ArrowStream"])
def test_binary_formats_go_both_ways(oracle: Oracle, columns: list[Column], table: pa.Table, format: str) -> None:
    theirs = read(oracle.query(QUERY, format), columns, format)
    ours = read(write(table, columns, format), columns, format)
    for column in columns:
        expected = repr(table.column(column.name).to_pylist())
        assert repr(ours.column(column.name).to_pylist()) == expected, column
        assert repr(theirs.column(column.name).to_pylist()) == expected, column


@pytest.mark.parametrize("format", ["Parquet", "Arrow", "ArrowStream"])
def test_clickhouse_reads_what_is_written(
    oracle: Oracle, columns: list[Column], table: pa.Table, format: str, tmp_path: object
) -> None:
    path = f"{tmp_path}/data"
    with open(path, "wb") as file:
        file.write(write(table, columns, format))
    names = ", ".join(f"`{column.name}`" for column in columns)
    structure = ", ".join(f"`{name}` {text}" for name, text in TYPES.items()).replace("\\", "\\\\").replace("'", "\\'")
    got = oracle.query(f"SELECT {names} FROM file('{path}', '{format}', '{structure}')", "TSV")
    assert got.decode() == oracle.query(QUERY, "TSV").decode()


@pytest.mark.parametrize(
    "settings",
    [
        {"output_format_json_quote_64bit_integers": 1},
        {"output_format_json_quote_64bit_floats": 1},
        {"output_format_json_quote_decimals": 1},
        {"output_format_json_quote_denormals": 1},
        {"output_format_json_escape_forward_slashes": 0},
        {"output_format_json_named_tuples_as_objects": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("format", ["JSON", "JSONEachRow"])
def test_json_settings(
    oracle: Oracle, columns: list[Column], table: pa.Table, format: str, settings: dict[str, object]
) -> None:
    ours = write(table, columns, format, **settings)
    assert without_statistics(ours).decode() == without_statistics(oracle.query(QUERY, format, **settings)).decode()


@pytest.mark.parametrize(
    ("format", "types", "data"),
    [
        ("LineAsString", "s String", "a\n\n\\t b\n"),
        ("LineAsString", "s String", "é\r\nb"),
        ("RawBLOB", "s String", "a\nb\n"),
        ("JSONCompactEachRow", "a UInt8, b String", '[1,"x"]\n[2,null]\n'),
        ("JSONCompactEachRow", "a Array(UInt8), b Map(String, UInt8)", '[[1,\n2],{"k":5}]\n\n[[],{}]'),
        ("JSONCompactEachRow", "a UInt8", "[1],[2],\n[3]"),
        ("JSONCompactStringsEachRow", "a UInt8, b Nullable(String)", '["1","x"],["2","NULL"]\n["3","ᴺᵁᴸᴸ"]'),
        (
            "JSONStringsEachRow",
            "a UInt8, b Nullable(String)",
            '{"a":"1","b":"null"}\n{"a":"2","b":"nUll"}\n{"a":"3","b":" null"}',
        ),
        ("JSONStringsEachRow", "a UInt8, b Array(UInt8)", '{"a":"1","b":"[1,2]"}'),
        ("JSONCompactEachRowWithNames", "a UInt8, b String", '["b", "a"]\n["x",1]\n'),
        ("JSONCompactEachRowWithNames", "a UInt8, b String", '["b","zz"]\n["x",1]\n'),
        ("JSONCompactEachRowWithNamesAndTypes", "a UInt8, b String", '["b","a"]\n["String","UInt8"]\n["x",1]\n'),
    ],
)
def test_data_are_read_as_clickhouse_reads_them(oracle: Oracle, format: str, types: str, data: str) -> None:
    quoted = data.replace("\\", "\\\\").replace("'", "\\'")
    theirs = oracle.query(f"SELECT * FROM format({format}, '{types}', '{quoted}')", "TSV")
    columns = [Column(name, kind) for name, kind in parse_type(f"Tuple({types})").elements]  # type: ignore[attr-defined]
    ours = complete_block(read(data.encode(), columns, format), TableSchema(tuple(columns)))
    assert write(ours, columns, format="TSV") == theirs


PRETTY = [
    ("SELECT number, toString(number * 7) AS s, if(number % 2 = 0, NULL, number) AS x FROM numbers(3)", {}),
    ("SELECT number, 'b' AS s FROM numbers(3)", {"output_format_pretty_color": 1}),
    ("SELECT number, 'b' AS s FROM numbers(3)", {"output_format_pretty_row_numbers": 0}),
    ("SELECT number * 1234567 AS x FROM numbers(3)", {}),
    ("SELECT 1234567 AS a, toNullable(1e7) AS b, toDecimal64(-12345678.5, 2) AS c, 1000000 AS d, 1e30 AS e, 1e66 AS f, "
     "1e300 AS g, toUInt64(1e18) AS h", {}),
    ("SELECT number, 'a\nb\tc\"é日本' AS s, 'x' AS t FROM numbers(2)", {}),
    ("SELECT 'a\tbcdefg\tx' AS a, 1 AS b", {}),
    ("SELECT number FROM numbers(7)", {"output_format_pretty_max_rows": 4}),
    ("SELECT number, 'xyz' AS q FROM numbers(12)", {"output_format_pretty_max_rows": 5}),
    ("SELECT number AS x, 'abc' AS y FROM numbers(49)", {}),
    ("SELECT number AS x, 'abc' AS y FROM numbers(50)", {}),
    ("SELECT number AS x, 'abc' AS y FROM numbers(1000)", {}),
    ("SELECT number AS x, 'abc' AS y FROM numbers(1200)", {}),
    ("SELECT number, repeat('x', number * 15) AS a FROM numbers(3)", {"output_format_pretty_max_column_pad_width": 20}),
    ("SELECT number, repeat('x', number * 15) AS a FROM numbers(3)", {"output_format_pretty_max_value_width": 20}),
    ("SELECT repeat('x', 30) AS a", {"output_format_pretty_max_value_width": 20}),
    ("SELECT repeat('x', 300) AS a, 1 AS b", {}),
    ("SELECT repeat('x', 60) AS a, a AS b, a AS c, a AS d, 1 AS e FROM numbers(10)", {}),
    ("SELECT repeat('x', 60) AS a, a AS b, a AS c, a AS d, 1 AS e FROM numbers(11)", {}),
    ("SELECT number FROM numbers(0)", {}),
]  # fmt: skip


@pytest.mark.parametrize("format", ["Pretty", "PrettyCompact", "PrettySpace", "Vertical"])
@pytest.mark.parametrize(("sql", "settings"), PRETTY, ids=range(len(PRETTY)))
def test_pretty(oracle: Oracle, format: str, sql: str, settings: dict[str, object]) -> None:
    ours, theirs = oracle.both(sql, format, **settings)
    assert ours.decode() == theirs.decode()


@pytest.mark.parametrize("bits", [32, 64])
def test_floats(oracle: Oracle, bits: int) -> None:
    scales = "arrayJoin(range(-40, 38))" if bits == 32 else "arrayJoin(range(-310, 308))"
    sql = f"SELECT toFloat{bits}((rand(1) % 100000 + {{0}}) / 7 * pow(10, {scales})) AS x, -x AS y"
    for step in range(3):
        ours, theirs = oracle.both(sql.format(step).replace("rand(1)", f"cityHash64({step})"), "TSV")
        assert ours == theirs


def test_json_strings(oracle: Oracle) -> None:
    sql = "SELECT char(number) AS c, '\\u2028\\u2029' AS d FROM numbers(128)"
    for format in ("JSONEachRow", "TSV", "CSV", "Values"):
        ours, theirs = oracle.both(sql, format)
        assert ours == theirs


@pytest.mark.parametrize("format", EXACT)
def test_no_rows(oracle: Oracle, format: str) -> None:
    ours, theirs = oracle.both("SELECT number, 'x' AS `a\\\"b` FROM numbers(0)", format)
    assert ours.decode() == theirs.decode()


@pytest.mark.parametrize("format", one_in(8, [name for name in EXACT if not name.startswith(("Pretty", "Vertical"))]))
def test_many_rows(oracle: Oracle, format: str) -> None:
    sql = (
        "SELECT number, number / 7 AS x, toString(cityHash64(number)) AS s, [number] AS a, toDateTime(number * 99) AS t"
    )
    ours, theirs = oracle.both(f"{sql} FROM numbers(70000)", format)
    assert ours == theirs
