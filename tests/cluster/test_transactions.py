"""Transactions of inserts on real replicas: many clients decide at once, and a COMMIT that waits can be killed."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas
from tests.portions import one_in

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]

CLIENTS = 9


def ask(replicas: Replicas, number: int, sql: str) -> str:
    """What became of a COMMIT, ``ok``, or the error's code; over a connection of its own, to each replica in turn."""
    with HttpClient(port=list(replicas.clients.values())[number % 3].port, timeout_seconds=60) as client:
        try:
            if sql.startswith("COMMIT"):
                return str(client.rows(sql)[0][0])
            client.execute(sql)
        except PandoError as error:
            return str(error.code)
    return "ok"


def insert(replicas: Replicas, table: str, transaction: str, key: int) -> str:
    return ask(replicas, key, f"INSERT INTO {table} SETTINGS insert_transaction = '{transaction}' VALUES ({key}, '')")


@pytest.mark.parametrize("overwrite", one_in(2, ["", "OVERWRITE"]))
@pytest.mark.long
def test_clients_that_commit_one_transaction_at_once_decide_it_once(replicas: Replicas, overwrite: str) -> None:
    table = replicas.new_table()
    for turn in range(5):
        for key in range(6):
            assert insert(replicas, table, f"{turn}", 100 * turn + key) == "ok"
        together = threading.Barrier(CLIENTS)

        def commit(number: int, turn: int = turn, together: threading.Barrier = together) -> str:
            together.wait()
            return ask(replicas, number, f"COMMIT TRANSACTION '{turn}' ON {table} {overwrite}")

        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = Counter(pool.map(commit, range(CLIENTS)))
        assert answers == {"committed": 1, "committed before": CLIENTS - 1}
        replicas.wait_rows(table, 6 if overwrite else 6 * (turn + 1))
    replicas.wait_equal(table)


@pytest.mark.long
def test_transactions_that_are_committed_at_once_are_all_there(replicas: Replicas) -> None:
    """Beside INSERTs of others, and merges."""
    table = replicas.new_table()
    for number in range(CLIENTS):
        for key in range(3):
            assert insert(replicas, table, f"{number}", 10 * number + key) == "ok"
    together = threading.Barrier(CLIENTS)

    def work(number: int) -> list[str]:
        together.wait()
        return [
            ask(replicas, number, f"INSERT INTO {table} VALUES ({1000 + number}, '')"),
            ask(replicas, number, f"COMMIT TRANSACTION '{number}' ON {table} ROWS 3"),
            ask(replicas, number + 1, f"OPTIMIZE TABLE {table}"),
        ]

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(work, range(CLIENTS))) == [["ok", "committed", "ok"]] * CLIENTS
    replicas.wait_rows(table, 4 * CLIENTS)
    replicas.wait_equal(table)
    expected = sorted([10 * number + key for number in range(CLIENTS) for key in range(3)])
    found = replicas["r2"].rows(f"SELECT k FROM {table} WHERE k < 1000 ORDER BY k")
    assert [key for (key,) in found] == expected


@pytest.mark.long
def test_clients_that_insert_beside_a_commit(replicas: Replicas) -> None:
    """What is acknowledged is in it. They do not keep it from being committed."""
    table = replicas.new_table()
    stored: list[int] = []
    refused: list[str] = []
    is_over = threading.Event()

    def work(client: int) -> None:
        for key in range(client * 1_000_000, (client + 1) * 1_000_000):
            if is_over.is_set():
                return
            if (answer := insert(replicas, table, "x", key)) != "ok":
                refused.append(answer)
                return
            stored.append(key)

    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(work, client) for client in range(CLIENTS)]
        try:
            replicas.wait(lambda: len(stored) > 3 * CLIENTS, "some rows")
            assert ask(replicas, 0, f"COMMIT TRANSACTION 'x' ON {table}") == "committed"
            for client in working:
                client.result()
        finally:
            is_over.set()
    assert refused == ["649"] * CLIENTS
    replicas.wait_rows(table, len(stored))
    assert [key for (key,) in replicas["r3"].rows(f"SELECT k FROM {table} ORDER BY k")] == sorted(stored)
    counted = replicas["r2"].rows(f"SELECT id, toString(state), rows FROM system.transactions WHERE table = '{table}'")
    assert counted == [["x", "committed", len(stored)]]


def test_a_commit_that_waits_is_killed_and_waits_on_when_repeated(replicas: Replicas) -> None:
    table = replicas.new_table()
    for name in ("r2", "r3"):
        replicas[name].execute(f"SYSTEM STOP FETCHES {table}")
    replicas["r1"].execute(f"INSERT INTO {table} SETTINGS insert_transaction = 'x' VALUES (1, '')")
    commit = f"COMMIT TRANSACTION 'x' ON {table}"
    codes: list[int] = []

    def wait() -> None:
        with HttpClient(port=replicas["r1"].port, timeout_seconds=120) as client:
            with pytest.raises(PandoError) as killed:
                client.execute(
                    commit, query_id="waits", settings={"insert_quorum": 2, "insert_quorum_timeout": 600_000}
                )
            codes.append(killed.value.code)

    waiting = threading.Thread(target=wait)
    waiting.start()
    replicas.wait(lambda: replicas.try_value("r1", f"SELECT count() FROM {table}") == 1, "the commit")
    assert replicas["r1"].rows("KILL QUERY WHERE query_id = 'waits' SYNC") == [["finished", "waits"]]
    waiting.join(30)
    assert codes == [394]
    for name in ("r2", "r3"):
        replicas[name].execute(f"SYSTEM START FETCHES {table}")
    assert ask(replicas, 1, commit) == "committed before"
    replicas.wait_rows(table, 1)
    replicas.wait_equal(table)
