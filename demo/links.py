"""Three linked clusters, one for each airport of New York: writes on all, one killed and caught up, all equal.

Every cluster has a link from each of the others, so flights that one takes are in all three. Every claim is checked;
the first that does not hold ends the demo with exit code 1. Everything it started is ended.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from demo.__main__ import ClaimError, claim, console, say, show
from demo.flights import CREATE_TABLE, blocks, load_flights
from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

AIRPORTS = {"newark": "EWR", "kennedy": "JFK", "laguardia": "LGA"}
VICTIM = "laguardia"
BLOCK_ROWS = 12_000
WAIT_SECONDS = 60.0
_CONTENT = """
SELECT count(), sum(distance), sum(air_time), uniqExact(tailnum), min(time_hour), max(time_hour) FROM flights
"""


class LinksDemo:
    """The three clusters, with a client for each."""

    def __init__(self, directory: Path) -> None:
        self.clusters = {name: Cluster(directory / name) for name in AIRPORTS}
        self.clients: dict[str, HttpClient] = {}
        self.acknowledged = dict.fromkeys(AIRPORTS, 0)

    def start(self, stack: ExitStack) -> None:
        for name, cluster in self.clusters.items():
            stack.callback(cluster.stop)
            cluster.start(1, overrides={"workers": 0}, name=name)
            self.clients[name] = stack.enter_context(HttpClient(port=cluster.status()[0].port))

    def link(self) -> None:
        link_directories([cluster.directory for cluster in self.clusters.values()])
        for client in self.clients.values():
            client.execute(CREATE_TABLE)
        for name, client in self.clients.items():
            for source in AIRPORTS:
                if source != name:
                    client.execute(
                        f"CREATE REPLICATION LINK from_{source} ON flights FROM CLUSTER {source} SETTINGS two_way = 1"
                    )

    def insert(self, name: str, block: bytes, rows: int) -> None:
        self.clients[name].insert("flights", block, "ArrowStream")
        self.acknowledged[name] += rows

    def kill(self, name: str) -> None:
        for member in self.clusters[name].status():
            self.clusters[name].kill(member.name)

    def wait_equal(self, names: list[str]) -> tuple[int, float]:
        """Waits until these clusters have all that they acknowledged; returns the rows and the seconds it took."""
        codes = ", ".join(f"'{AIRPORTS[name]}'" for name in names)
        expected = sum(self.acknowledged[name] for name in names)

        def has_all(name: str) -> bool:
            return self.clients[name].value(f"SELECT count() FROM flights WHERE origin IN ({codes})") == expected

        return expected, wait_until(lambda: all(map(has_all, names)), f"equal rows on {', '.join(names)}")


def wait_until(condition: Callable[[], bool], what: str) -> float:
    """Waits; returns the seconds it took. Raises ``ClaimError`` after a minute."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > WAIT_SECONDS:
            raise ClaimError(f"{what} did not come within {WAIT_SECONDS:g} s")
        time.sleep(0.02)
    return time.monotonic() - started


def split(flights: pa.Table) -> dict[str, list[tuple[bytes, int]]]:
    """Returns each airport's flights in blocks, with the rows of each block."""
    pieces = {}
    for name, code in AIRPORTS.items():
        own = flights.filter(pc.equal(flights["origin"], code))
        sizes = [min(BLOCK_ROWS, own.num_rows - first) for first in range(0, own.num_rows, BLOCK_ROWS)]
        pieces[name] = list(zip(blocks(own, BLOCK_ROWS), sizes, strict=True))
    return pieces


def replicate(demo: LinksDemo) -> None:
    pieces = split(load_flights())
    rounds = max(map(len, pieces.values()))
    killed_in, restarted_in = rounds // 3, rounds * 2 // 3
    say(f"every cluster takes the flights of its airport, {sum(map(len, pieces.values()))} blocks in all")
    missed: list[tuple[bytes, int]] = []
    for number in range(rounds):
        if number == killed_in:
            demo.kill(VICTIM)
            say(f"[bold]{VICTIM}[/] killed with SIGKILL, its ZooKeeper too; the others go on")
        if number == restarted_in:
            rows, lag = demo.wait_equal([name for name in AIRPORTS if name != VICTIM])
            say(f"the others have each other's flights ({rows:,} rows, {lag:.1f} s after the last block)")
            demo.clusters[VICTIM].start(1)
            say(f"[bold]{VICTIM}[/] restarted; it sends what it could not")
            for block, block_rows in missed:
                demo.insert(VICTIM, block, block_rows)
        for name, own in pieces.items():
            if number < len(own):
                if name == VICTIM and killed_in <= number < restarted_in:
                    missed.append(own[number])
                else:
                    demo.insert(name, *own[number])
    rows, lag = demo.wait_equal(list(AIRPORTS))
    say(f"all {rows:,} flights are in all clusters {lag:.1f} s after the last block")


def compare(demo: LinksDemo) -> None:
    contents = {name: client.rows(_CONTENT)[0] for name, client in demo.clients.items()}
    show(
        "The same flights everywhere",
        ["cluster", "flights", "miles", "minutes", "aircraft", "first", "last"],
        [[name, *content] for name, content in contents.items()],
    )
    first, *others = contents.values()
    claim(all(other == first for other in others), "all clusters have the same rows")
    rows = [
        [name, *row]
        for name, client in demo.clients.items()
        for row in client.rows(
            "SELECT name, peer, upstream_status, lag, rows_applied FROM system.replication_links "
            "WHERE direction = 'in' ORDER BY name"
        )
    ]
    show("Links", ["at", "link", "from", "status", "lag", "rows brought"], rows)
    claim(all(row[3] == "follow" for row in rows), "every link follows its source")


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pando-demo-") as directory, ExitStack() as stack:
        demo = LinksDemo(Path(directory))
        try:
            say(f"starting three clusters, each with its ZooKeeper: {', '.join(AIRPORTS)}")
            demo.start(stack)
            say("linking each to the others")
            demo.link()
            port = demo.clients["newark"].port
            say(f"http://127.0.0.1:{port}/links draws them")
            replicate(demo)
            compare(demo)
        except (ClaimError, PandoError) as error:
            console.print(f"[bold red]failed:[/] {error}")
            return 1
    say(f"[bold green]everything held[/]; {time.monotonic() - started:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
