"""The pure decisions under random inputs: part sets, the queue, the merge predicate, the selector, quorum, cleanup."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from coordination.inserts.deduplication_window import select_expired_block_ids
from coordination.inserts.quorum import QuorumStatus, format_last_parts, parse_last_parts
from coordination.keeper.interface import Stat
from coordination.log.log_entry import EntryType, LogEntry, drop_range_name
from coordination.log.part_set import PartSet
from coordination.log.queue_rules import Action, ActionKind, PoolLimits
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.merge_predicate import MergePredicate
from coordination.merges_mutations.mutation_set import MutationSet
from coordination.nodes.replica_positions import ReplicaPosition
from coordination.replicas.cleanup import find_sole_holders, select_log_entries_to_trim, select_lost_replicas
from parts.common.part_name import PartName, make_merged_name
from parts.merge.merge_selector import (
    PART_OVERHEAD_BYTES,
    SMALL_PARTS_MAX_AGE_SECONDS,
    SMALL_PARTS_PER_MERGE,
    MergeCandidate,
    compute_balance_bases,
    compute_max_merge_bytes,
    select_merge,
)


@st.composite
def part_names(draw: st.DrawFn) -> PartName:
    low = draw(st.integers(0, 12))
    high = draw(st.integers(low, min(low + 4, 12)))
    return PartName("p", low, high, draw(st.integers(0, 3)))


@given(st.lists(part_names(), max_size=30))
def test_part_set_agrees_with_a_plain_set(candidates: list[PartName]) -> None:
    fast, plain = PartSet(), set[PartName]()
    for part in candidates:
        if any(part.intersects(other) for other in plain):
            continue
        if any(other.covers(part) for other in plain):
            assert not fast.add(part)
        else:
            assert fast.add(part)
            plain = {other for other in plain if not part.covers(other)} | {part}
        assert set(fast) == plain
        for probe in candidates:
            expected = next((other for other in plain if other.covers(probe)), None)
            assert fast.find_covering(probe) == expected
            assert set(fast.list_covered_by(probe)) == {other for other in plain if probe.covers(other)}
            assert set(fast.list_overlapping(probe)) == {other for other in plain if not probe.is_disjoint(other)}
    ordered = fast.parts("p")
    assert ordered == sorted(ordered)
    for left in ordered:
        for right in ordered:
            if left.max_block < right.min_block:
                assert fast.between(left, right) == ordered[ordered.index(left) + 1 : ordered.index(right)]


class MergePredicateMachine(RuleBasedStateMachine):
    """Inserts, merges and drops of several leaders, whose predicates are read in steps that interleave.

    The model is the log (with its version), the locks, and what each leader has pulled. Whatever the interleaving, the
    parts that the log makes never intersect.
    """

    leaders = 3

    @initialize()
    def begin(self) -> None:
        self.log: list[LogEntry] = []
        self.version = 0
        self.counter = 0
        self.locks: set[int] = set()
        self.pulled = [0] * self.leaders
        self.virtual = [PartSet() for _ in range(self.leaders)]
        self.reads: list[dict[str, object]] = [{} for _ in range(self.leaders)]

    def _pull(self, leader: int) -> None:
        for entry in self.log[self.pulled[leader] :]:
            assert entry.new_part is not None
            if entry.removed_ranges:
                self.virtual[leader].remove_covered(entry.new_part)
            else:
                self.virtual[leader].add(entry.new_part)  # raises if it intersects
        self.pulled[leader] = len(self.log)

    @rule()
    def take_number(self) -> None:
        self.locks.add(self.counter)
        self.counter += 1

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def commit_insert(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.locks)))
        self.locks.remove(number)
        self.log.append(LogEntry(EntryType.GET_PART, PartName("p", number, number, 0), 0.0, "r"))

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def lose_number(self, data: st.DataObject) -> None:
        self.locks.remove(data.draw(st.sampled_from(sorted(self.locks))))

    @rule()
    def drop(self) -> None:
        """One multi: the number, the log entry, the version, the locks below."""
        below, self.counter = self.counter, self.counter + 1
        self.locks = {number for number in self.locks if number > below}
        self.log.append(LogEntry(EntryType.DROP_RANGE, drop_range_name("p", below), 0.0, "r"))
        self.version += 1

    @rule(leader=st.integers(0, leaders - 1))
    def pull(self, leader: int) -> None:
        self._pull(leader)

    @rule(leader=st.integers(0, leaders - 1))
    def read_snapshot(self, leader: int) -> None:
        self.reads[leader] = {"version": self.version, "snapshot": self.virtual[leader].copy()}

    @precondition(lambda self: any("snapshot" in read for read in self.reads))
    @rule(leader=st.integers(0, leaders - 1))
    def read_locks(self, leader: int) -> None:
        if "snapshot" in self.reads[leader]:
            self.reads[leader]["locks"] = sorted(self.locks)

    @precondition(lambda self: any("locks" in read for read in self.reads))
    @rule(leader=st.integers(0, leaders - 1), data=st.data())
    def pull_and_assign(self, leader: int, data: st.DataObject) -> None:
        read, self.reads[leader] = self.reads[leader], {}
        if "locks" not in read:
            return
        self._pull(leader)
        predicate = MergePredicate(
            read["version"],
            read["snapshot"],
            frozenset(),
            {"p": read["locks"]},
            self.virtual[leader].copy(),  # type: ignore[arg-type]
            MutationSet(),
        )
        runs = [run for run in predicate.list_mergeable_runs("p") if len(run) >= 2]
        if not runs or predicate.log_version != self.version:
            return
        run = data.draw(st.sampled_from(runs))
        begin = data.draw(st.integers(0, len(run) - 2))
        sources = run[begin : data.draw(st.integers(begin + 2, len(run)))]
        merged = make_merged_name(sources)
        self.log.append(LogEntry(EntryType.MERGE_PARTS, merged, 0.0, "r", source_parts=tuple(sources)))
        self.version += 1

    @invariant()
    def log_never_makes_intersecting_parts(self) -> None:
        if not hasattr(self, "log"):
            return
        virtual = PartSet()
        for entry in self.log:
            assert entry.new_part is not None
            if entry.removed_ranges:
                virtual.remove_covered(entry.new_part)
            elif entry.type is EntryType.MERGE_PARTS:
                assert all(source in virtual for source in entry.source_parts), entry
                virtual.add(entry.new_part)
                assert set(virtual.list_covered_by(entry.new_part)) == {entry.new_part}
            else:
                virtual.add(entry.new_part)


MergePredicateMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)
TestMergePredicate = MergePredicateMachine.TestCase


class QueueMachine(RuleBasedStateMachine):
    """One replica's queue fed with a valid log; executions start, fail and end in any order."""

    running = Bundle("running")

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        # Nothing is looked at for the sake of time alone: whatever an entry waits for must be heard of.
        self.queue = ReplicationQueue("r1", lambda: 0.0, lambda: self.now, recheck_seconds=math.inf)
        self.active = PartSet()
        self.made = PartSet()
        self.counter = 0
        self.names = 0
        self.executing: dict[str, Action] = {}
        self.dropped_below = 0

    def covering_active(self, part: PartName) -> PartName | None:
        return self.active.find_covering(part)

    def size_bytes(self, part: PartName) -> int:
        return part.max_block - part.min_block + 1

    def _add(self, entry: LogEntry) -> None:
        self.queue.add(f"queue-{self.names:010d}", entry)
        self.names += 1

    @rule()
    def log_insert(self) -> None:
        part = PartName("p", self.counter, self.counter, 0)
        self.counter += 1
        self.made.add(part)
        self._add(LogEntry(EntryType.GET_PART, part, self.now, "r2"))

    @precondition(lambda self: len(self.made) >= 2)
    @rule(data=st.data())
    def log_merge(self, data: st.DataObject) -> None:
        parts = self.made.parts("p")
        begin = data.draw(st.integers(0, len(parts) - 2))
        sources = parts[begin : data.draw(st.integers(begin + 2, len(parts)))]
        merged = make_merged_name(sources)
        self.made.add(merged)
        self._add(LogEntry(EntryType.MERGE_PARTS, merged, self.now, "r2", source_parts=tuple(sources)))

    @rule()
    def log_drop(self) -> None:
        if self.counter == 0:
            return
        gone = drop_range_name("p", self.counter)
        self.counter += 1
        self.made.remove_covered(gone)
        self._add(LogEntry(EntryType.DROP_RANGE, gone, self.now, "r2"))

    @rule(target=running, merges=st.integers(0, 2), fetches=st.integers(0, 2), limit=st.integers(1, 20))
    def start(self, merges: int, fetches: int, limit: int) -> Action | None:
        self.now += 1
        action = self.queue.take_next_action(self, PoolLimits(merges, fetches, limit))
        if action is None:
            return None
        entry = action.entry
        assert entry.new_part is not None
        for other in self.executing.values():
            assert other.entry.new_part is not None
            if ActionKind.SKIP not in (action.kind, other.kind):
                assert other.entry.new_part.is_disjoint(entry.new_part), (other, action)
        if action.kind is ActionKind.MERGE:
            assert merges > 0
            assert all(source in self.active for source in entry.source_parts)
            assert sum(map(self.size_bytes, entry.source_parts)) <= limit
        if action.kind is ActionKind.FETCH:
            assert fetches > 0
        self.executing[action.name] = action
        return action

    @rule(action=consumes(running), is_success=st.booleans())
    def end(self, action: Action | None, is_success: bool) -> None:
        if action is None or self.executing.pop(action.name, None) is None:
            return
        part = action.entry.new_part
        assert part is not None
        if not is_success:
            self.queue.fail(action.name, "failed")
        elif action.kind is ActionKind.DROP_RANGE:
            self.active.remove_covered(part)
            for name in [*self.queue.list_covered_entries(action.name), action.name]:
                self.queue.finish(name)
        else:
            if action.kind is not ActionKind.SKIP:
                self.active.add(part)
            self.queue.finish(action.name)

    @invariant()
    def virtual_parts_are_what_the_log_makes(self) -> None:
        if hasattr(self, "queue"):
            assert set(self.queue.copy_virtual_parts()) == set(self.made)

    def teardown(self) -> None:
        """Every queue drains once everything succeeds."""
        if not hasattr(self, "queue"):
            return
        for action in list(self.executing.values()):
            self.end(action, False)
        for _ in range(10 * self.names + 10):
            self.now += 100
            action = self.queue.take_next_action(self, PoolLimits(9, 9, 1 << 40))
            if action is None:
                break
            self.executing[action.name] = action
            self.end(action, True)
        assert not self.queue.list_entries()
        assert set(self.active) == set(self.made)


QueueMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestQueue = QueueMachine.TestCase


@given(st.lists(st.integers(1, 1 << 30), min_size=2, max_size=60), st.integers(0, 10**6), st.integers(1, 1 << 33))
def test_selector_keeps_its_limits(sizes: list[int], age: int, max_bytes: int) -> None:
    run = [PartName("p", i, i, 0) for i in range(len(sizes))]
    chosen = select_merge([run], lambda p: MergeCandidate(sizes[p.min_block], age), max_bytes=max_bytes, max_parts=10)
    if chosen:
        assert 2 <= len(chosen) <= 10
        first = chosen[0].min_block
        assert chosen == run[first : first + len(chosen)]
        assert sum(sizes[p.min_block] for p in chosen) <= max_bytes


facts = st.builds(MergeCandidate, st.integers(1, 4000) | st.integers(1, 1 << 24), st.floats(0, 2) | st.floats(0, 1e5))


@given(st.lists(facts, min_size=2, max_size=50), st.integers(1, 1 << 26), st.integers(2, 40))
def test_selector_finds_the_best_of_all_windows(parts: list[MergeCandidate], max_bytes: int, max_parts: int) -> None:
    def cost(window: list[MergeCandidate]) -> float:
        total, largest = sum(part.size_bytes for part in window), max(part.size_bytes for part in window)
        youngest = min(part.age_seconds for part in window)
        is_soon = total < PART_OVERHEAD_BYTES and all(part.age_seconds < SMALL_PARTS_MAX_AGE_SECONDS for part in window)
        (base,) = compute_balance_bases(np.array([youngest]), len(parts))
        if (
            total > max_bytes
            or total + PART_OVERHEAD_BYTES < base * largest
            or (is_soon and len(window) < SMALL_PARTS_PER_MERGE)
        ):
            return math.inf
        return (total + len(window) * PART_OVERHEAD_BYTES) / (len(window) - 1) ** 1.1

    run = [PartName("p", i, i, 0) for i in range(len(parts))]
    chosen = select_merge([run], lambda p: parts[p.min_block], max_bytes=max_bytes, max_parts=max_parts)
    windows = [parts[a : a + n] for n in range(2, max_parts + 1) for a in range(len(parts) - n + 1)]
    least = min(map(cost, windows))
    assert (cost([parts[p.min_block] for p in chosen]) if chosen else math.inf) == least


