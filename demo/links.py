"""Three linked clusters, one for each airport of New York: writes on all, one killed and caught up, all equal.

Every cluster has a link from each of the others, so flights that one takes are in all three. Then the source of a
one-way table is lost, and its writer moves to another cluster. Every claim is checked; the first that does not hold
ends the demo with exit code 1. Everything it started is ended.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from demo.__main__ import ClaimError, claim, console, say, show
from demo.flights import blocks, load_flights
from demo.linked_airports import AIRPORTS, LinksDemo, wait_until
from demo.lost_cluster import lose_a_cluster
from parts.common.errors import PandoError

VICTIM = "laguardia"
BLOCK_ROWS = 12_000
_CONTENT = """
SELECT count(), sum(distance), sum(air_time), uniqExact(tailnum), min(time_hour), max(time_hour) FROM flights
"""


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
    wait_until(lambda: all(row[3] == "follow" for row in _list_links(demo)), "links that follow their sources")
    rows = _list_links(demo)
    show("Links", ["at", "link", "from", "status", "lag", "rows brought"], rows)
    claim(all(row[3] == "follow" for row in rows), "every link follows its source")


def _list_links(demo: LinksDemo) -> list[list[object]]:
    query = (
        "SELECT name, peer, upstream_status, lag, rows_applied FROM system.replication_links "
        "WHERE direction = 'in' ORDER BY name"
    )
    return [[name, *row] for name, client in demo.clients.items() for row in client.rows(query)]


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
            lose_a_cluster(demo)
        except (ClaimError, PandoError) as error:
            console.print(f"[bold red]failed:[/] {error}")
            return 1
    say(f"[bold green]everything held[/]; {time.monotonic() - started:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
