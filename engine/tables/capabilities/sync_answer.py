"""The mode of a link in the answer that its source gives to the target's question for changes."""

from __future__ import annotations

from dataclasses import dataclass

from coordination.nodes.gate_link import LinkMode, SyncState


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The mode of a link, as its source's gate has it when the target asks."""

    mode: LinkMode = LinkMode.ASYNC
    state: SyncState = SyncState.DISABLED
    gate_version: int = -1
    """The version of the gate: a confirmation names it, so that a late one is none."""
    is_lease_renewed: bool = False
    """Whether the link was ``enabled`` when the gate was read, behind a ``sync`` that followed the question. INSERTs
    wait for the target then until four ``replication_timeout`` after the question."""


NO_SYNC = SyncAnswer()
