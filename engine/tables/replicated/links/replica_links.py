"""The two ends of links at one replica, as its table shows them."""

from __future__ import annotations

from dataclasses import dataclass

from engine.tables.replicated.links.link_target import ReplicaLinkTarget


@dataclass(frozen=True, slots=True)
class ReplicaLinks:
    """Implements ``engine.tables.capabilities.table_links.TableLinks``."""

    target: ReplicaLinkTarget
