"""A group of links between real servers, one of which is killed: every SELECT is a prefix of the source."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_clusters import LinkedClusters
from tests.links.test_link_groups import follow, write_at_random

SUMS = "SELECT (SELECT toInt64(sum(k)) FROM a), (SELECT toInt64(sum(k)) FROM b)"
JOINED = (
    "SELECT toInt64(sumIf(k, t = 'a')), toInt64(sumIf(k, t = 'b')) "
    "FROM (SELECT k, 'a' AS t FROM a UNION ALL SELECT k, 'b' AS t FROM b)"
)


@pytest.mark.cluster
@pytest.mark.long
def test_readers_of_killed_servers_see_prefixes(tmp_path: Path) -> None:
    clusters = LinkedClusters(tmp_path, west=1, east=2)
    try:
        for table in ("a", "b"):
            clusters.create_table(table)
            clusters["east"].execute(f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west")
        clusters["east"].execute("CREATE REPLICATION LINK GROUP g (a, b)")
        clusters.wait(lambda: clusters.rows("east", SUMS) == [[0, 0]], "the first cut")
        seen: list[list[tuple[int, int]]] = [[], []]
        is_over, problems = threading.Event(), list[Exception]()

        def read(client: HttpClient, found: list[tuple[int, int]]) -> None:
            while not is_over.is_set():
                try:
                    (row,) = client.rows(random.choice((SUMS, JOINED)))
                    found.append((row[0], row[1]))
                except PandoError as error:
                    if error.name not in ("ALL_REPLICAS_ARE_STALE", "NETWORK_ERROR", "ABORTED"):
                        problems.append(error)

        readers = [
            threading.Thread(target=read, args=pair) for pair in zip(clusters.clients["east"], seen, strict=True)
        ]
        for reader in readers:
            reader.start()
        chance = random.Random(11)
        history = write_at_random(clusters["west"], chance, 30)
        clusters.clusters["east"].kill("r2")
        history = write_at_random(clusters["west"], chance, 20, history)
        clusters.clusters["east"].restart("r2")
        history = write_at_random(clusters["west"], chance, 20, history)
        clusters.wait(lambda: clusters.rows("east", SUMS) == [list(history[-1])], "the last commit")
        is_over.set()
        for reader in readers:
            reader.join()
        assert not problems, problems
        for found in seen:
            assert len(follow(found, history)) > 3
    finally:
        clusters.close()