def test_selector_prefers_many_equal_neighbours_over_a_large_one() -> None:
    sizes = [10**9, *[10**4] * 8, 10**9]
    run = [PartName("p", i, i, 0) for i in range(len(sizes))]
    chosen = select_merge([run], lambda p: MergeCandidate(sizes[p.min_block], 10), max_bytes=1 << 40)
    assert chosen == run[1:9]


def _chosen_of_small(parts: int, age_of_first: float) -> int:
    run = [PartName("p", i, i, 0) for i in range(parts)]
    ages = [age_of_first, *[0.0] * (parts - 1)]
    return len(select_merge([run], lambda p: MergeCandidate(500, ages[p.min_block]), max_bytes=1 << 40))


def test_small_parts_wait_until_they_are_many_or_a_moment_old() -> None:
    assert _chosen_of_small(SMALL_PARTS_PER_MERGE - 1, 0.0) == 0
    assert _chosen_of_small(SMALL_PARTS_PER_MERGE, 0.0) == SMALL_PARTS_PER_MERGE
    assert _chosen_of_small(2, SMALL_PARTS_MAX_AGE_SECONDS) == 2


def test_a_stream_of_single_rows_is_merged_by_dozens() -> None:
    """200 inserts a second for a minute, a look of the selector every quarter of a second."""
    parts: list[tuple[PartName, int, float]] = []
    merged = merges = most = 0
    for number in range(60 * 200):
        now = number / 200
        parts.append((PartName("p", number, number, 0), 500, now))
        most = max(most, len(parts))
        while number % 50 == 0:
            known = {part: MergeCandidate(size, now - made) for part, size, made in parts}
            chosen = select_merge([list(known)], known.__getitem__, max_bytes=1 << 50)
            if not chosen:
                break
            merges += 1
            merged += sum(part.level == 0 for part in chosen)
            at = list(known).index(chosen[0])
            size = sum(known[part].size_bytes for part in chosen)
            parts[at : at + len(chosen)] = [(make_merged_name(chosen), size, now)]
    assert merged > 24 * merges
    assert most < 150


