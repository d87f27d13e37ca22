"""What one server computes of an aggregation of Spark over a whole table. Without servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.test_scan_push_down import call, column, literal, push

ONE = literal("1", "decimal(1,0)")
LESS = call("-", ONE, column("d"))


def whole(*aggregates: Any, by: tuple[str, ...] = (), **more: Any) -> Any:
    wanted = {"aggregates": aggregates, "group_by": [column(name) for name in by], **more}
    return push(whole={name: list(v) if isinstance(v, tuple) else v for name, v in wanted.items()})["whole"]


def types(made: Any) -> list[str]:
    return [field["type"] for field in made["fields"]]


def test_the_rows_are_those_of_the_condition() -> None:
    made = whole(call("SUM", column("k")), by=("s",), condition="(`k` < 7)")
    assert made["query"] == ("SELECT `s` AS _0, toInt64(sumOrNull(`k`)) AS _1 FROM slot WHERE (`k` < 7) GROUP BY _0")
    assert made["columns"] == ["s", "k"]
    assert types(made) == ["string", "long"]


def test_products_of_decimals_have_the_digits_that_spark_gives_them() -> None:
    made = whole(call("SUM", call("*", column("d"), LESS)), call("SUM", column("u")), call("SUM", column("d")))
    product = "(toDecimal128(`d`, 2) * (toDecimal128('1', 0) - toDecimal128(`d`, 2)))"
    assert made["query"].startswith(f"SELECT sumOrNull({product}) AS _0, sumOrNull(toDecimal128(`u`, 0)) AS _1, ")
    assert made["columns"] == ["d", "u"]
    assert types(made) == ["decimal(32,4)", "decimal(30,0)", "decimal(20,2)"]


def test_more_than_38_digits_are_an_error_on_both_sides_or_left_to_spark() -> None:
    power = column("d")
    for _ in range(2):
        power = call("*", power, power)
    assert types(whole(call("SUM", call("*", column("d"), column("u"))))) == ["decimal(38,2)"]
    assert whole(call("SUM", call("*", column("d"), column("u"))), is_ansi=False) is None
    assert whole(call("SUM", power)) is None  # 8 digits behind the point: Spark rounds to six


def test_averages() -> None:
    made = whole(call("AVG", column("d")), call("AVG", column("n")), call("AVG", column("g")))
    count = "nullIf(toInt64(count(toDecimal128(`d`, 2))), 0)"
    quotient = f"toDecimal128(sumOrNull(toDecimal128(`d`, 2)), 7) / {count}"
    assert f"toDecimal128(round({quotient}, 6), 6) AS _0" in made["query"]
    assert types(made) == ["decimal(14,6)", "double", "double"]


@pytest.mark.parametrize(
    "asked",
    [
        call("AVG", column("i")),  # Spark adds floating numbers
        call("AVG", column("u")),
        call("AVG", call("*", column("d"), LESS)),
        call("SUM", call("*", column("k"), column("k"))),  # of integers
        call("SUM", call("*", column("f"), column("g"))),
        call("SUM", call("/", column("d"), column("d"))),
        call("SUM", call("CAST", column("s"), type="decimal(10,2)")),
        call("SUM", call("CAST", column("d"), type="decimal(9,2)")),
        call("SUM", column("d"), distinct=True),
        call("COUNT", column("f"), distinct=True),
        call("COUNT", column("a"), distinct=True),
    ],
)
def test_what_could_be_another_number_is_left_to_spark(asked: Any) -> None:
    assert whole(asked) is None


def test_casts_that_keep_every_value() -> None:
    wide = call("CAST", column("k"), type="decimal(20,0)")
    assert types(whole(call("SUM", call("+", column("d"), wide)))) == ["decimal(33,2)"]
    double = call("CAST", column("g"), type="double")
    made = whole(call("SUM", call("*", column("f"), double)), call("COUNT", column("e"), distinct=True))
    assert "sumOrNull((`f` * toFloat64(`g`)))" in made["query"]
    assert "toInt64(uniqExact(toString(`e`)))" in made["query"]
