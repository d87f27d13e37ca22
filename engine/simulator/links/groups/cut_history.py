"""Decides whether readers of a transactional group saw the states of its source, commit by commit.

A history is the commits of one source in their order. Commit number *n* leads from state *n* - 1 to state *n*, where a
state is the rows of every table of the group; state 0 is before the first commit. A read is the rows of all tables that
one replica showed at one moment. It is right if it equals a state, and a replica's reads never go back.

What is wrong is told by as few facts as contradict each other: "t shows 5, which commit 3 inserted; u lacks 4, which
commit 2 inserted". A fact is true in some states and not in others. A contradiction is a smallest selection of facts
that have no state in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations

Rows = Mapping[str, Sequence[int]]
"""The keys of the rows of each table."""
_MOST_FACTS = 3
"""No more facts are searched through; what needs more of them is told as the difference from the nearest state."""
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the source: what it removed from each table, and what it added.

    A key is added once in a history, and removed at most once.
    """

    place: int
    """Its zxid there."""
    added: Rows = field(default_factory=dict)
    removed: Rows = field(default_factory=dict)
    name: str = ""
    """What it was, for people."""


@dataclass(frozen=True, slots=True)
class Read:
    """The rows of all tables that a reader saw at one moment."""

    reader: str
    """The replica. Its reads are in the order in which they were made."""
    rows: Rows
    place: int | None = None
    """The cut that it said it shows, a place of the source; ``None`` if it said nothing."""


@dataclass(frozen=True, slots=True)
class _Fact:
    text: str
    states: int
    """The states in which it is true: bit *n* stands for state *n*."""


