"""INSERT … SELECT of texts into Nullable columns: a text that is no value is NULL, as in ClickHouse."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.oracle import Oracle

TYPES = (
    "Int8", "UInt64", "Float32", "Float64", "Decimal(9, 2)", "Decimal(38, 3)", "Date", "Date32", "DateTime('UTC')",
    "DateTime64(3, 'UTC')", "UUID", "IPv4", "IPv6",
)  # fmt: skip
TEXTS = (
    "['zzz', '', '12x', '7', '2023-01-02', '2023-01-02 03:04:05', '1.2.3.4', '::1', "
    "'61f0c404-5cb3-11e7-907b-a6006ad3d003']"
)
SOURCES = ("s", "toLowCardinality(s)", "toNullable(s)")


@pytest.mark.parametrize("type_", one_in(3, TYPES))
def test_a_text_that_is_no_value_is_null(oracle: Oracle, pando: Pando, type_: str) -> None:
    answers = []
    # ClickHouse takes a bare 7 for a day of this year.
    texts = TEXTS.replace(" '7',", "") if type_.startswith("DateTime") else TEXTS
    for one in (oracle, pando):
        one.query("DROP TABLE IF EXISTS texts")
        one.query(f"CREATE TABLE texts (s String, a Nullable({type_})) ENGINE = Memory")
        for source in SOURCES:
            one.query(f"INSERT INTO texts SELECT s, {source} FROM (SELECT arrayJoin({texts}) AS s)")
        answers.append(one.query("SELECT s, a FROM texts ORDER BY ALL"))
    assert answers[1] == answers[0]


@pytest.mark.parametrize(
    ("type_", "source"),
    [("Int32", "'abc'"), ("Nullable(Int32)", "toFixedString('abc', 3)"), ("Nullable(Bool)", "'abc'"),
     ("Nullable(Enum8('a' = 1))", "'abc'")],
)  # fmt: skip
def test_others_are_refused(oracle: Oracle, pando: Pando, type_: str, source: str) -> None:
    for one in (oracle, pando):
        one.query("DROP TABLE IF EXISTS refused")
        one.query(f"CREATE TABLE refused (a {type_}) ENGINE = Memory")
    with pytest.raises(RuntimeError):
        oracle.query(f"INSERT INTO refused SELECT {source}")
    with pytest.raises(PandoError):
        pando.query(f"INSERT INTO refused SELECT {source}")
