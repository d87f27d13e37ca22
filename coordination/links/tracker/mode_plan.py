"""The next requests for modes that bring a source's links to where a decision wants them.

Who joins is asked for first. Who goes is released when enough of those that stay or join are ``enabled``. So a table
keeps its synchronous target until the next one is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordination.links.tracker.tracker import Decision
from coordination.nodes.gate_link import GateLink, LinkMode, SyncState


@dataclass(frozen=True, slots=True)
class TrackedLink:
    """One link of one table, as the table's gate has it now."""

    root: str
    """The table's place in ZooKeeper."""
    link: GateLink


@dataclass(frozen=True, slots=True)
class WantedMode:
    """A mode that a link is to have, other than it has."""

    tracked: TrackedLink
    mode: LinkMode


def plan_modes(decision: Decision, links: Mapping[str, Sequence[TrackedLink]]) -> list[WantedMode]:
    """Returns what to request now, all of it at one moment.

    ``links`` are those of each target, one for each table.
    """
    joining = [
        WantedMode(each, LinkMode.SYNC)
        for target in decision.chosen
        for each in links.get(target, ())
        if each.link.mode is not LinkMode.SYNC
    ]
    enabled = sum(_is_enabled(links.get(target, ())) for target in decision.chosen)
    if enabled < min(max(decision.least, 1), len(decision.chosen)):
        return joining
    leaving = [
        WantedMode(each, LinkMode.ASYNC)
        for target, tracked in links.items()
        if target not in decision.chosen
        for each in tracked
        if each.link.mode is LinkMode.SYNC
    ]
    return [*joining, *leaving]


def _is_enabled(links: Sequence[TrackedLink]) -> bool:
    return bool(links) and all(each.link.state is SyncState.ENABLED for each in links)


def find_former(links: Mapping[str, Sequence[TrackedLink]]) -> tuple[str, ...]:
    """Returns the targets that are synchronous, or to become so, before any decision was made."""
    return tuple(
        target for target, tracked in links.items() if any(each.link.mode is LinkMode.SYNC for each in tracked)
    )
