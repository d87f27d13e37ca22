"""The commits of a cluster's own clients as its ZooKeeper accepted them, and the rows they give.

The history sees the multis that succeed, so it knows the block number and the zxid of everything. The rows of a prefix
of it follow from numbers alone: a command covers exactly the blocks of its partition with lower numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from parts.common.command_reach import find_reach

_MARK = re.compile(r"v = concat\(v, '( m\d+)'\).* WHERE k % (\d+) = (\d+)")
_DELETED = re.compile(r"WHERE k IN \(([\d, ]+)\)")


@dataclass(slots=True)
class Inserted:
    """A block of a client; all its keys are of one partition."""

    zxid: int
    partition: int
    number: int
    keys: tuple[int, ...]
    is_refused: bool = False
    """Whether its quorum failed: nobody may show it."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The blocks of a partition below ``number`` are gone."""

    zxid: int
    partition: int
    number: int


@dataclass(frozen=True, slots=True)
class Mutated:
    """An UPDATE or a DELETE.

    An UPDATE appends ``mark`` where the key divided by ``divisor`` leaves ``rest``.
    """

    zxid: int
    numbers: Mapping[int, int]
    mark: str = ""
    divisor: int = 1
    rest: int = 0
    deleted: frozenset[int] = frozenset()
    is_drop: bool = False
    reach: Mapping[str, int] | None = None
    """By cluster, as its UUID, the last commit whose rows it touches; ``None``: it goes by numbers alone."""
    text: str = ""

    @classmethod
    def parse(cls, zxid: int, numbers: Mapping[str, int], text: str) -> Mutated:
        """Parses a mutation's text."""
        by_partition = {int(partition): number for partition, number in numbers.items()}
        found_reach = find_reach(text)
        reach = None if found_reach is None else {o.partition(".")[0]: last for o, last in found_reach.positions}
        made = cls(zxid, by_partition, reach=reach, text=text)
        if "kind: drop" in text:
            return replace(made, is_drop=True)
        if found := _MARK.search(text):
            return replace(made, mark=found[1], divisor=int(found[2]), rest=int(found[3]))
        found = _DELETED.search(text)
        assert found is not None, f"the model does not know the mutation {text}"
        return replace(made, deleted=frozenset(map(int, found[1].split(", "))))

    def reaches(self, block: Inserted, cluster: str, *, is_own: bool) -> bool:
        """Tells whether it touches the rows of a block.

        ``cluster`` is the UUID of the block's, ``is_own`` whether the command was given there.
        """
        assert self.reach is not None
        is_below = block.number < self.numbers.get(block.partition, -1) if is_own else block.partition in self.numbers
        return is_below and block.zxid <= self.reach.get(cluster, 0)

    def covers(self, block: Inserted) -> bool:
        """Tells whether rows of the block existed when the mutation took its numbers."""
        return block.number < self.numbers.get(block.partition, -1)


Commit = Inserted | Dropped | Mutated
Rows = Mapping[int, Sequence[str]]
"""The values that are shown of each key."""


