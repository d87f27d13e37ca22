"""Runs of links over three tables: W is the source of N and E, and N is a source of E too (a chain and two paths).

A run is a list of numbers: each chooses one of the things that may happen next. It returns the first violation:

- a target's rows are not those of the source at the zxid that its vector names (nothing lost, doubled or early);
- a vector goes back, or a change's predecessor is missing;
- all is decided, and a target cannot reach the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordination.links.positions import Position
from coordination.links.stream import frontier as frontier_module
from coordination.links.stream.frontier import Frontier, Observation
from tests.links.source_model import Reader, Row, Source, make_origin
from tests.links.target_model import ModelTarget

PROGRAMS = (
    "IIM",
    "IID",
    "IQM",
    "QD",
    "MM",
    "IRI",
    "RM",
    "JM",
    "TM",
    "JIM",
    "TD",
    "AIM",
    "QQM",
    "IMID",
    "JTMDR",
    "JKT",
)


@dataclass
class Run:
    program: str
    is_ordered: bool = False
    """The engine lets the order of blocks decide, and the run compares it."""
    knows_order: bool | None = None
    """Whether the cuts know that it does; by default they do."""
    cancels: bool = False
    says_kinds: bool = True
    order: tuple[str, ...] = Reader.ORDER
    inserts_at_n: int = 0
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        self.source = Source(self.program, cancels=self.cancels, says_kinds=self.says_kinds)
        self.n, self.e = ModelTarget(make_origin(2)), ModelTarget(make_origin(3))
        self.readers: dict[str, Reader] = {}
        self.seen: dict[str, Observation] = {}
        self.own_names: list[str] = []

    def actions(self) -> list[Callable[[], object]]:
        found: list[Callable[[], object]] = list(self.source.actions())
        for name in ("n", "e"):
            found += [lambda name=name: self._read(name)] * 3
            found += [lambda cut=cut, name=name: self._pull(name, cut) for cut in self._cuts(name)]
        if len(self.own_names) < self.inserts_at_n:
            found.append(self._insert_at_n)
        found += [lambda cut=cut: self._relay(cut) for cut in self._relayed().cuts]
        return found

    def _insert_at_n(self) -> None:
        self.own_names.append(f"own{len(self.own_names)}")
        self.n.insert(self.own_names[-1])

    def _read(self, name: str) -> None:
        """The next read of W for a target. The observation stays until the next one is whole."""
        reader = self.readers.setdefault(name, Reader(self.source, self.order))
        observation = reader.step()
        if observation is not None:
            self.seen[name] = observation
            del self.readers[name]

    def _frontier(self, name: str) -> Frontier | None:
        if name not in self.seen:
            return None
        after = getattr(self, name).applied(self.source.origin)
        return frontier_module.find_frontier(
            self.seen[name],
            self.source.origin,
            after=after,
            previous=self.source.last_sent(after),
            is_ordered=self.is_ordered if self.knows_order is None else self.knows_order,
        )

    def _cuts(self, name: str) -> tuple[int, ...]:
        frontier = self._frontier(name)
        return frontier.cuts if frontier is not None else ()

    def _pull(self, name: str, cut: int) -> None:
        frontier = self._frontier(name)
        assert frontier is not None
        changes = [change for change in frontier.changes if change.place <= cut]
        getattr(self, name).take(changes, Position(self.source.origin, cut))

    def _relayed(self) -> Frontier:
        place = self.e.applied(self.n.origin)
        return frontier_module.find_frontier(
            self.n.observe(),
            self.n.origin,
            after=place,
            previous=self.n.last_own(place),
            is_ordered=self.is_ordered,
        )

    def _relay(self, cut: int) -> None:
        changes = [change for change in self._relayed().changes if change.place <= cut]
        self.e.take(changes, Position(self.n.origin, cut))

    def violation(self) -> str | None:
        own_at_e = [
            record.entry.content_hash
            for record in self.n.log
            if record.entry.content_hash and record.zxid <= self.e.applied(self.n.origin)
        ]
        for name, own in (("n", self.own_names), ("e", own_at_e)):
            target: ModelTarget = getattr(self, name)
            zxid = target.applied(self.source.origin)
            want, have = self.source.rows_at(zxid), target.rows()
            for partition_id, rows in want.items():
                expected = [*rows, *((block, ()) for block in own)] if partition_id == "p" else rows
                if not self._are_equal(expected, have[partition_id]):
                    return f"{name}, {partition_id}, zxid {zxid}: source {expected}, target {have[partition_id]}"
        return None

    def _are_equal(self, left: list[Row], right: list[Row]) -> bool:
        return left == right if self.is_ordered else sorted(left) == sorted(right)

    def finish(self) -> str | None:
        """Decides all, reads once more, and expects both targets at the end."""
        while not self.source.is_finished:
            next(iter(self.source.actions()))()
        for name in ("n", "e"):
            self.readers.pop(name, None)
            self._read(name)
            while name in self.readers:
                self._read(name)
            cuts = self._cuts(name)
            if cuts:
                self._pull(name, cuts[-1])
            last, applied = self.source.last_sent(self.source.zxid), getattr(self, name).applied(self.source.origin)
            if applied < last:
                return f"{name} stays at {applied}, and the source's last change is {last}"
        return self.violation()


def run_choices(run: Run, choices: Iterable[int]) -> str | None:
    """Returns the first violation, or ``None``."""
    for choice in choices:
        actions = run.actions()
        actions[choice % len(actions)]()
        if problem := run.violation():
            return problem
    return run.finish()


def find_violation(make_run: Callable[[str], Run], programs: Iterable[str], runs: int = 300) -> str | None:
    """Returns the first violation of random runs of each program."""
    for program in programs:
        for seed in range(runs):
            chance = random.Random(f"{program}-{seed}")
            problem = run_choices(make_run(program), [chance.randrange(10_000) for _ in range(60)])
            if problem is not None:
                return f"{program}, seed {seed}: {problem}"
    return None