@pytest.mark.long
def test_write_amplification_is_logarithmic() -> None:
    """10,000 equal inserts, each followed by one look of the selector."""
    block, written, parts = 10**6, 0, list[tuple[PartName, int]]()
    for number in range(2000):
        parts.append((PartName("p", number, number, 0), block))
        known = dict(parts)
        chosen = select_merge(
            [[part for part, _ in parts]],
            lambda p, known=known: MergeCandidate(known[p], 60),
            max_bytes=1 << 50,  # type: ignore[misc]
        )
        if chosen:
            total = sum(known[part] for part in chosen)
            written += total
            at = parts.index((chosen[0], known[chosen[0]]))
            parts[at : at + len(chosen)] = [(make_merged_name(chosen), total)]
    assert len(parts) < 40
    assert written / (2000 * block) < 12


def test_size_limit_sinks_with_free_slots() -> None:
    limits = [compute_max_merge_bytes(free, 16) for free in range(17)]
    assert limits == sorted(limits)
    assert (limits[0], limits[1], limits[16]) == (0, 1024**2, 150 * 1024**3)


positions = st.builds(
    ReplicaPosition,
    name=st.uuids().map(str),
    pointer=st.none() | st.integers(0, 100),
    is_active=st.booleans(),
    is_lost=st.booleans(),
    host_version=st.just(1),
)


