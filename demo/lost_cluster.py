"""A source is lost: a target is promoted, writer and readers move to it, and the old source comes back as a target."""

from __future__ import annotations

import time

from demo.__main__ import claim, say, show
from demo.flights import CREATE_TABLE, blocks, load_flights
from demo.linked_airports import LinksDemo, wait_until
from parts.common.errors import PandoError

LOST, NEW, SIBLING = "newark", "kennedy", "laguardia"
BLOCK_ROWS = 5_000
BLOCKS = 12
_COUNT = "SELECT count() FROM departures"


def lose_a_cluster(demo: LinksDemo) -> None:
    """Links a table one way, kills its source, and goes on at a target."""
    say(f"a second table, written at [bold]{LOST}[/] alone; the others only follow it")
    for name, client in demo.clients.items():
        client.execute(CREATE_TABLE.replace("flights", "departures"))
        if name != LOST:
            client.execute(f"CREATE REPLICATION LINK departures ON departures FROM CLUSTER {LOST}")
    lost = list(blocks(load_flights().slice(0, BLOCKS * BLOCK_ROWS), BLOCK_ROWS))
    before = BLOCKS // 2
    for block in lost[:before]:
        demo.clients[LOST].insert("departures", block, "ArrowStream")
    for name in (NEW, SIBLING):
        demo.clients[name].execute("SYSTEM WAIT REPLICATION LINK departures")
    demo.clients[NEW].execute("ALTER REPLICATION LINK departures DISABLE")
    demo.clients[LOST].insert("departures", lost[before], "ArrowStream")
    wait_until(
        lambda: demo.clients[SIBLING].value(_COUNT) == (before + 1) * BLOCK_ROWS, f"the newest block at {SIBLING}"
    )
    demo.clients[NEW].execute("ALTER REPLICATION LINK departures ENABLE")
    demo.kill(LOST)
    say(f"[bold]{LOST}[/] is lost, its ZooKeeper too")
    _promote(demo)
    for block in lost[before:]:
        demo.clients[NEW].insert("departures", block, "ArrowStream")
    expected = BLOCKS * BLOCK_ROWS
    claim(
        demo.clients[NEW].value(_COUNT) == expected,
        f"the writer repeated its last block at {NEW} and went on: {expected:,} rows, none twice",
    )
    seconds = wait_until(lambda: demo.clients[SIBLING].value(_COUNT) == expected, f"the rows at {SIBLING}")
    say(f"{SIBLING} follows {NEW} by itself ({seconds:.1f} s)")
    _rejoin(demo, expected)


def _promote(demo: LinksDemo) -> None:
    began = time.monotonic()
    answer = demo.clients[NEW].rows("SYSTEM PROMOTE REPLICATION LINK departures")
    say(f"PROMOTE at [bold]{NEW}[/] took {time.monotonic() - began:.1f} s: it takes writes now")
    show("What the promotion says", ["fact", "value"], [list(map(str, row)) for row in answer])


def _rejoin(demo: LinksDemo, expected: int) -> None:
    demo.clusters[LOST].start(1)
    client = demo.clients[LOST]

    def is_closed() -> bool:
        try:
            client.execute("SYSTEM REJOIN REPLICATION LINK departures FROM CLUSTER " + NEW)
        except PandoError:
            return False
        return True

    wait_until(is_closed, f"{LOST} to hear of the fork")
    client.execute(f"SYSTEM REJOIN REPLICATION LINK departures FROM CLUSTER {NEW} DETACH TAIL")
    seconds = wait_until(lambda: client.value(_COUNT) == expected, f"the rows at {LOST}")
    say(f"[bold]{LOST}[/] is back, and follows {NEW} ({seconds:.1f} s)")
    query = "SELECT count(), sum(distance), max(time_hour) FROM departures"
    contents = {name: each.rows(query)[0] for name, each in demo.clients.items()}
    claim(all(each == contents[NEW] for each in contents.values()), "the table is the same in all clusters again")
