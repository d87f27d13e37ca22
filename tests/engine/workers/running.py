"""Queries that run until they are killed."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator

from tests.engine.workers.server import WorkerServer, wait_for

ENDLESS = "SELECT sum(sqrt(number)) FROM numbers(1000000000000)"


@contextlib.contextmanager
def running(server: WorkerServer, sql: str, **options: str) -> Iterator[None]:
    """A query on a connection of its own, until the end of the block."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/?{query}&query=" + sql.replace(" ", "+"))
    found = f"SELECT count() FROM system.processes WHERE query_id = '{options['query_id']}'"
    wait_for(lambda: server.value(found) == 1, "the query")
    try:
        yield
    finally:
        connection.close()
