"""Synchronous links between servers of one process: made, and looked at."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.http_client.http_client import HttpClient

SECONDS = 20.0


def wait(condition: Callable[[], object], what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def find_state(client: HttpClient, name: str) -> tuple[str, str]:
    """Returns a link's mode and state, as one of its ends shows them."""
    mode, state = client.value(
        f"SELECT mode || ' ' || state FROM system.replication_links WHERE name = '{name}'"
    ).split()
    return mode, state


def make_sync_link(target: HttpClient, source: HttpClient, cluster: str, table: str, name: str) -> str:
    """Makes a synchronous link, and returns its name at the source when it is enabled."""
    target.execute(
        f"CREATE REPLICATION LINK {name} ON {table} FROM CLUSTER west SETTINGS start_position = 'now', mode = 'sync', "
        "replication_timeout = 0.2"
    )
    wait(lambda: find_state(source, f"{cluster}/{name}") == ("sync", "enabled"), "the synchronous link")
    return f"{cluster}/{name}"
