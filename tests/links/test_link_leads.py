"""A server that takes over the lead of a link knows what the former leader heard, though the source is silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from engine.links.link_report import LinkReport
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from tests.links.linked_servers import LinkedServer, linked_servers
from tests.links.switched_clusters import Clusters
from tests.links.test_links_in_one_process import wait


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clusters]:
    with linked_servers(tmp_path, {"max_poll_seconds": 0.2}, west=1, east=2, north=1) as servers:
        yield Clusters(servers)


def test_a_new_leader_asks_the_siblings_that_the_former_one_knew(three: Clusters) -> None:
    three.make("t")
    for target in ("east", "north"):
        three.link(target, f"t_{target}", "t", "west")
    three.do("west", "INSERT INTO t VALUES (1, 'w')")
    for target in ("east", "north"):
        three.do(target, f"SYSTEM WAIT REPLICATION LINK t_{target} TIMEOUT 30")
    wait(lambda: "north" in _read_status(three.servers["east"][0]).siblings, "the sibling to be known")
    three.part("west")
    parted_at = time.time()
    former = next(server for server in three.servers["east"] if _leads(server))
    former.links.stop()
    three.servers["east"] = [server for server in three.servers["east"] if server is not former]
    (other,) = three.servers["east"]
    wait(lambda: _leads(other), "the other server to lead")
    wait(lambda: _read_status(other).leader == _read_name(other), "it to say so")
    facts = three.facts("east", "SYSTEM PROMOTE REPLICATION LINK t_east")
    assert any("cluster north" in text for text in facts["told"]), facts
    heard = datetime.strptime(facts["last heartbeat"][0], "%Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=UTC)
    assert heard.timestamp() < parted_at + 1
    assert "then the source was at unknown" not in facts["behind the fork"][0]
    three.do("east", "INSERT INTO t VALUES (2, 'e')")
    wait(lambda: three.keys("north") == [1, 2], f"north follows {three.explain()}")


def _leads(server: LinkedServer) -> bool:
    return server.links.find_progress("t_east") is not None


def _read_name(server: LinkedServer) -> str:
    return str(server.engine.replication.macros["replica"])


def _read_status(server: LinkedServer) -> LinkProgress:
    data, _ = server.engine.replication.require_keeper().get("/tables/t/links/in/t_east/status")
    return LinkProgress.parse(data)


def test_what_the_source_told_is_taken_over() -> None:
    now = [1000.0]
    keeper = MemoryEnsemble(lambda: now[0]).connect()
    keeper.create_parents("/l/status")
    former = LinkReport("/l/status", "r1", lambda: now[0])
    former.change(siblings="[1]", source_position="a:7", rows_behind=3, bytes_behind=9, rows_applied=5, errors=2)
    former.change(upstream_status=UpstreamStatus.FOLLOW)
    former.write(keeper)
    now[0] += 60
    report = LinkReport("/l/status", "r2", lambda: now[0] - 900)  # its monotonic clock is another one
    report.take_over(keeper, now[0])
    told = report.progress
    assert (told.siblings, told.source_position, told.rows_behind, told.bytes_behind) == ("[1]", "a:7", 3, 9)
    assert (told.leader, told.rows_applied, told.errors) == ("r2", 0, 0)
    assert told.idle == pytest.approx(60, abs=0.1)
    another = LinkReport("/nobody/status", "r2", lambda: now[0])
    another.take_over(keeper, now[0])
    assert another.progress.siblings == ""
