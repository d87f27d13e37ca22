"""``python -m tests.cluster.chaos_links``: three linked clusters of two replicas, harmed while they change.

===============  =====================================================================================================
``everywhere``   takes INSERTs in all clusters, and each has links from both others
``ringed``       takes INSERTs in all clusters, each of which has a link from the one before it
``latest``       takes INSERTs and DELETEs of the same keys in all clusters: the last writer wins
``copied``       takes INSERTs, UPDATEs, DELETEs, DROP PARTITION and ALTERs in the first, which the others copy; one of
                 them follows ALTERs by itself, the other one is altered by hand. Both are made anew, or copied anew
``switched``     with ``--switches``: takes INSERTs in the cluster that is its source now; SWITCH makes another one that
===============  =====================================================================================================

Processes are killed and paused, networks between clusters are cut and slow, disks are full, replicas are wiped
(:mod:`tests.cluster.link_faults`). At the end every replica of every cluster must have exactly what clients were told:
no row lost, none doubled, none different.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.cluster_state import load_state, lock_cluster, save_state
from engine.cluster.linked_directories import link_directories
from engine.cluster.replica_config import write_replica_config
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.chaos_faults import SESSION_SECONDS
from tests.cluster.link_clients import ColumnOwner, LatestWriter, Merger, PartitionOwner, Rows, Writer
from tests.cluster.link_faults import ClusterFaults, NetworkFaults, Statements
from tests.cluster.link_network import LinkNetwork
from tests.cluster.link_switching import SWITCHED_LINK, SwitchedWriter, Switcher

NAMES = SOURCE, FOLLOWER, BY_HAND = ("east", "west", "north")
_REPLICAS = 2
_SETTLE_SECONDS = 240.0
_PATIENCE_SECONDS = 900.0
"""A statement that is not acknowledged for so long is a broken promise too; a machine may be very slow."""
_RETRY_SECONDS = 0.2
_TARGET_SECONDS = (30.0, 90.0)
"""Between two losses of a target's table."""
_COLUMNS = "(p UInt32, k UInt64, v UInt64)"
_TABLES: Mapping[str, str] = {
    "everywhere": "ReplicatedMergeTree('/everywhere', '{replica}') PARTITION BY p ORDER BY k",
    "ringed": "ReplicatedMergeTree('/ringed', '{replica}') PARTITION BY p ORDER BY k",
    "latest": "ReplicatedReplacingMergeTree('/latest', '{replica}') PARTITION BY p ORDER BY k "
    "SETTINGS last_writer_wins = 1",
    "copied": "ReplicatedMergeTree('/copied', '{replica}') PARTITION BY p ORDER BY k",
    "switched": "ReplicatedMergeTree('/switched', '{replica}') PARTITION BY p ORDER BY k",
}