class History:
    """The states of one source."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        """Raises ``AssertionError`` for commits out of order, and for a key that is added or removed twice."""
        self.commits = list(commits)
        self._added: dict[tuple[str, int], int] = {}
        self._removed: dict[tuple[str, int], int] = {}
        self._states: list[frozenset[tuple[str, int]]] = [frozenset()]
        for number, commit in enumerate(self.commits, 1):
            assert number == 1 or self.commits[number - 2].place <= commit.place, "commits are in their order"
            added, removed = set(_iterate(commit.added)), set(_iterate(commit.removed))
            assert not added & self._added.keys(), f"{commit} adds what is there"
            assert removed <= self._states[-1], f"{commit} removes what is not there"
            self._added |= dict.fromkeys(added, number)
            self._removed |= dict.fromkeys(removed, number)
            self._states.append((self._states[-1] - removed) | added)

    def find_number(self, place: int) -> int:
        """Returns the number of the last commit at or below a place; 0 if there is none."""
        return sum(commit.place <= place for commit in self.commits)

    def rows_at(self, number: int) -> dict[str, list[int]]:
        """Returns the rows of a state, sorted."""
        found: dict[str, list[int]] = {}
        for table, key in sorted(self._states[number]):
            found.setdefault(table, []).append(key)
        return found

    def find_states(self, rows: Rows) -> list[int]:
        """Returns the numbers of all states that have exactly these rows."""
        shown = Counter(_iterate(rows))
        if any(times > 1 for times in shown.values()):
            return []
        return [number for number, state in enumerate(self._states) if state == shown.keys()]

    # -- contradictions -----------------------------------------------------------------------------------------------

    def explain(self, read: Read, least: int = 0) -> str:
        """Says by what a read contradicts itself or an earlier read, which saw state ``least``."""
        facts = self._list_facts(read, least)
        for count in range(1, _MOST_FACTS + 1):
            for some in combinations(facts, count):
                if not reduce(lambda states, fact: states & fact.states, some, -1):
                    return "; ".join(fact.text for fact in some)
        nearest = min(range(len(self._states)), key=lambda number: len(self._differ(read, number)))
        return f"nearest is the state after {self._name(nearest)}: {self._differ(read, nearest)[:_MOST_NAMED]}"

    def _list_facts(self, read: Read, least: int) -> list[_Fact]:
        everything = (1 << len(self._states)) - 1
        facts = [_Fact(f"it showed {self._name(least)} before", everything & -(1 << least))] if least else []
        if read.place is not None:
            number = self.find_number(read.place)
            facts.append(_Fact(f"it says that it is at {read.place}, behind {self._name(number)}", 1 << number))
        shown = Counter(_iterate(read.rows))
        for (table, key), times in sorted(shown.items()):
            if times > 1:
                facts.append(_Fact(f"{table} shows {key} {times} times", 0))
            facts.append(_Fact(self._tell_shown(table, key), self._when(table, key)))
        for table, key in sorted(self._added.keys() - shown.keys()):
            facts.append(_Fact(self._tell_lacking(table, key), everything & ~self._when(table, key)))
        return facts

    def _when(self, table: str, key: int) -> int:
        """Returns the states that have a row."""
        begin, end = self._added.get((table, key)), self._removed.get((table, key), len(self._states))
        return (1 << end) - (1 << begin) if begin is not None else 0

    def _tell_shown(self, table: str, key: int) -> str:
        if (table, key) not in self._added:
            return f"{table} shows {key}, which no commit inserted"
        gone = self._removed.get((table, key))
        told = f"{table} shows {key}, which {self._name(self._added[table, key])} inserted"
        return told + (f" and {self._name(gone)} removed" if gone else "")

    def _tell_lacking(self, table: str, key: int) -> str:
        gone = self._removed.get((table, key))
        told = f"{table} lacks {key}, which {self._name(self._added[table, key])} inserted"
        return told + (f" and {self._name(gone)} removed" if gone else "")

    def _name(self, number: int) -> str:
        if not number:
            return "the beginning"
        commit = self.commits[number - 1]
        return f"commit {number} ({f'{commit.name}, ' if commit.name else ''}place {commit.place})"

    def _differ(self, read: Read, number: int) -> list[tuple[str, int]]:
        return sorted(self._states[number] ^ set(_iterate(read.rows)))


def find_contradiction(commits: Sequence[Commit], reads: Sequence[Read]) -> str:
    """Returns what is wrong with reads of a group, in plain words; "" if nothing is.

    ``commits`` are those of its source. Every read must equal the state after some of them. If it names a place, that
    is the state behind it. A reader sees no earlier state than before.
    """
    history = History(commits)
    seen: dict[str, int] = {}
    for number, read in enumerate(reads, 1):
        least = seen.get(read.reader, 0)
        states = [state for state in history.find_states(read.rows) if state >= least]
        if read.place is not None:
            states = [state for state in states if state == history.find_number(read.place)]
        if not states:
            return f"read {number}, of {read.reader}: {history.explain(read, least)}"
        seen[read.reader] = states[0]
    return ""


def find_wrong_report(lost: Sequence[Commit], told: Mapping[str, int]) -> str:
    """Returns what is wrong with a report of what a promotion lost, in plain words; "" if nothing is.

    ``lost``: the commits that do not count any more. ``told``: by table the number of rows that are reported. These are
    the rows that the lost commits inserted, also those that later ones of them removed.
    """
    rows: Counter[str] = Counter()
    for commit in lost:
        rows.update({table: len(keys) for table, keys in commit.added.items() if keys})
    wrong = [
        f"of {table} {told.get(table, 0)} rows are reported, and {rows[table]} are lost"
        for table in sorted(rows.keys() | told.keys())
        if rows[table] != told.get(table, 0)
    ]
    names = ", ".join(f"{commit.name} at {commit.place} of {dict(commit.added)}" for commit in lost)
    return "; ".join(wrong) + (f". Lost are: {names or 'no commits'}" if wrong else "")


def _iterate(rows: Rows) -> Iterator[tuple[str, int]]:
    return ((table, key) for table, keys in rows.items() for key in keys)
