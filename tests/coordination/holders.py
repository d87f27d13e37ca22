"""Where a simulated replica fetches a part from."""

from __future__ import annotations

import random
from dataclasses import dataclass

from coordination.keeper.interface import Keeper
from coordination.log.part_set import PartSet
from coordination.nodes.paths import ReplicaPaths
from coordination.nodes.replica_activation import read_replica_activity
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class Holder:
    """Where to fetch from. ``part`` is the wanted part, or a virtual part that covers it."""

    replica_name: str
    part: PartName


def find_holder(
    keeper: Keeper, replica: ReplicaPaths, wanted: PartName, virtual: PartSet, *, choose: random.Random | None = None
) -> Holder | None:
    """An active replica that has the part, or one that covers it: exact holders first, then the largest cover.

    A covering part that is not one of this replica's virtual parts is not taken: its log entry, or a drop that this
    replica has not pulled yet, may say otherwise.
    """
    names = [name for name, is_active in read_replica_activity(keeper, replica.table).items() if is_active]
    names = [name for name in names if name != replica.name]
    (choose or random).shuffle(names)
    covers: list[Holder] = []
    for name in names:
        listed = filter(None, map(PartName.try_parse, keeper.children(replica.table.replica(name).parts)))
        covers += [Holder(name, part) for part in listed if part.covers(wanted)]
    exact = [holder for holder in covers if holder.part == wanted]
    known = [holder for holder in covers if holder.part in virtual]
    return next(iter([*exact, *sorted(known, key=lambda h: h.part.min_block - h.part.max_block)]), None)
