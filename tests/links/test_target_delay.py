"""The lag of a link's target is a delay of its replicas for queries over shards."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from engine.links.link_freshness import measure_lags
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from parts.common.errors import PandoError
from tests.links.linked_servers import PASSWORD, USER, LinkedServer, create_table, linked_servers


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path, west=1, east=2) as found:
        yield found


def read_delays(server: LinkedServer) -> dict[str, float]:
    with server.client() as client:
        return dict(json.loads(client.get("/replicas_status?delays=1").text))


def test_readers_of_shards_pass_over_a_target_that_is_too_far_behind(servers: dict[str, list[LinkedServer]]) -> None:
    (west,), targets = servers["west"], servers["east"]
    create_table([west, *targets])
    with west.client() as source, targets[0].client() as target:
        target.execute("CREATE REPLICATION LINK l ON t FROM CLUSTER west SETTINGS start_position = 'now'")
        source.execute("INSERT INTO t VALUES (1, 'a')")
        target.execute("SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
        wait(lambda: max(read_delays(server)["default.t"] for server in targets) < 1, "the state of the link")
        target.execute("ALTER REPLICATION LINK l DISABLE")
        source.execute("INSERT INTO t VALUES (2, 'b')")
        wait(lambda: min(read_delays(server)["default.t"] for server in targets) >= 2, "the lag on both servers")
        assert target.get("/replicas_status").status_code == 200  # a link's trouble makes no server unhealthy

        def count(*places: LinkedServer, **settings: object) -> int:
            addresses = "|".join(f"127.0.0.1:{place.http.port}" for place in places)
            for place in places:
                place.engine.remote.forget_delays()
            given = {"max_replica_delay_for_distributed_queries": 1, "prefer_localhost_replica": 0, **settings}
            sql = f"SELECT count() FROM remote('{addresses}', default.t, '{USER}', '{PASSWORD}')"
            return int(places[0].client().value(sql, settings=given))

        assert count(targets[0], west) == 2
        assert count(*targets) == 1
        assert count(targets[0], west, max_replica_delay_for_distributed_queries=0) == 1
        with pytest.raises(PandoError) as error:
            count(*targets, fallback_to_stale_replicas_for_distributed_queries=0)
        assert error.value.code == 369


def test_the_delay_of_a_link_that_nobody_has_told_of_is_not_known(servers: dict[str, list[LinkedServer]]) -> None:
    east = servers["east"][0]
    create_table([east])
    table, keeper = east.table(), MemoryEnsemble(clock=time.time).connect()
    assert measure_lags([(table, "l", None)], keeper, 0.0) == {"default.t": math.inf}
    assert measure_lags([(table, "l", None)], None, 0.0) == {}
    own = LinkProgress(UpstreamStatus.FOLLOW, lag=3.0, idle=9.0)
    away = LinkProgress(UpstreamStatus.DISCONNECTED, lag=3.0, idle=9.0)
    assert measure_lags([(table, "l", own)], keeper, 0.0) == {"default.t": 3.0}
    assert measure_lags([(table, "l", own), (table, "m", away)], keeper, 0.0) == {"default.t": 9.0}
