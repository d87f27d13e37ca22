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


def test_both_tables_follow(tmp_path: Path) -> None:
    with grouped(tmp_path) as (source, (target,), _):
        until(target, "SELECT count() FROM a", [[0]])
        source.execute("INSERT INTO a VALUES (1, 'x')")
        source.execute("INSERT INTO b VALUES (1, 'x')")
        target.execute("SYSTEM WAIT REPLICATION LINK b")
        assert target.rows("SELECT (SELECT count() FROM a), (SELECT count() FROM b)") == [[1, 1]]
