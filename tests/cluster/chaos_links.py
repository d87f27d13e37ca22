"""``python -m tests.cluster.chaos_links``: three linked clusters of two replicas, killed and paused while they change.

``everywhere`` takes INSERTs in all three clusters, and each has links from both others. ``copied`` takes INSERTs,
UPDATEs, DELETEs and DROP PARTITION in the first, which the others copy. A client repeats a statement until it is
acknowledged; an INSERT has a token, and the other statements may be repeated as they are. So at the end every row is
known, and every replica of every cluster must have exactly these: none lost, none doubled, none different.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.linked_directories import link_directories
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.chaos_faults import SESSION_SECONDS, Faults

NAMES = ("east", "west", "north")
_REPLICAS = 2
_SETTLE_SECONDS = 240.0
_RETRY_SECONDS = 0.2
_CREATE = """
CREATE TABLE {} (p UInt32, k UInt64, v UInt64) ENGINE = ReplicatedMergeTree('/{}', '{{replica}}')
PARTITION BY p ORDER BY k
"""
Rows = dict[tuple[int, int], int]
"""By partition and key, the value."""


class LinksChaos:
    """The clusters, their clients, and what they must hold."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self.acknowledged = 0
        overrides = {"zookeeper": {"session_timeout_ms": int(1000 * SESSION_SECONDS)}, "workers": 0}
        self.clusters = {name: Cluster(directory / name) for name in NAMES}
        self.clients: dict[str, list[HttpClient]] = {}
        for name, cluster in self.clusters.items():
            started = cluster.start(_REPLICAS, overrides=overrides, name=name)
            self.clients[name] = [
                HttpClient(port=status.port, timeout_seconds=60) for status in started if status.name != ZOOKEEPER
            ]
        link_directories([cluster.directory for cluster in self.clusters.values()])
        self._create()

    def _create(self) -> None:
        for name in NAMES:
            for client in self.clients[name]:
                for table in ("everywhere", "copied"):
                    client.execute(_CREATE.format(table, table))
        for name in NAMES:
            first = self.clients[name][0]
            for source in NAMES:
                if source != name:
                    first.execute(
                        f"CREATE REPLICATION LINK all_{source} ON everywhere FROM CLUSTER {source} SETTINGS two_way = 1"
                    )
            if name != NAMES[0]:
                first.execute(f"CREATE REPLICATION LINK copy ON copied FROM CLUSTER {NAMES[0]}")

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> list[str]:
        """Returns what is wrong at the end: nothing, if all promises held."""
        writers = [Writer(self, name, number, self._another_random()) for number, name in enumerate(NAMES)]
        owners = [PartitionOwner(self, partition, self._another_random()) for partition in (1, 2)]
        threads = [threading.Thread(target=self._repeat, args=(client.step,)) for client in (*writers, *owners)]
        for thread in threads:
            thread.start()
        self._harm(time.monotonic() + seconds)
        self._end.set()
        for thread in threads:
            thread.join()
        everywhere = {key: value for writer in writers for key, value in writer.rows.items()}
        copied = {key: value for owner in owners for key, value in owner.rows.items()}
        return [*self._compare("everywhere", everywhere), *self._compare("copied", copied)]

    def _another_random(self) -> random.Random:
        return random.Random(self._random.getrandbits(32))

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._end.is_set():
            step()

    def _harm(self, deadline: float) -> None:
        faults = {
            name: Faults(cluster, self._another_random(), self._end.wait, self.count)
            for name, cluster in self.clusters.items()
        }
        while time.monotonic() < deadline:
            name = self._random.choice(NAMES)
            if self._random.random() < 0.1:
                self._kill_cluster(name)
            else:
                faults[name].next()

    def _kill_cluster(self, name: str) -> None:
        """Kills all servers of a cluster and its ZooKeeper, and starts them again."""
        cluster = self.clusters[name]
        for status in cluster.status():
            cluster.kill(status.name)
        self.count("SIGKILL of a whole cluster")
        self._end.wait(self._random.uniform(0, 8))
        cluster.start(_REPLICAS)

    def count(self, what: str) -> None:
        """Counts something that happened."""
        with self._lock:
            self.counts[what] += 1

    def insist(self, name: str, rng: random.Random, statement: str, what: str) -> None:
        """Repeats a statement on the servers of a cluster until one acknowledges it."""
        while True:
            try:
                rng.choice(self.clients[name]).execute(statement)
            except PandoError as error:
                self.count(f"{what}: {error.name}")
                time.sleep(_RETRY_SECONDS)
            else:
                break
        self.count(f"{what}: acknowledged")
        with self._lock:
            self.acknowledged += 1

    def close(self) -> None:
        """Ends all processes."""
        for clients in self.clients.values():
            for client in clients:
                client.close()
        for cluster in self.clusters.values():
            cluster.stop(grace_seconds=5)

    # -- checking ----------------------------------------------------------------------------------------------------

    def _compare(self, table: str, expected: Rows) -> list[str]:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            wrong = [
                f"{table} on {name} r{number}: {difference}"
                for name in NAMES
                for number, client in enumerate(self.clients[name], 1)
                if (difference := _differ(client, table, expected))
            ]
            if not wrong or time.monotonic() > deadline:
                return wrong
            time.sleep(0.5)

    def describe_links(self) -> list[str]:
        """Says what the links say of themselves."""
        return [
            f"{name}: {row}"
            for name in NAMES
            for row in self.clients[name][0].rows(
                "SELECT name, upstream_status, message, lag, errors, last_exception "
                "FROM system.replication_links WHERE direction = 'in' ORDER BY name"
            )
        ]


