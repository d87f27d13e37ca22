"""The rows that a scan's condition keeps, with long lists of members and without."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.scan.row_draws import find_draw
from engine.scan.scan_filter import compile_filter
from parts.common.errors import PandoError, UserError
from parts.read.row_filters import RowFilter
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.grammar.queries.query_parser import parse_expression
from sql.run.block_expressions import compile_expressions
from tests.engine.conftest import Local

TYPES = ["Int8", "UInt8", "Int64", "UInt64", "Nullable(Int32)", "LowCardinality(UInt16)", "Float64", "String"]
MEMBERS = [*range(-3, 40, 2), *range(250, 350), -9_000_000_000, 9_223_372_036_854_775_807]
LIST = f"({', '.join(map(str, MEMBERS))})"


def describe(type_: str) -> Any:
    columns = [Column("c", parse_type(type_)), Column("k", parse_type("UInt32"))]
    return SimpleNamespace(schema=TableSchema(tuple(columns)))


def make_batch(type_: str) -> pa.RecordBatch:
    parsed = parse_type(type_)
    values: list[Any] = [number % 50 for number in range(200)]
    if parsed.is_nullable:
        values[::7] = [None] * len(values[::7])
    if type_ == "String":
        values = list(map(str, values))
    arrow = parsed.arrow
    array = (
        pa.array(values, arrow.value_type).dictionary_encode()
        if pa.types.is_dictionary(arrow)
        else pa.array(values, arrow)
    )
    return pa.record_batch({"c": array, "k": pa.array(range(200), pa.uint32())})


def find_rows(keep: RowFilter, batch: pa.RecordBatch) -> list[int]:
    return np.flatnonzero(keep.match_rows(batch.column, batch.num_rows)).tolist()


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    "condition",
    [
        "c IN {list}",
        "(c IN {list}) AND (k < 90 OR k = 177)",
        "k % 3 = 1 AND c IN {list} AND k IN {list}",
        "NOT (c IN {list})",
        "c NOT IN {list} AND k > 5",
        "c IN {list} OR k = 7",
    ],
)
def test_long_lists_keep_the_rows_of_the_whole_condition(type_: str, condition: str) -> None:
    members = LIST if type_ != "String" else LIST.replace("(", "('").replace(", ", "', '").replace(")", "')")
    text = condition.replace("c IN {list}", f"c IN {members}").replace("c NOT IN {list}", f"c NOT IN {members}")
    text = text.replace("{list}", LIST)
    description, batch = describe(type_), make_batch(type_)
    keep = compile_filter(text, description, "UTC")
    assert keep is not None
    [whole] = compile_expressions([text], description.schema)
    expected = whole.evaluate(pa.Table.from_batches([batch])).to_pylist()
    kept = [row for row, is_true in zip(batch.column("k").to_pylist(), expected, strict=True) if is_true]
    assert kept
    assert find_rows(keep, batch) == kept
    assert keep.columns <= {"c", "k"}


def test_no_member_is_a_value_of_the_column() -> None:
    keep = compile_filter(f"c IN ({', '.join(str(number) for number in range(300, 420))})", describe("UInt8"), "UTC")
    assert keep is not None
    assert find_rows(keep, make_batch("UInt8")) == []


TEXTS = ["AIR", "MAIL", "air", "", "7", "12", "ümlaut"]


@pytest.mark.parametrize(
    "condition",
    [
        "c = 'AIR'", "c IN ('MAIL', '7') AND k > 20", "c <> 'AIR' AND c <> '7'", "c LIKE '%A%' OR c = ''",
        "toUInt8OrZero(c) > 5 AND k % 2 = 0", "empty(c)", "c = upper(c)", "k < 50 AND notEmpty(c) AND c < 'B'",
        "isNull(c) OR c = '7'", "c = if(k > 50, 'AIR', '7')",
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_", ["String", "Nullable(String)"])
def test_dictionaries_keep_the_rows_of_their_texts(type_: str, condition: str) -> None:
    description = describe(type_)
    keep = compile_filter(condition, description, "UTC")
    assert keep is not None
    [whole] = compile_expressions([condition], description.schema)
    for texts in (TEXTS, TEXTS[::-1], TEXTS[:2]):
        values: list[str | None] = [texts[number % len(texts)] for number in range(100)]
        if type_ != "String":
            values[::9] = [None] * len(values[::9])
        plain = pa.record_batch({"c": pa.array(values), "k": pa.array(range(100), pa.uint32())})
        values = whole.evaluate(pa.Table.from_batches([plain])).to_pylist()
        expected = [row for row, is_true in enumerate(values) if is_true]
        compact = plain.set_column(0, "c", plain.column(0).dictionary_encode())
        assert find_rows(keep, plain) == find_rows(keep, compact) == expected


def test_a_text_that_no_row_has_is_no_error() -> None:
    """A dictionary may have texts that its rows lack, if some of a frame's rows are read."""
    keep = compile_filter("toInt32(c) > 3", describe("String"), "UTC")
    assert keep is not None
    rows = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int32()), pa.array(["3", "4", "x"]))
    assert find_rows(keep, pa.record_batch({"c": rows, "k": pa.array([0, 1, 2], pa.uint32())})) == [1, 2]
    with pytest.raises(UserError, match="x"):
        find_rows(keep, pa.record_batch({"c": rows.dictionary, "k": pa.array([0, 1, 2], pa.uint32())}))


def test_each_row_is_random_by_itself() -> None:
    keep = compile_filter("rand() % 2 = 0 AND c != toString(rand() % 2)", describe("String"), "UTC")
    assert keep is not None
    rows = pa.array(["0"] * 10_000).dictionary_encode()
    found = find_rows(keep, pa.record_batch({"c": rows, "k": pa.array(range(10_000), pa.uint32())}))
    assert 2000 < len(found) < 3000


