"""Cuts: the places in a change stream at which a batch may end and a link may begin.

Commands cover blocks by number, and numbers are taken before the commit. So a command and a block of one partition may
commit in the other order than that of their numbers. Between two such commits no prefix of the stream gives the
source's rows, so nothing may end there: a block that commits late still belongs below its command, and a block that
commits early stays above it. Two commands may be parted: what the one covers, the other covers too, or it arrives
together with it.

In engines in which the order of blocks decides which row stays, the same holds between two blocks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

from coordination.links.stream.change import Change


class _Numbers:
    """The numbers of one partition and the places of their commits, in the order of the places."""

    def __init__(self) -> None:
        self.block_places, self.blocks = array("q"), array("q")
        self.command_places, self.commands = array("q"), array("q")


class StreamNumbers:
    """The block numbers of a stream and their places, which say where cuts are: 16 bytes for each."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Numbers] = {}

    def add(self, changes: Iterable[Change]) -> None:
        """Adds changes, which lie behind all others, in the order of their places."""
        for change in changes:
            for partition_id, number in change.block_numbers():
                numbers = self._of(partition_id)
                numbers.block_places.append(change.place)
                numbers.blocks.append(number)
            for partition_id, number in change.command_numbers():
                numbers = self._of(partition_id)
                numbers.command_places.append(change.place)
                numbers.commands.append(number)

    def _of(self, partition_id: str) -> _Numbers:
        return self._partitions.setdefault(partition_id, _Numbers())

    def select_cuts(self, places: Iterable[int], *, is_ordered: bool) -> list[int]:
        """Selects the places, which are ascending, at which a batch may end or a link may begin."""
        closed = _join([span for items in self._partitions.values() for span in _inversions(items, is_ordered)])
        return [place for place in places if not _is_closed(closed, place)]


def find_cuts(changes: Sequence[Change], after: int, *, is_ordered: bool) -> list[int]:
    """Lists the places of changes, ascending, at which a batch that begins behind ``after`` may end.

    ``after`` must be a cut. All numbers below those of the changes must be decided, where it matters: see ``frontier``.
    """
    places = sorted({change.place for change in changes if change.place > after})
    return _number(changes).select_cuts(places, is_ordered=is_ordered)


def is_cut(changes: Sequence[Change], place: int, *, is_ordered: bool) -> bool:
    """Tells whether a link may begin at the place, which need not be that of a change.

    ``changes`` are those before and behind it, up to a frontier.
    """
    return bool(_number(changes).select_cuts([place], is_ordered=is_ordered))


def _number(changes: Iterable[Change]) -> StreamNumbers:
    numbers = StreamNumbers()
    numbers.add(sorted(changes, key=lambda change: change.place))
    return numbers


def _is_closed(closed: Sequence[tuple[int, int]], place: int) -> bool:
    at = bisect_right(closed, place, key=lambda span: span[0]) - 1
    return at >= 0 and place < closed[at][1]


def _inversions(numbers: _Numbers, is_ordered: bool) -> Iterator[tuple[int, int]]:
    """Yields spans of places: no cut is at or behind the first place of a span and before its last.

    Only blocks are searched for: spans from a command to a lower block behind it or a higher block before it. With
    ``is_ordered``, spans from a block to a lower block behind it too.
    """
    places, blocks = numbers.block_places, numbers.blocks
    highest = array("q", accumulate(blocks, max))  # up to each block
    lowest = array("q", accumulate(reversed(blocks), min))[::-1]  # from each block on
    commands = zip(numbers.command_places, numbers.commands, strict=True)
    also = zip(places, blocks, strict=True) if is_ordered else ()
    for place, number in chain(commands, also):
        last = bisect_left(lowest, number) - 1
        if last >= 0 and places[last] > place:
            yield place, places[last]
        first = bisect_right(highest, number)
        if first < len(places) and places[first] < place:
            yield places[first], place


def _join(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins spans that overlap; returns them sorted."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
