"""Merges, inserts, drops and mutations that come between the steps of each other: what every block goes through."""

from __future__ import annotations

import random
from collections import Counter

from coordination.log.log_entry import EntryType, LogEntry, drop_range_name
from coordination.log.part_set import PartSet
from coordination.merges_mutations.merge_assignment import make_mutate_part_entry
from coordination.merges_mutations.merge_predicate import MergePredicate
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet, select_removable_mutations
from parts.common.part_name import PartName, make_merged_name


class Model:
    """Inserts, merges, drops and mutations of several leaders, whose predicates are read in steps that interleave.

    It is the log (with its version), the locks, and what each leader has pulled; of every block the mutations that it
    went through. Whatever the interleaving, the parts that the log makes never intersect, and each block goes through
    the mutations behind it that were not killed before, in their order, and through no others.
    """

    leaders = 3

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: list[LogEntry] = []
        self.version = self.counter = self.created = 0
        self.locks: set[int] = set()
        self.pulled = [0] * self.leaders
        self.virtual = [PartSet() for _ in range(self.leaders)]
        self.finished = [""] * self.leaders
        self.begun: tuple[int, int] | None = None
        """The number of a mutation that is being created, and how many there had been."""
        self.mutations: list[MutationEntry] = []
        self.done: set[int] = set()
        """Numbers of mutations that were removed since all were done with them."""
        self.applied: dict[int, list[int]] = {}
        """Block → numbers of mutations."""
        self.counts: Counter[str] = Counter()

    def run(self, steps: int) -> None:
        weights = {"insert": 6, "lose": 1, "mutation": 3, "kill": 0.2, "drop": 0.3, "assign": 8, "finish": 1}
        for _ in range(steps):
            (name,) = self.random.choices(list(weights), list(weights.values()))
            getattr(self, name)()
            self.check()

    def step_others(self) -> None:
        """In the middle of something."""
        for _ in range(self.random.choice((0, 0, 1, 2))):
            getattr(
                self, self.random.choice(("insert", "lose", "mutation", "drop" if self.counter % 9 == 0 else "kill"))
            )()

    def insert(self) -> None:
        if self.locks and self.random.random() < 0.5:
            number = self.random.choice(sorted(self.locks))
            if self.begun is None or number != self.begun[0]:
                self.locks.remove(number)
                self.log.append(LogEntry(EntryType.GET_PART, PartName("p", number, number, 0), 0.0, "r"))
                self.counts["insert"] += 1
        else:
            self.locks.add(self.counter)
            self.counter += 1

    def lose(self) -> None:
        if self.locks:
            self.locks.remove(self.random.choice(sorted(self.locks)))

    def mutation(self) -> None:
        """Taking the number, or the multi that makes it."""
        if self.begun is None:
            self.begun = (self.counter, self.created)
            self.locks.add(self.counter)
            self.counter += 1
            return
        (number, created), self.begun = self.begun, None
        if number in self.locks:
            self.locks.remove(number)
            if created == self.created:
                self.mutations.append(MutationEntry(f"{created:010d}", 0.0, "r", "", {"p": number}))
                self.created += 1

    def kill(self) -> None:
        if self.mutations:
            self.mutations.remove(self.random.choice(self.mutations))

    def drop(self) -> None:
        below, self.counter = self.counter, self.counter + 1
        self.locks = {number for number in self.locks if number > below}
        self.log.append(LogEntry(EntryType.DROP_RANGE, drop_range_name("p", below), 0.0, "r"))
        self.version += 1

    def pull(self, leader: int) -> None:
        for entry in self.log[self.pulled[leader] :]:
            assert entry.new_part is not None
            if entry.removed_ranges:
                self.virtual[leader].remove_covered(entry.new_part)
            else:
                self.virtual[leader].add(entry.new_part)  # raises if it intersects
        self.pulled[leader] = len(self.log)

    def assign(self) -> None:
        """As ``build_predicate`` reads, with others between the steps."""
        leader = self.random.randrange(self.leaders)
        version = self.version
        self.step_others()
        snapshot = self.virtual[leader].copy()
        self.step_others()
        committing = {"p": sorted(self.locks)}
        self.step_others()
        self.pull(leader)
        current = self.virtual[leader].copy()
        self.step_others()
        mutations = MutationSet(tuple(self.mutations))
        predicate = MergePredicate(version, snapshot, frozenset(), committing, current, mutations)
        self.step_others()
        if version == self.version:
            self._mutate(predicate) if self.random.random() < 0.5 else self._merge(predicate)

    def _mutate(self, predicate: MergePredicate) -> None:
        parts = [part for part in sorted(predicate.snapshot) if predicate.why_not_mergeable(part) is None]
        source = self.random.choice(parts) if parts else None
        chosen = predicate.mutations.list_next_mutations(source, 0, self.random.randint(1, 3)) if source else []
        if source and chosen:
            self.log.append(make_mutate_part_entry(source, chosen, "r", 0.0, metadata_version=0))
            self.version += 1
            self.counts["mutate"] += 1
            for block in range(source.min_block, source.max_block + 1):
                self.applied.setdefault(block, []).extend(mutation.numbers["p"] for mutation in chosen)

    def _merge(self, predicate: MergePredicate) -> None:
        runs = [run for run in predicate.list_mergeable_runs("p") if len(run) >= 2]
        if runs:
            run = self.random.choice(runs)
            begin = self.random.randrange(len(run) - 1)
            sources = run[begin : self.random.randrange(begin + 2, len(run) + 1)]
            self.log.append(
                LogEntry(EntryType.MERGE_PARTS, make_merged_name(sources), 0.0, "r", source_parts=tuple(sources))
            )
            self.version += 1
            self.counts["merge"] += 1

    def finish(self) -> None:
        """What all are done with is forgotten."""
        known = MutationSet(tuple(self.mutations))
        for leader in range(self.leaders):
            committing = {"p": sorted(self.locks)}
            self.step_others()
            self.pull(leader)
            self.finished[leader] = known.find_finished_up_to(
                self.finished[leader], committing, list(self.virtual[leader])
            )
        for id_ in select_removable_mutations([m.mutation_id for m in self.mutations], self.finished, 1):
            (gone,) = [mutation for mutation in self.mutations if mutation.mutation_id == id_]
            self.mutations.remove(gone)
            self.done.add(gone.numbers["p"])
            self.counts["finished"] += 1

    def check(self) -> None:
        virtual = PartSet()
        for entry in self.log:
            assert entry.new_part is not None
            if entry.removed_ranges:
                virtual.remove_covered(entry.new_part)
                continue
            assert all(source in virtual for source in entry.source_parts), entry
            assert virtual.add(entry.new_part), "it comes after what was merged over it"
        blocks = {entry.new_part.min_block for entry in self.log if entry.new_part and not entry.source_parts}
        for part in virtual:
            for block in blocks.intersection(range(part.min_block, part.max_block + 1)):
                seen = self.applied.get(block, [])
                assert seen == sorted(set(seen)), "twice, or out of order"
                assert all(block < number for number in seen), "it was there before the block"
                due = {m.numbers["p"] for m in self.mutations if block < m.numbers["p"] <= part.data_version}
                due |= {number for number in self.done if block < number}
                assert due <= set(seen), (part, block, due, seen)


def test_whatever_interleaves() -> None:
    counts: Counter[str] = Counter()
    for seed in range(130):
        model = Model(seed)
        model.run(100)
        counts += model.counts
    assert all(counts[name] > 30 for name in ("insert", "merge", "mutate", "finished")), counts
