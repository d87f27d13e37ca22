"""Decides which replicas of a shard are too far behind to be read.

A server reports the delays of its replicated tables at ``/replicas_status?delays=1``: a JSON object of seconds by
``database.table``, ``null`` where the replica does not know yet. The lag of the links that bring changes to a table
counts: its rows may be older than those of a replica at the source. A server without this report counts as up to date.
Source: ClickHouse documentation, "max_replica_delay_for_distributed_queries",
"fallback_to_stale_replicas_for_distributed_queries".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engine.tables.capabilities.replica_status import ReplicaStatus

Delays = Mapping[str, float]
"""Seconds by ``database.table``; infinity for a replica that does not know."""


@dataclass(frozen=True)
class Freshness:
    """The freshness that a query demands of a replica of ``database.table``.

    A replica with a delay of ``limit_seconds`` or more is stale. ``may_be_stale``: if all are stale, the least stale is
    read. ``here`` returns the delays of this server's tables. An empty ``database`` is that of the replica's address.
    """

    database: str
    table: str
    limit_seconds: int
    may_be_stale: bool
    here: Callable[[], Delays]

    def delay(self, delays: Delays, default_database: str) -> float:
        """Returns the table's delay in seconds; 0 for a table that is not replicated."""
        return delays.get(f"{self.database or default_database or 'default'}.{self.table}", 0.0)


def collect_delays(statuses: Sequence[ReplicaStatus]) -> dict[str, float]:
    """Returns the delay of each table in seconds; infinity where the replica has not started."""
    return {status.table: status.delay_seconds if status.has_started else math.inf for status in statuses}


def encode_delays(delays: Delays) -> bytes:
    """Encodes the delays as the JSON of the report."""
    known = {name: None if math.isinf(delay) else delay for name, delay in delays.items()}
    return json.dumps(known).encode()


def parse_delays(page: bytes) -> dict[str, float]:
    """Parses a report; empty for a response that is none, such as an older server's."""
    try:
        found = json.loads(page)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: math.inf if delay is None else float(delay) for name, delay in found.items() if _is_delay(delay)}


def _is_delay(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
