"""One server whose databases ``s1`` and ``s2`` are the shards of a cluster; ClickHouse with all rows in one table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chdb.session import Session as Oracle

from tests.engine.conftest import Local

COLUMNS = (
    "k UInt64, i Int32, s String, n Nullable(Int64), f Float64, d DateTime('UTC'), low LowCardinality(String), "
    "a Array(UInt8), e Enum8('x' = 1, 'y' = 2), m Decimal(10, 2)"
)
ROWS = (
    "SELECT number, toInt32(number % 7) - 3, concat('s', toString(number % 11)), if(number % 5 = 0, NULL, number), "
    "number / 4, toDateTime(1700000000 + number * 3600, 'UTC'), toString(number % 3), [toUInt8(number % 4), 1], "
    "if(number % 2 = 0, 'x', 'y'), toDecimal32(number / 8, 2) FROM numbers(1000)"
)
SHARDS = [
    {"weight": 1, "replicas": [{"host": "127.0.0.1", "default_database": "s1"}]},
    {"weight": 2, "replicas": [{"host": "127.0.0.1", "default_database": "s2"}]},
]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """``d`` is a table in shards by ``k``: a third of the rows lies in ``s1.t``."""
    from engine.server.remote_servers_config import ShardConfig

    clusters = {"two": [ShardConfig.model_validate(shard) for shard in SHARDS]}
    local = Local(tmp_path_factory.mktemp("shards") / "data", remote_servers=clusters)
    for number, database in enumerate(("s1", "s2")):
        local.run(f"CREATE DATABASE {database}")
        local.run(f"CREATE TABLE {database}.t ({COLUMNS}) ENGINE = MergeTree ORDER BY k")
        local.run(f"INSERT INTO {database}.t SELECT * FROM ({ROWS}) WHERE (number % 3 > 0) = {number}")
    local.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    yield local
    local.engine.stop()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """All rows are in ``shards_oracle.d``."""
    session = Oracle()
    session.query("DROP DATABASE IF EXISTS shards_oracle")
    session.query("CREATE DATABASE shards_oracle")
    session.query(f"CREATE TABLE shards_oracle.d ({COLUMNS}) ENGINE = MergeTree ORDER BY k")
    session.query(f"INSERT INTO shards_oracle.d {ROWS}")
    yield session
    session.query("DROP DATABASE shards_oracle")
    session.close()
