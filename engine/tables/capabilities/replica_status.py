"""How a replicated table of this server stands, for ``/replicas_status`` and ``/metrics``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """``problem``: what keeps this replica from working; ``warning``: what else somebody should do something about;
    ``has_started``: it has compared itself with ZooKeeper since the start, so ``delay_seconds`` tells how far behind it
    is."""

    table: str
    delay_seconds: float
    problem: str | None
    warning: str
    has_started: bool = True
