"""Links between real engines of one process: idle links, throttles, a cluster linked to itself, a server left out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.links.positions import Position
from engine.interserver.transfer import Throttle
from engine.server.links_config import LinkedClusterConfig
from engine.tables.capabilities.link_status import UpstreamStatus
from engine.tables.capabilities.table_links import ChangesRequest
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

_SECONDS = 30.0


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture
def resting(tmp_path: Path) -> Iterator[dict[str, list[LinkedServer]]]:
    """Servers none of whose links waits at its source by itself."""
    with linked_servers(tmp_path, {"max_waiting_links": 0}, west=1, east=1) as found:
        yield found


@pytest.mark.long
def test_idle_links_wait_for_news_together(resting: dict[str, list[LinkedServer]]) -> None:
    west, east = resting["west"][0], resting["east"][0]
    names = [f"t{number}" for number in range(20)]
    with west.client() as source, east.client() as target:
        for name in names:
            create_table([west, east], name)
            target.execute(
                f"CREATE REPLICATION LINK l_{name} ON {name} FROM CLUSTER west SETTINGS start_position='now'"
            )
        wait(lambda: len(east.links._resting["west"]._links) == len(names) if east.links._resting else 0, "rest")
        source.execute("INSERT INTO t7 VALUES (1, 'a')")
        wait(lambda: target.value("SELECT count() FROM t7") == 1, "the row")
        wait(lambda: len(east.links._resting["west"]._links) == len(names), "rest again")
        progress = east.links.find_progress("l_t3")
        assert progress is not None
        assert (progress.upstream_status, progress.lag) == (UpstreamStatus.FOLLOW, 0)
        for name in names:
            target.execute(f"DROP REPLICATION LINK l_{name}")
        wait(lambda: not east.links._resting["west"]._links, "the end of the rest")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=2, east=1) as found:
        yield found


@pytest.mark.long
def test_a_link_brings_no_more_than_its_throttle_lets(servers: dict[str, list[LinkedServer]]) -> None:
    create_table([*servers["west"], *servers["east"]], "slow")
    west, east = servers["west"][0], servers["east"][0]
    with west.client() as source, east.client() as target:
        target.execute(
            "CREATE REPLICATION LINK slow ON slow FROM CLUSTER west SETTINGS start_position = 'now', "
            "replication_throttler_limit = 50000, replication_throttler_period = 500"
        )
        source.execute("INSERT INTO slow SELECT number, hex(SHA256(toString(number))) FROM numbers(5000)")
        size = int(source.value("SELECT sum(bytes_on_disk) FROM system.parts WHERE table = 'slow' AND active"))
        began = time.monotonic()
        target.execute("SYSTEM WAIT REPLICATION LINK slow TIMEOUT 30")
        seconds = time.monotonic() - began
        assert size > 100_000
        assert seconds > 0.7 * (size - 50_000) / 100_000  # what the first period lets through comes at once
        target.execute("DROP REPLICATION LINK slow")


@pytest.mark.long
def test_a_link_logs_in_with_any_characters(servers: dict[str, list[LinkedServer]]) -> None:
    create_table([*servers["west"], *servers["east"]], "named")
    west, east = servers["west"][0], servers["east"][0]
    former = east.engine.linked_clusters._clusters
    config = LinkedClusterConfig(urls=[west.url], user="jürgen", password="pä$$–Ж")
    east.engine.linked_clusters._clusters = {"west": config}
    try:
        with west.client() as source, east.client() as target:
            target.execute("CREATE REPLICATION LINK named ON named FROM CLUSTER west SETTINGS start_position = 'now'")
            source.execute("INSERT INTO named VALUES (1, 'a')")
            target.execute("SYSTEM WAIT REPLICATION LINK named TIMEOUT 30")
            assert target.value("SELECT count() FROM named") == 1
            target.execute("DROP REPLICATION LINK named")
    finally:
        east.engine.linked_clusters._clusters = former


class FakeTimeThrottle(Throttle):
    """A throttle that does not wait: its clock jumps."""

    clock = 0.0
    bytes = 0

    def __init__(self, rate: Callable[[], int], *_: object) -> None:
        super().__init__(rate, lambda: self.clock, self._advance)
        made.append(self)

    def _advance(self, _: object, seconds: float) -> None:
        self.clock += seconds

    def spend(self, size: int, check: Callable[[], object]) -> None:
        self.bytes += size
        super().spend(size, check)


made: list[FakeTimeThrottle] = []


def test_a_copy_brings_no_more_than_its_throttle_lets(
    servers: dict[str, list[LinkedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table([*servers["west"], *servers["east"]], "copied")
    west, east = servers["west"][0], servers["east"][0]
    monkeypatch.setattr("engine.links.link_runner.Throttle", FakeTimeThrottle)
    made.clear()
    with west.client() as source, east.client() as target:
        for number in range(3):
            source.execute(
                f"INSERT INTO copied SELECT number, hex(SHA256(toString(number))) FROM numbers({number * 2000}, 2000)"
            )
        target.execute(
            "CREATE REPLICATION LINK copied ON copied FROM CLUSTER west "
            "SETTINGS replication_throttler_limit = 5000, replication_throttler_period = 500"
        )
        target.execute("SYSTEM WAIT REPLICATION LINK copied TIMEOUT 30")
        assert target.value("SELECT count() FROM copied") == 6000
        size = int(source.value("SELECT sum(bytes_on_disk) FROM system.parts WHERE table = 'copied' AND active"))
        target.execute("DROP REPLICATION LINK copied")
    (throttle,) = made
    assert throttle.bytes >= size > 100_000
    assert throttle.clock == pytest.approx(throttle.bytes / 10_000, rel=0.01)


def test_a_link_inside_a_cluster_that_linked_clusters_does_not_name(servers: dict[str, list[LinkedServer]]) -> None:
    west = servers["west"]
    former = west[0].engine.linked_clusters._clusters
    for server in west:
        server.know()
        server.links._clients.clear()
    for name in ("inner", "copy"):
        create_table(west, name)
    try:
        with west[0].client() as client, west[1].client() as other:
            client.execute(
                "CREATE REPLICATION LINK l ON copy FROM CLUSTER west TABLE inner SETTINGS start_position = 'now'"
            )
            client.execute("INSERT INTO inner VALUES (1, 'a')")
            other.execute("INSERT INTO inner VALUES (2, 'b')")
            client.execute("SYSTEM WAIT REPLICATION LINK l TIMEOUT 30")
            assert client.rows("SELECT k FROM copy ORDER BY k") == [[1], [2]]
            with pytest.raises(PandoError, match="linked to itself"):
                client.execute("CREATE REPLICATION LINK self ON copy FROM CLUSTER west")
            client.execute("DROP REPLICATION LINK l")
    finally:
        for server in west:
            server.engine.linked_clusters._clusters = former
            server.links._clients.clear()


@pytest.mark.long
def test_any_server_of_the_source_answers_for_it(servers: dict[str, list[LinkedServer]]) -> None:
    """The target asks the second server alone, which has not the parts that the first one merges away."""
    create_table([*servers["west"], *servers["east"]], "any")
    west, east = servers["west"], servers["east"][0]
    former = east.engine.linked_clusters._clusters
    east.know(west=[west[1].url])
    try:
        with west[0].client() as first, east.client() as target:
            target.execute("CREATE REPLICATION LINK any ON any FROM CLUSTER west SETTINGS start_position = 'now'")
            for number in range(5):
                first.execute(f"INSERT INTO any VALUES ({number}, 'a')")
            first.execute("OPTIMIZE TABLE any FINAL")
            target.execute("SYSTEM WAIT REPLICATION LINK any TIMEOUT 30")
            assert target.rows("SELECT count() FROM any") == [[5]]
            target.execute("DROP REPLICATION LINK any")
    finally:
        east.engine.linked_clusters._clusters = former


def test_every_server_of_an_idle_source_knows_where_a_link_began(servers: dict[str, list[LinkedServer]]) -> None:
    """The beginning lies behind the moment at which the last replica began to keep, and no commit came since.

    A copy's place lies even behind the registration of its link.
    """
    create_table([*servers["west"], *servers["east"]], "idle")
    create_table(servers["east"], "second")
    east = servers["east"][0]
    with east.client() as target:
        target.execute(
            "CREATE REPLICATION LINK idle ON idle FROM CLUSTER west SETTINGS start_position = 'now', enabled = 0"
        )
        links = east.table("idle").links
        assert links is not None
        vector = links.target.read_target().vector
        target.execute(
            "CREATE REPLICATION LINK second ON second FROM CLUSTER west TABLE default.idle "
            "SETTINGS start_position = 'now', enabled = 0"
        )
        replica = servers["west"][0].table("idle").replication
        assert replica is not None
        registered = replica.require_keeper().get(replica.paths.gate)[1].modified_zxid
        (origin,) = vector.entries
        vector = vector.advance(Position(origin, registered))
        for server in servers["west"]:
            source = server.table("idle").links
            assert source is not None
            source.source._reading._index = None  # type: ignore[attr-defined]  # as after a restart
            link = source.source.list_outgoing()[0]
            request = ChangesRequest(link.name, link.uuid, vector, 0, 100, 1 << 20)
            answer = source.source.read_changes(request, QueryStatus())
            assert answer.frontier >= vector.applied(answer.source.origin)
        target.execute("DROP REPLICATION LINK second")
        target.execute("DROP REPLICATION LINK idle")


@pytest.mark.long
def test_a_link_of_a_cluster_that_is_not_configured_any_more_says_so(servers: dict[str, list[LinkedServer]]) -> None:
    create_table([*servers["west"], *servers["east"]], "lost")
    east = servers["east"][0]
    former = east.engine.linked_clusters._clusters
    with east.client() as target:
        target.execute("CREATE REPLICATION LINK lost ON lost FROM CLUSTER west SETTINGS start_position = 'now'")
        east.know(south=["http://127.0.0.1:9"])
        try:
            wait(
                lambda: (
                    (found := east.links.find_progress("lost")) is not None
                    and "not among linked_clusters" in found.message
                ),
                "the message",
            )
        finally:
            east.engine.linked_clusters._clusters = former
        wait(
            lambda: (
                (found := east.links.find_progress("lost")) is not None
                and found.upstream_status is UpstreamStatus.FOLLOW
            ),
            "the link to go on",
        )
        target.execute("DROP REPLICATION LINK lost")


@pytest.mark.long
def test_a_link_runs_the_views_of_its_target(servers: dict[str, list[LinkedServer]]) -> None:
    create_table([*servers["west"], *servers["east"]], "viewed")
    with servers["west"][0].client() as source, servers["east"][0].client() as target:
        target.execute(
            "CREATE TABLE counts (v String, c SimpleAggregateFunction(sum, UInt64)) "
            "ENGINE = ReplicatedAggregatingMergeTree('/tables/counts', '{replica}') ORDER BY v"
        )
        target.execute("CREATE MATERIALIZED VIEW counting TO counts AS SELECT v, count() AS c FROM viewed GROUP BY v")
        target.execute(
            "CREATE REPLICATION LINK viewed ON viewed FROM CLUSTER west SETTINGS start_position = 'now', run_views = 1"
        )
        for number in range(3):
            source.execute(f"INSERT INTO viewed SELECT number, toString(number % 2) FROM numbers({number}, 5)")
        target.execute("SYSTEM WAIT REPLICATION LINK viewed TIMEOUT 30")
        wait(
            lambda: (
                target.rows("SELECT v, sum(c) FROM counts GROUP BY v ORDER BY v")
                == target.rows("SELECT v, count() FROM viewed GROUP BY v ORDER BY v")
            ),
            "the counts",
        )
        target.execute("DROP REPLICATION LINK viewed")


@pytest.mark.long
def test_a_source_that_is_made_anew_is_another_table(servers: dict[str, list[LinkedServer]]) -> None:
    create_table([*servers["west"], *servers["east"]], "anew")
    east = servers["east"][0]
    with servers["west"][0].client() as source, east.client() as target:
        target.execute("CREATE REPLICATION LINK anew ON anew FROM CLUSTER west SETTINGS start_position = 'now'")
        source.execute("INSERT INTO anew VALUES (1, 'a')")
        target.execute("SYSTEM WAIT REPLICATION LINK anew TIMEOUT 30")
        for server in servers["west"]:
            with server.client() as client:
                client.execute("DROP TABLE anew SYNC")
        create_table(servers["west"], "anew")
        source.execute("INSERT INTO anew VALUES (2, 'b')")
        wait(
            lambda: (
                (found := east.links.find_progress("anew")) is not None
                and found.upstream_status is UpstreamStatus.STOPPED
                and "made anew" in found.message
            ),
            "the stop",
        )
        assert target.rows("SELECT k FROM anew") == [[1]]
        with contextlib.suppress(PandoError):  # the source that could be told is gone
            target.execute("DROP REPLICATION LINK anew")
