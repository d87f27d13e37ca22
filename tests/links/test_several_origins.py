"""Which tables may take rows of several origins: those in which the order of blocks does not matter."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.definitions.several_origins import find_order_dependence, refuse_several_origins
from sql.definitions.table_description import build_description
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable

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
