"""What links between clusters cost: INSERTs at the source, transfer, a copy of a table, lag, idle links.

All clusters are processes of this machine, spoken to over HTTP. Each figure compares with the same work without links,
so its ratio says what a link takes away.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.measure import Figure, seconds
from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories

NAMES = ("west", "east", "north", "south")
CLIENTS = 8
INSERTS_PER_CLIENT = 60
BULK_ROWS = 2_000_000
COPIED_ROWS = 10_000_000
RATES = (1, 10, 100)
"""INSERTs a second."""
RATE_SECONDS = 8.0
IDLE_LINKS = 200
IDLE_SECONDS = 20.0
_WAIT_SECONDS = 300.0
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

    def create(self, table: str, replica: str = "{replica}") -> None:
        self.run(
            f"CREATE TABLE {table} (k UInt64, v String) ENGINE = ReplicatedMergeTree('/bench/{table}', '{replica}') "
            "ORDER BY k"
        )

    def link(self, table: str, source: Site) -> None:
        self.run(f"CREATE REPLICATION LINK {table}_from_{source.name} ON {table} FROM CLUSTER {source.name}")

    def count(self, table: str) -> int:
        return int(self.run(f"SELECT count() FROM {table}"))

    def cpu_seconds(self) -> float:
        """CPU time of the server's processes so far."""
        process = psutil.Process(self.cluster.status()[0].pid)
        times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
        return sum(each.user + each.system for each in times)


def compare(directory: Path) -> Iterator[Figure]:
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=_WAIT_SECONDS, trust_env=False))
        sites = [_start(directory / name, name, stack, client) for name in NAMES]
        link_directories([site.cluster.directory for site in sites])
        yield from _compare_inserts(sites)
        yield _compare_transfer(sites)
        yield _compare_copy(sites)
        yield from _compare_lags(sites)
        yield _compare_idle(sites)


def _start(directory: Path, name: str, stack: ExitStack, client: httpx.Client) -> Site:
    cluster = Cluster(directory)
    stack.callback(cluster.stop)
    cluster.start(1, name=name, overrides={"workers": 0})
    return Site(name, cluster, f"http://127.0.0.1:{cluster.status()[0].port}/", client)


def _compare_inserts(sites: Sequence[Site]) -> Iterator[Figure]:
    """Throughput of single-row INSERTs with so many links, against none, in turn. Aim: a ratio of 0.9."""
    source, targets = sites[0], sites[1:]
    for links in (1, 3):
        with_links, without = [], []
        for _ in range(3):
            without.append(_insert_all(source, _make_table(source, ())))
            with_links.append(_insert_all(source, _make_table(source, targets[:links])))
        yield Figure(
            f"INSERTs of a source with {links} link{'s' if links > 1 else ''}", "no links",
            statistics.median(with_links), statistics.median(without),
        )  # fmt: skip


def _make_table(source: Site, targets: Sequence[Site]) -> str:
    table = f"t{next(_numbers)}"
    source.create(table)
    for target in targets:
        target.create(table)
        target.link(table, source)
    return table


def _insert_all(source: Site, table: str) -> float:
    """Seconds an INSERT, of several clients at once."""

    def insert_some(number: int) -> None:
        for key in range(INSERTS_PER_CLIENT):
            source.run(f"INSERT INTO {table} FORMAT TabSeparated", f"{number * 1000 + key}\tvalue\n".encode())

    def insert_everything() -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(insert_some, range(CLIENTS)))

    return seconds(insert_everything) / (CLIENTS * INSERTS_PER_CLIENT)


