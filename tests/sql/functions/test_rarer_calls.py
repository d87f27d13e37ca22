"""Calls with arguments of kinds that are seldom given: addresses as numbers, bits of texts, numbers of an Enum, …"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.alter.following import Pando
from tests.portions import one_in
from tests.sql.functions.test_rare_arguments import answer
from tests.sql.oracle import Oracle

_ADDRESSES = [
    *(f"SELECT {left} {operator} {right} AS r, toTypeName(r)"
      for operator in "+-*/%"
      for one, other in (("toIPv4('1.2.3.4')", "toUInt8(3)"), ("materialize(toIPv4('1.2.3.4'))", "toInt64(-3)"),
                         ("toIPv4('200.2.3.4')", "toIPv4('0.0.0.9')"), ("toIPv4('1.2.3.4')", "1.5"),
                         ("toNullable(toIPv4('1.2.3.4'))", "7"), ("toLowCardinality(toIPv4('1.2.3.4'))", "7"))
      for left, right in ((one, other), (other, one))),
    *(f"SELECT {function}(toIPv4('1.2.3.4'), {other}) AS r, toTypeName(r)"
      for function in ("intDiv", "intDivOrZero", "moduloOrZero", "positiveModulo", "gcd", "lcm", "bitAnd", "bitOr",
                       "bitXor", "bitShiftLeft", "bitShiftRight")
      for other in ("toUInt8(3)", "toIPv4('0.0.0.9')")),
    "SELECT toIPv4('1.2.3.4') % number FROM numbers(1, 20)",
    "SELECT toIPv4('1.2.3.4') % number FROM numbers(3)",
    *(f"SELECT {function}({value}) AS r, toTypeName(r)"
      for function in ("empty", "notEmpty")
      for value in ("toIPv6('::')", "toIPv6('::1')", "toIPv4('0.0.0.0')", "toIPv4('0.0.0.1')",
                    "materialize(toIPv6('::'))", "toNullable(toIPv6('::'))", "CAST(NULL, 'Nullable(IPv4)')",
                    "toLowCardinality(toIPv6('::1'))", "toUUID('00000000-0000-0000-0000-000000000000')")),
]  # fmt: skip
_BITS = [
    *(f"SELECT hex({function}({left}, {right})), toTypeName({function}({left}, {right}))"
      for function in ("bitAnd", "bitOr", "bitXor")
      for left, right in itertools.product(
          ("materialize(toFixedString('abc', 3))", "toNullable(toFixedString('\\0\\0z', 3))", "toFixedString('ab', 2)",
           "toLowCardinality(toFixedString('abc', 3))"),
          ("toFixedString('\\0\\x01\\x02', 3)", "materialize(toFixedString('xyz', 3))", "NULL", "'abc'", "1"))),
    "SELECT bitXor(toFixedString('abc', 3), toFixedString('\\x00\\x01\\x02', 3))",
    "SELECT hex(bitAnd(IPv6StringToNum('ffff::1'), IPv6StringToNum('f0f0::3')))",
    "SELECT hex(bitNot(materialize(toFixedString('abc', 3)))), toTypeName(bitNot(toFixedString('abc', 3)))",
    *(f"SELECT bitCount({value}) AS r, toTypeName(r)"
      for value in ("'abc'", "''", "materialize('')", "toNullable('ä')", "toFixedString('abc', 5)")),
]  # fmt: skip
_ZONES = [
    *(f"SELECT {sign}{unit}s({value}, 1, 'Asia/Kolkata') AS r, toTypeName(r)"
      for sign in ("add", "subtract")
      for unit in ("Year", "Quarter", "Month", "Week", "Day", "Hour", "Minute", "Second", "Millisecond", "Microsecond")
      for value in ("toDateTime('2017-01-31 22:07:47', 'Asia/Istanbul')",
                    "materialize(toDateTime64('2017-01-31 22:07:47.123', 3, 'UTC'))")),
    *(f"SELECT addMonths({arguments}) AS r, toTypeName(r)"
      for arguments in ("toDate('2020-01-31'), 1, 'UTC'", "toDate32('2020-01-31'), 1, 'UTC'", "NULL, 1, 'UTC'",
                        "'2020-01-31 23:00:00', 1, 'UTC'", "toDateTime('2017-01-31 22:07:47'), 1, ''",
                        "toDateTime('2017-01-31 22:07:47'), 1, 'x/y'", "toDateTime('2017-01-31 22:07:47'), 1, 5",
                        "toDateTime('2017-01-31 22:07:47'), 1, materialize('UTC')",
                        "toDateTime('2017-01-31 22:07:47'), 1, NULL",
                        "toNullable(toDateTime('2017-01-31 22:07:47', 'UTC')), 1, 'Asia/Kolkata'",
                        "toLowCardinality(toDateTime('2017-01-31 22:07:47', 'UTC')), 1, 'Asia/Kolkata'")),
    "SELECT addDays(toDateTime('2020-03-28 12:00:00', 'UTC'), number, 'Europe/Berlin') FROM numbers(3)",
]  # fmt: skip
_WRITTEN = [line for line in Path(__file__).with_name("rarer_calls.txt").read_text().splitlines() if line[:2] != "--"]


@pytest.mark.parametrize("query", one_in(24, [*_ADDRESSES, *_BITS, *_ZONES, *_WRITTEN]))
def test_as_in_clickhouse(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)
