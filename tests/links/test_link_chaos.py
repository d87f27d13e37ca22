"""Random writes and commands at a source while servers of both clusters are killed: in the end the target is equal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from parts.common.errors import PandoError
from tests.links.linked_clusters import LinkedClusters

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]
SEEDS = [int(seed) for seed in os.environ.get("PANDO_LINK_SEEDS", "1").split(",")]
_OPERATIONS = int(os.environ.get("PANDO_LINK_OPERATIONS", "60"))


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LinkedClusters]:
    found = LinkedClusters(tmp_path, west=2, east=2)
    yield found
    found.close()


class Killer:
    """Kills and restarts one server after the other, until :meth:`end`."""

    def __init__(self, clusters: LinkedClusters, random: Random) -> None:
        self._clusters, self._random = clusters, random
        self._is_ending = threading.Event()
        self.failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_ending.wait(self._random.uniform(0.5, 3)):
                cluster = self._clusters.clusters[self._random.choice(["west", "east"])]
                name = self._random.choice(["r1", "r2"])
                cluster.kill(name)
                self._is_ending.wait(self._random.uniform(0, 2))
                cluster.restart(name)
        except BaseException as error:
            self.failures.append(error)

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join()
        assert not self.failures, self.failures


@pytest.mark.parametrize("seed", SEEDS)
def test_the_target_is_equal_in_the_end(clusters: LinkedClusters, seed: int) -> None:
    random = Random(seed)
    clusters.create_table("t", "p UInt8, k UInt64, v UInt64", "PARTITION BY p ORDER BY k")
    clusters.link("l", "east", "t", "west", replication_timeout=0.5)
    killer = Killer(clusters, Random(seed + 1))
    unknown = 0
    try:
        for number in range(_OPERATIONS):
            unknown += not _carry_out(clusters, random, number)
    finally:
        killer.end()
    for name in ("west", "east"):
        for status in clusters.clusters[name].status():
            if not status.is_alive:
                clusters.clusters[name].restart(status.name)
    clusters["west"].execute("SYSTEM SYNC REPLICA t")
    sql = "SELECT p, count(), sum(k), sum(v) FROM t GROUP BY p ORDER BY p"
    clusters.wait(lambda: clusters.rows("west", "SELECT sum(is_done = 0) FROM system.mutations") == [[0]], "mutations")
    clusters.wait(lambda: clusters.rows("west", sql), "a source that agrees")
    clusters.wait(lambda: _settles(clusters), "the link")
    clusters.wait(lambda: clusters.rows("east", sql) == clusters.rows("west", sql), f"equal rows ({unknown} unknown)")
    rows = "SELECT * FROM t ORDER BY p, k, v"
    assert clusters.rows("east", rows) == clusters.rows("west", rows)


def _settles(clusters: LinkedClusters) -> bool:
    clusters.settle("east", "l")
    return True


def _carry_out(clusters: LinkedClusters, random: Random, number: int) -> bool:
    """One statement at the source; returns whether its outcome is known."""
    server = random.choice(clusters.clients["west"])
    kind = random.choices(["insert", "delete", "update", "drop", "optimize"], [12, 1, 1, 1, 2])[0]
    partition = random.randrange(4)
    statement = {
        "insert": f"INSERT INTO t SELECT {partition}, number, {number} FROM numbers({random.randrange(1, 500)})",
        "delete": f"ALTER TABLE t DELETE WHERE k % 10 = {random.randrange(10)}",
        "update": f"ALTER TABLE t UPDATE v = v + 1 WHERE k % 7 = {random.randrange(7)}",
        "drop": f"ALTER TABLE t DROP PARTITION {partition}",
        "optimize": f"OPTIMIZE TABLE t PARTITION {partition} FINAL",
    }[kind]
    try:
        server.execute(statement)
    except PandoError:
        return False
    return True
