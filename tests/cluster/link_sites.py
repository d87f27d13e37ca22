"""Linked clusters of two replicas each, as the work of ``tests.cluster.chaos_links`` sees them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.cluster_state import load_state, lock_cluster, save_state
from engine.cluster.linked_directories import link_directories
from engine.cluster.replica_config import write_replica_config
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.chaos_faults import SESSION_SECONDS
from tests.cluster.link_faults import Statements
from tests.cluster.link_network import LinkNetwork
from tests.cluster.link_rows import Compare, Difference

NAMES = ("east", "west", "north")
REPLICAS = 2
SETTLE_SECONDS = 240.0
PATIENCE_SECONDS = 900.0
"""A statement that is not acknowledged for so long is a broken promise too; a machine may be very slow."""
_RETRY_SECONDS = 0.2


class Work(Protocol):
    """Tables, what clients do to them, and what they must hold in the end."""

    tables: Mapping[str, str]
    """Engines by name."""
    wipeable: int
    """So many replicas of a cluster may be wiped, one after the other."""

    def create(self) -> None:
        """Makes the tables and their links."""

    def steps(self) -> Sequence[Step]:
        """Returns what is done again and again, each by a thread of its own."""

    def check(self) -> list[str]:
        """Returns what is wrong when all clients and faults have ended."""


class Step(Protocol):
    def __call__(self) -> None:
        """Does something once."""


class LinkedSites:
    """The clusters and their network. Thread-safe."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        """How often statements were answered how."""
        self.faults: Counter[str] = Counter()
        self.acknowledged = 0
        self.problems: list[str] = []
        self.end = threading.Event()
        self.network = LinkNetwork(NAMES)
        self.clusters = {name: Cluster(directory / name) for name in NAMES}
        self.clients: dict[str, list[HttpClient]] = {}
        self.statements = {name: Statements() for name in NAMES}
        for name in NAMES:
            self._start(name)
        link_directories([cluster.directory for cluster in self.clusters.values()])
        for name in NAMES:
            self._reroute(name)

    def _start(self, name: str) -> None:
        overrides = {
            "zookeeper": {"session_timeout_ms": int(1000 * SESSION_SECONDS)},
            "workers": 0,
            "interserver_http_host": self.network.gateways[name].host,
        }
        cluster = self.clusters[name]
        replicas = [
            status for status in cluster.start(REPLICAS, overrides=overrides, name=name) if status.name != ZOOKEEPER
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

    def create_tables(self, tables: Mapping[str, str], columns: str) -> None:
        """Makes tables on every server; ``tables`` has engines by name."""
        for name in NAMES:
            for client in self.clients[name]:
                for table, engine in tables.items():
                    client.execute(f"CREATE TABLE {table} {columns} ENGINE = {engine}")

    def another_random(self) -> random.Random:
        """Returns a generator for one client, or one kind of fault."""
        return random.Random(self._random.getrandbits(32))

    def wait(self, seconds: float) -> None:
        """Waits so long, or until the run ends."""
        self.end.wait(seconds)

    def fail(self, problem: str) -> None:
        """Ends the run with a broken promise."""
        self.problems.append(problem)
        self.end.set()

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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.try_once(name, rng, statement, what):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not acknowledge {statement[:200]}")
            time.sleep(_RETRY_SECONDS)
        self.note_acknowledged()

    def insist_at(self, name: str, number: int, statement: str, what: str) -> None:
        """Repeats a statement on one server until it acknowledges it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.try_at(name, number, statement, what):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not acknowledge {statement}")
            time.sleep(_RETRY_SECONDS)

    def note_acknowledged(self) -> None:
        """Counts a change that a client was told is stored."""
        with self._lock:
            self.acknowledged += 1

    def try_once(self, name: str, rng: random.Random, statement: str, what: str) -> bool:
        """Sends a statement to a server of a cluster; tells whether it was acknowledged."""
        return self.try_at(name, rng.randrange(REPLICAS), statement, what)

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

    def ask(self, name: str, number: int, statement: str, what: str) -> list[list[object]] | None:
        """Returns the rows of a statement's answer from one server; ``None`` if it was not acknowledged."""
        try:
            with self.statements[name].running():
                found = self.clients[name][number].rows(statement)
        except PandoError as error:
            self.count(f"{what}: {error.name}")
            return None
        self.count(f"{what}: acknowledged")
        return found

    def compare(self, query: str, compare: Compare) -> list[str]:
        """Waits until the answer of every replica is right; says of those that are not what is wrong."""
        deadline = time.monotonic() + SETTLE_SECONDS
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

    def describe(self) -> list[str]:
        """Says what the links say of themselves, what each replica has still to do, and how its tables are."""
        queries = (
            "SELECT name, upstream_status, message, lag, errors, last_exception "
            "FROM system.replication_links WHERE direction = 'in' ORDER BY name",
            "SELECT group, message FROM system.link_groups",
            "SELECT table, position, type, new_part_name, num_tries, last_exception, postpone_reason "
            "FROM system.replication_queue ORDER BY table, position LIMIT 20",
            "SELECT table, is_readonly, log_pointer, log_max_index, queue_size, lost_part_count, active_replicas "
            "FROM system.replicas ORDER BY table",
        )
        found = []
        for name in NAMES:
            for number, client in enumerate(self.clients[name], 1):
                for query in queries:
                    try:
                        rows = client.rows(query)
                    except PandoError as error:
                        rows = [[str(error)]]
                    found += [f"{name} r{number}: {row}" for row in rows]
        return found

    def close(self) -> None:
        """Ends all processes."""
        for clients in self.clients.values():
            for client in clients:
                client.close()
        for cluster in self.clusters.values():
            cluster.stop(grace_seconds=5)
        self.network.close()


def create_link(name: str, table: str, source: str, settings: str) -> str:
    """Returns the statement that makes a link."""
    return f"CREATE REPLICATION LINK IF NOT EXISTS {name} ON {table} FROM CLUSTER {source} SETTINGS {settings}"


def _ask(client: HttpClient, query: str, compare: Compare) -> Difference:
    try:
        rows = client.rows(query)
    except PandoError as error:
        return Difference(problem=f"no answer: {error}")
    return compare([(int(str(p)), int(str(k)), int(str(v))) for p, k, v in rows])
