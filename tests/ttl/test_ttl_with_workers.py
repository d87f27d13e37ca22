"""TTL in a server of several processes: workers write the times, processes of their own merge by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.workers.server import WorkerServer, wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path_factory.mktemp("ttl"), workers=2) as server:
        yield server


@pytest.mark.long
def test_rows_groups_and_codecs(server: WorkerServer) -> None:
    server.execute(
        "CREATE TABLE t (k UInt64, d DateTime, v UInt64, s String TTL d) ENGINE = MergeTree ORDER BY k "
        "TTL d + INTERVAL 1 HOUR WHERE k % 2 = 0, d RECOMPRESS CODEC(ZSTD(3)), "
        "d + INTERVAL 2 DAY GROUP BY k SET v = sum(v) SETTINGS merge_with_ttl_timeout = 0"
    )
    values = "number % 10, if(number % 10 < 6, now() - INTERVAL 3 DAY, now() + INTERVAL 1 DAY), 1, 'text'"
    for _ in range(4):
        server.execute(f"INSERT INTO t SELECT {values} FROM numbers(1000)")
    server.execute("OPTIMIZE TABLE t FINAL")
    expected = [[k, 1, 400, ""] for k in (1, 3, 5)] + [[k, 400, 400, "text"] for k in (6, 7, 8, 9)]
    query = "SELECT k, count(), sum(v), any(s) FROM t GROUP BY k ORDER BY k"
    assert server.everywhere(query) == {str(expected)}


@pytest.mark.long
def test_what_is_gone_and_what_alter_finds(server: WorkerServer) -> None:
    server.execute("CREATE TABLE u (k UInt64, d DateTime) ENGINE = MergeTree ORDER BY k")
    server.execute("INSERT INTO u SELECT number, now() - INTERVAL 2 DAY FROM numbers(100)")
    server.execute("INSERT INTO u SELECT number, now() FROM numbers(10)")
    server.execute("ALTER TABLE u MODIFY TTL d + INTERVAL 1 DAY SETTINGS mutations_sync = 2")
    assert server.everywhere("SELECT count() FROM u") == {"[[10]]"}
    server.execute("INSERT INTO u SELECT number, now() - INTERVAL 2 DAY FROM numbers(100)")
    wait_for(lambda: server.everywhere("SELECT count() FROM u") == {"[[10]]"}, "what expired to go")
    wait_for(
        lambda: server.value("SELECT min(rows) FROM system.parts WHERE table = 'u' AND active") == 10,
        "empty parts to go",
    )
