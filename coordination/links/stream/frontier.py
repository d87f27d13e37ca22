"""The frontier: the last cut of a table's change stream up to which everything is decided.

The order of the reads (:class:`Observation`) is the proof:

1. log, mutations, definitions: their newest zxid is the bound;
2. block numbers being committed (locks), then what each lock is for;
3. open quorums; 4. failed quorums;
5. log, mutations, definitions again.

A number that was taken before a change at or below the bound was taken before step 2. There are three cases. Its lock
still exists at step 2, and the change waits for it. Nothing was committed with it, and nothing will be. Or its commit
is in step 5, and the cuts respect it. What only step 5 finds may lack a neighbour that was taken after step 2, so it
is never sent; it shows where no cut is. Likewise a quorum that is not open at step 3 is met, or failed by step 4.

Only these wait: a change above the undecided number of a command, a mutation above any undecided number, and a block
whose quorum is open. Where the order of blocks counts, everything above an undecided number waits. Without commands
nothing waits.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from coordination.inserts.block_numbers import LockKind
from coordination.links.positions import Origin
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import Reading, build_changes
from coordination.links.stream.cuts import StreamNumbers
from coordination.links.stream.own_origins import OwnOrigins
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class Lock:
    """A block number that was taken and is not decided. ``kind`` is ``None`` if its owner did not say."""

    partition_id: str
    number: int
    kind: LockKind | None = None

    @property
    def may_be_command(self) -> bool:
        """A lock without a kind counts as a command's: an older server took it."""
        return self.kind is not LockKind.BLOCK


def select_undecided(
    listed: Mapping[str, Sequence[int]], kinds: Mapping[tuple[str, int], LockKind | None]
) -> tuple[Lock, ...]:
    """Returns the locks that were listed and could then be read, by partition and number.

    A lock that vanished between the two is decided: its commit, if there was one, is in the next reading of the log.
    """
    return tuple(
        Lock(partition_id, number, kinds[partition_id, number])
        for partition_id, numbers in listed.items()
        for number in numbers
        if (partition_id, number) in kinds
    )


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of one table, read in the order of the fields."""

    first: Reading
    locks: tuple[Lock, ...]
    open_quorums: frozenset[PartName]
    """All parts that wait, those of transactions too."""
    failed_quorums: frozenset[PartName]
    second: Reading
    lost: tuple[PartName, ...] = ()
    """Blocks of which no rows are left anywhere."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The changes that may be sent, and the places where a batch of them may end."""

    place: int
    """The last cut, or the place from which was asked."""
    end: int
    """The last place of all at which a batch may end or a link begin. No change lies between the last cut and it."""
    changes: tuple[Change, ...]
    """Those up to the last cut."""
    cuts: tuple[int, ...]
    waits: tuple[str, ...]
    """What holds the frontier back, for people."""


def find_frontier(
    observation: Observation,
    own: Origin | OwnOrigins,
    *,
    after: int = 0,
    previous: int = 0,
    is_ordered: bool = False,
) -> Frontier:
    """Returns the frontier and the changes behind ``after``, which is a cut.

    ``own`` and ``previous``: see ``build_changes``. ``is_ordered``: the order of blocks decides which row stays.
    """
    known = build_changes(
        observation.first.complete(observation.second),
        own,
        after=after,
        previous=previous,
        failed=observation.failed_quorums,
        lost=observation.lost,
    )
    search = FrontierSearch(observation, observation.first.newest, after=after, is_ordered=is_ordered)
    search.add(known)
    found = search.finish()
    return replace(found, changes=tuple(change for change in known if change.place <= found.place))


class FrontierSearch:
    """Finds the frontier of a stream that is too long to be in memory as a whole.

    It keeps 24 bytes for a block.
    """

    def __init__(self, observation: Observation, bound: int, *, after: int, is_ordered: bool) -> None:
        """Of the observation only what is open counts. ``bound``: the newest zxid of its first reading."""
        self._undecided = _Undecided.of(observation, is_ordered=is_ordered)
        self._bound, self._after, self._is_ordered = bound, after, is_ordered
        self._waits: dict[str, int] = {}
        """The first place that is held back, by reason."""
        self._numbers = StreamNumbers()
        self._places = array("q")

    def add(self, changes: Iterable[Change]) -> None:
        """Adds the changes that the second reading has, page by page in the order of their places."""
        for change in changes:
            for reason in self._undecided.why_held(change):
                self._waits.setdefault(reason, change.place)
            self._numbers.add((change,))
            if not self._places or self._places[-1] != change.place:
                self._places.append(change.place)

    def finish(self) -> Frontier:
        """Returns the frontier, without the changes."""
        bound = min([self._bound, *(place - 1 for place in self._waits.values())])
        places = self._places[: bisect_right(self._places, bound)]
        cuts = self._numbers.select_cuts(places, is_ordered=self._is_ordered)
        place = cuts[-1] if cuts else self._after
        end = place if places and places[-1] > place else max(place, bound)
        return Frontier(place, end, (), tuple(cuts), tuple(sorted(self._waits, key=self._waits.__getitem__)))


@dataclass(frozen=True, slots=True)
class _Undecided:
    """What is open: by partition the least undecided number of any kind and of a command, and the quorums."""

    any_kind: Mapping[str, int]
    command: Mapping[str, int]
    open_quorums: frozenset[PartName]
    is_ordered: bool

    @classmethod
    def of(cls, observation: Observation, *, is_ordered: bool) -> _Undecided:
        """Collects it from what was read."""
        commands = [lock for lock in observation.locks if lock.may_be_command]
        return cls(_lowest(observation.locks), _lowest(commands), observation.open_quorums, is_ordered)

    def why_held(self, change: Change) -> Iterator[str]:
        """Yields why the change may not be sent yet."""
        for block in change.blocks:
            if block.part in self.open_quorums:
                yield f"the quorum of part {block.part} is open"
        mutated = set(change.mutation_numbers())
        for partition_id, number in change.numbers():
            waits_for_all = self.is_ordered or (partition_id, number) in mutated
            lowest = (self.any_kind if waits_for_all else self.command).get(partition_id)
            if lowest is not None and lowest < number:
                yield f"block number {lowest} of partition {partition_id} is not decided"


def _lowest(locks: Iterable[Lock]) -> dict[str, int]:
    """Returns the least number by partition."""
    lowest: dict[str, int] = {}
    for lock in locks:
        lowest[lock.partition_id] = min(lock.number, lowest.get(lock.partition_id, lock.number))
    return lowest