class LinksChaos:
    """The clusters, their clients, and what they must hold."""

    def __init__(self, directory: Path, seed: int, *, switches: bool = False) -> None:
        self.tables = {name: engine for name, engine in _TABLES.items() if switches or name != "switched"}
        self._random = random.Random(seed)
        self.counts: Counter[str] = Counter()
        """How often statements were answered how."""
        self.faults: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self.acknowledged = 0
        self.problems: list[str] = []
        self.network = LinkNetwork(NAMES)
        self.clusters = {name: Cluster(directory / name) for name in NAMES}
        self.clients: dict[str, list[HttpClient]] = {}
        self.statements = {name: Statements() for name in NAMES}
        for name in NAMES:
            self._start(name)
        link_directories([cluster.directory for cluster in self.clusters.values()])
        for name in NAMES:
            self._reroute(name)
        self._create()

    def _start(self, name: str) -> None:
        overrides = {
            "zookeeper": {"session_timeout_ms": int(1000 * SESSION_SECONDS)},
            "workers": 0,
            "interserver_http_host": self.network.gateways[name].host,
        }
        cluster = self.clusters[name]
        replicas = [
            status for status in cluster.start(_REPLICAS, overrides=overrides, name=name) if status.name != ZOOKEEPER
        ]
        self.network.open(name, [port for each in replicas for port in (each.http_port, each.interserver_port)])
        self.clients[name] = [HttpClient(port=status.port, timeout_seconds=60) for status in replicas]

    def _reroute(self, name: str) -> None:
        """Lets the servers of a cluster reach the others through their gateways."""
        directory = self.clusters[name].directory
        with lock_cluster(directory):
            state = load_state(directory)
            assert state is not None
            for other, config in state.linked_clusters.items():
                urls = config["urls"]
                assert isinstance(urls, list)
                config["urls"] = [url.replace("127.0.0.1", self.network.gateways[other].host) for url in urls]
            save_state(directory, state)
            for replica in state.replicas:
                write_replica_config(directory, state, replica)
        for client in self.clients[name]:
            client.execute("SYSTEM RELOAD CONFIG")

    def _create(self) -> None:
        for name in NAMES:
            for client in self.clients[name]:
                for table, engine in self.tables.items():
                    client.execute(f"CREATE TABLE {table} {_COLUMNS} ENGINE = {engine}")
        for name, before in zip(NAMES, (NAMES[-1], *NAMES), strict=False):
            first = self.clients[name][0]
            for source in NAMES:
                if source != name:
                    for table in ("everywhere", "latest"):
                        first.execute(_create_link(f"{table}_{source}", table, source, "two_way = 1"))
            first.execute(_create_link("ring", "ringed", before, "two_way = 1"))
            if name != SOURCE:
                first.execute(_create_copy(name))
                if "switched" in self.tables:
                    first.execute(_create_link(SWITCHED_LINK, "switched", SOURCE, "start_position = ''"))

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> list[str]:
        """Returns what is wrong at the end: nothing, if all promises held."""
        writers = [
            Writer(self, name, number, ("everywhere", "ringed"), self._another_random())
            for number, name in enumerate(NAMES)
        ]
        latest = [
            LatestWriter(self, name, number, "latest", self._another_random()) for number, name in enumerate(NAMES)
        ]
        owners = [PartitionOwner(self, SOURCE, "copied", partition, self._another_random()) for partition in (1, 2)]
        columns = ColumnOwner(self, SOURCE, [BY_HAND], "copied", self._another_random(), self._end.wait)
        merger = Merger(self, NAMES, list(self.tables), self._another_random(), self._end.wait)
        target = TargetOwner(self, columns, self._another_random(), self._end.wait)
        moved = SwitchedWriter(self, NAMES, "switched", self._another_random())
        switcher = Switcher(self, NAMES, self._another_random(), self._end.wait)
        clients = [*writers, *latest, *owners, columns, merger, target]
        if "switched" in self.tables:
            clients += [moved, switcher]
        harmed = [
            *(
                ClusterFaults(
                    cluster, self.clients[name], self.statements[name], list(self.tables), self._another_random(),
                    self._end.wait, self.count_fault,
                )
                for name, cluster in self.clusters.items()
            ),
            NetworkFaults(self.network, self._another_random(), self._end.wait, self.count_fault),
        ]  # fmt: skip
        threads = [
            threading.Thread(target=self._repeat, args=(step,))
            for step in (*(client.step for client in clients), *(faults.next for faults in harmed))
        ]
        for thread in threads:
            thread.start()
        self._end.wait(seconds)
        self._end.set()
        for thread in threads:
            thread.join()
        self.network.mend()
        if self.problems:
            return self.problems
        return self._check(writers, latest, owners, columns, moved.rows)

    def _another_random(self) -> random.Random:
        return random.Random(self._random.getrandbits(32))

    def _repeat(self, step: Callable[[], None]) -> None:
        try:
            while not self._end.is_set():
                step()
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            self._end.set()

    def count(self, what: str) -> None:
        """Counts the answer to a statement."""
        with self._lock:
            self.counts[what] += 1

    def count_fault(self, what: str) -> None:
        """Counts what was done to the clusters."""
        with self._lock:
            self.faults[what] += 1

    def insist(self, name: str, rng: random.Random, statement: str, what: str) -> None:
        """Repeats a statement on the servers of a cluster until one acknowledges it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.try_once(name, rng, statement, what):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not acknowledge {statement[:200]}")
            time.sleep(_RETRY_SECONDS)
        with self._lock:
            self.acknowledged += 1

    def is_target(self, name: str, number: int, link: str) -> bool | None:
        """Tells whether a cluster has an incoming link; ``None`` if the server does not answer."""
        query = f"SELECT count() FROM system.replication_links WHERE name = '{link}' AND direction = 'in'"
        try:
            return bool(self.clients[name][number].value(query))
        except PandoError:
            return None

    def try_once(self, name: str, rng: random.Random, statement: str, what: str) -> bool:
        """Sends a statement to a server of a cluster; tells whether it was acknowledged."""
        return self.try_at(name, rng.randrange(_REPLICAS), statement, what)

    def try_at(self, name: str, number: int, statement: str, what: str) -> bool:
        """Sends a statement to one server; tells whether it was acknowledged."""
        try:
            with self.statements[name].running():
                self.clients[name][number].execute(statement)
        except PandoError as error:
            self.count(f"{what}: {error.name}")
            return False
        self.count(f"{what}: acknowledged")
        return True

    def close(self) -> None:
        """Ends all processes."""
        for clients in self.clients.values():
            for client in clients:
                client.close()
        for cluster in self.clusters.values():
            cluster.stop(grace_seconds=5)
        self.network.close()

    # -- checking ----------------------------------------------------------------------------------------------------

    def _check(
        self,
        writers: Sequence[Writer],
        latest: Sequence[LatestWriter],
        owners: Sequence[PartitionOwner],
        columns: ColumnOwner,
        moved: Rows,
    ) -> list[str]:
        wrong: list[str] = []
        if "switched" in self.tables:
            wrong += self._compare("SELECT p, k, v FROM switched", lambda found: Difference.of(found, moved))
        for table in ("everywhere", "ringed"):
            rows = {key: value for writer in writers for key, value in writer.rows[table].items()}
            wrong += self._compare(f"SELECT p, k, v FROM {table}", lambda found, rows=rows: Difference.of(found, rows))
        copied = {key: value for owner in owners for key, value in owner.rows.items()}
        extra = "".join(f" + (e{number} != k + {number})" for number in columns.columns)
        wrong += self._compare(
            f"SELECT p, k, if(0{extra} = 0, v, 18446744073709551615) FROM copied",
            lambda found: Difference.of(found, copied),
        )
        query = "SELECT p, k, v FROM latest FINAL ORDER BY p, k"
        wrong += self._compare(query, lambda found: _compare_latest(found, latest))
        if len({str(client.rows(query)) for name in NAMES for client in self.clients[name]}) > 1:
            wrong.append("replicas show different rows of latest")
        return wrong

    def _compare(self, query: str, compare: Callable[[Sequence[tuple[int, int, int]]], Difference]) -> list[str]:
        """Waits until the answer of every replica is right; says of those that are not what is wrong."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            wrong = [
                f"{query} on {name} r{number}: {difference}"
                for name in NAMES
                for number, client in enumerate(self.clients[name], 1)
                if (difference := _ask(client, query, compare))
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

    def describe_queues(self) -> list[str]:
        """Says what each replica has still to do, and how its tables are."""
        queries = (
            "SELECT table, position, type, new_part_name, num_tries, last_exception, postpone_reason "
            "FROM system.replication_queue ORDER BY table, position LIMIT 20",
            "SELECT table, is_readonly, log_pointer, log_max_index, queue_size, lost_part_count, active_replicas "
            "FROM system.replicas ORDER BY table",
        )
        return [
            f"{name} r{number}: {row}"
            for name in NAMES
            for number, client in enumerate(self.clients[name], 1)
            for query in queries
            for row in client.rows(query)
        ]


