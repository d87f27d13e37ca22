"""Views where several processes serve: each knows them as soon as they are made, and how they are now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parts.common.errors import PandoError
from tests.engine.workers.server import WorkerServer

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    path: Path = tmp_path_factory.mktemp("workers")
    with WorkerServer(path, workers=2) as server:
        yield server


@pytest.mark.long
def test_every_worker_knows_a_view(server: WorkerServer) -> None:
    server.execute("CREATE TABLE t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
    server.execute("INSERT INTO t SELECT number, toString(number) FROM numbers(100)")
    server.execute("CREATE VIEW v AS SELECT a FROM t WHERE a < 10")
    assert server.everywhere("SELECT sum(a) FROM v") == {"[[45]]"}
    server.execute("CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a < 5")
    assert server.everywhere("SELECT sum(a) FROM v") == {"[[10]]"}
    server.execute("RENAME TABLE v TO w")
    assert server.everywhere("SELECT sum(a) FROM w") == {"[[10]]"}
    for _ in range(4):
        with pytest.raises(PandoError, match="48"):
            server.execute("INSERT INTO w VALUES (1)")
    server.execute("DROP VIEW w")
    for _ in range(4):
        with pytest.raises(PandoError, match="60"):
            server.run("SELECT * FROM w")


@pytest.mark.long
def test_inserts_of_every_worker_go_through_materialized_views(server: WorkerServer) -> None:
    server.execute("CREATE TABLE s (a UInt32) ENGINE = MergeTree ORDER BY a")
    server.execute("CREATE MATERIALIZED VIEW m ENGINE = Log AS SELECT count() AS n, max(a) AS a FROM s")
    server.execute("CREATE MATERIALIZED VIEW mm ENGINE = Memory AS SELECT a FROM s WHERE a % 2")
    for number in range(8):
        server.execute(f"INSERT INTO s VALUES ({number}), ({number})")
    server.execute("INSERT INTO s SELECT number FROM numbers(100, 10)")
    server.execute("INSERT INTO s FORMAT JSONEachRow", data=b'{"a": 77}\n')
    assert server.everywhere("SELECT count(), sum(n), max(a) FROM m") == {"[[10, 27, 109]]"}
    assert server.everywhere("SELECT count() FROM mm") == {"[[14]]"}
    server.execute("ALTER TABLE m MODIFY QUERY SELECT 5 AS n, 500 AS a FROM s LIMIT 1")
    for _ in range(4):
        server.execute("INSERT INTO s VALUES (1)")
    assert server.everywhere("SELECT countIf(a = 500) FROM m") == {"[[4]]"}
    for _ in range(4):
        with pytest.raises(PandoError, match="524"):
            server.execute("ALTER TABLE s DROP COLUMN a")
    server.execute("DROP VIEW m")
    server.execute("DROP VIEW mm")
    server.execute("INSERT INTO s VALUES (1)")
    assert server.everywhere("SELECT count() FROM system.tables WHERE name LIKE '.inner%'") == {"[[0]]"}
