"""Random INSERTs at three clusters, commands at one, merges and restarts: all end with equal rows."""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

CLUSTERS = ("west", "east", "north")
_SECONDS = 60.0


class Chaos:
    """The table ``t`` of all clusters, two servers each, linked in both directions between any two."""

    def __init__(self, seed: int, servers: dict[str, list[LinkedServer]]) -> None:
        self.random = random.Random(seed)
        self.servers = servers
        self.clients = {name: [server.client() for server in each] for name, each in servers.items()}
        self.keys: dict[str, list[int]] = {name: [] for name in CLUSTERS}
        self.counts: Counter[str] = Counter()
        self.west_rows: dict[int, str] = {}
        """What west's own rows must be, since its statements run one after the other."""
        create_table([server for each in servers.values() for server in each])

    def any_of(self, cluster: str) -> HttpClient:
        return self.random.choice(self.clients[cluster])

    def link(self) -> None:
        for source, target in permutations(CLUSTERS, 2):
            self.clients[target][0].execute(
                f"CREATE REPLICATION LINK {source} ON t FROM CLUSTER {source} "
                "SETTINGS two_way = 1, start_position = 'now', link_max_batch_rows = 3"
            )

    def choose(self, cluster: str) -> None:
        self.any_of(cluster).execute("ALTER TABLE t MODIFY SETTING commands_from = 'west'")

    def insert(self) -> None:
        cluster = self.random.choice(CLUSTERS)
        first = CLUSTERS.index(cluster) * 1000 + len(self.keys[cluster])
        keys = list(range(first, first + self.random.randint(1, 3)))
        self.keys[cluster] += keys
        self.any_of(cluster).execute(f"INSERT INTO t VALUES {', '.join(f'({key}, {cluster[0]!r})' for key in keys)}")
        if cluster == "west":
            self.west_rows |= dict.fromkeys(keys, "w")

    def command(self) -> None:
        divisor = self.random.randint(2, 5)
        rest, number = self.random.randrange(divisor), self.counts["commands"]
        kind = self.random.choices(["update", "delete", "light", "drop"], [8, 3, 3, 1])[0]
        where = f"k % {divisor} = {rest}"
        text = {
            "update": f"ALTER TABLE t UPDATE v = concat(v, ' {number}') WHERE {where}",
            "delete": f"ALTER TABLE t DELETE WHERE {where}",
            "light": f"DELETE FROM t WHERE {where}",
            "drop": "ALTER TABLE t DROP PARTITION tuple()",
        }[kind]
        try:
            self.any_of("west").execute(text)
        except PandoError as error:
            if "waits for the marks" not in error.message:
                raise
            self.counts["waits"] += 1
            return
        self.counts["commands"] += 1
        self.counts[kind] += 1
        for key in [key for key in self.west_rows if kind == "drop" or key % divisor == rest]:
            if kind == "update":
                self.west_rows[key] += f" {number}"
            else:
                del self.west_rows[key]

    def await_marks(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                self.any_of("west").execute("ALTER TABLE t DELETE WHERE 0")
                return
            except PandoError as error:
                if "waits for the marks" not in error.message or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def merge(self) -> None:
        self.any_of(self.random.choice(CLUSTERS)).execute("OPTIMIZE TABLE t FINAL")

    def restart(self) -> None:
        """A replica begins a new session; it takes INSERTs again when it has started."""
        client, deadline = self.any_of(self.random.choice(CLUSTERS)), time.monotonic() + _SECONDS
        client.execute("SYSTEM RESTART REPLICA t")
        while client.rows("SELECT is_readonly FROM system.replicas WHERE table = 't'") != [[0]]:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def rows(self, client: HttpClient) -> list[list[object]]:
        return client.rows("SELECT k, v FROM t ORDER BY ALL")

    def settle(self) -> list[list[object]]:
        deadline, found = time.monotonic() + _SECONDS, [[[None]]]
        while time.monotonic() < deadline:
            for target in CLUSTERS:
                for source in CLUSTERS:
                    if source != target:
                        self.clients[target][0].execute(f"SYSTEM WAIT REPLICATION LINK {source} TIMEOUT 30")
            waiting = [
                client.value("SELECT countIf(NOT is_done) FROM system.mutations WHERE table = 't'")
                for each in self.clients.values()
                for client in each
            ]
            found = [self.rows(client) for each in self.clients.values() for client in each]
            if not any(waiting) and all(rows == found[0] for rows in found):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"the clusters differ: {found}")

    def close(self) -> None:
        for each in self.clients.values():
            for client in each:
                client.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_all_clusters_end_with_the_same_rows(seed: int, tmp_path: Path) -> None:
    with linked_servers(tmp_path, west=2, east=2, north=1) as servers:
        chaos = Chaos(seed, servers)
        try:
            chaos.link()
            others = ["east", "north"]
            for step in range(70):
                if step == 5:
                    chaos.choose("west")
                if step > 8 and others and chaos.random.random() < 0.3:
                    chaos.choose(others.pop())
                    if not others:
                        chaos.await_marks()
                action = chaos.random.choices(
                    [chaos.insert, chaos.command, chaos.merge, chaos.restart], [8, 5 if step > 5 else 0, 2, 1]
                )[0]
                action()
            rows = chaos.settle()
            assert {key: value for key, value in rows if key < 1000} == chaos.west_rows
            assert len({key for key, _ in rows}) == len(rows), "no row is there twice"
            assert chaos.counts["commands"] > 5, chaos.counts
        finally:
            chaos.close()
