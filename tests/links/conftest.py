"""``table``: a replicated table on two simulated servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.simulator.statement_costs import CountedTable, counted_table


@pytest.fixture
def table(tmp_path: Path) -> Iterator[CountedTable]:
    """``costs`` with a row in each of three partitions, ``other`` with a row in one; what the statements need."""
    columns, rest = "p UInt16, k UInt64, v UInt64", "PARTITION BY p ORDER BY k"
    with counted_table(tmp_path, columns, rest, replicas=2) as table:
        for server in table.servers.servers:
            server.sql(
                f"CREATE TABLE other ({columns}) ENGINE = ReplicatedMergeTree('/tables/other', '{{replica}}') {rest}"
            )
        table.first.sql("INSERT INTO costs SELECT number + 1, number, 0 FROM numbers(4)")
        table.first.sql("INSERT INTO other VALUES (1, 5, 0)")
        table.first.sql("ALTER TABLE costs DETACH PARTITION 4")
        table.first.sql("INSERT INTO costs SETTINGS insert_transaction = 'job' VALUES (1, 8, 0)")
        table.settle()
        yield table
