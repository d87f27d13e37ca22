"""The rows that a scan's condition keeps, with long lists of members and without."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.scan.scan_filter import compile_filter
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
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
    assert keep(batch.select(list(keep.columns)) if "k" in keep.columns else batch).num_rows == len(kept)
    assert keep(batch).column("k").to_pylist() == kept
    assert set(keep.columns) <= {"c", "k"}


def test_no_member_is_a_value_of_the_column() -> None:
    keep = compile_filter(f"c IN ({', '.join(str(number) for number in range(300, 420))})", describe("UInt8"), "UTC")
    assert keep is not None
    assert keep(make_batch("UInt8")).num_rows == 0