class TargetOwner:
    """Loses the table of a target and makes it anew, or has the source copied over it."""

    def __init__(
        self, chaos: LinksChaos, columns: ColumnOwner, rng: random.Random, wait: Callable[[float], object]
    ) -> None:
        self._chaos = chaos
        self._columns = columns
        self._random = rng
        self._wait = wait

    def step(self) -> None:
        """Loses one target's table, or copies it anew."""
        self._wait(self._random.uniform(*_TARGET_SECONDS))
        name = self._random.choice(NAMES[1:])
        if self._random.random() < 0.5:
            statement = f"SYSTEM BOOTSTRAP REPLICATION LINK {_COPY}"
            if self._chaos.try_once(name, self._random, statement, "SYSTEM BOOTSTRAP"):
                self._chaos.count_fault("a target's table was copied anew")
            return
        for number in range(_REPLICAS):
            self._insist_at(name, number, "DROP TABLE IF EXISTS copied SYNC", "DROP TABLE")
        engine = _TABLES["copied"]
        for number in range(_REPLICAS):
            self._insist_at(
                name, number, f"CREATE TABLE IF NOT EXISTS copied {_COLUMNS} ENGINE = {engine}", "CREATE TABLE"
            )
        forget = f"DROP REPLICATION LINK IF EXISTS '{name}/{_COPY}'"  # the source may not have been told
        self._chaos.insist(SOURCE, self._random, forget, "DROP REPLICATION LINK")
        self._chaos.insist(name, self._random, _create_copy(name), "CREATE REPLICATION LINK")
        self._columns.repair(name)
        self._chaos.count_fault("a target's table was lost and made anew")

    def _insist_at(self, name: str, number: int, statement: str, what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._chaos.try_at(name, number, statement, what):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not acknowledge {statement}")
            time.sleep(_RETRY_SECONDS)


_COPY = "copy"


def _create_link(name: str, table: str, source: str, settings: str) -> str:
    return f"CREATE REPLICATION LINK IF NOT EXISTS {name} ON {table} FROM CLUSTER {source} SETTINGS {settings}"


def _create_copy(target: str) -> str:
    return _create_link(_COPY, "copied", SOURCE, f"replicate_ddl = {int(target == FOLLOWER)}")


@dataclass(frozen=True)
class Difference:
    """How the rows of a replica differ from what they must be."""

    lost: Sequence[tuple[int, int]] = ()
    doubled: Sequence[tuple[int, int]] = ()
    more: Sequence[tuple[int, int]] = ()
    different: Sequence[tuple[int, int]] = ()
    problem: str = ""
    """Why nothing is known of the rows."""

    @classmethod
    def of(cls, found: Sequence[tuple[int, int, int]], expected: Rows) -> Difference:
        """Compares rows (partition, key, value) with what is expected."""
        times = Counter((p, k) for p, k, _ in found)
        values = {(p, k): v for p, k, v in found}
        return cls(
            sorted(expected.keys() - times.keys()),
            sorted(key for key, count in times.items() if count > 1),
            sorted(times.keys() - expected.keys()),
            sorted(key for key in expected.keys() & times.keys() if expected[key] != values[key]),
        )

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.more or self.different or self.problem)

    def __str__(self) -> str:
        parts = {"lost": self.lost, "doubled": self.doubled, "too many": self.more, "different": self.different}
        return self.problem or ", ".join(f"{what} {len(keys)} {keys[:5]}" for what, keys in parts.items())


