"""Cuts: the places in a change stream at which a batch may end and a link may begin.

Commands cover blocks by number, and numbers are taken before the commit. So a command and a block of one partition may
commit in the other order than that of their numbers. Between two such commits no prefix of the stream gives the
source's rows, so nothing may end there: a block that commits late still belongs below its command, and a block that
commits early stays above it. Two commands may be parted: what the one covers, the other covers too, or it arrives
together with it.

In engines in which the order of blocks decides which row stays, the same holds between two blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from coordination.links.stream.change import Change


@dataclass(frozen=True, slots=True)
class _Numbered:
    """One number of a partition and the place of its commit."""

    place: int
    number: int
    is_command: bool


def find_cuts(changes: Sequence[Change], after: int, *, is_ordered: bool) -> list[int]:
    """Lists the places of changes, ascending, at which a batch that begins behind ``after`` may end.

    ``after`` must be a cut. All numbers below those of the changes must be decided, where it matters: see ``frontier``.
    """
    closed = _closed_spans(changes, is_ordered)
    places = sorted({change.place for change in changes if change.place > after})
    return [place for place in places if not _is_closed(closed, place)]


def is_cut(changes: Sequence[Change], place: int, *, is_ordered: bool) -> bool:
    """Tells whether a link may begin at the place, which need not be that of a change.

    ``changes`` are those before and behind it, up to a frontier.
    """
    return not _is_closed(_closed_spans(changes, is_ordered), place)


def _closed_spans(changes: Iterable[Change], is_ordered: bool) -> list[tuple[int, int]]:
    return _join([span for items in _by_partition(changes).values() for span in _inversions(items, is_ordered)])


def _is_closed(closed: Sequence[tuple[int, int]], place: int) -> bool:
    at = bisect_right(closed, place, key=lambda span: span[0]) - 1
    return at >= 0 and place < closed[at][1]


def _by_partition(changes: Iterable[Change]) -> dict[str, list[_Numbered]]:
    found: dict[str, list[_Numbered]] = {}
    for change in changes:
        for partition_id, number in change.block_numbers():
            found.setdefault(partition_id, []).append(_Numbered(change.place, number, False))
        for partition_id, number in change.command_numbers():
            found.setdefault(partition_id, []).append(_Numbered(change.place, number, True))
    return found


def _inversions(items: Sequence[_Numbered], is_ordered: bool) -> list[tuple[int, int]]:
    """Returns spans of places: no cut is at or behind the first place of a span and before its last.

    Only blocks are searched for: spans from a command to a lower block behind it or a higher block before it. With
    ``is_ordered``, spans from a block to a lower block behind it too.
    """
    blocks = sorted((item for item in items if not item.is_command), key=lambda item: item.place)
    places = [block.place for block in blocks]
    highest = list(accumulate((block.number for block in blocks), max))  # up to each block
    lowest = list(accumulate((block.number for block in reversed(blocks)), min))[::-1]  # from each block on
    spans = []
    for item in items:
        if not item.is_command and not is_ordered:
            continue
        last = bisect_left(lowest, item.number) - 1
        if last >= 0 and places[last] > item.place:
            spans.append((item.place, places[last]))
        first = bisect_right(highest, item.number)
        if first < len(places) and places[first] < item.place:
            spans.append((places[first], item.place))
    return spans


def _join(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins spans that overlap; returns them sorted."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