@pytest.mark.parametrize("limit", [0, 1 << 62, (1 << 64) - 1])
def test_rows_are_drawn_as_the_expression_says(limit: int) -> None:
    draw = "intHash64(bitXor(bitXor(_part_offset, cityHash64(_part)), toUInt64(12345678901234567890)))"
    schema = TableSchema((Column("_part", parse_type("String")), Column("_part_offset", parse_type("UInt64"))))
    batch = pa.record_batch({"_part": ["all_1_7_2"] * 1000, "_part_offset": pa.array(range(8192, 9192), pa.uint64())})
    for sign in ("<", ">="):
        condition = f"{draw} {sign} {limit}"
        [whole] = compile_expressions([condition], schema)
        expected = whole.evaluate(pa.Table.from_batches([batch])).to_numpy().astype(bool)
        keep = compile_filter(condition, describe("String"), "UTC")
        assert keep is not None
        assert find_draw(parse_expression(condition)) is not None
        assert np.array_equal(keep.match_rows(batch.column, 1000), expected)


MICRO = "fromUnixTimestamp64Micro"
LITERALS = {
    "Int32": ["-5", "0", "7", "2.5", "3000000000"],
    "UInt64": ["0", "7", "-1", "18446744073709551615"],
    "Nullable(Int16)": ["3", "7", "40000", "toInt64(9)"],
    "Date": ["toDate('2024-01-09')", "'2024-01-03'", "toDateTime('2024-01-05 12:00:00', 'UTC')"],
    "Nullable(Date32)": ["toDate32('2024-01-09')", "'2024-01-03'"],
    "DateTime('UTC')": [
        "toDateTime(1704067203)",
        "'2024-01-01 00:00:07'",
        "fromUnixTimestamp64Micro(1704067205500000)",
    ],
    "DateTime64(3, 'UTC')": ["toDateTime(1704067203)", f"{MICRO}(1704067205500000)"],
    "Decimal(15, 2)": ["1", "toDecimal128('1.25', 2)", "0.05", "-3", "1.234"],
    "Nullable(Decimal(30, 5))": ["1", "toDecimal128('1.25', 5)", "7.5"],
    "String": ["'7'", "''", "'9'", "'%'"],
    "Nullable(String)": ["'7'", "'33'"],
    "LowCardinality(String)": ["'7'", "'33'"],
    "Float64": ["1", "0.05", "nan", "-0.0"],
    "Bool": ["true", "false"],
    "Enum8('a' = 1, 'b' = 2, 'c' = -3)": ["'a'", "'c'"],
    "FixedString(2)": ["'7'", "'33'"],
}
VALUES = {
    "Date": "toDate('2024-01-01') + number % 14", "Nullable(Date32)": "toDate32('2024-01-01') + number % 14",
    "DateTime('UTC')": "toDateTime(1704067200 + number % 14, 'UTC')",
    "DateTime64(3, 'UTC')": "fromUnixTimestamp64Milli(toInt64(1704067200000 + (number % 28) * 500), 'UTC')",
    "Decimal(15, 2)": "(toInt64(number % 40) - 20) / 4", "Nullable(Decimal(30, 5))": "(toInt64(number % 40) - 20) / 4",
    "Float64": "if(number % 5 = 0, nan, (toInt64(number % 40) - 20) / 4)", "Bool": "number % 2 = 0",
    "Enum8('a' = 1, 'b' = 2, 'c' = -3)": "['a', 'b', 'c'][1 + number % 3]", "String": "toString(number % 40)",
    "Nullable(String)": "toString(number % 40)", "LowCardinality(String)": "toString(number % 40)",
    "FixedString(2)": "toString(number % 40)", "Int32": "toInt32(number % 20) - 8",
}  # fmt: skip
SHAPES = [
    "c > {0}", "c <= {1}", "c = {0}", "c <> {1}", "NOT (c < {0} OR c = {1})", "c IN ({0}, {1})", "c NOT IN ({0}, {1})",
    "c BETWEEN {0} AND {1}", "c > {0} OR k < 10", "NOT (c = {0} AND k > 5)", "c >= {0} AND (c < {1} OR k % 7 = 3)",
    "{0} < c", "c = {0} OR isNull(c) OR c > {1}", "c != {0} AND k IN (3, 4, 5, 90)",
]  # fmt: skip


@pytest.mark.parametrize("type_", LITERALS)
def test_conditions_are_decided_as_a_query_decides_them(local: Local, type_: str) -> None:
    """Also where a constant is finer than the column, or out of its range."""
    null = "if(number % 9 = 0, NULL, {})" if type_.startswith("Nullable") else "{}"
    local.run(f"CREATE TABLE t (c {type_}, k UInt32) ENGINE = MergeTree ORDER BY k")
    value = VALUES.get(type_, "number % 20")
    local.run(f"INSERT INTO t SELECT CAST({null.format(value)} AS {type_}), number FROM numbers(200)")
    table = local.engine.catalog.table("default", "t")
    decided = 0
    with table.snapshot() as snapshot:
        (part,) = snapshot.parts
        (batch,) = part.read(["c", "k"])
        for shape in SHAPES:
            for literals in itertools.permutations(LITERALS[type_], 2):
                condition = shape.format(*literals)
                try:
                    expected = [row[0] for row in local.run(f"SELECT k FROM t WHERE {condition} ORDER BY k")]
                    keep = compile_filter(condition, table.description, "UTC")
                except PandoError:
                    continue
                assert keep is not None
                assert find_rows(keep, batch) == expected, condition
                decided += 1
    assert decided >= 20
