"""Which column the name of a field means, compared with ClickHouse: case, repetition, ambiguity, elements of tuples."""

from __future__ import annotations

import re

import pytest

from parts.common.errors import PandoError, UserError
from tests.alter.following import Pando
from tests.sql.oracle import Oracle, columns_of, read

_SMALL = "a UInt8, b String, Cd Array(UInt8)"
_BOTH = "a UInt8, A UInt8, bc UInt8, Bc UInt8"
_TUPLE = "t Tuple(x UInt8, y Nullable(String), Zz Tuple(p Array(UInt8), q Date)), m Map(String, UInt8)"
CASES = [
    (_SMALL, "JSONEachRow", '{"A":1}'),
    (_SMALL, "JSONEachRow", '{"B":"x","CD":[1]}\n{"a":1,"B":"y","cD":[1]}'),
    (_SMALL, "JSONEachRow", '[{"A":1,"b":"x"},{"a":2,"B":"y"}]'),
    (_SMALL, "JSONEachRow", '{"a":1,"a":2}'),
    (_SMALL, "JSONEachRow", '{"A":1,"a":2}'),
    (_SMALL, "JSONEachRow", '{"a":1}\n{"b":"1","x":5,"b":"2"}'),
    (_SMALL, "JSONEachRow", '{"a":1,"b":"x","Cd":[],"a":2}\n{"a":1,"x":1,"X":2,"x":3}'),
    (_SMALL, "JSONStringsEachRow", '{"A":"1","b":"x"}\n{"B":"y"}'),
    (_SMALL, "JSONStringsEachRow", '{"a":"1","A":"2"}'),
    (_SMALL, "JSONCompactEachRowWithNames", '["A","x","B","x"]\n[1,2,"x",3]'),
    (_SMALL, "JSONCompactEachRowWithNames", '["A","a"]\n[1,2]'),
    (_SMALL, "JSONCompactEachRowWithNamesAndTypes", '["A","B"]\n["UInt8","String"]\n[1,"x"]'),
    (_SMALL, "JSONCompactStringsEachRowWithNames", '["A","B"]\n["1","x"]'),
    (_SMALL, "CSVWithNames", "A,x,B,x\n1,2,y,3"),
    (_SMALL, "CSVWithNames", "A,a\n1,2"),
    (_SMALL, "CSVWithNamesAndTypes", "A,B\nUInt8,String\n1,x"),
    (_SMALL, "CSVWithNamesAndTypes", "A,B\nString,String\n1,x"),
    (_SMALL, "TSVWithNames", "A\tcd\n1\t[2]"),
    (_BOTH, "JSONEachRow", '{"a":1,"A":2,"bc":3,"Bc":4}\n{"Bc":5,"A":6}'),
    (_BOTH, "JSONEachRow", '{"a":1,"BC":3}'),
    (_BOTH, "CSVWithNames", "A,a,Bc\n1,2,3"),
    (_BOTH, "CSVWithNames", "a,BC\n1,2"),
    ("`é` UInt8, f UInt8", "JSONEachRow", '{"É":1,"F":2}'),
    (_TUPLE, "JSONEachRow", '{"T":{"x":1,"y":"z","Zz":{"p":[1],"q":"2020-01-01"}},"M":{"k":1,"K":2,"k":3}}'),
    (_TUPLE, "JSONEachRow", '{"t":{"x":1}}\n{"t":{"y":"s","Zz":{"p":[1],"w":{"x":[1]}}}}\n{"t":{}}\n{"t":null}'),
    (_TUPLE, "JSONEachRow", '{"t":{"X":1,"zz":{"p":[2]},"w":1,"w":2}}\n{"t":{"x":null,"y":null,"Zz":null}}'),
    (_TUPLE, "JSONEachRow", '{"t":{"x":1,"y":"1","x":2}}'),
    (_TUPLE, "JSONEachRow", '{"t":{"Zz":{"q":"2020-01-01","q":"2020-01-02"}}}'),
    (_TUPLE, "JSONCompactEachRow", '[{"x":3},{}]\n[{"y":"q"},{"a":1}]'),
]
_SETTINGS = [
    "input_format_skip_unknown_fields = 0",
    "input_format_column_name_matching_mode = 'match_case'",
    "input_format_column_name_matching_mode = 'match_case', input_format_skip_unknown_fields = 0",
    "input_format_column_name_matching_mode = 'ignore_case'",
    "input_format_column_name_matching_mode = 'any'",
]


