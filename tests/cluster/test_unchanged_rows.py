"""COMMIT TRANSACTION … UNCHANGED SINCE SCAN on real replicas: what one client reads and replaces, others change."""

from __future__ import annotations

import itertools
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]

_numbers = itertools.count(1)


def begin(client: HttpClient, table: str) -> str:
    """Begins a scan of the table; returns its name."""
    name = f"scan {next(_numbers)}"
    body = json.dumps({"scan": name, "database": "default", "table": table, "columns": ["k"]}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{client.port}/scan/begin", body, timeout=60) as answer:
        assert json.load(answer) == {}
    return name


def replace(client: HttpClient, table: str, scan: str, values: str) -> int:
    """Replaces all rows by these if none has changed since the scan; returns the error's code."""
    transaction = f"x {next(_numbers)}"
    client.execute(f"INSERT INTO {table} SETTINGS insert_transaction = '{transaction}' VALUES {values}")
    try:
        client.execute(
            f"COMMIT TRANSACTION '{transaction}' ON {table} OVERWRITE PARTITIONS ID 'all' UNCHANGED SINCE SCAN '{scan}'"
        )
    except PandoError as error:
        return error.code
    return 0


def test_a_scan_begins_with_all_rows_and_any_replica_commits(replicas: Replicas) -> None:
    table = replicas.new_table()
    for turn, name in enumerate(("r1", "r2", "r3")):
        replicas[name].execute(f"INSERT INTO {table} VALUES ({turn}, '')")
    scan = begin(replicas["r2"], table)
    replicas["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    assert replace(replicas["r3"], table, scan, "(7, 'new')") == 0
    replicas.wait_rows(table, 1)
    assert replace(replicas["r1"], table, scan, "(8, 'late')") == 650
    scan = begin(replicas["r1"], table)
    replicas["r2"].execute(f"INSERT INTO {table} VALUES (9, 'theirs')")
    assert replace(replicas["r3"], table, scan, "(10, 'ours')") == 650
    replicas.wait_rows(table, 2)
    replicas.wait_equal(table)
    assert replicas["r3"].rows(f"SELECT k FROM {table} ORDER BY k") == [[7], [9]]


@pytest.mark.long
def test_a_counter_that_many_clients_raise(replicas: Replicas) -> None:
    """Each reads the only row and replaces it, at whichever replica, beside merges: no step is lost."""
    table = replicas.new_table()
    replicas["r1"].execute(f"INSERT INTO {table} VALUES (0, '')")
    ports = [client.port for client in replicas.clients.values()]

    def raise_it(number: int) -> int:
        done = 0
        with HttpClient(port=ports[number % 3], timeout_seconds=60) as client:
            while done < 5:
                scan = begin(client, table)
                ((value,),) = client.rows(f"SELECT k FROM {table}")
                done += replace(client, table, scan, f"({value + 1}, '')") == 0
                client.execute(f"OPTIMIZE TABLE {table}")
        return done

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(raise_it, range(6))) == [5] * 6
    replicas.wait_equal(table)
    assert replicas["r2"].rows(f"SELECT k FROM {table}") == [[30]]
