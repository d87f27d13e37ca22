"""What the tracker decides about at once: tables with their links, read out of the source's ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordination.keeper.interface import Keeper
from coordination.links.positions import Position
from coordination.links.table_position import read_current_position
from coordination.links.tracker.mode_plan import TrackedLink
from coordination.links.tracker.tracker_nodes import TABLES_PATH, find_unit, read_tracked_tables, remove_node
from coordination.links.tracker.tracker_options import TrackerOptions, join_options, read_tracker_options
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.paths import TablePaths
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.replicated.links.source.outgoing_nodes import decode_outgoing, find_outgoing_path

_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class ObservedLink:
    """A link, with what its target told last."""

    tracked: TrackedLink
    outgoing: OutgoingLink
    version: int
    """Of the node in which the source notes what the target tells: another one is a sign of life."""


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table of the tracker, as it is now."""

    root: str
    options: TrackerOptions
    newest: int
    """The zxid of its newest commit."""
    links: tuple[ObservedLink, ...]
    """Without those that have ``enable_tracker = 0``."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A collocation, or a table that is alone."""

    name: str
    options: TrackerOptions
    tables: tuple[str, ...]
    """All of its tables."""
    observed: tuple[ObservedTable, ...] = ()
    """Those whose tracker is on."""
    targets: Mapping[str, Sequence[ObservedLink]] = field(default_factory=dict)
    """The links of each target: one of each table. Targets that a table lacks are left out."""


def read_units(keeper: Keeper) -> list[Unit]:
    """Reads the units of the source. Takes tables off the list that are gone, or have no options any more."""
    tables: dict[str, list[ObservedTable]] = {}
    for name, root in sorted(read_tracked_tables(keeper).items()):
        table = _read_table(keeper, TablePaths(root))
        if table is None or not table.options.to_json():
            remove_node(keeper, f"{TABLES_PATH}/{name}")
            continue
        tables.setdefault(find_unit(root, table.options), []).append(table)
    return [_make_unit(name, found) for name, found in tables.items()]


def _read_table(keeper: Keeper, paths: TablePaths) -> ObservedTable | None:
    answer = keeper.get_many([paths.gate])[0]
    if answer is None:
        return None
    gate = Gate.parse(answer[0])
    options = read_tracker_options(gate)
    if not options.is_enabled:
        return ObservedTable(paths.root, options, 0, ())
    newest = Position.parse(read_current_position(keeper, paths, _NO_UUID)).zxid
    links = [link for link in gate.links_of(LinkDirection.OUT) if link.is_tracked]
    answers = keeper.get_many([find_outgoing_path(paths, link.name) for link in links])
    observed = []
    for link, found in zip(links, answers, strict=True):
        if found is not None:
            observed.append(ObservedLink(TrackedLink(paths.root, link), decode_outgoing(found[0]), found[1].version))
    return ObservedTable(paths.root, options, newest, tuple(observed))


def _make_unit(name: str, tables: Sequence[ObservedTable]) -> Unit:
    roots = tuple(table.root for table in tables)
    enabled = tuple(table for table in tables if table.options.is_enabled)
    options = join_options({table.root: table.options for table in enabled or tables})
    of_tables = [_name_targets(table.links) for table in enabled]
    shared = [target for target in of_tables[0] if all(target in each for each in of_tables)] if of_tables else []
    targets = {target: [each[target] for each in of_tables] for target in sorted(shared)}
    return Unit(name, options, roots, enabled, targets)


def _name_targets(links: Sequence[ObservedLink]) -> dict[str, ObservedLink]:
    """Returns the links by target: a further one to the same cluster has a number."""
    found: dict[str, ObservedLink] = {}
    for link in links:
        cluster, number = link.tracked.link.peer_name, 2
        target = cluster
        while target in found:
            target, number = f"{cluster} #{number}", number + 1
        found[target] = link
    return found