def stored(server: Oracle | Pando, types: str, insert: str) -> str:
    server.query("DROP TABLE IF EXISTS by_name")
    server.query(f"CREATE TABLE by_name ({types}) ENGINE = Memory")
    try:
        server.query(f"INSERT INTO by_name {insert}")
    except (PandoError, RuntimeError) as error:
        return "error " + "".join(re.findall(r"^Code: (\d+)", str(error)))
    return server.query("SELECT * FROM by_name ORDER BY ALL").decode()


@pytest.mark.parametrize(("types", "format", "data"), CASES, ids=range(len(CASES)))
def test_fields_find_their_columns(oracle: Oracle, pando: Pando, types: str, format: str, data: str) -> None:
    insert = f"FORMAT {format} {data}"
    assert stored(pando, types, insert) == stored(oracle, types, insert)


@pytest.mark.parametrize("settings", _SETTINGS)
@pytest.mark.parametrize(
    ("types", "format", "data"),
    [
        (_SMALL, "JSONEachRow", '{"a":1,"B":"x"}'),
        (_SMALL, "JSONEachRow", '{"A":1}\n{"a":2,"B":"x","cd":[]}\n{"a":3,"b":"x","Cd":[],"a":4}'),
        (_SMALL, "JSONEachRow", '{"a":1,"b":"x","Cd":[],"d":4}'),
        (_SMALL, "CSVWithNames", "a,B\n1,2"),
        (_SMALL, "JSONCompactEachRowWithNames", '["a","B"]\n[1,"x"]'),
        (_BOTH, "JSONEachRow", '{"a":1,"A":2,"bc":3,"Bc":4}'),
        (_BOTH, "CSVWithNames", "a,bc\n1,2"),
    ],
)  # fmt: skip
def test_settings_say_how(oracle: Oracle, pando: Pando, types: str, format: str, data: str, settings: str) -> None:
    insert = f"SETTINGS {settings} FORMAT {format} {data}"
    assert stored(pando, types, insert) == stored(oracle, types, insert)


@pytest.mark.parametrize("odd", ['{"A":7}', '{"x":1,"B":"7"}', '{"a":1,"x":2,"\\u0041":3}'])
def test_one_odd_row_among_many_is_seen(odd: str) -> None:
    """Chunks of plain rows are not read key by key."""
    columns = columns_of({"a": "UInt64", "b": "String"})
    plain = [f'{{"a":{number},"b":"{number}","unknown":[{number}]}}' for number in range(3000)]
    lines = "\n".join([*plain[:2000], odd, *plain[2000:]]).encode()
    if "\\u" in odd:
        with pytest.raises(UserError, match=r"Duplicate field .* a: \(at row 2001\)"):
            read(lines, columns, "JSONEachRow")
        return
    rows = read(lines, columns, "JSONEachRow")
    assert rows.num_rows == 3001
    found = rows.slice(2000, 1).to_pylist()[0]
    assert found == ({"a": 7, "b": None} if "A" in odd else {"a": None, "b": "7"})
    assert rows.column("b").to_pylist()[:3] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("format", "odd"),
    [("RowBinaryWithNames", b"\x01\x01A\x05"), ("RowBinaryWithNamesAndTypes", b"\x01\x01A\x05UInt8\x05")],
)
def test_row_binary_headers(format: str, odd: bytes) -> None:
    columns = columns_of({"a": "UInt8", "b": "String"})
    assert read(odd, columns, format).to_pylist() == [{"a": 5}]
    with pytest.raises(UserError) as caught:
        read(odd, columns, format, input_format_column_name_matching_mode="match_case")
    assert caught.value.code in (8, 117)