@given(st.lists(positions, max_size=6), st.integers(0, 30), st.integers(0, 100))
def test_cleanup_never_loses_all_and_never_trims_under_a_live_pointer(
    replicas: list[ReplicaPosition], min_logs: int, max_logs: int
) -> None:
    lost = select_lost_replicas(99, replicas, frozenset(), max_logs=max_logs)
    alive_before = [r for r in replicas if not r.is_lost]
    assert not alive_before or len(lost) < len(alive_before)
    assert not any(r.is_active or r.is_lost for r in lost)
    trimmed = select_log_entries_to_trim(range(100), replicas, min_logs=min_logs)
    assert trimmed == list(range(len(trimmed)))
    assert len(trimmed) <= 100 - min_logs
    for replica in replicas:
        if replica.pointer is not None and (replica.is_active or not replica.is_lost):
            assert all(index < replica.pointer for index in trimmed)


def test_sole_holder_of_an_awaited_part() -> None:
    held = {"a": PartSet([PartName("p", 0, 0, 0)]), "b": PartSet([PartName("p", 1, 3, 1)]), "c": PartSet()}
    awaited = [PartName("p", 0, 0, 0), PartName("p", 9, 9, 0)]
    assert find_sole_holders(held, awaited) == {"a": awaited[0]}
    assert find_sole_holders(held, [PartName("p", 2, 2, 0)]) == {"b": PartName("p", 2, 2, 0)}


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 20), st.integers(0, 1000))
def test_block_window_keeps_the_newest(ages: list[int], window: int, seconds: int) -> None:
    times = sorted(ages)
    blocks = [(f"b{i}", Stat(0, 0, i, i, t * 1000, t * 1000, 0, 0, 0)) for i, t in enumerate(times)]
    removed = set(select_expired_block_ids(blocks, window=window, window_seconds=seconds))
    kept = [int(name[1:]) for name, _ in blocks if name not in removed]
    assert kept == list(range(len(blocks) - len(kept), len(blocks)))
    assert len(kept) <= window
    assert all(times[-1] - times[i] <= seconds for i in kept)
    assert not blocks or kept


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8), st.integers(2, 4))
def test_quorum_counts_each_replica_once(names: list[str], required: int) -> None:
    status = QuorumStatus("all_1_1_0", required, ("owner",), "owner", "id")
    for name in names:
        status = QuorumStatus.parse(status.with_replica(name).to_bytes())
    assert len(status.replicas) == len(set(status.replicas)) == 1 + len(set(names))
    assert status.is_met == (1 + len(set(names)) >= required)


def test_last_parts_round_trip() -> None:
    assert parse_last_parts(b"") == {}
    assert parse_last_parts(format_last_parts({"p": "p_1_1_0"})) == {"p": "p_1_1_0"}
