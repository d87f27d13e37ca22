"""``system.functions`` is true: what it lists answers, what answers is listed, and in the cases that it says."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from sql.run.query_engine import QueryEngine
from tests.sql.run.dataset import MemoryCatalog

Rows = dict[str, list[object]]
_COLUMNS = "SELECT name, is_aggregate, alias_to, syntax, categories FROM system.functions"
_UNLISTED = {
    "dateAdd", "dateSub", "date_add", "date_sub", "timestampAdd", "timestampSub", "timestamp_add", "timestamp_sub",
    "untuple", "char_length", "character_length", "date_trunc", "currentPosition", "inSyncClusters", "lastCut",
}  # fmt: skip
"""ClickHouse's parser knows these, or its ``system.functions`` has them in upper case."""


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[Rows]:
    """ClickHouse's functions by name."""
    from chdb.session import Session

    session = Session()
    answer = session.query(_COLUMNS, "JSONCompactEachRow").bytes().decode()
    yield {row[0]: row[1:] for row in map(json.loads, answer.splitlines())}
    session.close()


def _answers(name: str) -> bool:
    """Whether the compiler knows the name: it may refuse the arguments."""
    for arguments in ("", "1"):
        try:
            QueryEngine().select(f"SELECT {name}({arguments})", catalog=MemoryCatalog({})).close()
        except PandoError as error:
            if error.name == "UNKNOWN_FUNCTION":
                continue
        return True
    return False


@pytest.fixture
def listed(client: HttpClient) -> Rows:
    return {row[0]: row[1:] for row in client.rows(_COLUMNS)}


def test_what_is_listed_is_as_in_clickhouse(listed: Rows, clickhouse: Rows) -> None:
    assert listed.keys() - clickhouse.keys() == _UNLISTED
    for name in listed.keys() - _UNLISTED:
        *facts, syntax, categories = clickhouse[name]
        assert listed[name] == [*facts, str(syntax).strip().replace("\t", "    "), categories], name


@pytest.mark.long
def test_every_listed_function_answers_in_the_cases_that_it_says(client: HttpClient) -> None:
    for name, any_case in client.rows("SELECT name, case_insensitive FROM system.functions"):
        assert _answers(name), name
        others = {name.upper(), name.lower(), name.swapcase()} - {name}
        assert any_case or not all(map(_answers, others)), f"{name} answers as {others}"
        assert not any_case or all(map(_answers, others)), f"{name} does not answer as {others}"


@pytest.mark.long
def test_nothing_else_of_clickhouse_answers(listed: Rows, clickhouse: Rows) -> None:
    lower = {name.lower() for name in listed}
    assert [name for name in clickhouse if name.lower() not in lower and _answers(name)] == []
