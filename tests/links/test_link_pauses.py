"""A link whose target cannot take what comes: it pauses by name, and goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.links.linked_clusters import LinkedClusters

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedClusters]:
    found = LinkedClusters(tmp_path_factory.mktemp("clusters"), west=1, east=1)
    yield found
    found.close()


def state(clusters: LinkedClusters, name: str) -> tuple[str, str]:
    ((status, message),) = clusters["east"].rows(
        f"SELECT upstream_status, message FROM system.replication_links WHERE name = '{name}'"
    )
    return str(status), str(message)


def test_a_column_that_the_target_lacks(clusters: LinkedClusters) -> None:
    clusters.create_table("narrow")
    clusters.link("narrow", "east", "narrow", "west")
    west, east = clusters["west"], clusters["east"]
    west.execute("INSERT INTO narrow VALUES (1, 'a')")
    clusters.settle("east", "narrow")
    west.execute("ALTER TABLE narrow ADD COLUMN w UInt64")
    west.execute("INSERT INTO narrow VALUES (2, 'b', 7)")
    clusters.wait(lambda: state(clusters, "narrow")[0] == "paused", "the pause")
    assert "w" in state(clusters, "narrow")[1]
    assert "1 rows wait" in state(clusters, "narrow")[1]
    assert east.rows("SELECT k FROM narrow") == [[1]]
    east.execute("ALTER TABLE narrow ADD COLUMN w UInt64")
    clusters.wait(lambda: east.rows("SELECT k, w FROM narrow ORDER BY k") == [[1, 0], [2, 7]], "the rows")
    clusters.wait(lambda: state(clusters, "narrow") == ("follow", ""), "the link to follow")


def test_a_source_that_is_dropped_stops_the_link_and_takes_nothing(clusters: LinkedClusters) -> None:
    clusters.create_table("gone")
    clusters.link("gone", "east", "gone", "west", replication_timeout=0.3)
    clusters["west"].execute("INSERT INTO gone VALUES (1, 'a')")
    clusters.settle("east", "gone")
    clusters["west"].execute("DROP TABLE gone SYNC")
    clusters.wait(lambda: state(clusters, "gone")[0] == "stopped", "the stop")
    assert "DROP REPLICATION LINK gone" in state(clusters, "gone")[1]
    clusters.create_table_at("west", "gone")
    clusters.wait(lambda: "made anew" in state(clusters, "gone")[1], "the other table")
    assert clusters["east"].rows("SELECT k FROM gone") == [[1]]


def test_a_disabled_link_keeps_its_place(clusters: LinkedClusters) -> None:
    clusters.create_table("rests")
    clusters.link("rests", "east", "rests", "west")
    clusters["east"].execute("ALTER REPLICATION LINK rests DISABLE")
    clusters.wait(lambda: state(clusters, "rests")[0] == "paused", "the pause")
    clusters["west"].execute("INSERT INTO rests VALUES (1, 'a')")
    clusters["east"].execute("ALTER REPLICATION LINK rests ENABLE")
    clusters.settle("east", "rests")
    assert clusters["east"].rows("SELECT k FROM rests") == [[1]]
