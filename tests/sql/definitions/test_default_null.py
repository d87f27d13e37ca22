"""DEFAULT NULL makes a column Nullable, as in ClickHouse; another NULL of a column that is not is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.definitions.table_description import build_description
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable
from tests.sql.oracle import Oracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = Oracle()
    try:
        yield made
    finally:
        made.close()


def described(columns: str, verb: str = "CREATE") -> TableDescription:
    text = f"{verb} TABLE d ({columns}, k UInt8) ENGINE = MergeTree ORDER BY k"
    statement = parse_statement(text).statement
    assert isinstance(statement, CreateTable)
    return build_description(statement)


@pytest.mark.parametrize(
    "column",
    [
        "a Int8 DEFAULT NULL", "a String DEFAULT null", "a LowCardinality(String) DEFAULT NULL",
        "a LowCardinality(Int8) DEFAULT NULL", "a Nullable(Int8) DEFAULT NULL", "a Int8 DEFAULT (NULL)",
        "a Int8 DEFAULT toNullable(5)", "a Int8 NULL DEFAULT NULL", "a Date DEFAULT NULL",
        "a Enum8('x' = 1) DEFAULT NULL", "a UUID DEFAULT NULL", "a FixedString(3) DEFAULT NULL",
        "a Decimal(9, 2) DEFAULT NULL", "a DateTime64(3) DEFAULT NULL", "a Bool DEFAULT NULL", "a IPv4 DEFAULT NULL",
        "a Int8 DEFAULT NULL CODEC(ZSTD(1))", "a Int8 DEFAULT NULL COMMENT 'x'", "a Int8 NOT NULL DEFAULT 1",
    ],
)  # fmt: skip
def test_same_type(oracle: Oracle, column: str) -> None:
    oracle.query("DROP TABLE IF EXISTS d")
    oracle.query(
        f"CREATE TABLE d ({column}, k UInt8) ENGINE = MergeTree ORDER BY k", allow_suspicious_low_cardinality_types=1
    )
    expected = oracle.query("SELECT type FROM system.columns WHERE table = 'd' AND name = 'a'", "TSVRaw").decode()
    assert described(column).schema.column("a").type.name == expected.strip()


@pytest.mark.parametrize(
    "column",
    [
        "a Array(Int8) DEFAULT NULL", "a Map(String, Int8) DEFAULT NULL", "a Int8 MATERIALIZED NULL",
        "a Int8 ALIAS NULL", "a Int8 DEFAULT CAST(NULL AS Nullable(Int8))", "a Int8 DEFAULT NULL + 1",
        "a Int8 DEFAULT if(1, NULL, 2)", "a DEFAULT NULL", "a Int8 NOT NULL DEFAULT NULL",
        "a Int8 DEFAULT NULL::Nullable(Int8)",
    ],
)  # fmt: skip
def test_same_refusal(oracle: Oracle, column: str) -> None:
    with pytest.raises(Exception, match=r"Code: \d+") as failure:
        oracle.query(f"CREATE TABLE refused ({column}, k UInt8) ENGINE = MergeTree ORDER BY k")
    code = re.search(r"Code: (\d+)", str(failure.value))
    assert code is not None
    with pytest.raises(UserError) as ours:
        described(column)
    assert ours.value.code == int(code[1])


def test_a_key_with_default_null_is_refused() -> None:
    with pytest.raises(UserError) as failure:
        build_description(
            parse_statement("CREATE TABLE d (a Int8 DEFAULT NULL) ENGINE = MergeTree ORDER BY a").statement  # type: ignore[arg-type]
        )
    assert failure.value.code == 44


def test_a_table_made_before_keeps_its_types() -> None:
    assert described("a Int8 DEFAULT NULL", "ATTACH").schema.column("a").type.name == "Int8"
