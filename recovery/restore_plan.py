"""Decide which local parts a restored replica lists in ZooKeeper. No I/O.

==========================================================  ========================================================
another replica lists it, with the same content             agreed: it is listed here too, and nothing is copied
nobody has, makes, drops or commits any of its blocks       unique: it is listed here, and logged for the others
anything else                                               left out; the clone moves it to ``detached/clone_…``
==========================================================  ========================================================

A part that is left out shares blocks with other parts, or has dropped blocks: adding it could show rows twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parts.common.part_name import PartName


@dataclass(frozen=True)
class Others:
    """The parts of the other replicas, and the work under way.

    ``listed``: their parts with the content hashes in ZooKeeper. ``coming``: parts that queues and log add, and ranges
    they drop. ``committing``: block numbers taken and not used yet, by partition.
    """

    listed: Mapping[PartName, Collection[str]] = field(default_factory=dict)
    coming: frozenset[PartName] = frozenset()
    committing: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class RestorePlan:
    """The local parts to list, sorted: those that others have too, and those that only this replica has."""

    agreed: list[PartName]
    unique: list[PartName]


def plan_restore(active: Mapping[PartName, str], others: Others) -> RestorePlan:
    """Decides for the active parts on disk, which are disjoint, with their content hashes."""
    taken = _Blocks([*others.listed, *others.coming], others.committing)
    agreed = [part for part, digest in active.items() if digest in others.listed.get(part, ())]
    unique = [part for part in active if part not in others.listed and not taken.overlap(part)]
    return RestorePlan(sorted(agreed), sorted(unique))


class _Blocks:
    """Used block numbers as disjoint, sorted runs by partition."""

    def __init__(self, names: Iterable[PartName], numbers: Mapping[str, Sequence[int]]) -> None:
        runs = [(name.partition_id, name.min_block, name.max_block) for name in names]
        runs += [(partition_id, number, number) for partition_id, given in numbers.items() for number in given]
        self._runs: dict[str, list[tuple[int, int]]] = {}
        for partition_id, begin, end in sorted(runs):
            known = self._runs.setdefault(partition_id, [])
            if known and begin <= known[-1][1]:
                known[-1] = (known[-1][0], max(known[-1][1], end))
            else:
                known.append((begin, end))

    def overlap(self, part: PartName) -> bool:
        """Tells whether any of the part's blocks is used."""
        runs = self._runs.get(part.partition_id, [])
        index = bisect_left(runs, part.min_block, key=lambda run: run[1])
        return index < len(runs) and runs[index][0] <= part.max_block
