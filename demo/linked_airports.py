"""The three clusters of the demo of links, each with its client."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from demo.__main__ import ClaimError
from demo.flights import CREATE_TABLE
from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories
from engine.http_client.http_client import HttpClient

AIRPORTS = {"newark": "EWR", "kennedy": "JFK", "laguardia": "LGA"}
WAIT_SECONDS = 60.0


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