def _compare_transfer(sites: Sequence[Site]) -> Figure:
    """A block of files over a link, against an HTTP copy of files of the same size. Aim: 0.7."""
    source, target = sites[:2]
    table = _make_table(source, [target])
    target.run(f"ALTER REPLICATION LINK {table}_from_{source.name} DISABLE")
    source.run(f"INSERT INTO {table} SELECT number, randomPrintableASCII(100) FROM numbers({BULK_ROWS})")
    size = int(source.run(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE table = '{table}' AND active"))

    def bring() -> None:
        target.run(f"ALTER REPLICATION LINK {table}_from_{source.name} ENABLE")
        _wait(lambda: target.count(table) == BULK_ROWS)

    return Figure(f"transfer of {size >> 20} MB", "HTTP copy", seconds(bring), _copy_over_http(source, size))


def _copy_over_http(source: Site, size: int) -> float:
    """Seconds in which the server sends so many bytes, and this process writes them durably."""
    file = source.cluster.directory / "copied"
    source.run("SELECT 1")
    query = f"SELECT randomPrintableASCII({1 << 20}) FROM numbers({max(1, size >> 20)}) FORMAT RawBLOB"

    def copy() -> None:
        with source.client.stream("POST", source.url, content=query) as answer, open(file, "wb") as out:
            for piece in answer.iter_bytes(1 << 20):
                out.write(piece)
            out.flush()

    return seconds(copy)


def _compare_copy(sites: Sequence[Site]) -> Figure:
    """The copy of a table to an empty target, against the clone of a second replica. Aim: 0.8."""
    source, target = sites[:2]
    table = f"t{next(_numbers)}"
    source.create(table)
    source.run(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers({COPIED_ROWS})")
    source.run(f"OPTIMIZE TABLE {table} FINAL")

    def copy() -> None:
        target.create(table)
        target.link(table, source)
        _wait(lambda: target.count(table) == COPIED_ROWS)

    def clone() -> None:
        _add_replica(source, table)
        _wait(lambda: source.count(f"{table}_second") == COPIED_ROWS)

    return Figure(f"copy of {COPIED_ROWS // 10**6} M rows", "clone of a replica", seconds(copy), seconds(clone))


def _add_replica(site: Site, table: str) -> None:
    engine = f"ReplicatedMergeTree('/bench/{table}', 'second')"
    site.run(f"CREATE TABLE {table}_second AS {table} ENGINE = {engine} ORDER BY k")


def _compare_lags(sites: Sequence[Site]) -> Iterator[Figure]:
    """From the answer to an INSERT until the target shows it, at a rate; beside a second replica of the source."""
    source, target = sites[:2]
    for rate in RATES:
        table = _make_table(source, [target])
        _add_replica(source, table)
        far, near = _measure_lags(source, table, rate, [(target, table), (source, f"{table}_second")])
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            yield Figure(f"lag at {rate} INSERTs a second, {name}", "second replica", _at(far, share), _at(near, share))


def _measure_lags(source: Site, table: str, rate: int, places: Sequence[tuple[Site, str]]) -> list[list[float]]:
    """Inserts at the rate; returns for each place the seconds after which it showed each row."""
    answered: dict[int, float] = {}
    seen: list[dict[int, float]] = [{} for _ in places]
    total = int(rate * RATE_SECONDS)

    def watch(at: int) -> None:
        site, name = places[at]
        deadline = time.monotonic() + _WAIT_SECONDS
        while len(seen[at]) < total and time.monotonic() < deadline:
            count = site.count(name)
            now = time.perf_counter()
            for key in range(len(seen[at]), count):
                seen[at][key] = now
            time.sleep(0.002)

    with ThreadPoolExecutor(len(places)) as pool:
        watching = [pool.submit(watch, at) for at in range(len(places))]
        start = time.perf_counter()
        for key in range(total):
            time.sleep(max(0.0, start + key / rate - time.perf_counter()))
            source.run(f"INSERT INTO {table} FORMAT TabSeparated", f"{key}\tvalue\n".encode())
            answered[key] = time.perf_counter()
        for each in watching:
            each.result()
    return [[max(0.0, found[key] - answered[key]) for key in range(total)] for found in seen]


def _at(values: Sequence[float], share: float) -> float:
    return max(1e-4, sorted(values)[min(len(values) - 1, int(share * len(values)))])


def _compare_idle(sites: Sequence[Site]) -> Figure:
    """CPU of source and target with idle links, in shares of a core. Aim: below 0.05 each."""
    source, target = sites[:2]
    for _ in range(IDLE_LINKS):
        _make_table(source, [target])
    time.sleep(IDLE_SECONDS / 2)  # the links begin
    before = [site.cpu_seconds() for site in (source, target)]
    time.sleep(IDLE_SECONDS)
    used = [(site.cpu_seconds() - b) / IDLE_SECONDS for site, b in zip((source, target), before, strict=True)]
    return Figure(f"{IDLE_LINKS} idle links, CPU of the busier side", "the aim", max(used), 0.05, unit="core")


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(0.002)
