"""Asks the targets of synchronous links over HTTP, as the source's INSERTs do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordination.links.positions import Position
from coordination.nodes.gate_link import GateLink
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.exchange.fields import get_text
from engine.links.exchange.protocol import MAX_WAIT_SECONDS
from engine.links.exchange.sync_messages import (
    LEAST_VERSION,
    StagedBlock,
    StageRequest,
    VisibleRequest,
    encode_stage,
    encode_visible,
)
from engine.tables.sync_peers import SyncPart
from parts.common.errors import PandoError
from parts.common.query_status import QueryStatus

_NETWORK_SECONDS = 2.0
"""What an answer may take longer than the time that it may wait."""
_STAGE_SECONDS = 10.0
_PAUSE_SECONDS = 0.2


class TargetClient:
    """Implements ``engine.tables.sync_peers.SyncPeers``. Thread-safe."""

    def __init__(
        self,
        connect: Callable[[str], ClusterClient],
        monotonic: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        """``connect`` returns a cluster of ``linked_clusters``. It raises 36 (BAD_ARGUMENTS) for another name."""
        self._connect = connect
        self._monotonic = monotonic
        self._sleep = sleep

    def stage(
        self, link: GateLink, name: str, parts: Sequence[SyncPart], timeout_seconds: float, status: QueryStatus
    ) -> None:
        """Tells the target of the parts. Raises what it answers."""
        status.check()
        blocks = [StagedBlock(part.partition_id, part.content_hash, part.rows) for part in parts]
        body = encode_stage(StageRequest(_name_at_target(link), link.uuid, name, blocks))
        seconds = min(timeout_seconds, _STAGE_SECONDS) + _NETWORK_SECONDS
        self._connect(link.peer_name).ask("stage", body, read_seconds=seconds, least_version=LEAST_VERSION)

    def wait_until_visible(self, link: GateLink, position: str, timeout_seconds: float, status: QueryStatus) -> str:
        """Waits until the target shows everything up to the position; returns what is missing.

        A target that does not answer is asked again until the time is over.
        """
        end, wanted = self._monotonic() + timeout_seconds, Position.parse(position)
        while True:
            status.check()
            left = max(0.0, end - self._monotonic())
            wait = min(left, MAX_WAIT_SECONDS)
            body = encode_visible(VisibleRequest(_name_at_target(link), link.uuid, wanted, wait))
            try:
                answer = self._connect(link.peer_name).ask(
                    "visible", body, read_seconds=wait + _NETWORK_SECONDS, least_version=LEAST_VERSION
                )
                missing = get_text(answer, "missing")
            except PandoError as error:
                missing = f"cluster {link.peer_name!r} does not say: {error.message}"
            if not missing or self._monotonic() >= end:
                return missing
            self._sleep(_PAUSE_SECONDS)


def _name_at_target(link: GateLink) -> str:
    return link.name.removeprefix(f"{link.peer_name}/")
