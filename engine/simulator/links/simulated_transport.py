"""The requests of links between simulated clusters: calls of the other server in place of HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.links.exchange.fields import parse_document, to_bytes
from engine.links.exchange.file_transfer import send_part
from engine.links.exchange.link_service import ElsewhereFiles, OpenedFiles
from engine.simulator.links.cluster_network import ClusterNetwork
from engine.simulator.simulated_servers import SimulatedServer
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus

_PREFIX = "/links/"


@dataclass
class SimulatedAnswer:
    """An answer that has arrived. Implements :class:`engine.http_client.transport.Answer`."""

    url: str
    chunks: Sequence[bytes]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)


class SimulatedTransport:
    """The requests of one server. Implements :class:`engine.http_client.transport.Transport`."""

    def __init__(self, network: ClusterNetwork, home: str, server: SimulatedServer) -> None:
        self._network = network
        self._home = home
        self._server = server

    @contextmanager
    def post(self, url: str, path: str, body: bytes, *, read_seconds: float | None = None) -> Iterator[SimulatedAnswer]:
        """Asks the server at ``url``; see the protocol. The whole answer arrives at once, or none of it."""
        name = path.removeprefix(_PREFIX)
        chunks = self._network.call(
            self._home, self._server, url, lambda other: _answer(other, name, body, self._network), read_seconds
        )
        yield SimulatedAnswer(url, chunks)

    def close(self) -> None:
        """Nothing to close."""


def _answer(server: SimulatedServer, name: str, body: bytes, network: ClusterNetwork) -> list[bytes]:
    document = parse_document(body, f"request {name}")
    answer = server.engine.link_answers.answer(name, document, QueryStatus(), is_read_only=False)
    if isinstance(answer, OpenedFiles):
        try:
            return list(send_part(answer.directory))
        finally:
            answer.release()
    if isinstance(answer, ElsewhereFiles):
        return _forward(server, answer.urls, name, to_bytes({**document, "is_forwarded": True}), network)
    return [to_bytes(answer)]


def _forward(
    server: SimulatedServer, urls: Sequence[str], name: str, body: bytes, network: ClusterNetwork
) -> list[bytes]:
    """Asks other servers of the same cluster, as the HTTP interface does."""
    problem: PandoError = UserError("NO_SUCH_DATA_PART", "No other server of this cluster has the files")
    home = network.name_of(server)
    for url in urls:
        try:
            return network.call(home, server, url, lambda other: _answer(other, name, body, network))
        except PandoError as error:
            problem = error
    raise problem
