"""Fills in the positions of a table's own rows: the zxids of their commits.

Source: ``parts.table.row_version``.

An INSERT writes its part before the commit, so the part does not know its position. The replica's listing of the part
is made in that commit, and its created zxid is the position. So the position is filled in where the part is used: for a
merge or a mutation here, and by a replica that fetches the part, from the sender's listing.

Invariant: a part whose position is not filled in was inserted by this replica, under the listing that it has now. A
replica that fetches or attaches a part fills the position in before it lists the part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coordination.keeper.interface import Keeper
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.read.reached_rows import fill_position_in
from parts.write.part_stamp import stamp_part


def fill_own_positions_in(state: ReplicaState, keeper: Keeper, parts: Sequence[Part]) -> list[Part]:
    """Returns active parts of this replica with the positions that their files lack.

    Raises 234 (NO_REPLICA_HAS_PART) for a part that is not listed any more: it has just gone.
    """
    lacking = [part for part in parts if part.row_version.lacks_position]
    if not lacking or not state.gate.own_origin:  # a part from another table, whose place means nothing here
        return list(parts)
    stats = keeper.exists_many([state.replica.part(str(part.name)) for part in lacking])
    found = {part.name: stat.created_zxid for part, stat in zip(lacking, stats, strict=True) if stat is not None}
    if len(found) < len(lacking):
        gone = next(part.name for part in lacking if part.name not in found)
        raise UnavailableError("NO_REPLICA_HAS_PART", f"Part {gone} is not listed any more, so its commit is unknown")
    return [fill_position_in(part, found[part.name]) if part.name in found else part for part in parts]


def fill_fetched_position_in(
    state: ReplicaState, keeper: Keeper, replica_name: str, name: PartName, directory: Path
) -> None:
    """Writes the position that the fetched part in ``directory`` lacks.

    Raises 234 (NO_REPLICA_HAS_PART) if the sender does not list the part any more.
    """
    if not state.gate.own_origin:
        return
    part = open_part(directory, name=name)
    if not part.row_version.lacks_position:
        return
    stat = keeper.exists(state.paths.replica(replica_name).part(str(name)))
    if stat is None:
        raise UnavailableError("NO_REPLICA_HAS_PART", f"Replica {replica_name} does not list part {name} any more")
    stamp_part(directory, fill_position_in(part, stat.created_zxid).row_version, state.description.settings)
