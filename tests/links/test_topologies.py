"""Links between three clusters of real servers: two ways, broadcast, chain, ring, consolidation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.links.linked_clusters import LinkedClusters

pytestmark = [pytest.mark.long, pytest.mark.cluster]
CLUSTERS = ("north", "east", "south")
_numbers = iter(range(1, 1000))
TWO_WAY = {"two_way": 1}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedClusters]:
    found = LinkedClusters(tmp_path_factory.mktemp("clusters"), north=1, east=1, south=1)
    yield found
    found.close()


class Topology:
    """A table on every cluster, and links between them that a test makes."""

    def __init__(self, clusters: LinkedClusters) -> None:
        self.clusters = clusters
        self.table = f"t{next(_numbers)}"
        self.links: list[tuple[str, str]] = []
        clusters.create_table(self.table)

    def link(self, source: str, target: str, **settings: object) -> None:
        name = f"{self.table}_{source}_{target}"
        self.clusters.link(name, target, self.table, source, **settings)
        self.links.append((target, name))

    def insert(self, cluster: str, *keys: int) -> None:
        """One INSERT, and so one change, for each key."""
        for key in keys:
            self.clusters[cluster].execute(f"INSERT INTO {self.table} VALUES ({key}, '{cluster}')")

    def wait_keys(self, keys: Sequence[int], *names: str) -> None:
        """Until each cluster has these keys, each once."""
        sql = f"SELECT k FROM {self.table} ORDER BY k"
        expected = [[key] for key in sorted(keys)]
        for name in names:
            self.clusters.wait(lambda name=name: self.clusters.rows(name, sql) == expected, f"{expected} at {name}")

    def settle(self) -> None:
        """Until nothing moves any more: what was brought once more would be there now."""
        for _ in range(len(CLUSTERS)):
            for target, name in self.links:
                self.clusters.settle(target, name)

    def end(self) -> None:
        for target, name in self.links:
            self.clusters[target].execute(f"DROP REPLICATION LINK {name}")
        for name in CLUSTERS:
            self.clusters[name].execute(f"DROP TABLE {self.table} SYNC")


@pytest.fixture
def topology(clusters: LinkedClusters) -> Iterator[Topology]:
    found = Topology(clusters)
    yield found
    found.end()


def test_two_ways(topology: Topology) -> None:
    topology.link("north", "east", **TWO_WAY)
    topology.link("east", "north", **TWO_WAY)
    for key in range(0, 10, 2):
        topology.insert("north", key)
        topology.insert("east", key + 1)
    topology.wait_keys(range(10), "north", "east")
    topology.settle()
    topology.wait_keys(range(10), "north", "east")


def test_broadcast(topology: Topology) -> None:
    topology.link("north", "east")
    topology.link("north", "south")
    topology.insert("north", *range(5))
    topology.clusters["north"].execute(f"ALTER TABLE {topology.table} DELETE WHERE k = 3 SETTINGS mutations_sync = 2")
    topology.settle()
    topology.wait_keys([0, 1, 2, 4], "east", "south")


def test_chain(topology: Topology) -> None:
    topology.link("north", "east")
    topology.link("east", "south")
    topology.insert("north", *range(5))
    topology.clusters["north"].execute(f"ALTER TABLE {topology.table} DELETE WHERE k = 3 SETTINGS mutations_sync = 2")
    topology.insert("north", 9)
    topology.settle()
    topology.wait_keys([0, 1, 2, 4, 9], "east", "south")


@pytest.mark.long
def test_ring(topology: Topology) -> None:
    for source, target in zip(CLUSTERS, [*CLUSTERS[1:], CLUSTERS[0]], strict=True):
        topology.link(source, target, **TWO_WAY)
    for number, name in enumerate(CLUSTERS):
        topology.insert(name, *range(10 * number, 10 * number + 3))
    keys = [10 * number + key for number in range(3) for key in range(3)]
    topology.wait_keys(keys, *CLUSTERS)
    topology.settle()
    topology.wait_keys(keys, *CLUSTERS)


def test_mesh(topology: Topology) -> None:
    """Each change reaches each cluster on two paths, and is taken once."""
    for source in CLUSTERS:
        for target in CLUSTERS:
            if source != target:
                topology.link(source, target, **TWO_WAY)
    for number, name in enumerate(CLUSTERS):
        topology.insert(name, *range(10 * number, 10 * number + 3))
    keys = [10 * number + key for number in range(3) for key in range(3)]
    topology.wait_keys(keys, *CLUSTERS)
    topology.settle()
    topology.wait_keys(keys, *CLUSTERS)


def test_consolidation(topology: Topology) -> None:
    topology.link("north", "south", preserve_timestamps=0)
    topology.link("east", "south", preserve_timestamps=0)
    topology.insert("north", 1, 2)
    topology.insert("east", 3)
    topology.insert("south", 4)
    topology.wait_keys([1, 2, 3, 4], "south")
    topology.settle()
    topology.wait_keys([1, 2, 3, 4], "south")


@pytest.mark.long
def test_equal_rows_of_two_clusters_are_no_duplicates(topology: Topology) -> None:
    topology.link("north", "south", preserve_timestamps=0)
    topology.link("east", "south", preserve_timestamps=0)
    for name in ("north", "east"):
        topology.clusters[name].execute(f"INSERT INTO {topology.table} VALUES (7, 'same')")
    topology.wait_keys([7, 7], "south")
