"""Instants that texts spell freely: parseDateTimeBestEffort and its kinds, toDateTime, toDateTime64."""

from __future__ import annotations

import re

import pytest

from tests.alter.following import Pando
from tests.sql.functions.test_rare_arguments import answer
from tests.sql.oracle import Oracle

_TEXTS = """100000000|1000000000|999999999|12345678|100000000.25|15-JUL-16|15-Jul-2016|15/JUL/16|15.Jul.16 10:00:00
    |15 jul 2016 10:11|15-july-16|JUL 15 2016|Jul 15, 2016|Dec 15, 2021 10:11 AM|Monday, 02 January 2017|2016 Jul 15
    |Mon Jan 02 2017 10:11:12|Mon Jan 2 10:11:12 2017|Mon, 02 Jan 2017 10:11:12 GMT|02 Jan 2017 10:11:12 +0300
    |1 Sept 2018|1 Octo 2018|2016-Jul-15|25-Jan-69|25-Jan-70|25-Jan-00|20220101-010203|20220101010203|Jan 2017
    |20220101 010203|20220101T010203|20220101T0102|20220101T01|20160715,100000|20160715 10:00|20170102T101112Z
    |20170102T101112+0100|20170102T101112.5+0100|01/12/2017, 18:31:44|01/12/2017,18:31:44|2017/12/01, 18:31:44
    |01/12/17|1/2/17 18:31:44|01.12.2017|12/13/2017|13/13/2017|31/12/2017|10:11:12 2017-01-02|10:11 02/01/2017
    |2017-01-02 10:11:12 PM|2017-01-02 12:11:12AM|2017-01-02 12:11 pm|2017-01-02 13:11:12 PM|2017-01-02 10 PM
    |2017-01-02 10:11:12+01|2017-01-02 10:11:12 PM +01:00|2017-02-30|2017-13-01|abc||-|15-JUL-""".split("|")  # noqa: SIM905
_FUNCTIONS = [
    *(f"parseDateTimeBestEffort{order}{kind}({{}}, 'Asia/Kolkata')"
      for order in ("", "US") for kind in ("", "OrNull", "OrZero")),
    *(f"parseDateTime64BestEffort{order}{kind}({{}}, 3, 'Asia/Kolkata')"
      for order in ("", "US") for kind in ("", "OrNull", "OrZero")),
    "toDateTime({}, 'Asia/Kolkata')",
    "toDateTime64({}, 3, 'Asia/Kolkata')",
]  # fmt: skip
_ASKED = [
    f"SELECT {function} AS r, toTypeName(r)".format(argument)
    for function in ("parseDateTimeBestEffort({})", "parseDateTimeBestEffortUSOrNull({})",
                     "parseDateTimeBestEffortOrZero({})", "parseDateTime64BestEffort({})",
                     "parseDateTime64BestEffortUSOrNull({}, 9)", "parseDateTime64BestEffortOrZero({}, 6)")
    for argument in ("NULL", "toNullable('02/01/2017')", "materialize(toNullable('02/01/2017 10:11:12.5'))",
                     "toLowCardinality('02/01/2017')", "toFixedString('02/01/2017', 10)", "5", "toNullable('x')")
    if not (argument == "5" and "," in function)
]  # fmt: skip


def _asked(server: Oracle | Pando, function: str, text: str) -> str:
    found = answer(server, f"SELECT {function}".format(f"materialize('{text.strip()}')"))
    return "error" if found.startswith("error") else found


@pytest.mark.long
@pytest.mark.parametrize("function", _FUNCTIONS)
def test_spellings(oracle: Oracle, pando: Pando, function: str) -> None:
    texts = [text.strip() for text in _TEXTS]
    if "US" in function:  # ClickHouse refuses these there
        texts = [text for text in texts if not re.match("[0-9]+[-/.][A-Za-z]", text)]
    if "Or" in function:
        rows = ", ".join(f"('{text}')" for text in texts)
        query = f"SELECT t, {function.format('t')} FROM values('t String', {rows})"
        assert answer(pando, query) == answer(oracle, query)
        return
    for text in texts:
        assert _asked(pando, function, text) == _asked(oracle, function, text), text


@pytest.mark.parametrize("query", _ASKED)
def test_kinds_of_arguments(oracle: Oracle, pando: Pando, query: str) -> None:
    assert answer(pando, query) == answer(oracle, query)
