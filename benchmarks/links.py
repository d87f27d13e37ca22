"""What links between clusters cost: INSERTs at the source, transfer, a copy of a table, lag, idle links.

All clusters are processes of this machine, spoken to over HTTP. Each figure compares with the same work without links,
in turn, so its ratio says what a link takes away. Source and target share the machine's cores: what a link costs at
either end slows the other.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from benchmarks.linked_sites import (
    Site,
    add_replica,
    drop_table,
    find_at_share,
    insert_all,
    linked_sites,
    make_table,
    measure_lags,
    new_name,
    wait,
)
from benchmarks.measure import Figure, seconds
from engine.cluster.cluster_state import find_free_ports

NAMES = ("west", "east", "north", "south")
BULK_ROWS = 1_000_000
COPIED_ROWS = 10_000_000
_TEXT = "concat(hex(SHA256(toString(number))), hex(MD5(toString(number))))"
"""96 characters that compression halves at most."""
RUNS = 3
RATES = (1, 10, 100)
"""INSERTs a second."""
IDLE_LINKS = 200
IDLE_SECONDS = 20.0


def compare(directory: Path) -> Iterator[Figure]:
    with linked_sites(directory, NAMES) as sites:
        yield from _compare_inserts(sites)
        yield _compare_transfer(sites)
        yield _compare_copy(sites)
        yield from _compare_lags(sites)
        yield _compare_idle(sites)


def _compare_inserts(sites: Sequence[Site]) -> Iterator[Figure]:
    """Throughput of single-row INSERTs with so many links, against none, in turn. Aim: a ratio of 0.9."""
    source, targets = sites[0], sites[1:]
    for links in (1, 3):
        with_links, without = [], []
        for _ in range(RUNS):
            without.append(insert_all(source, make_table(source, ())))
            table = make_table(source, targets[:links])
            with_links.append(insert_all(source, table))
            drop_table(table, [*targets[:links], source])
        yield Figure(
            f"INSERTs of a source with {links} link{'s' if links > 1 else ''}", "no links",
            statistics.median(with_links), statistics.median(without),
        )  # fmt: skip


def _compare_transfer(sites: Sequence[Site]) -> Figure:
    """A block of files over a link, against an HTTP copy of the same files, both durable. Aim: 0.7."""
    source, target = sites[:2]
    ours, theirs, size = [], [], 0
    for _ in range(RUNS):
        table = make_table(source, [target])
        link = f"{table}_from_{source.name}"
        target.run(f"ALTER REPLICATION LINK {link} DISABLE")
        source.run(f"INSERT INTO {table} SELECT number, {_TEXT} FROM numbers({BULK_ROWS})")
        theirs.append(_copy_over_http(source.part_directory(table), target.cluster.directory / "copied"))
        size = int(source.run(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE table = '{table}' AND active"))

        def bring(link: str = link, table: str = table) -> None:
            target.run(f"ALTER REPLICATION LINK {link} ENABLE")
            wait(lambda: target.count(table) == BULK_ROWS)

        ours.append(seconds(bring))
        drop_table(table, [target, source])
    return Figure(f"transfer of {size >> 20} MB", "HTTP copy", statistics.median(ours), statistics.median(theirs))


def _copy_over_http(directory: Path, copy: Path) -> float:
    """Seconds in which another process sends the files, and this one writes them durably."""
    (port,) = find_free_ports(1)
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(directory)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    copy.mkdir(exist_ok=True)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            wait(lambda: _answers(client))
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
    table = new_name()
    source.create(table)
    source.run(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers({COPIED_ROWS})")
    source.run(f"OPTIMIZE TABLE {table} FINAL")

    def copy() -> None:
        target.create(table)
        target.link(table, source)
        wait(lambda: target.count(table) == COPIED_ROWS)

    def clone() -> None:
        add_replica(source, table)
        wait(lambda: source.count(f"{table}_second") == COPIED_ROWS)

    copies, clones = [], []
    for _ in range(RUNS):
        copies.append(seconds(copy))
        clones.append(seconds(clone))
        target.run(f"DROP TABLE {table} SYNC")
        source.run(f"DROP TABLE {table}_second SYNC")
    source.run(f"DROP TABLE {table} SYNC")
    name = f"copy of {COPIED_ROWS / 1e6:g} M rows"
    return Figure(name, "clone of a replica", statistics.median(copies), statistics.median(clones))


def _compare_lags(sites: Sequence[Site]) -> Iterator[Figure]:
    """From the answer to an INSERT until the target shows it, at a rate; beside a second replica of the source."""
    source, target = sites[:2]
    for rate in RATES:
        table = make_table(source, [target])
        add_replica(source, table)
        far, near = measure_lags(
            lambda key, table=table: source.insert(table, key),  # type: ignore[misc]
            rate,
            [lambda table=table: target.count(table), lambda table=table: source.count(f"{table}_second")],
        )
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            yield Figure(
                f"lag at {rate} INSERTs a second, {name}",
                "second replica",
                find_at_share(far, share),
                find_at_share(near, share),
            )
        source.run(f"DROP TABLE {table}_second SYNC")
        drop_table(table, [target, source])


def _compare_idle(sites: Sequence[Site]) -> Figure:
    """CPU of source and target with idle links, in shares of a core. Aim: below 0.05 each."""
    source, target = sites[:2]
    for _ in range(IDLE_LINKS):
        make_table(source, [target])
    time.sleep(IDLE_SECONDS / 2)  # the links begin
    before = [site.cpu_seconds() for site in (source, target)]
    time.sleep(IDLE_SECONDS)
    used = [(site.cpu_seconds() - b) / IDLE_SECONDS for site, b in zip((source, target), before, strict=True)]
    return Figure(f"{IDLE_LINKS} idle links, CPU of the busier side", "the aim", max(used), 0.05, unit="core")
