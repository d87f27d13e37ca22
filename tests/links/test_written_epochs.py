"""A copy of a table that clients wrote to before links did: who follows the copy must have their rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.links.switching.stream_place import find_follower_place
from coordination.links.version_vector import VectorEntry
from engine.links.linkable_tables import require_linkable
from engine.tables.capabilities.table_links import TargetState
from tests.links.linked_servers import linked_servers
from tests.links.switched_clusters import Clusters

NOW = "CREATE REPLICATION LINK t_east ON t FROM CLUSTER west SETTINGS start_position = 'now'"


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Clusters]:
    """``west`` → ``east`` → ``south``, which copies east's table; ``north`` has followed east since it was empty."""
    with linked_servers(tmp_path, {"max_poll_seconds": 0.2}, west=1, east=1, north=1, south=1) as servers:
        clusters = Clusters(servers)
        clusters.make("t")
        clusters.link("north", "t_north", "t", "east")
        clusters.do("north", "ALTER REPLICATION LINK t_north DISABLE")
        yield clusters


def copy_east(clusters: Clusters) -> VectorEntry:
    """Copies east's table to south, and returns what the copy says of the changes that east itself made."""
    clusters.link("south", "t_south", "t", "east")
    clusters.do("south", "SYSTEM WAIT REPLICATION LINK t_south TIMEOUT 30")
    assert clusters.keys("south") == clusters.keys("east")
    return read(clusters, "south").vector.entries[read(clusters, "east").own]


def read(clusters: Clusters, cluster: str) -> TargetState:
    return require_linkable(clusters.servers[cluster][0].table()).target.read_target()


def may_follow(clusters: Clusters) -> bool:
    """Tells whether north may follow south, where the changes of the copy are not kept any more."""
    end = 1 << 40
    south, north = read(clusters, "south"), read(clusters, "north")
    return find_follower_place(end, end, (), (), south.vector, south.own, north.vector) is not None


def test_rows_from_before_a_link_that_begins_now(four: Clusters) -> None:
    four.do("east", "INSERT INTO t VALUES (1, 'a')")
    four.do("east", NOW)
    assert not copy_east(four).is_place
    assert not may_follow(four)


def test_rows_of_links_alone(four: Clusters) -> None:
    four.do("east", NOW)
    four.do("west", "INSERT INTO t VALUES (1, 'a')")
    four.do("east", "SYSTEM WAIT REPLICATION LINK t_east TIMEOUT 30")
    assert copy_east(four).is_place
    four.do("north", "ALTER REPLICATION LINK t_north ENABLE")
    four.do("north", "SYSTEM WAIT REPLICATION LINK t_north TIMEOUT 30")
    assert may_follow(four)


def test_rows_from_before_a_link_became_one_way(four: Clusters) -> None:
    four.do("east", f"{NOW}, two_way = 1")
    four.do("east", "INSERT INTO t VALUES (1, 'a')")
    four.do("east", "ALTER REPLICATION LINK t_east MODIFY SETTING two_way = 0")
    assert not copy_east(four).is_place
    assert not may_follow(four)
