"""What links between clusters cost: INSERTs at the source, transfer, a copy of a table, lag, idle links.

All clusters are processes of this machine, spoken to over HTTP. Each figure compares with the same work without links,
in turn, so its ratio says what a link takes away. Source and target share the machine's cores: what a link costs at
either end slows the other.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.measure import Figure, process_cpu_seconds, seconds
from engine.cluster.cluster import Cluster
from engine.cluster.cluster_state import find_free_ports
from engine.cluster.linked_directories import link_directories
from engine.cluster.os_processes import list_process_tree

NAMES = ("west", "east", "north", "south")
CLIENTS = 8
INSERTS_PER_CLIENT = 60
BULK_ROWS = 1_000_000
COPIED_ROWS = 10_000_000
_TEXT = "concat(hex(SHA256(toString(number))), hex(MD5(toString(number))))"
"""96 characters that compression halves at most."""
RUNS = 3
RATES = (1, 10, 100)
"""INSERTs a second."""
RATE_SECONDS = 8.0
IDLE_LINKS = 200
IDLE_SECONDS = 20.0
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
        return sum(map(process_cpu_seconds, list_process_tree(self.cluster.status()[0].pid)))

    def part_directory(self, table: str) -> Path:
        """Where the only part of a table lies."""
        (path,) = self.run(f"SELECT path FROM system.parts WHERE table = '{table}' AND active").splitlines()
        return Path(path)


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
        for _ in range(RUNS):
            without.append(_insert_all(source, _make_table(source, ())))
            table = _make_table(source, targets[:links])
            with_links.append(_insert_all(source, table))
            _drop_table(table, [*targets[:links], source])
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


def _drop_table(table: str, sites: Sequence[Site]) -> None:
    """Ends what goes on beside the next measurement."""
    for site in sites:
        site.run(f"DROP TABLE {table} SYNC")


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
    """A block of files over a link, against an HTTP copy of the same files, both durable. Aim: 0.7."""
    source, target = sites[:2]
    ours, theirs, size = [], [], 0
    for _ in range(RUNS):
        table = _make_table(source, [target])
        link = f"{table}_from_{source.name}"
        target.run(f"ALTER REPLICATION LINK {link} DISABLE")
        source.run(f"INSERT INTO {table} SELECT number, {_TEXT} FROM numbers({BULK_ROWS})")
        theirs.append(_copy_over_http(source.part_directory(table), target.cluster.directory / "copied"))
        size = int(source.run(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE table = '{table}' AND active"))

        def bring(link: str = link, table: str = table) -> None:
            target.run(f"ALTER REPLICATION LINK {link} ENABLE")
            _wait(lambda: target.count(table) == BULK_ROWS)

        ours.append(seconds(bring))
        _drop_table(table, [target, source])
    return Figure(f"transfer of {size >> 20} MB", "HTTP copy", statistics.median(ours), statistics.median(theirs))


def _copy_over_http(directory: Path, copy: Path) -> float:
    """Seconds in which another process sends the files, and this one writes them durably."""
    (port,) = find_free_ports(1)
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(directory)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    copy.mkdir(exist_ok=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            _wait(lambda: _answers(client))
            return seconds(lambda: [_copy_file(client, file.name, copy / file.name) for file in directory.iterdir()])
    finally:
        server.kill()
        server.wait()


def _answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.head("/").status_code == 200
    return False


def _copy_file(client: httpx.Client, name: str, copy: Path) -> None:
    with client.stream("GET", f"/{name}") as answer, open(copy, "wb") as out:
        for piece in answer.iter_raw(1 << 20):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())


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

    copies, clones = [], []
    for _ in range(RUNS):
        copies.append(seconds(copy))
        clones.append(seconds(clone))
        target.run(f"DROP TABLE {table} SYNC")
        source.run(f"DROP TABLE {table}_second SYNC")
    source.run(f"DROP TABLE {table} SYNC")
    name = f"copy of {COPIED_ROWS / 1e6:g} M rows"
    return Figure(name, "clone of a replica", statistics.median(copies), statistics.median(clones))


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
        source.run(f"DROP TABLE {table}_second SYNC")
        _drop_table(table, [target, source])


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
            time.sleep(_LAG_POLL_SECONDS)

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
        time.sleep(_BULK_POLL_SECONDS)
