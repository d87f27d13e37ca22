"""How far one replica is with the mutations that a group's cuts bring. No I/O.

A mutation changes parts one by one. So its cut is carried out when no part is left to change, and has begun when the
first one is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordination.links.groups.cut_mark import CutMark
from coordination.merges_mutations.mutation_set import MutationSet, oldest_versions
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class CutMutations:
    """The mutations of one table, against its active parts."""

    undone: Sequence[CutMark] = ()
    """The cuts with a mutation that must still change a part."""
    touched: int = 0
    """The newest cut of which a mutation has changed a part; 0 for none."""
    unchanged: Sequence[PartName] = ()
    """The parts that a mutation of a cut must still change."""
    has_others: bool = False
    """Whether a mutation that no cut of the group brought must still change a part."""


def compare_with_parts(known: MutationSet, parts: Sequence[PartName], group: str) -> CutMutations:
    """Compares the mutations with the active parts. ``group``: the group's UUID."""
    oldest, newest = oldest_versions(parts), _newest_mutations(parts)
    undone, touched, unchanged, has_others = list[CutMark](), 0, set[PartName](), False
    for mutation in known.mutations:
        mark = CutMark.of(mutation)
        is_of_group = mark is not None and mark.group == group
        if mutation.is_ahead_of_any(oldest):
            if mark is not None and is_of_group:
                undone.append(mark)
                unchanged.update(mutation.list_parts_to_change(parts))
            else:
                has_others = True
        if mark is not None and is_of_group and any(n <= newest.get(p, -1) for p, n in mutation.numbers.items()):
            touched = max(touched, mark.place)
    return CutMutations(undone, touched, sorted(unchanged), has_others)


def list_new_marks(known: MutationSet, part: PartName, covered: Iterable[PartName]) -> list[CutMark]:
    """Lists the cuts whose mutations a part has, and the parts that it covers have not, ascending."""
    if not part.mutation:
        return []
    before = min((each.data_version for each in covered), default=0)
    found = (
        CutMark.of(each) for each in known.mutations if before < each.numbers.get(part.partition_id, 0) <= part.mutation
    )
    return sorted(mark for mark in found if mark is not None)


def _newest_mutations(parts: Iterable[PartName]) -> dict[str, int]:
    """Returns by partition the number of the last mutation that a part went through; not those before its INSERT."""
    newest: dict[str, int] = {}
    for part in parts:
        if part.mutation:
            newest[part.partition_id] = max(part.mutation, newest.get(part.partition_id, 0))
    return newest