def _differ(client: HttpClient, table: str, expected: Rows) -> str:
    """Says how the rows of a replica differ from what they must be; "" if they do not."""
    try:
        rows = client.rows(f"SELECT p, k, v FROM {table}")
    except PandoError as error:
        return f"no answer: {error}"
    times = Counter((int(p), int(k)) for p, k, _ in rows)
    found = {(int(p), int(k)): int(v) for p, k, v in rows}
    lost = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    doubled = sorted(key for key, count in times.items() if count > 1)
    different = sorted(key for key in expected.keys() & found.keys() if expected[key] != found[key])
    if not (lost or more or doubled or different):
        return ""
    return f"lost {len(lost)} {lost[:5]}, doubled {len(doubled)} {doubled[:5]}, " + (
        f"too many {len(more)} {more[:5]}, different {len(different)} {different[:5]}"
    )


class Writer:
    """Inserts into ``everywhere`` through one cluster."""

    def __init__(self, chaos: LinksChaos, name: str, number: int, rng: random.Random) -> None:
        self._chaos = chaos
        self._name = name
        self._random = rng
        self._next = number * 10_000_000
        self.rows: Rows = {}

    def step(self) -> None:
        """Inserts one block."""
        partition = self._random.randint(1, 3)
        keys = range(self._next, self._next + self._random.randint(1, 20))
        self._next = keys.stop
        values = ", ".join(f"({partition}, {key}, {key})" for key in keys)
        token = f"{self._name}-{keys.start}"
        statement = f"INSERT INTO everywhere SETTINGS insert_deduplication_token = '{token}' VALUES {values}"
        self._chaos.insist(self._name, self._random, statement, "INSERT")
        self.rows |= {(partition, key): key for key in keys}
        time.sleep(self._random.uniform(0, 0.2))


class PartitionOwner:
    """Changes one partition of ``copied``, through the first cluster."""

    def __init__(self, chaos: LinksChaos, partition: int, rng: random.Random) -> None:
        self._chaos = chaos
        self._partition = partition
        self._random = rng
        self._next = 0
        self.rows: Rows = {}

    def step(self) -> None:
        """Carries out one change."""
        actions = [self._insert] * 10 + [self._update] * 3 + [self._delete] * 2 + [self._drop]
        self._random.choice(actions)()
        time.sleep(self._random.uniform(0, 0.3))

    def _insist(self, statement: str, what: str) -> None:
        self._chaos.insist(NAMES[0], self._random, statement, what)

    def _insert(self) -> None:
        keys = range(self._next, self._next + self._random.randint(1, 20))
        self._next = keys.stop
        values = ", ".join(f"({self._partition}, {key}, 0)" for key in keys)
        token = f"{self._partition}-{keys.start}"
        self._insist(f"INSERT INTO copied SETTINGS insert_deduplication_token = '{token}' VALUES {values}", "INSERT")
        self.rows |= {(self._partition, key): 0 for key in keys}

    def _update(self) -> None:
        divisor, value = self._random.randint(2, 5), self._random.randint(1, 1_000_000)
        where = f"p = {self._partition} AND k % {divisor} = 0"
        self._insist(f"ALTER TABLE copied UPDATE v = {value} WHERE {where} SETTINGS mutations_sync = 1", "UPDATE")
        self.rows |= {key: value for key in self.rows if key[1] % divisor == 0}

    def _delete(self) -> None:
        rest = self._random.randrange(7)
        where = f"p = {self._partition} AND k % 7 = {rest}"
        self._insist(f"ALTER TABLE copied DELETE WHERE {where} SETTINGS mutations_sync = 1", "DELETE")
        self.rows = {key: value for key, value in self.rows.items() if key[1] % 7 != rest}

    def _drop(self) -> None:
        self._insist(f"ALTER TABLE copied DROP PARTITION {self._partition}", "DROP PARTITION")
        self.rows = {}


def main() -> int:
    """Runs chaos; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a new directory for the servers' files and logs, kept at the end")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-chaos-")))
        chaos = LinksChaos(directory, options.seed)
        stack.callback(chaos.close)
        wrong = chaos.run(options.seconds)
        for what, count in sorted(chaos.counts.items()):
            print(f"{count:>7,} {what}")
        print(f"acknowledged {chaos.acknowledged:,} statements")
        for text in (*wrong, *(chaos.describe_links() if wrong else ())):
            print(f"WRONG: {text}", file=sys.stderr)
        if not wrong:
            print("lost 0, doubled 0, different 0 on every replica of every cluster")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
