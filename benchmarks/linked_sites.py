"""Clusters of one server each for the benchmarks of links, and what those measure alike."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.measure import process_cpu_seconds, seconds
from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories
from engine.cluster.os_processes import list_process_tree

CLIENTS = 8
INSERTS_PER_CLIENT = 60
RATE_SECONDS = 8.0
_WAIT_SECONDS = 300.0
_BULK_POLL_SECONDS = 0.02
_LAG_POLL_SECONDS = 0.004
"""Asking how many rows are there takes CPU itself, of which there is little at 100 INSERTs a second."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Site:
    """One cluster of one server, and a client of it."""

    name: str
    cluster: Cluster
    url: str
    client: httpx.Client

    def run(self, sql: str, data: bytes = b"") -> str:
        answer = self.client.post(self.url, params={"query": sql}, content=data)
        if answer.status_code != 200:
            raise RuntimeError(f"{self.name}: {answer.text[:500]}")
        return answer.text.strip()

    def insert(self, table: str, key: int, settings: str = "") -> None:
        """Inserts one row."""
        self.run(f"INSERT INTO {table} {settings} FORMAT TabSeparated", f"{key}\tvalue\n".encode())

    def create(self, table: str, replica: str = "{replica}") -> None:
        self.run(
            f"CREATE TABLE {table} (k UInt64, v String) ENGINE = ReplicatedMergeTree('/bench/{table}', '{replica}') "
            "ORDER BY k"
        )

    def link(self, table: str, source: Site) -> str:
        """Links a table to the source's of the same name; returns the link's name."""
        name = f"{table}_from_{source.name}"
        self.run(f"CREATE REPLICATION LINK {name} ON {table} FROM CLUSTER {source.name}")
        return name

    def count(self, table: str) -> int:
        return int(self.run(f"SELECT count() FROM {table}"))

    def cpu_seconds(self) -> float:
        """CPU time of the server's processes so far."""
        return sum(map(process_cpu_seconds, list_process_tree(self.cluster.status()[0].pid)))

    def part_directory(self, table: str) -> Path:
        """Where the only part of a table lies."""
        (path,) = self.run(f"SELECT path FROM system.parts WHERE table = '{table}' AND active").splitlines()
        return Path(path)


@contextmanager
def linked_sites(directory: Path, names: Sequence[str]) -> Iterator[list[Site]]:
    """Starts a cluster of each name; all know each other."""
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=_WAIT_SECONDS, trust_env=False))
        sites = [_start(directory / name, name, stack, client) for name in names]
        link_directories([site.cluster.directory for site in sites])
        yield sites


def _start(directory: Path, name: str, stack: ExitStack, client: httpx.Client) -> Site:
    cluster = Cluster(directory)
    stack.callback(cluster.stop)
    cluster.start(1, name=name, overrides={"workers": 0})
    return Site(name, cluster, f"http://127.0.0.1:{cluster.status()[0].port}/", client)


def new_name() -> str:
    """Returns a table's name that nothing has yet."""
    return f"t{next(_numbers)}"


def make_table(source: Site, targets: Sequence[Site]) -> str:
    """Makes a table at the source, and linked ones at the targets."""
    table = new_name()
    source.create(table)
    for target in targets:
        target.create(table)
        target.link(table, source)
    return table


def drop_table(table: str, sites: Sequence[Site]) -> None:
    """Ends what goes on beside the next measurement."""
    for site in sites:
        site.run(f"DROP TABLE {table} SYNC")


def insert_all(source: Site, table: str, settings: str = "") -> float:
    """Returns the seconds that an INSERT takes, of several clients at once."""

    def insert_some(number: int) -> None:
        for key in range(INSERTS_PER_CLIENT):
            source.insert(table, number * 1000 + key, settings)

    def insert_everything() -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(insert_some, range(CLIENTS)))

    return seconds(insert_everything) / (CLIENTS * INSERTS_PER_CLIENT)


def add_replica(site: Site, table: str) -> None:
    """Makes a second replica of a table, on the same server."""
    engine = f"ReplicatedMergeTree('/bench/{table}', 'second')"
    site.run(f"CREATE TABLE {table}_second AS {table} ENGINE = {engine} ORDER BY k")


def measure_lags(
    insert: Callable[[int], object], rate: float, counts: Sequence[Callable[[], int]]
) -> list[list[float]]:
    """Inserts rows at a rate; returns for each way to count the rows the seconds until it counted each one."""
    answered: dict[int, float] = {}
    seen: list[dict[int, float]] = [{} for _ in counts]
    total = int(rate * RATE_SECONDS)

    def watch(at: int) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while len(seen[at]) < total and time.monotonic() < deadline:
            found = counts[at]()
            now = time.perf_counter()
            for key in range(len(seen[at]), found):
                seen[at][key] = now
            time.sleep(_LAG_POLL_SECONDS)

    with ThreadPoolExecutor(len(counts)) as pool:
        watching = [pool.submit(watch, at) for at in range(len(counts))]
        start = time.perf_counter()
        for key in range(total):
            time.sleep(max(0.0, start + key / rate - time.perf_counter()))
            insert(key)
            answered[key] = time.perf_counter()
        for each in watching:
            each.result()
    return [[max(0.0, found[key] - answered[key]) for key in range(total)] for found in seen]


def find_at_share(values: Sequence[float], share: float) -> float:
    """Returns the value below which this share of the values lies."""
    return max(1e-4, sorted(values)[min(len(values) - 1, int(share * len(values)))])


def wait(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(_BULK_POLL_SECONDS)
