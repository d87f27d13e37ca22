"""How a server asks servers of other clusters, as far as links need it.

The real one is :class:`engine.http_client.connections.Connections`; a simulator passes requests on within its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Answer(Protocol):
    """The answer to a request, read once as it arrives."""

    url: str
    """The server that answers."""

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes. Raises the server's error if the answer ends with one."""


class Transport(Protocol):
    """The requests of one user to any number of servers. Thread-safe."""

    def post(
        self, url: str, path: str, body: bytes, *, read_seconds: float | None = None
    ) -> AbstractContextManager[Answer]:
        """Sends a POST request and gives the answer as it arrives.

        Raises the server's own error, ``RefusedError`` if it cannot be reached, and ``UnknownOutcomeError`` if the
        connection breaks or the server sends nothing for ``read_seconds``.
        """

    def close(self) -> None:
        """Closes all connections."""


MakeTransport = Callable[[str, str, bool | Path], Transport]
"""Makes a transport for a user and a password.

The last argument says whether servers must prove who they are (TLS); a path is the file of the authorities to trust.
"""


def make_http_transport(user: str, password: str, is_secure: bool | Path) -> Transport:
    """Returns connections over HTTP, kept and reused.

    Raises 36 (BAD_ARGUMENTS) for a file of no certificates.
    """
    from engine.http_client.connections import Connections  # its import takes a tenth of a second

    return Connections(
        user=user, password=password, timeout_seconds=30.0, connect_seconds=3.0, is_secure=is_secure, names_servers=True
    )
