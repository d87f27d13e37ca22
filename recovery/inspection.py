"""What ``pando recovery`` tells about one replica: the difference between its disk and ZooKeeper. Changes nothing.

The server may run meanwhile: parts are opened read-only, and one that goes away between two looks is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from coordination.keeper import Keeper
from coordination.paths import ReplicaPaths
from parts.drop_markers import DropMarkers
from parts.errors import CorruptionError
from parts.part_name import PartName
from parts.reader import open_part
from recovery import flags
from recovery.startup_check import PartOnDisk, StartupPlan, plan_startup
from recovery.survey import read_survey


@dataclass
class Inspection:
    """``plan`` is what a forced restore would do; ``refusal`` why a start without force refuses, or ``""``."""

    replica: str
    exists: bool
    is_active: bool = False
    is_flagged: bool = False
    broken: list[str] = field(default_factory=list)
    plan: StartupPlan = field(default_factory=StartupPlan)
    refusal: str = ""


def inspect_replica(keeper: Keeper, replica: ReplicaPaths, data_path: Path, max_ratio: float) -> Inspection:
    """Reads the metadata of every part on disk and the replica's list in ZooKeeper."""
    if keeper.exists(replica.host) is None:
        return Inspection(replica.root, exists=False)
    on_disk, broken = _parts_on_disk(data_path)
    survey = read_survey(keeper, replica)
    return Inspection(
        replica=replica.root,
        exists=True,
        is_active=keeper.exists(replica.is_active) is not None,
        is_flagged=flags.is_raised(keeper, replica),
        broken=broken,
        plan=plan_startup(on_disk, survey, max_ratio_of_wrong_parts=max_ratio, force=True),
        refusal=plan_startup(on_disk, survey, max_ratio_of_wrong_parts=max_ratio).refusal,
    )


def _parts_on_disk(data_path: Path) -> tuple[dict[PartName, PartOnDisk], list[str]]:
    """The parts that were not dropped, and the directories that cannot be opened."""
    found: dict[PartName, PartOnDisk] = {}
    broken: list[str] = []
    directories = sorted(data_path.iterdir()) if data_path.exists() else []
    markers = DropMarkers(data_path, should_sync=False)
    markers.load()
    for directory in directories:
        name = PartName.try_parse(directory.name)
        if name is None or markers.is_dropped(name):
            continue
        try:
            part = open_part(directory)
        except CorruptionError:
            if directory.exists():
                broken.append(directory.name)
            continue
        found[name] = PartOnDisk(part.rows, part.content_hash)
    return found, broken
