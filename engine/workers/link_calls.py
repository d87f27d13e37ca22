"""Answers to other clusters in a worker.

The replica process has the tables; the worker sends the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.links.exchange.link_service import Answer, OpenedFiles
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
