"""The state of a replicated table, for ``/replicas_status`` and ``/metrics``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of one replica.

    ``problem`` keeps this replica from working; ``warning`` is other advice to the operator. ``has_started``: the
    replica has compared itself with ZooKeeper since the start, so ``delay_seconds`` is known, and is read.
    ``is_starting``: it has not tried to begin its ZooKeeper session since.
    """

    table: str
    delay_seconds: float
    problem: str | None
    warning: str
    has_started: bool = True
    is_starting: bool = False
