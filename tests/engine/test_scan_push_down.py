"""What a server says that it computes of a Spark query: types, conditions, aggregates, first rows. Without servers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine.scan.push_down.answers import answer_push
from engine.scan.push_down.expressions import Unknown, parse_node
from engine.scan.push_down.spark_types import make_arrow_schema, make_spark_field
from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import parse_type
from spark_connector.shared.type_mapping import to_spark_field

TYPES = [
    "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Float32", "Float64", "Bool", "String",
    "Date", "Date32", "DateTime", "UUID", "IPv4", "IPv6", "Decimal(9, 2)", "Decimal(38, 10)", "FixedString(3)",
    "DateTime64(3)", "DateTime64(9)", "Enum8('a' = 1)", "Nullable(Int32)", "LowCardinality(String)",
    "LowCardinality(Nullable(String))", "Array(UInt16)", "Array(Nullable(String))", "Map(String, UInt32)",
    "Map(String, Array(Nullable(Date)))", "Tuple(x Int8, y Nullable(String))", "Tuple(Int8, String)",
    "Array(Tuple(a Array(UInt64)))",
]  # fmt: skip
COLUMNS = {"k": "UInt32", "i": "Int64", "n": "Nullable(Int8)", "f": "Nullable(Float64)", "g": "Float32",
           "s": "String", "e": "Enum8('a' = 1)", "d": "Decimal(10, 2)", "u": "UInt64", "t": "DateTime64(9)",
           "a": "Array(UInt8)", "m": "UInt8", "l": "UInt8"}  # fmt: skip
KINDS = {"m": "MATERIALIZED", "l": "ALIAS"}


def describe() -> Any:
    columns = [
        Column(name, parse_type(text), default_kind=KINDS.get(name, ""), default_expression="1" * (name in KINDS))
        for name, text in COLUMNS.items()
    ]
    return SimpleNamespace(schema=TableSchema(tuple(columns)))


def push(**body: Any) -> dict[str, Any]:
    fields = [make_spark_field(c.name, c.type) for c in describe().schema.columns]
    return answer_push({"fields": fields, **body}, describe(), "UTC")


def call(name: str, *children: Any, **more: Any) -> dict[str, Any]:
    return {"call": name, "children": list(children), **more}


def column(name: str) -> dict[str, Any]:
    return {"column": name}


def literal(value: object, type_: str) -> dict[str, Any]:
    return {"literal": value, "type": type_}


K7 = call("=", column("k"), literal(7, "long"))
ODD = call("=", call("%", column("k"), literal(2, "long")), literal(1, "long"))


@pytest.mark.parametrize("text", TYPES)
def test_a_type_is_the_one_that_the_connector_reads(text: str) -> None:
    type_ = parse_type(text)
    ours = make_spark_field("c", type_)
    schema = StructType([to_spark_field("c", type_)])
    assert StructType.fromJson({"fields": [ours]}) == schema
    theirs = json.loads(schema.json())["fields"]
    assert make_arrow_schema(theirs) == make_arrow_schema([ours]) == to_arrow_schema(schema, timezone="UTC")


def test_the_fields_are_those_of_an_asterisk_or_of_names() -> None:
    names = [field["name"] for field in push()["fields"]]
    assert names == [name for name in COLUMNS if name not in "ml"]
    assert push(columns=["m"])["fields"] == [{"name": "m", "type": "short", "nullable": False, "metadata": {}}]
    assert push(columns=["t"], nanoseconds="long")["fields"][0]["type"] == "long"
    for name, code in (("nope", 16), ("l", 48)):
        with pytest.raises(UserError) as raised:
            push(columns=[name])
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("node", "sql", "is_exact"),
    [
        (K7, "(`k` = 7)", True),
        (call("AND", K7, ODD), "(`k` = 7)", False),
        (call("OR", call("AND", K7, ODD), call("<>", column("n"), literal(1, "byte"))),
         "((`k` = 7) OR (NOT (`n` = 1)))", False),
        (call("NOT", call("AND", K7, ODD)), None, False),
        (ODD, None, False),
        (call("IN", column("e"), literal("a", "string")), "(toString(`e`) IN ('a'))", True),
        (call(">", call("CAST", column("k"), type="decimal(20,0)"), literal("2", "decimal(1,0)")), "(`k` > 2)", True),
        (call(">", call("CAST", column("i"), type="double"), literal("2", "double")), None, False),
        (call("=", call("CAST", column("i"), type="byte"), literal(2, "byte")), None, False),
        (call(">=", column("f"), literal("1.5", "double")), "(`f` >= 1.5 OR isNaN(`f`))", True),
        (call(">", column("f"), literal("NaN", "double")), None, False),
        (call("=", column("s"), literal("it's", "string")), r"(`s` = 'it\'s')", True),
        (call("=", column("s"), literal("a", "string collate UNICODE_CI")), None, False),
        (call("IS_NULL", column("t")), "isNull(`t`)", True),
        (call(">", column("t"), literal(0, "timestamp")), None, False),
        (call("=", column("nope"), literal(1, "long")), None, False),
        (call("=", column("d"), literal("1e999999999", "decimal(10,2)")), None, False),
        (call("=", column("d"), literal("NaN", "decimal(10,2)")), None, False),
    ],
)  # fmt: skip
def test_a_condition_is_translated_as_far_as_both_mean_the_same(node: Any, sql: str | None, is_exact: bool) -> None:
    expected = None if sql is None else {"sql": sql, "is_exact": is_exact}
    assert push(conditions=[node, {}])["conditions"] == [expected, None]


def test_what_is_no_expression_is_left_to_spark() -> None:
    deep: Any = K7
    for _ in range(300):
        deep = call("NOT", deep)
    hostile = [None, 1, "x", [], {"column": 1}, {"call": "=", "children": 3}, deep, call("=", K7), call("CAST"),
               call("IN", column("k")), literal(1, "struct"), literal("1" * 5000, "decimal(38,0)"),
               call("AND", *[K7] * 3), literal(10**9, "date"), literal(True, "long")]  # fmt: skip
    assert push(conditions=hostile)["conditions"] == [None] * len(hostile)
    assert parse_node({"literal": 5, "type": "string"}) == Unknown()


def aggregate(*aggregates: Any, by: tuple[str, ...] = (), **more: Any) -> Any:
    wanted = {"group_by": [column(name) for name in by], "aggregates": list(aggregates), **more}
    return push(aggregation=wanted)["aggregation"]


def test_aggregates_that_merge_are_pushed() -> None:
    made = aggregate(call("SUM", column("k")), call("COUNT"), call("MAX", column("s")), by=("e", "n"))
    assert made["query"] == (
        "SELECT toString(`e`) AS _0, `n` AS _1, toInt64(sumOrNull(`k`)) AS _2, toInt64(count()) AS _3, "
        "maxOrNull(`s`) AS _4 FROM slot GROUP BY _0, _1"
    )
    assert made["columns"] == ["e", "n", "k", "s"]
    assert [field["type"] for field in made["fields"]] == ["string", "byte", "long", "long", "string"]


@pytest.mark.parametrize(
    "made",
    [
        lambda: aggregate(call("SUM", column("d")), averaged=["d"]),
        lambda: aggregate(call("SUM", column("u"))),
        lambda: aggregate(call("SUM", column("i")), averaged=["i"]),
        lambda: aggregate(call("COUNT", column("k"), distinct=True)),
        lambda: aggregate(call("COUNT"), by=("f",)),
        lambda: aggregate(call("MAX", column("a"))),
        lambda: aggregate(call("MAX", column("t"))),
        lambda: aggregate(call("MAX", K7)),
        lambda: aggregate(call("MEDIAN", column("k"))),
        lambda: aggregate(),
    ],
)
def test_aggregates_that_do_not_merge_are_left_to_spark(made: Any) -> None:
    assert made() is None


def test_a_sum_of_decimals_comes_in_rows_that_the_type_of_one_holds() -> None:
    made = aggregate(call("SUM", column("d")), call("COUNT"))
    assert [field["type"] for field in made["fields"]] == ["decimal(10,2)", "long"]
    assert "floor(abs(_0) / toDecimal128('99999999.99', 2))" in made["query"]
    assert "if(_row = 0, _1, toInt64(0)) AS _1" in made["query"]


def test_a_sum_that_may_overflow_is_checked_where_spark_checks() -> None:
    checked, wrapped = (aggregate(call("SUM", column("i")), is_ansi=flag)["query"] for flag in (True, False))
    assert "toInt64(sumOrNull(toDecimal128(`i`, 0)))" in checked
    assert "sumOrNull(`i`)" in wrapped


def test_first_rows_are_ordered_as_in_spark() -> None:
    def top(name: str, limit: int = 5) -> Any:
        term = {"by": column(name), "descending": True, "nulls_first": False}
        return push(top={"order": [term], "limit": limit, "columns": ["k", "e"], "condition": "(`k` = 7)"})["top"]

    tail = "ORDER BY toString(`e`) DESC NULLS LAST LIMIT 5"
    assert top("e")["query"] == f"SELECT `k`, `e` FROM slot {tail}"
    assert top("e")["whole"]["query"] == f"SELECT `k`, `e` FROM slot WHERE (`k` = 7) {tail}"
    assert top("f")["columns"] == top("f")["whole"]["columns"] == ["k", "e", "f"]
    assert "isNaN(`f`) DESC NULLS LAST, `f` DESC NULLS LAST" in top("f")["query"]
    assert top("a") is None
    assert top("k", 1_000_000) is None


@pytest.mark.parametrize(
    "body",
    [{"fields": 1}, {"fields": [{"name": "k"}]}, {"conditions": "x"}, {"aggregation": []}, {"top": {"limit": -1}},
     {"fields": [{"name": "k", "type": {"type": "array"}, "nullable": True}]},
     {"fields": [{"name": "k", "type": "decimal(99,0)", "nullable": True}]}],
)  # fmt: skip
def test_a_wrong_request_is_refused(body: Any) -> None:
    with pytest.raises(UserError) as raised:
        push(**body)
    assert raised.value.code == 36
