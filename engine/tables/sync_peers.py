"""Interface of the targets of synchronous links, as a table's INSERTs ask them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coordination.nodes.gate_link import GateLink
from parts.common.errors import UnavailableError
from parts.common.query_status import QueryStatus


@dataclass(frozen=True, slots=True)
class SyncPart:
    """A part of an INSERT that is not committed yet."""

    directory: Path
    partition_id: str
    content_hash: str
    rows: int


class SyncPeers(Protocol):
    """The targets of synchronous links. Thread-safe."""

    def stage(
        self, link: GateLink, name: str, parts: Sequence[SyncPart], timeout_seconds: float, status: QueryStatus
    ) -> None:
        """Leaves the parts at the link's target under this name; may be repeated with more parts.

        Without parts it only asks whether the target takes some. Raises what the target answers, and 210
        (NETWORK_ERROR), 209 (SOCKET_TIMEOUT) if it does not.
        """

    def wait_until_visible(self, link: GateLink, position: str, timeout_seconds: float, status: QueryStatus) -> str:
        """Waits until all serving replicas of the target show everything up to a position of the source.

        Returns what is missing when the time is over; an empty text if all of them show it. Raises as :meth:`stage`.
        """


class NoSyncPeers:
    """A server that knows no other clusters."""

    def stage(
        self, link: GateLink, name: str, parts: Sequence[SyncPart], timeout_seconds: float, status: QueryStatus
    ) -> None:
        """Raises 210 (NETWORK_ERROR)."""
        del name, parts, timeout_seconds, status
        raise _make_error(link)

    def wait_until_visible(self, link: GateLink, position: str, timeout_seconds: float, status: QueryStatus) -> str:
        """Raises 210 (NETWORK_ERROR)."""
        del position, timeout_seconds, status
        raise _make_error(link)


def _make_error(link: GateLink) -> UnavailableError:
    return UnavailableError(
        "NETWORK_ERROR", f"This server cannot ask cluster {link.peer_name!r}, the target of link {link.name}"
    )
