"""Parts a batch before an ALTER that comes behind a mutation.

A target carries the ALTERs of a batch out before it commits the batch. A mutation before an ALTER was checked against
the former definition: it may name a column that the ALTER drops. So what comes before is committed first, where a cut
allows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.links.stream.change import Change
from coordination.links.stream.cuts import find_cuts


def split_before_definitions(changes: Sequence[Change], after: int, end: int) -> list[tuple[tuple[Change, ...], int]]:
    """Returns the changes of each part with the place where it ends; the last part ends at ``end``.

    ``after`` is the place behind which the batch begins, and ``end`` where it ends; both are cuts.
    """
    ends: list[int] = []
    has_mutation = False
    cuts: list[int] | None = None
    for change in sorted(changes, key=lambda change: change.place):
        if change.definitions and has_mutation:
            if cuts is None:
                cuts = find_cuts(changes, after, is_ordered=True)
            cut = max((cut for cut in cuts if cut < change.place), default=0)
            if cut > (ends[-1] if ends else after):
                ends.append(cut)
                has_mutation = False
        has_mutation = has_mutation or bool(change.mutations)
    parts, begin = [], after
    for place in (*ends, end):
        parts.append((tuple(change for change in changes if begin < change.place <= place), place))
        begin = place
    return parts
