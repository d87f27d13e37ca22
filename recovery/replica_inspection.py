"""Compare one replica's disk with ZooKeeper for ``pando recovery``. Changes nothing.

The server may be running: parts are opened read-only, and a part that disappears meanwhile is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import ReplicaPaths
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.store.drop_markers import DropMarkers, is_drop_mark
from recovery import force_restore_flag, outdated_zookeeper
from recovery.startup_plan import PartOnDisk, StartupPlan, plan_startup
from recovery.zookeeper_parts import add_hashes_elsewhere, read_zookeeper_parts


@dataclass
class ReplicaInspection:
    """The difference between a replica's disk and ZooKeeper.

    ``plan`` is what a forced restore would do. ``refusal`` is why a start without force refuses, or ``""``.
    ``forgotten``: parts that prove that ZooKeeper is outdated, without asking other replicas.
    """

    replica: str
    exists: bool
    is_active: bool = False
    is_flagged: bool = False
    broken: list[str] = field(default_factory=list)
    plan: StartupPlan = field(default_factory=StartupPlan)
    refusal: str = ""
    forgotten: list[PartName] = field(default_factory=list)


def inspect_replica(
    keeper: Keeper, replica: ReplicaPaths, data_path: Path, max_ratio: float, table: str
) -> ReplicaInspection:
    """Reads the metadata of every part on disk and the replica's list in ZooKeeper.

    ``table``: its name, for advice.
    """
    if keeper.exists(replica.host) is None:
        return ReplicaInspection(replica.root, exists=False)
    on_disk, broken = _parts_on_disk(data_path)
    survey = add_hashes_elsewhere(keeper, replica, read_zookeeper_parts(keeper, replica), on_disk)
    forgotten = outdated_zookeeper.find_forgotten(keeper, replica, on_disk, lambda parts: {})
    refusal = plan_startup(on_disk, survey, max_ratio_of_wrong_parts=max_ratio).refusal
    if forgotten:
        refusal = outdated_zookeeper.format_refusal(table, replica, forgotten, on_disk)
    return ReplicaInspection(
        replica=replica.root,
        exists=True,
        is_active=keeper.exists(replica.is_active) is not None,
        is_flagged=force_restore_flag.is_flag_set(keeper, replica),
        broken=broken,
        plan=plan_startup(on_disk, survey, max_ratio_of_wrong_parts=max_ratio, force=True),
        refusal=refusal,
        forgotten=forgotten,
    )


def _parts_on_disk(data_path: Path) -> tuple[dict[PartName, PartOnDisk], list[str]]:
    """Returns the parts that were not dropped, and the directories that cannot be opened."""
    found: dict[PartName, PartOnDisk] = {}
    broken: list[str] = []
    directories = sorted(data_path.iterdir()) if data_path.exists() else []
    markers = DropMarkers(data_path, should_sync=False)
    markers.load()
    for directory in directories:
        name = PartName.try_parse(directory.name)
        if name is None or is_drop_mark(directory) or markers.is_dropped(name):
            continue
        try:
            part = open_part(directory)
        except CorruptionError:
            if directory.exists():
                broken.append(directory.name)
            continue
        found[name] = PartOnDisk(part.rows, part.content_hash)
    return found, broken
