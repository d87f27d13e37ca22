"""Links in a worker: answers to other clusters, and what is not read after a start.

The replica process has the tables and knows; the worker sends the files, and asks only while something is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.links.exchange.link_service import Answer, OpenedFiles
from engine.links.link_start import StartState
from engine.workers.shared_page import SharedPage
from parts.common.query_status import QueryStatus

if TYPE_CHECKING:
    from engine.workers.replica_client import ReplicaProcessClient


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """A directory that the replica process holds under a number."""

    directory: Path
    number: int


class ReplicaProcessLinks:
    """The answers of the replica process. Implements ``engine.links.exchange.link_service.LinkAnswers``."""

    def __init__(self, replica: ReplicaProcessClient) -> None:
        self._replica = replica

    def answer(self, name: str, document: Mapping[str, Any], status: QueryStatus, *, is_read_only: bool) -> Answer:
        """Answers ``/links/<name>``."""
        answer: Answer | HeldFiles = self._replica.answer_link(name, document, status, is_read_only=is_read_only)
        if isinstance(answer, HeldFiles):
            number = answer.number
            return OpenedFiles(answer.directory, lambda: self._replica.unpin(number))
        return answer


class ReplicaProcessLinkStart:
    """The start of the server's links. Implements ``engine.queries.server_links.LinkReadiness``."""

    def __init__(self, replica: ReplicaProcessClient, page: SharedPage) -> None:
        self._replica = replica
        self._page = page

    @property
    def is_refusing(self) -> bool:
        """Whether linked tables are not read yet."""
        return self._page.link_start == StartState.REFUSES

    def require_readable(self, database: str, table: str) -> None:
        """Raises 369 (ALL_REPLICAS_ARE_STALE) for a linked table that is not read yet."""
        if self.is_refusing:
            self._replica.require_readable(database, table)
