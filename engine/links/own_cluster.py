"""This server's own cluster, as a link inside one cluster asks it.

Neither the network nor a user is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from engine.http_client.transport import Answer
from engine.links.exchange.fields import parse_document, to_bytes
from engine.links.exchange.file_transfer import send_part
from engine.links.exchange.link_service import ElsewhereFiles, LinkAnswers, OpenedFiles
from engine.server.links_config import LinkedClusterConfig
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

_URL = "http://this-server"


class OwnCluster:
    """The configuration of the own cluster, if ``linked_clusters`` does not name it."""

    def get(self, _: str) -> LinkedClusterConfig:
        """Returns a configuration whose only server is this one."""
        return LinkedClusterConfig(urls=[_URL])


@dataclass
class _LocalAnswer:
    url: str
    chunks: Iterator[bytes]

    def __iter__(self) -> Iterator[bytes]:
        return self.chunks


class OwnTransport:
    """Passes requests to this server's own answers. Implements ``engine.http_client.transport.Transport``."""

    def __init__(self, answers: LinkAnswers) -> None:
        self._answers = answers

    @contextmanager
    def post(self, url: str, path: str, body: bytes, *, read_seconds: float | None = None) -> Iterator[Answer]:
        """Answers a request at once."""
        document = parse_document(body, "request")
        answer = self._answers.answer(path.removeprefix("/links/"), document, QueryStatus(), is_read_only=False)
        if isinstance(answer, ElsewhereFiles):
            raise UserError("NO_SUCH_DATA_PART", f"This server has not what {path} asks for")
        if not isinstance(answer, OpenedFiles):
            yield _LocalAnswer(url, iter([to_bytes(answer)]))
            return
        try:
            yield _LocalAnswer(url, send_part(answer.directory))
        finally:
            answer.release()

    def close(self) -> None:
        """Ignores it: there are no connections."""
