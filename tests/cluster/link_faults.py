"""What ``tests.cluster.chaos_links`` does to linked clusters: one thread for each cluster, one for the network.

A fault ends before the next one of the same thread begins. Faults of different clusters meet.
"""

from __future__ import annotations

import random
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.chaos_faults import Faults
from tests.cluster.link_network import LinkNetwork

_FILE_BYTES = (0, 100, 1_000, 10_000)
"""On a full disk a file may still get so many bytes: none at all, or a part of it."""
_PATIENCE_SECONDS = 60.0


class Statements:
    """The statements that clients of one cluster have under way, which may be held up."""

    def __init__(self) -> None:
        self._condition = Condition()
        self._running = 0
        self._is_held = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts the block as a statement. It begins when statements are not held up."""
        with self._condition:
            self._condition.wait_for(lambda: not self._is_held)
            self._running += 1
        try:
            yield
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """Runs the block while no statement runs."""
        with self._condition:
            self._is_held = True
            self._condition.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._condition:
                self._is_held = False
                self._condition.notify_all()


class ClusterFaults(Faults):
    """The faults of one cluster's servers.

    ``tables`` are those that a wiped replica must not be the only one to have rows of. The first ``wipeable`` replicas
    are wiped.
    """

    def __init__(
        self,
        cluster: Cluster,
        clients: Sequence[HttpClient],
        statements: Statements,
        tables: Sequence[str],
        rng: random.Random,
        wait: Callable[[float], object],
        count: Callable[[str], None],
        wipeable: int,
    ) -> None:
        super().__init__(cluster, rng, wait, count)
        self._wipeable = wipeable
        self._clients = clients
        self._statements = statements
        self._tables = tables
        self._kinds = {
            self.kill: 4, self._pause: 3, self._kill_zookeeper: 3, self._fill_disk: 4, self._wipe: 2,
            self._kill_cluster: 1,
        }  # fmt: skip

    def _kill_cluster(self) -> None:
        """Kills all servers of the cluster and its ZooKeeper, and starts them again."""
        for status in self._cluster.status():
            self._cluster.kill(status.name)
        self._count("SIGKILL of a whole cluster")
        self._wait(self._random.uniform(0, 8))
        self._cluster.start(len(self._replicas))

    def _fill_disk(self) -> None:
        """Lets no file of one replica, or of all, grow (RLIMIT_FSIZE), which is told as a full disk."""
        chosen = self._random.choice([*([name] for name in self._replicas), self._replicas])
        pids = [status.pid for status in self._cluster.status() if status.name in chosen]
        most = self._random.choice(_FILE_BYTES)
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        self._count("full disk")
        try:
            self._wait(self._random.uniform(2, 8))
        finally:
            for pid in pids:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def _wipe(self) -> None:
        """Empties the disk of a replica but for its definitions.

        The other one has every acknowledged row, and keeps what links still lack: another loss would be one too many.
        """
        number = self._random.randrange(self._wipeable)
        name, others = self._replicas[number], [c for at, c in enumerate(self._clients) if at != number]
        with self._statements.none():
            if not all(self._sync(other) and _keeps_enough(other) for other in others):
                return
            self._cluster.kill(name)
        data = self._cluster.replica_directory(name) / "data"
        _empty(data)
        (data / "flags").mkdir(exist_ok=True)
        (data / "flags" / "force_restore_data").touch()
        self._count("wiped replica")
        self._cluster.restart(name)

    def _sync(self, client: HttpClient) -> bool:
        """Tells whether the replica has got what its siblings have."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for table in self._tables:
            try:
                client.execute(f"SYSTEM SYNC REPLICA {table}")
            except PandoError:
                return False
            if time.monotonic() > deadline:
                return False
        return True


def _keeps_enough(client: HttpClient) -> bool:
    """Tells whether a replica can serve alone what each target may still ask for: its changes and its blocks."""
    try:
        begins = dict(client.rows("SELECT table, first_position FROM system.link_outbox WHERE missing_blocks = 0"))
        links = client.rows("SELECT table, confirmed_position FROM system.replication_links WHERE direction = 'out'")
    except PandoError:
        return False
    return all(table in begins and _number(place) >= _number(begins[table]) for table, place in links)


def _number(position: object) -> int:
    """Returns the number of a position; of a link at its source only that is known."""
    text = str(position).rpartition(":")[2]
    return int(text) if text else 0


def _empty(data: Path) -> None:
    """Removes everything but ``metadata``, which people keep a copy of."""
    for entry in data.iterdir():
        if entry.name != "metadata":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class NetworkFaults:
    """The faults of the network between clusters."""

    def __init__(
        self,
        network: LinkNetwork,
        rng: random.Random,
        wait: Callable[[float], object],
        count: Callable[[str], None],
    ) -> None:
        self._network = network
        self._random = rng
        self._wait = wait
        self._count = count

    def next(self) -> None:
        """Waits a little and carries out one fault; everything passes again when it returns."""
        self._wait(self._random.uniform(2, 8))
        gateway = self._random.choice(list(self._network.gateways.values()))
        kind = self._random.choice(["cut", "cut one way", "slow"])
        gateway.is_cut = kind == "cut"
        gateway.loses_answers = kind == "cut one way"
        gateway.delay_seconds = self._random.uniform(0.05, 2) if kind == "slow" else 0.0
        self._count(f"network {kind}")
        self._wait(self._random.uniform(1, 15))
        gateway.mend()
