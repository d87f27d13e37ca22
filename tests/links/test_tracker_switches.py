"""The tracker between real clusters in one process: the next target becomes synchronous before the former one goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.links.linked_servers import LinkedServer, create_table, linked_servers

KEYS = {"tracker_period": 0.1, "tracker_delay": 1.0, "tracker_max_lag": 5.0}


def wait(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, LinkedServer]]:
    with linked_servers(tmp_path, west=1, east=1, north=1) as found:
        (west,) = found["west"]
        west.engine.linked_clusters.keys = west.engine.config.model_copy(update=KEYS)
        yield {name: servers[0] for name, servers in found.items()}


@pytest.mark.long
def test_inserts_go_on_with_another_target_when_one_is_lost(servers: dict[str, LinkedServer]) -> None:
    """Every row that was acknowledged is at the synchronous target at once."""
    west, east, north = (servers[name] for name in ("west", "east", "north"))
    create_table([west, east, north])
    with west.client() as source, east.client() as first, north.client() as second:
        for client in (first, second):
            name = "e" if client is first else "n"
            settings = "start_position = 'now', replication_timeout = 0.2"
            client.execute(f"CREATE REPLICATION LINK {name} ON t FROM CLUSTER west SETTINGS {settings}")
        source.execute("INSERT INTO t VALUES (0, 'a')")
        source.execute("ALTER TABLE t MODIFY SETTING enable_replicated_table_tracker = 1")

        def enabled() -> list[str]:
            rows = source.rows("SELECT cluster FROM system.link_collocations WHERE state = 'enabled' ORDER BY cluster")
            return [str(row[0]) for row in rows]

        wait(lambda: enabled() == ["east"], "a first synchronous target")
        source.execute("INSERT INTO t VALUES (1, 'b')")
        assert first.value("SELECT max(k) FROM t") == 1
        east.engine.stop()
        wait(lambda: enabled() == ["north"], "another synchronous target")
        source.execute("INSERT INTO t VALUES (2, 'c')")
        assert second.value("SELECT max(k) FROM t") == 2
        reasons = dict(source.rows("SELECT cluster, reason FROM system.link_collocations"))
        assert str(reasons["east"]).startswith("asynchronous: unhealthy for 1 seconds: link east/e has not asked")
