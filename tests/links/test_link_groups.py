"""Transactional groups of links between servers: what a target shows, over all tables, is the source at one commit."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers


@contextmanager
def grouped(path: Path, replicas: int = 1) -> Iterator[tuple[HttpClient, list[HttpClient], list[LinkedServer]]]:
    """A source with tables ``a`` and ``b``, and a target whose links of them are in the group ``g``."""
    with linked_servers(path, west=1, east=replicas) as clusters:
        (west,), east = clusters["west"], clusters["east"]
        for name in ("a", "b"):
            create_table([west], name)
            create_table(east, name)
        with west.client() as source:
            clients = [server.client() for server in east]
            for name in ("a", "b"):
                clients[0].execute(f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west")
            clients[0].execute("CREATE REPLICATION LINK GROUP g (a, b) SETTINGS transactional = 1")
            yield source, clients, east
            for client in clients:
                client.close()


def until(client: HttpClient, text: str, wanted: list[list[object]]) -> None:
    end = time.monotonic() + 20
    found: object = None
    while time.monotonic() < end:
        try:
            found = client.rows(text)
        except PandoError as error:
            found = error
        if found == wanted:
            return
        time.sleep(0.02)
    raise AssertionError(f"{text}: {found}")


@pytest.mark.long
def test_both_tables_follow(tmp_path: Path) -> None:
    with grouped(tmp_path) as (source, (target,), _):
        until(target, "SELECT count() FROM a", [[0]])
        source.execute("INSERT INTO a VALUES (1, 'x')")
        source.execute("INSERT INTO b VALUES (1, 'x')")
        target.execute("SYSTEM WAIT REPLICATION LINK b")
        assert target.rows("SELECT (SELECT count() FROM a), (SELECT count() FROM b)") == [[1, 1]]


COMMITS = 40


def write_at_random(
    source: HttpClient, chance: random.Random, commits: int, former: list[tuple[int, int]] | None = None
) -> list[tuple[int, int]]:
    """Writes to both tables in turn; returns what the sums of ``k`` in ``a`` and ``b`` were after each commit."""
    history = list(former or [(0, 0)])
    for number in range(len(history), len(history) + commits):
        a, b = history[-1]
        name = chance.choice("ab")
        if chance.random() < 0.15:
            source.execute(f"TRUNCATE TABLE {name}")
            a, b = (0, b) if name == "a" else (a, 0)
        else:
            value = number * 1000 + chance.randrange(1000)
            source.execute(f"INSERT INTO {name} VALUES ({value}, 'x')")
            a, b = (a + value, b) if name == "a" else (a, b + value)
        history.append((a, b))
    return history


@pytest.mark.long
def test_every_select_is_a_prefix(tmp_path: Path) -> None:
    with grouped(tmp_path, replicas=2) as (source, targets, _):
        for target in targets:
            until(target, "SELECT count() FROM a", [[0]])
        seen: list[list[tuple[int, int]]] = [[] for _ in targets]
        is_over, problems = threading.Event(), list[Exception]()

        def read(target: HttpClient, found: list[tuple[int, int]]) -> None:
            try:
                while not is_over.is_set():
                    (row,) = target.rows("SELECT (SELECT sum(k) FROM a), (SELECT sum(k) FROM b)")
                    found.append((int(row[0]), int(row[1])))
            except Exception as error:
                problems.append(error)

        readers = [threading.Thread(target=read, args=pair) for pair in zip(targets, seen, strict=True)]
        for reader in readers:
            reader.start()
        history = write_at_random(source, random.Random(7), COMMITS)
        last = [list(history[-1])]
        for target in targets:
            until(target, "SELECT (SELECT toInt64(sum(k)) FROM a), (SELECT toInt64(sum(k)) FROM b)", last)
        is_over.set()
        for reader in readers:
            reader.join()
        assert not problems, problems
        for found in seen:
            assert len(follow(found, history)) > 3


def follow(found: list[tuple[int, int]], history: list[tuple[int, int]]) -> set[int]:
    """Returns the commits that were seen: each is one of the source, and none comes before an earlier one."""
    place, places = 0, set()
    for state in found:
        place = history.index(state, place)
        places.add(place)
    return places
