"""The rows that a scan's condition keeps, with long lists of members and without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.scan.row_draws import find_draw
from engine.scan.scan_filter import compile_filter
from parts.common.errors import UserError
from parts.read.row_filters import RowFilter
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from sql.grammar.queries.query_parser import parse_expression
from sql.run.block_expressions import compile_expressions

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