@dataclass
class CommitHistory:
    """The commits of one table's own clients, in the order of their zxids."""

    commits: list[Commit] = field(default_factory=list)

    def add(self, commit: Commit) -> None:
        """Adds the newest commit."""
        assert not self.commits or self.commits[-1].zxid <= commit.zxid
        self.commits.append(commit)

    def refuse(self, partition: int, number: int) -> int:
        """Notes that a block's quorum failed. Returns its zxid, 0 for a block of somebody else."""
        for commit in self.commits:
            if isinstance(commit, Inserted) and (commit.partition, commit.number) == (partition, number):
                commit.is_refused = True
                return commit.zxid
        return 0

    def of_partition(self, partition: int) -> list[Commit]:
        """Lists what concerns a partition."""
        return [
            commit
            for commit in self.commits
            if (partition in commit.numbers if isinstance(commit, Mutated) else commit.partition == partition)
        ]

    def newest(self) -> int:
        """Returns the zxid of the newest commit that must be everywhere; 0 if there is none."""
        kept = (c.zxid for c in self.commits if not (isinstance(c, Inserted) and c.is_refused))
        return max(kept, default=0)

    def keys(self) -> set[int]:
        """Returns the keys of all blocks that were not refused."""
        blocks = (commit for commit in self.commits if isinstance(commit, Inserted) and not commit.is_refused)
        return {key for block in blocks for key in block.keys}

    def commanded_rows(self, cluster: str, commands: Sequence[Mutated]) -> dict[int, list[str]]:
        """Returns what everybody shows in the end, if ``commands`` of any cluster touch rows by their places.

        ``cluster`` is the UUID of this table's cluster.
        """
        rows: dict[int, list[str]] = {}
        for block, _ in _possible_copies([commit for commit in self.commits if isinstance(commit, Inserted)]):
            touching = [each for each in commands if each.reaches(block, cluster, is_own=each in self.commits)]
            for key in block.keys:
                values = Copies(False, tuple(touching)).values(key)
                if not values.may_be_gone:
                    rows.setdefault(key, []).append(values.newest)
        return rows

    def final_rows(self) -> dict[int, list[str]]:
        """Returns what everybody shows in the end."""
        rows: dict[int, list[str]] = {}
        for block, copies in _possible_copies(self.commits):
            if not copies.is_dropped:
                for key in block.keys:
                    values = copies.values(key)
                    if not values.may_be_gone:
                        rows.setdefault(key, []).append(values.newest)
        return rows


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The values that may be shown of a key of one block."""

    texts: tuple[str, ...]
    """Its value after none, one, … of the UPDATEs."""
    may_be_gone: bool

    @property
    def newest(self) -> str:
        """The value after all UPDATEs."""
        return self.texts[-1]


@dataclass(frozen=True, slots=True)
class Copies:
    """One block after a prefix of the commits."""

    is_dropped: bool
    mutations: tuple[Mutated, ...]

    def values(self, key: int) -> KeyValues:
        """Returns what may be shown of a key while mutations go on, part by part."""
        texts = [f"value {key}"]
        is_deleted = False
        for mutation in self.mutations:
            is_deleted |= key in mutation.deleted or mutation.is_drop
            if mutation.mark and key % mutation.divisor == mutation.rest:
                texts.append(texts[-1] + mutation.mark)
        return KeyValues(tuple(texts), is_deleted)


def _possible_copies(commits: Sequence[Commit]) -> list[tuple[Inserted, Copies]]:
    drops: dict[int, int] = {}
    for commit in commits:
        if isinstance(commit, Dropped):
            drops[commit.partition] = max(commit.number, drops.get(commit.partition, 0))
    mutations = [commit for commit in commits if isinstance(commit, Mutated)]
    blocks = [commit for commit in commits if isinstance(commit, Inserted) and not commit.is_refused]
    return [
        (
            block,
            Copies(
                block.number < drops.get(block.partition, 0),
                tuple(mutation for mutation in mutations if mutation.covers(block)),
            ),
        )
        for block in blocks
    ]


def find_prefix(commits: Sequence[Commit], shown: Rows) -> int | None:
    """Returns how many of a partition's commits give these rows, ``None`` if no prefix does.

    A mutation of the prefix may have reached some blocks and not others.
    """
    for length in range(_least_length(commits, shown), len(commits) + 1):
        if _gives(commits[:length], shown):
            return length
    return None


def _least_length(commits: Sequence[Commit], shown: Rows) -> int:
    """Returns the length of the shortest prefix that has inserted every key that is shown."""
    missing = set(shown)
    for length, commit in enumerate(commits):
        if not missing:
            return length
        if isinstance(commit, Inserted) and not commit.is_refused:
            missing -= set(commit.keys)
    return len(commits) + bool(missing)


def _gives(commits: Sequence[Commit], shown: Rows) -> bool:
    must: Counter[int] = Counter()
    may: Counter[int] = Counter()
    texts: dict[int, set[str]] = {}
    for block, copies in _possible_copies(commits):
        if copies.is_dropped:
            continue
        for key in block.keys:
            values = copies.values(key)
            may[key] += 1
            must[key] += not values.may_be_gone
            texts.setdefault(key, set()).update(values.texts)
    return all(must[key] <= len(shown.get(key, ())) <= may[key] for key in may.keys() | shown.keys()) and all(
        set(values) <= texts[key] for key, values in shown.items()
    )
