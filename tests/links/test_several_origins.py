"""Which tables may take rows of several origins: those in which the order of blocks does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.definitions.several_origins import find_order_dependence, refuse_several_origins
from sql.definitions.table_description import build_description
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable
from tests.links.linked_server import LinkedServer, linked_server

COLUMNS = "k UInt64, n UInt64, s String, sign Int8, ver UInt8"
ENGINES = {
    "MergeTree ORDER BY k": "",
    "ReplicatedReplacingMergeTree('/t', 'r') ORDER BY k": "inserted last",
    "ReplicatedReplacingMergeTree('/t', 'r', ver) ORDER BY k": "inserted last",
    "ReplicatedReplacingMergeTree('/t', 'r') ORDER BY k SETTINGS last_writer_wins = 1": "",
    "ReplicatedReplacingMergeTree('/t', 'r', ver) ORDER BY k SETTINGS last_writer_wins = 1": "",
    "ReplicatedCollapsingMergeTree('/t', 'r', sign) ORDER BY k": "cancel each other",
    "ReplicatedVersionedCollapsingMergeTree('/t', 'r', sign, ver) ORDER BY k": "",
    "ReplicatedSummingMergeTree('/t', 'r') ORDER BY k": "column s is neither",
    "ReplicatedSummingMergeTree('/t', 'r') ORDER BY (k, s)": "",
    "ReplicatedSummingMergeTree('/t', 'r', n) ORDER BY (k, s)": "column sign is neither",
    "ReplicatedAggregatingMergeTree('/t', 'r') ORDER BY (k, n, s, sign, ver)": "",
    "ReplicatedAggregatingMergeTree('/t', 'r') ORDER BY (k, s)": "column n is neither",
}


def describe(engine: str, columns: str = COLUMNS) -> TableDescription:
    statement = parse_statement(f"CREATE TABLE t ({columns}) ENGINE = {engine}").statement
    assert isinstance(statement, CreateTable)
    return build_description(statement)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_blocks(engine: str) -> None:
    reason = ENGINES[engine]
    described = describe(engine)
    assert (reason in find_order_dependence(described)) if reason else not find_order_dependence(described)
    if not reason:
        refuse_several_origins(described, "db.t")
        return
    with pytest.raises(
        UserError, match=f"db.t cannot take rows of several origins.*{reason}.*last_writer_wins"
    ) as caught:
        refuse_several_origins(described, "db.t")
    assert caught.value.name == "BAD_ARGUMENTS"


@pytest.mark.parametrize(("function", "is_ordered"), [("sum", False), ("max", False), ("any", True), ("anyLast", True)])
def test_functions_of_simple_aggregates(function: str, is_ordered: bool) -> None:
    columns = f"k UInt64, v SimpleAggregateFunction({function}, UInt64)"
    described = describe("ReplicatedAggregatingMergeTree('/t', 'r') ORDER BY k", columns)
    assert bool(find_order_dependence(described)) == is_ordered


@pytest.fixture
def east(tmp_path: Path) -> Iterator[LinkedServer]:
    with linked_server(tmp_path) as made:
        yield made


def test_a_two_way_link_needs_a_table_in_which_the_order_does_not_matter(east: LinkedServer) -> None:
    engine = "ReplicatedReplacingMergeTree('/tables/{}', 'r1') ORDER BY k"
    east.sql(f"CREATE TABLE plain (k UInt64, v UInt64) ENGINE = {engine.format('plain')}")
    east.sql(f"CREATE TABLE lww (k UInt64, v UInt64) ENGINE = {engine.format('lww')} SETTINGS last_writer_wins = 1")
    link = "CREATE REPLICATION LINK l{0} ON default.{0} FROM CLUSTER west TABLE db.orders SETTINGS two_way = {1}"
    code, message = east.fails(link.format("plain", 1))[:2]
    assert (code, "last_writer_wins = 1" in message) == (36, True)
    assert east.sql("SHOW REPLICATION LINKS") == []
    for name in ("plain", "lww"):
        east.adopt(name)
    east.sql(link.format("plain", 0))
    east.sql(link.format("lww", 1))
    east.engine.services.conflicts[east.engine.catalog.table("default", "lww").definition.data_path] = 7
    rows = east.sql("SELECT table, conflicts FROM system.replication_links ORDER BY table")
    assert rows == [("lww", 7), ("plain", 0)]
