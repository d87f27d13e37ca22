"""Skip indexes and constraints where several processes serve: what one defines all write and use."""

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
def test_every_worker_uses_them(server: WorkerServer) -> None:
    server.execute("CREATE TABLE t (k UInt64, v String) ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 10")
    server.execute("INSERT INTO t SELECT number, toString(number * 7) FROM numbers(200)")
    server.execute("ALTER TABLE t ADD INDEX i v TYPE bloom_filter(0.0001), ADD CONSTRAINT c CHECK k < 1000")
    query = "SELECT k FROM t WHERE v = '700' SETTINGS force_data_skipping_indices = 'i'"
    assert server.everywhere(query) == {"[[100]]"}
    server.execute("INSERT INTO t SELECT number, toString(number * 7) FROM numbers(200, 200)")
    assert server.everywhere(query) == {"[[100]]"}
    for _ in range(4):
        with pytest.raises(PandoError, match="violated"):
            server.execute("INSERT INTO t VALUES (1000, 'x')")
    server.execute("OPTIMIZE TABLE t FINAL")
    read = "EXPLAIN indexes = 1 SELECT k FROM t WHERE v = '700'"
    assert all("Granules: 1/40" in lines for lines in server.everywhere(read))
    server.execute("ALTER TABLE t DROP INDEX i")
    for _ in range(4):
        with pytest.raises(PandoError, match="277"):
            server.run(query)
    assert server.everywhere("SELECT count() FROM t WHERE v = '700'") == {"[[1]]"}


@pytest.mark.long
def test_every_worker_knows_the_sorting_key(server: WorkerServer) -> None:
    server.execute("CREATE TABLE s (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 10")
    server.execute("INSERT INTO s SELECT intDiv(number, 50), number FROM numbers(200)")
    server.execute("ALTER TABLE s ADD COLUMN a UInt8, MODIFY ORDER BY (k, a)")
    server.execute("INSERT INTO s SELECT intDiv(number, 50), number, number % 50 FROM numbers(200)")
    query = "SELECT sum(v) FROM s WHERE k = 2 AND a = 40"
    assert server.everywhere(query) == {"[[140]]"}
    server.execute("OPTIMIZE TABLE s FINAL")
    assert server.everywhere(query) == {"[[140]]"}
    assert server.everywhere("SELECT a FROM s WHERE k = 3 ORDER BY a DESC LIMIT 1") == {"[[49]]"}
    read = "EXPLAIN indexes = 1 SELECT v FROM s WHERE k = 2 AND a > 40"
    assert all("Granules: 2/40" in lines or "Granules: 1/40" in lines for lines in server.everywhere(read))