def _compare_latest(found: Sequence[tuple[int, int, int]], writers: Sequence[LatestWriter]) -> Difference:
    """Compares with the last value of each key; of a key that all write, with the last value of one of them."""
    partition = LatestWriter.PARTITION
    values = {(p, k): v for p, k, v in found}
    expected = {(partition, key): value for writer in writers for key, value in writer.own.items() if value is not None}
    for key in {key for writer in writers for key in writer.shared}:
        possible = [writer.shared[key] for writer in writers if key in writer.shared]
        value = values.get((partition, key))
        expected[partition, key] = value if value in possible else possible[0]
    return Difference.of(found, expected)


def _ask(client: HttpClient, query: str, compare: Callable[[Sequence[tuple[int, int, int]]], Difference]) -> Difference:
    try:
        rows = client.rows(query)
    except PandoError as error:
        return Difference(problem=f"no answer: {error}")
    return compare([(int(p), int(k), int(v)) for p, k, v in rows])


def main() -> int:
    """Runs chaos; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="a new directory for the servers' files and logs, kept at the end")
    parser.add_argument("--switches", action="store_true", help="switch a table over every now and then, too")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-chaos-")))
        chaos = LinksChaos(directory, options.seed, switches=options.switches)
        stack.callback(chaos.close)
        wrong = chaos.run(options.seconds)
        for counts in (chaos.faults, chaos.counts):
            for what, count in sorted(counts.items()):
                print(f"{count:>7,} {what}")
        print(f"{chaos.faults.total():,} faults, acknowledged {chaos.acknowledged:,} statements")
        for text in (*wrong, *(chaos.describe_links() + chaos.describe_queues() if wrong else ())):
            print(f"WRONG: {text}", file=sys.stderr)
        if not wrong:
            print("lost 0, doubled 0, different 0 on every replica of every cluster")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
