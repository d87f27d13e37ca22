"""Many clients, three replicas, repeated blocks, merges all the while: the count is exact everywhere."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.http_client.http_client import HttpClient
from tests.cluster.conftest import Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]

CLIENTS = 8
BLOCKS = 60
REPEATS = 0.3
ROWS = 5


def insert_blocks(replicas: Replicas, table: str, client_number: int) -> int:
    """Returns how many repeated blocks were reported as known."""
    chance = random.Random(client_number)
    clients = {name: HttpClient(port=client.port) for name, client in replicas.clients.items()}
    names = list(clients)
    known = 0
    for block in range(BLOCKS):
        first = (client_number * BLOCKS + block) * ROWS
        data = "".join(f"{key}\tclient {client_number}\n" for key in range(first, first + ROWS)).encode()
        name = chance.choice(names)
        assert clients[name].insert(table, data, "TSV").deduplicated_blocks == 0
        if chance.random() < REPEATS:
            known += clients[chance.choice(names)].insert(table, data, "TSV").deduplicated_blocks
            known -= 1
    for client in clients.values():
        client.close()
    return known


@pytest.mark.long
def test_eight_clients_with_repeats_while_merges_run(replicas: Replicas) -> None:
    table = replicas.new_table(settings="replicated_deduplication_window = 10000")
    with ThreadPoolExecutor(CLIENTS) as pool:
        missed = list(pool.map(lambda number: insert_blocks(replicas, table, number), range(CLIENTS)))
    assert missed == [0] * CLIENTS
    rows = CLIENTS * BLOCKS * ROWS
    replicas.wait_rows(table, rows)
    replicas["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    for client in replicas.clients.values():
        client.execute(f"SYSTEM SYNC REPLICA {table}")
        assert client.rows(f"SELECT count(), uniqExact(k), sum(k) FROM {table}") == [
            [rows, rows, rows * (rows - 1) // 2]
        ]
    replicas.wait_equal(table)
