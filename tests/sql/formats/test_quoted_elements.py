"""Texts inside arrays, maps and tuples stand in single quotes; other marks never become part of a value."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.oracle import Oracle

_TYPES = [
    "Array(String)",
    "Array(Nullable(String))",
    "Array(LowCardinality(String))",
    "Map(String, UInt8)",
    "Map(UInt8, Array(String))",
    "Array(Tuple(String, UInt8))",
    "Array(FixedString(5))",
    "Array(Enum8('a' = 1))",
    "Array(UUID)",
]
_VALUES = [
    """["a"]""", """['a',"b"]""", """{"a":1}""", """{'a':1,b:2}""", """[("a",1)]""", "[a, b]", "{a:1}",
    "{1:['a']}", "{1:[a]}", """[""]""", "['']", "['a''b','c\\'d']", "['a';'b']", "['a''']", "['\\\\']",
    "['\\\\'','b']", "['61f0c404-5cb3-11e7-907b-a6006ad3dba0']", "[61f0c404-5cb3-11e7-907b-a6006ad3dba0]",
]  # fmt: skip


def stored(server: Oracle | Pando, type_: str, format: str) -> list[str]:
    """What each of the values makes, or ``refused``."""
    answers = []
    for value in _VALUES:
        quoted = '"' + value.replace('"', '""') + '"'
        data = {"CSV": quoted, "TSV": value, "Values": f"({value})"}[format]
        server.query("TRUNCATE TABLE quoted")
        try:
            server.query(f"INSERT INTO quoted FORMAT {format} {data}\n")
            answers.append(server.query("SELECT v FROM quoted").decode())
        except (PandoError, RuntimeError):
            answers.append("refused")
    return answers


@pytest.mark.parametrize("format", one_in(3, ["CSV", "TSV", "Values"]))
@pytest.mark.parametrize("type_", _TYPES)
def test_elements_are_what_clickhouse_reads(oracle: Oracle, pando: Pando, type_: str, format: str) -> None:
    for server in (oracle, pando):
        server.query("DROP TABLE IF EXISTS quoted")
        server.query(f"CREATE TABLE quoted (v {type_}) ENGINE = Memory")
    ours, theirs = stored(pando, type_, format), stored(oracle, type_, format)
    assert dict(zip(_VALUES, ours, strict=True)) == dict(zip(_VALUES, theirs, strict=True))


@pytest.mark.parametrize("value", ['"a"', "'a'x", "a"])
def test_the_refusal_names_row_and_value(pando: Pando, value: str) -> None:
    pando.query("CREATE OR REPLACE TABLE quoted (v Array(String)) ENGINE = Memory")
    with pytest.raises(PandoError, match=rf"single quotes around {value} as String: \(at row 2, column v") as caught:
        pando.query(f"INSERT INTO quoted FORMAT TSV ['x']\n[{value}]\n")
    assert caught.value.code == 26
