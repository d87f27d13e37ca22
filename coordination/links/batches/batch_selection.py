"""Select the next batch of a link from what the source sent.

It ends at a cut, before whatever stops the link.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from coordination.links.batches.batch_plan import BatchLimits, select_batch_end
from coordination.links.positions import Origin
from coordination.links.stream.change import Change
from coordination.links.stream.gap_check import BehindFork, Fork, Gap, admit_changes, is_known
from coordination.links.version_vector import VersionVector


@dataclass(frozen=True, slots=True)
class Selection:
    """A batch, or the reason why there is none."""

    changes: tuple[Change, ...] = ()
    """Those that the target does not have yet."""
    vector: VersionVector = field(default_factory=VersionVector)
    """The target's, with these changes."""
    end: int | None = None
    """The cut at which the batch ends; ``None`` if nothing can be committed."""
    stop: Gap | BehindFork | None = None
    """The reason why the link cannot go beyond the last cut before it."""


def select_batch(
    changes: Sequence[Change],
    cuts: Sequence[int],
    vector: VersionVector,
    source: Origin,
    own: Origin,
    forks: Collection[Fork],
    limits: BatchLimits,
) -> Selection:
    """Returns the next batch of a target with this vector.

    ``changes`` and ``cuts`` are the source's, ascending. ``source`` is the source's own origin, ``own`` the target's.
    """
    admission = admit_changes(vector, own, changes, forks)
    cuts = [cut for cut in cuts if cut > vector.applied(source)]
    if admission.stop is not None:
        refused = next(each for each in changes if not is_known(admission.vector, own, each.position))
        cuts = [cut for cut in cuts if cut < refused.place]
    if not cuts:
        return Selection(vector=vector, stop=admission.stop)
    end = select_batch_end(admission.changes, cuts, limits)
    batch = [change for change in admission.changes if change.place <= end]
    return Selection(tuple(batch), admit_changes(vector, own, batch, forks).vector, end, admission.stop)
