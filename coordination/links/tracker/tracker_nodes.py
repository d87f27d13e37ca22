"""The nodes of the tracker in a source's ZooKeeper.

::

    /pando/link_tracker/tables/<place of a table>      {"version":1,"path":"/tables/orders"}
    /pando/link_tracker/leader                         the server that decides; ephemeral
    /pando/link_tracker/decisions/<unit>               the last decision about a table or a collocation

A table is listed while it has options of the tracker (``coordination.links.tracker.tracker_options``), which stand in
its gate. A *unit* is what is decided at once: a collocation (``c-<name>``), or a table without one (``t-<place>``).
Unknown keys are ignored; an unknown version counts as no decision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from coordination.keeper.interface import Create, Delete, Keeper, NodeExists, NoNode, Op
from coordination.links.tracker.tracker_options import TrackerOptions
from coordination.nodes.paths import TablePaths
from parts.common.safe_names import encode_file_name

FORMAT_VERSION = 1
TRACKER_PATH = "/pando/link_tracker"
TABLES_PATH = f"{TRACKER_PATH}/tables"
LEADER_PATH = f"{TRACKER_PATH}/leader"
DECISIONS_PATH = f"{TRACKER_PATH}/decisions"


@dataclass(frozen=True, slots=True)
class TargetDecision:
    """The decision about one target, and how far its links are."""

    is_chosen: bool
    reason: str
    links: tuple[str, ...]
    mode: str
    state: str


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as every server of the source shows it."""

    tables: tuple[str, ...]
    """The places of the tables, those included that the tracker leaves alone."""
    collocation: str = ""
    is_enabled: bool = False
    least: int = 0
    most: int = 0
    preferred: tuple[str, ...] = ()
    message: str = ""
    targets: Mapping[str, TargetDecision] = field(default_factory=dict)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The targets that shall be synchronous."""
        return tuple(target for target, each in self.targets.items() if each.is_chosen)

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        targets = {
            name: {
                "chosen": each.is_chosen, "reason": each.reason, "links": list(each.links), "mode": each.mode,
                "state": each.state,
            }
            for name, each in self.targets.items()
        }  # fmt: skip
        document = {
            "version": FORMAT_VERSION, "tables": list(self.tables), "collocation": self.collocation,
            "enabled": self.is_enabled, "min": self.least, "max": self.most, "preferred": list(self.preferred),
            "message": self.message, "targets": targets,
        }  # fmt: skip
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> StoredDecision | None:
        """Reads the node's content; ``None`` if it is none that this version understands."""
        try:
            found = json.loads(data)
            if found["version"] != FORMAT_VERSION:
                return None
            targets = {
                str(name): TargetDecision(
                    each["chosen"], each["reason"], tuple(each["links"]), each["mode"], each["state"]
                )
                for name, each in found["targets"].items()
            }
            return cls(
                tuple(found["tables"]),
                found["collocation"],
                found["enabled"],
                found["min"],
                found["max"],
                tuple(found["preferred"]),
                found["message"],
                targets,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


def find_unit(root: str, options: TrackerOptions) -> str:
    """Returns the unit of a table."""
    return f"c-{encode_file_name(options.collocation)}" if options.collocation else f"t-{encode_file_name(root)}"


def list_table_ops(keeper: Keeper, table: TablePaths, options: TrackerOptions) -> list[Op]:
    """Returns the operations that list the table, or take it off the list if it has no options."""
    path = f"{TABLES_PATH}/{encode_file_name(table.root)}"
    is_listed = keeper.exists(path) is not None
    if not options.to_json():
        return [Delete(path)] if is_listed else []
    if is_listed:
        return []
    for parent in (TABLES_PATH, DECISIONS_PATH):
        keeper.create_parents(parent)
    return [Create(path, json.dumps({"version": FORMAT_VERSION, "path": table.root}).encode())]


def read_tracked_tables(keeper: Keeper) -> dict[str, str]:
    """Returns the places of the listed tables, by the names of their nodes."""
    names = keeper.children_many([TABLES_PATH])[0] or []
    answers = keeper.get_many([f"{TABLES_PATH}/{name}" for name in names])
    found = {}
    for name, answer in zip(names, answers, strict=True):
        if answer is not None:
            found[name] = str(json.loads(answer[0])["path"])
    return found


def read_decisions(keeper: Keeper) -> dict[str, StoredDecision]:
    """Returns the last decisions by unit."""
    names = sorted(keeper.children_many([DECISIONS_PATH])[0] or [])
    answers = keeper.get_many([f"{DECISIONS_PATH}/{name}" for name in names])
    parsed = {name: StoredDecision.parse(answer[0]) for name, answer in zip(names, answers, strict=True) if answer}
    return {name: each for name, each in parsed.items() if each is not None}


def write_decision(keeper: Keeper, unit: str, decision: StoredDecision) -> None:
    """Writes a decision."""
    path = f"{DECISIONS_PATH}/{unit}"
    try:
        keeper.set(path, decision.to_bytes())
    except NoNode:
        try:
            keeper.create(path, decision.to_bytes())
        except NodeExists:
            keeper.set(path, decision.to_bytes())


def remove_node(keeper: Keeper, path: str) -> None:
    """Removes a node, if it is there."""
    try:
        keeper.delete(path)
    except NoNode:
        return
