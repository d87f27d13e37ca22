"""``pando cluster start --runtime docker``: three linked clusters whose networks are cut, slow, and mended.

``make test-docker`` runs it, where a container engine runs; the image is made from this system.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.cluster_state import ClusterState, Member, find_free_ports
from engine.cluster.container_id import connect_engine
from engine.cluster.container_plan import LINKS_NETWORK, write_compose
from engine.cluster.replica_config import write_replica_config
from engine.commands.cluster import command
from engine.http_client.http_client import HttpClient
from engine.server.config import ConfigError
from parts.common.errors import PandoError
from tests.cluster.container_network import find_missing_tools, parted, slowed, taken_off
from tests.cluster.link_clients import Writer
from tests.cluster.link_rows import Difference

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1500)]
IMAGE = "pando-test"
NAMES = tuple(f"{name}{os.getpid()}" for name in ("east", "west", "north"))
EAST, WEST, NORTH = NAMES
_COLUMNS = "(p UInt32, k UInt64, v UInt64) ENGINE = ReplicatedMergeTree ORDER BY k"
_WAIT_SECONDS = 240.0
_BLOCKS = 5
"""So many INSERTs a cluster must acknowledge during a fault."""


@pytest.fixture(scope="module")
def image() -> str:
    try:
        engine = connect_engine()
        engine.ping()
    except (ConfigError, OSError) as error:
        pytest.skip(f"no container engine: {error}")
    if os.geteuid() or find_missing_tools():
        pytest.skip(f"needs root and the programs {find_missing_tools()}, to reach into containers' networks")
    result = CliRunner().invoke(command, ["image", "--tag", IMAGE], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return IMAGE


def test_a_compose_file_starts_a_cluster(image: str, tmp_path: Path) -> None:
    """It comes first here: the network between clusters belongs to whoever made it."""
    compose = [shutil.which("docker-compose")] if shutil.which("docker-compose") else ["docker", "compose"]
    if subprocess.run([*compose, "version"], capture_output=True, check=False).returncode:
        pytest.skip("neither docker-compose nor docker compose is installed")
    ports = find_free_ports(3)
    replicas = [Member(f"r{number}", port, 9009) for number, port in enumerate(ports[1:], 1)]
    state = ClusterState(Member(ZOOKEEPER, ports[0]), replicas, name=f"compose{os.getpid()}", image=image)
    (tmp_path / "compose.yaml").write_text(write_compose(Path("/pando"), state))
    for replica in replicas:
        file = write_replica_config(tmp_path, state, replica)
        file.write_text(file.read_text().replace(str(tmp_path), "/pando"))
    command = [*compose, "-f", str(tmp_path / "compose.yaml")]
    subprocess.run([*command, "up", "-d"], check=True, timeout=300)
    try:
        with HttpClient(port=ports[1], timeout_seconds=60) as first, HttpClient(port=ports[2]) as second:
            _wait_acknowledged(
                first, "CREATE TABLE t ON CLUSTER default (k UInt64) ENGINE = ReplicatedMergeTree ORDER BY k"
            )
            first.execute("INSERT INTO t VALUES (1), (2)")
            _wait_acknowledged(second, "SYSTEM SYNC REPLICA t")
            assert second.rows("SELECT k FROM t ORDER BY k") == [[1], [2]]
    finally:
        subprocess.run([*command, "down"], check=True, timeout=300)


def _wait_acknowledged(client: HttpClient, statement: str) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            client.execute(statement)
            return
        except PandoError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class Sites:
    """The clusters with their clients and writers."""

    def __init__(self, directory: Path, image: str) -> None:
        self.clusters = {name: Cluster(directory / name) for name in NAMES}
        self.clients: dict[str, list[HttpClient]] = {}
        self.counts: Counter[str] = Counter()
        self.blocks: Counter[str] = Counter()
        self.problems: list[BaseException] = []
        self.end = threading.Event()
        self._image = image
        self.writers = {
            name: Writer(self, name, number, ["everywhere"], random.Random(number)) for number, name in enumerate(NAMES)
        }

    def start(self) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.start_cluster, NAMES))

    def start_cluster(self, name: str) -> None:
        overrides = {"zookeeper": {"session_timeout_ms": 4000}, "workers": 0}
        statuses = self.clusters[name].start(2, overrides=overrides, name=name, image=self._image)
        assert all(status.ready and len(status.container) == 64 for status in statuses)
        self.clients[name] = [
            HttpClient(port=each.port, timeout_seconds=20) for each in statuses if each.name != ZOOKEEPER
        ]

    def stop(self) -> None:
        self.end.set()
        for name, cluster in self.clusters.items():
            for client in self.clients.get(name, ()):
                client.close()
            if (cluster.directory / "cluster.json").exists():
                cluster.stop(grace_seconds=5)

    def insist(self, name: str, rng: random.Random, statement: str, what: str) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while not self.try_once(name, rng, statement, what):
            assert time.monotonic() < deadline, f"{name} does not acknowledge {statement[:200]}"
            time.sleep(0.2)
        self.blocks[name] += 1

    def try_once(self, name: str, rng: random.Random, statement: str, what: str) -> bool:
        try:
            rng.choice(self.clients[name]).execute(statement)
        except PandoError as error:
            self.counts[f"{what}: {error.name}"] += 1
            return False
        self.counts[f"{what}: acknowledged"] += 1
        return True

    def write(self, name: str) -> None:
        try:
            while not self.end.is_set():
                self.writers[name].step()
        except BaseException as error:
            self.problems.append(error)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while not condition():
            assert not self.problems, self.problems
            assert time.monotonic() < deadline, f"waited in vain for {what}; {self.describe()}"
            time.sleep(0.2)

    def wait_blocks(self, *names: str) -> None:
        """Until these clusters have acknowledged some more INSERTs."""
        before = dict(self.blocks)
        for name in names:
            self.wait(lambda name=name: self.blocks[name] >= before.get(name, 0) + _BLOCKS, f"INSERTs of {name}")

    def read(self, name: str, number: int) -> list[tuple[int, int, int]]:
        try:
            rows = self.clients[name][number].rows("SELECT p, k, v FROM everywhere")
        except PandoError:
            return []
        return [(int(p), int(k), int(v)) for p, k, v in rows]

    def differences(self) -> dict[str, Difference]:
        expected = {key: value for writer in self.writers.values() for key, value in writer.rows["everywhere"].items()}
        found = {f"{name} r{n + 1}": Difference.of(self.read(name, n), expected) for name in NAMES for n in range(2)}
        return {where: difference for where, difference in found.items() if difference}

    def describe(self) -> str:
        query = "SELECT name, upstream_status, message, last_exception FROM system.replication_links"
        lines = []
        for name, clients in self.clients.items():
            for client in clients:
                try:
                    lines.append(f"{name}: {client.rows(query)}")
                except PandoError as error:
                    lines.append(f"{name}: {error}")
        return "; ".join(lines)


@pytest.fixture(scope="module")
def sites(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    with ExitStack() as stack:
        sites = Sites(tmp_path_factory.mktemp("containers"), image)
        stack.callback(sites.stop)
        sites.start()
        yield sites


def _container(cluster: str, member: str) -> str:
    return f"pando-{cluster}-{member}"


def test_no_acknowledged_row_is_lost_or_doubled(sites: Sites, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(cluster.directory) for cluster in sites.clusters.values()]
    result = CliRunner().invoke(command, ["link", *paths], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for name in NAMES:
        for client in sites.clients[name]:
            client.execute(f"CREATE TABLE everywhere {_COLUMNS}")
    for name in NAMES:
        for source in NAMES:
            if source != name:
                sites.clients[name][0].execute(
                    f"CREATE REPLICATION LINK from_{source} ON everywhere FROM CLUSTER {source} SETTINGS two_way = 1"
                )
    threads = [threading.Thread(target=sites.write, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    try:
        sites.wait_blocks(*NAMES)
        _harm(sites)
    finally:
        sites.end.set()
        for thread in threads:
            thread.join()
    assert not sites.problems, sites.problems
    sites.wait(lambda: not sites.differences(), f"equal rows: { {k: str(v) for k, v in sites.differences().items()} }")
    rows = sum(len(writer.rows["everywhere"]) for writer in sites.writers.values())
    with capsys.disabled():
        print(f"\n{rows:,} acknowledged rows on 6 replicas of 3 clusters: lost 0, doubled 0; {dict(sites.counts)}")


def _harm(sites: Sites) -> None:
    """Each fault holds until the clusters that it leaves whole have acknowledged some INSERTs."""
    replicas = {name: [_container(name, "r1"), _container(name, "r2")] for name in NAMES}

    with taken_off(LINKS_NETWORK, replicas[WEST]):  # one cluster is cut from the others
        before = set(sites.writers[WEST].rows["everywhere"])
        sites.wait_blocks(*NAMES)
        written = set(sites.writers[WEST].rows["everywhere"]) - before
        last = max(written, key=lambda row: row[1])
        assert last not in {(p, k) for p, k, _ in sites.read(NORTH, 0)}, "the network was not cut"
    with taken_off(LINKS_NETWORK, replicas[EAST][:1]):  # one server of a cluster
        sites.wait_blocks(*NAMES)
    with slowed(replicas[NORTH]):
        sites.wait_blocks(*NAMES)
    with parted(replicas[WEST][0], replicas[WEST][1]):  # a cluster's replicas from each other
        sites.wait_blocks(*NAMES)
    with parted(replicas[WEST][0], _container(WEST, ZOOKEEPER)):  # a replica from its ZooKeeper
        sites.wait_blocks(*NAMES)
    with taken_off(f"pando-{EAST}", [_container(EAST, ZOOKEEPER)]):  # all of a cluster from its ZooKeeper
        sites.wait_blocks(WEST, NORTH)
    sites.wait_blocks(*NAMES)


def test_a_stop_and_a_start_keep_the_rows(sites: Sites) -> None:
    before = sorted(sites.read(WEST, 0))
    assert before
    sites.clusters[WEST].stop(grace_seconds=20)
    assert not connect_engine().containers.list(all=True, filters={"name": f"pando-{WEST}-"})
    sites.start_cluster(WEST)
    sites.wait(lambda: sorted(sites.read(WEST, 1)) == before, "the rows after a start")


def test_kill_and_restart(sites: Sites) -> None:
    cluster = sites.clusters[NORTH]
    before = {status.name: status for status in cluster.status()}
    assert cluster.kill("r2") == before["r2"].pid > 0
    assert not next(status for status in cluster.status() if status.name == "r2").alive
    after = cluster.restart("r2")
    assert after.ready
    assert after.container != before["r2"].container
    assert after.port == before["r2"].port


def test_what_cannot_be_started_says_why(sites: Sites, image: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"There is a container pando-{EAST}-.* of the cluster in .*another --name"):
        Cluster(tmp_path / "east").start(1, name=EAST, image=image)
    assert all(status.alive for status in sites.clusters[EAST].status())
    with pytest.raises(ConfigError, match=r"There is no image 'pando-missing'.*pando cluster image"):
        Cluster(tmp_path / "a").start(1, name=f"a{os.getpid()}", image="pando-missing")
    with pytest.raises(ConfigError, match="needs a name"):
        Cluster(tmp_path / "a").start(1, image=image)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match=r"Port \d+ .*is in use"):
        Cluster(tmp_path / "b").start(1, taken.getsockname()[1], name=f"b{os.getpid()}", image=image)
    assert not connect_engine().containers.list(all=True, filters={"name": f"pando-[ab]{os.getpid()}-"})
