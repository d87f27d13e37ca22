"""Requests to the servers, over the HTTP client that the command line uses too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine.http_client.retry import Result, try_servers
from spark_connector.shared.options import Options

if TYPE_CHECKING:
    from engine.http_client.response_file import ResponseFile


_FIRST_ROUNDS = 4
"""Rounds of first requests to servers that do not answer; with pauses somewhat more than a second."""


class Transport:
    """Connections to the servers of one read or write, with the URLs of its options.

    ``is_first`` says that nothing has begun, so that the user is told soon if no server answers.
    """

    def __init__(self, options: Options, *, is_first: bool = False) -> None:
        from engine.http_client.connections import Connections  # late: Spark imports this module in every session

        self.options = options
        self._retries = options.retries
        if is_first:
            self._retries = min(self._retries, _FIRST_ROUNDS * len(options.urls) - 1)
        self._connections = Connections(
            user=options.user,
            password=options.password,
            timeout_seconds=options.timeout,
            connect_seconds=options.connect_timeout,
            is_secure=any(url.startswith("https:") for url in options.urls),
            names_servers=True,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._connections.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(
        self, url: str, sql: str, settings: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[bytes, Mapping[str, str]]:
        """Runs one statement on one server; returns its answer and the ``X-ClickHouse-Summary`` counts."""
        with self._connections.post(url, "/", body, {"query": sql, **(settings or {})}) as answer:
            return answer.read(), json.loads(answer.headers.get("x-clickhouse-summary", "{}"))

    def call(self, url: str, path: str, body: object) -> Any:
        """Sends a JSON request and returns the JSON answer."""
        read_seconds = self.options.stall_timeout
        with self._connections.post(url, path, json.dumps(body).encode(), read_seconds=read_seconds) as answer:
            return json.loads(answer.read())

    @contextmanager
    def select(self, url: str, sql: str, settings: Mapping[str, str]) -> Iterator[ResponseFile]:
        """Runs one statement and gives its rows as a stream."""
        from engine.http_client.response_file import ResponseFile

        with self._connections.post(url, "/", sql.encode(), settings) as answer:
            yield ResponseFile(answer)

    @contextmanager
    def stream(self, url: str, path: str, body: object, read_seconds: float | None = None) -> Iterator[ResponseFile]:
        """Sends a JSON request and gives the answer as a stream.

        The stream is never silent for longer than ``read_seconds`` (by default ``stall_timeout``).
        """
        from engine.http_client.response_file import ResponseFile

        read_seconds = read_seconds or self.options.stall_timeout
        with self._connections.post(url, path, json.dumps(body).encode(), read_seconds=read_seconds) as answer:
            yield ResponseFile(answer)

    def try_servers(
        self, urls: tuple[str, ...], function: Callable[[str], Result], *, is_idempotent: bool = True
    ) -> Result:
        """Returns the first success, on the servers in turn (see ``engine.http_client.retry``)."""
        return try_servers(urls, function, retries=self._retries, is_idempotent=is_idempotent)
