"""Which targets are synchronous: a pure function of what was observed and the last decision.

Rules, in this order:

1. A target that was chosen stays until it stands badly (:mod:`coordination.links.tracker.observed_health`).
2. Free places, up to the most, are filled with targets that stand well, preferred ones first.
3. A preferred target that stands well takes the place of one that is not preferred.
4. With fewer than the least, targets stay although they stand badly: nobody is better.

Invariants:

- Who joins has stood well for the whole delay. Who goes has stood badly for the whole delay, or made room for a
  preferred one, or the bounds changed. So a target that comes and goes is not followed.
- While as many as the least stand well, so many are chosen.

Source: YTsaurus' replicated table tracker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordination.links.tracker.observed_health import HealthHistory, Standing
from coordination.links.tracker.tracker_options import TrackerOptions


@dataclass(frozen=True, slots=True)
class Decision:
    """The targets that shall be synchronous, and why."""

    chosen: tuple[str, ...]
    """Sorted."""
    reasons: Mapping[str, str]
    """By target, chosen or not."""
    least: int = 0
    """So many shall be synchronous at least."""
    message: str = ""
    """What keeps it from having that many; "" if nothing does."""


def decide(options: TrackerOptions, targets: Sequence[str], history: HealthHistory, former: Sequence[str]) -> Decision:
    """Returns which of the targets shall be synchronous. ``former`` were to be so until now.

    A target is the name of its cluster; a further one of the same cluster has a number behind it ("west #2").
    """
    least, most = options.find_bounds(len(targets))
    standing = {target: history.judge(target) for target in targets}
    was_chosen = [target for target in targets if target in former]
    chosen = sorted(
        (target for target in was_chosen if standing[target] is not Standing.BADLY),
        key=lambda target: (standing[target] is not Standing.WELL, _rank(options, target)),
    )[:most]
    spare = sorted(
        (target for target in targets if standing[target] is Standing.WELL and target not in chosen),
        key=lambda target: _rank(options, target),
    )
    free = max(0, most - len(chosen))
    chosen, spare = [*chosen, *spare[:free]], spare[free:]
    chosen = _prefer(options, chosen, spare, standing)
    for target in sorted(set(was_chosen) - set(chosen), key=lambda target: _rank(options, target)):
        if len(chosen) < least and standing[target] is Standing.BADLY:
            chosen.append(target)
    reasons = {
        target: _explain(options, target, history, target in chosen, is_full=len(chosen) >= most) for target in targets
    }
    return Decision(tuple(sorted(chosen)), reasons, least, _explain_shortage(history, chosen, standing, least))


def _prefer(
    options: TrackerOptions, chosen: list[str], spare: Sequence[str], standing: Mapping[str, Standing]
) -> list[str]:
    """Gives places of targets that are not preferred to preferred ones that stand well."""
    weakest = sorted(
        (target for target in chosen if not is_preferred(options, target)),
        key=lambda target: (standing[target] is Standing.WELL, target),
    )
    for better in (target for target in spare if is_preferred(options, target)):
        if not weakest:
            break
        chosen = [*(target for target in chosen if target != weakest[0]), better]
        del weakest[0]
    return chosen


def find_cluster(target: str) -> str:
    """Returns the name of a target's cluster."""
    return target.partition(" ")[0]


def is_preferred(options: TrackerOptions, target: str) -> bool:
    """Tells whether a target's cluster is preferred."""
    return find_cluster(target) in options.preferred


def _rank(options: TrackerOptions, target: str) -> tuple[int, str]:
    names = options.preferred
    return (names.index(find_cluster(target)) if is_preferred(options, target) else len(names)), target


def _explain(options: TrackerOptions, target: str, history: HealthHistory, is_chosen: bool, *, is_full: bool) -> str:
    standing, trouble = history.judge(target), history.explain(target)
    preferred = "preferred, " if is_preferred(options, target) else ""
    if not history.is_complete:
        health = f"observed for {history.seconds:.0f} of {history.delay:g} seconds"
    elif standing is Standing.WELL:
        health = f"healthy for {history.delay:g} seconds"
    elif standing is Standing.BADLY:
        health = f"unhealthy for {history.delay:g} seconds"
    else:
        health = f"its health changed within {history.delay:g} seconds"
    told = f"{preferred}{health}{f': {trouble}' if trouble else ''}"
    if is_chosen:
        return f"synchronous: {told}{'; no other is better' if standing is Standing.BADLY else ''}"
    why = "; there are enough others" if is_full and standing is Standing.WELL else ""
    return f"asynchronous: {told}{why}"


def _explain_shortage(
    history: HealthHistory, chosen: Sequence[str], standing: Mapping[str, Standing], least: int
) -> str:
    able = [target for target in chosen if standing[target] is not Standing.BADLY]
    if len(able) >= least:
        return ""
    if not history.is_complete:
        return f"The first decision comes after {history.delay:g} seconds of observation (tracker_delay)"
    return f"{len(able)} of at least {least} synchronous targets are healthy; the others must answer first"
