"""Every function of the table answers what ClickHouse answers, over generated rows of every type.

`make test-all` compares a fixed sample of the calls over some hundred rows; `make sweep` all calls over 200,000 rows
(PANDO_SWEEP_ROWS). What is known to differ stands in ``known_differences.txt`` with the reason above it: a difference
that is not there fails. A call that takes longer than 20 seconds in either is warned of by name. To write the list
anew: ``python -m tests.sql.functions.known``."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterator

import pytest

from sql.functions.registry import find_aggregate, find_rule, list_functions
from tests.sql.functions.calls import LEFT_OUT
from tests.sql.functions.compare import Engines, kind_of
from tests.sql.functions.known import QUICK_ROWS, known_differences
from tests.sql.functions.queries import all_queries, ulps_of

ROWS = int(os.environ.get("PANDO_SWEEP_ROWS", "0"))
_SAMPLE = 32
QUERIES = all_queries()
pytestmark = pytest.mark.xdist_group("sweep")


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    both = Engines(tmp_path_factory.mktemp("sweep"), ROWS or QUICK_ROWS)
    yield both
    both.close()


def _chosen(queries: list[str]) -> list[str]:
    """All of them in the full sweep; else one in thirty-two by its text, at least one of a function."""
    if ROWS:
        return queries
    return [query for query in queries if zlib.crc32(query.encode()) % _SAMPLE == 0] or queries[:1]


def test_every_function_is_swept_or_left_out_for_a_reason() -> None:
    missing = set()
    for name, is_aggregate in list_functions():
        rule = find_aggregate(name) if is_aggregate else find_rule(name)
        assert rule is not None
        if rule.name not in QUERIES and rule.name not in LEFT_OUT and name not in QUERIES:
            missing.add(rule.name)
    assert not missing


def _also(engines: Engines, query: str) -> list[str]:
    """What a scan computes of its columns, DuckDB does of those of a subquery."""
    return [query.replace("FROM t", "FROM (SELECT * FROM t) AS t")] if engines.is_computed_by_scan(query) else []


@pytest.mark.long
@pytest.mark.parametrize("letter", sorted({name[0].lower() for name in QUERIES}))
def test_same_answers(engines: Engines, letter: str) -> None:
    """Of the functions that begin with a letter: a test each would cost more than its queries."""
    known = known_differences(many=ROWS > QUICK_ROWS)
    wrong = []
    for name, queries in QUERIES.items():
        if name[0].lower() != letter:
            continue
        chosen = [(query, text) for query in _chosen(queries) for text in (query, *_also(engines, query))]
        for query, text in chosen:
            compared = engines.compared(text, ulps_of(name))
            found, expected = kind_of(compared.verdict), known.get(query, "same")
            if found == "slow":
                warnings.warn(f"not compared, for it takes too long: {text}", stacklevel=1)
            elif found not in ("same", expected) and not (expected != "same" and not ROWS and found == "refused"):
                wrong.append(f"{compared.verdict} (expected {expected}): {text}: {compared.detail}")
    assert not wrong, "\n".join(wrong)
