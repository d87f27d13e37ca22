"""How much a long queue looks at: what is new or freed, never all that waits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from coordination.log.log_entry import EntryType, LogEntry, StagedPart, drop_range_name
from coordination.log.queue_index import QueueIndex, QueueItem
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.merge_assignment import make_merge_entry
from parts.common.part_name import PartName

COUNT = 1000
ALL = PoolLimits(3, 4, 1 << 60)


class Disk:
    def __init__(self) -> None:
        self.parts: set[PartName] = set()
        self.sizes: dict[PartName, int] = {}

    def covering_active(self, part: PartName) -> PartName | None:
        return part if part in self.parts else None

    def size_bytes(self, part: PartName) -> int:
        return self.sizes.get(part, 1)


def queue_of(entries: list[LogEntry]) -> ReplicationQueue:
    queue = ReplicationQueue("r1", lambda: 100.0, lambda: 100.0, recheck_seconds=math.inf)
    for number, entry in enumerate(entries):
        queue.add(f"queue-{number:010d}", entry)
    return queue


def fetch(number: int) -> LogEntry:
    return LogEntry(EntryType.GET_PART, PartName("p", number, number, 0), 1.0, "r2")


def drain(queue: ReplicationQueue, disk: Disk, limits: PoolLimits = ALL) -> list[ActionKind]:
    kinds = []
    while (action := queue.take_next_action(disk, limits)) is not None:
        kinds.append(action.kind)
        queue.finish(action.name)
    return kinds


def test_draining_looks_at_each_entry_once() -> None:
    queue = queue_of([fetch(number) for number in range(COUNT)])
    assert len(drain(queue, Disk())) == COUNT
    assert queue.examined == COUNT


def test_entries_that_wait_for_a_slot_are_looked_at_once() -> None:
    queue = queue_of([fetch(number) for number in range(COUNT)])
    for _ in range(100):
        assert queue.take_next_action(Disk(), PoolLimits(3, 0, 1 << 60)) is None
    assert queue.examined == COUNT
    assert queue.list_entries()[-1].postpone_reason.endswith("because no fetch slot is free.")
    assert len(drain(queue, Disk())) == COUNT


def merges(disk: Disk, sizes: list[int]) -> list[LogEntry]:
    entries = []
    for number, size in enumerate(sizes):
        sources = [PartName("p", 2 * number + i, 2 * number + i, 0) for i in range(2)]
        disk.parts |= set(sources)
        disk.sizes[sources[0]] = size
        entries.append(make_merge_entry(sources, "r1", 1.0))
    return entries


def test_merges_in_line_are_looked_at_as_slots_become_free() -> None:
    disk = Disk()
    queue = queue_of(merges(disk, [1] * COUNT))
    while (action := queue.take_next_action(disk, PoolLimits(1, 4, 1 << 60))) is not None:
        assert queue.take_next_action(disk, PoolLimits(0, 4, 1 << 60)) is None
        queue.finish(action.name)
    assert not queue.list_entries()
    assert queue.examined < 3 * COUNT


def test_small_merge_passes_large_ones_that_wait_for_an_idle_pool() -> None:
    disk = Disk()
    queue = queue_of(merges(disk, [1 << 40] * COUNT + [5]))
    for _ in range(100):
        action = queue.take_next_action(disk, PoolLimits(1, 4, 1 << 20))
        if action is not None:
            queue.finish(action.name)
    assert len(queue.list_entries()) == COUNT
    assert queue.examined < 2 * COUNT
    assert drain(queue, disk) == [ActionKind.MERGE] * COUNT


def test_merge_that_fits_is_not_kept_back_by_larger_ones_before_it() -> None:
    disk = Disk()
    queue = queue_of(merges(disk, [1500, 1400, 1300, 1100]))
    assert queue.take_next_action(disk, PoolLimits(1, 4, 100)) is None
    action = queue.take_next_action(disk, PoolLimits(1, 4, 1200))
    assert action is not None
    assert action.name.endswith("3")


def test_entries_under_a_drop_wait_for_it_and_are_looked_at_once() -> None:
    gone = LogEntry(EntryType.DROP_RANGE, drop_range_name("p", COUNT), 1.0, "r2")
    queue = queue_of([*(fetch(number) for number in range(COUNT)), gone])
    drop = queue.take_next_action(Disk(), ALL)
    assert drop is not None
    assert drop.kind is ActionKind.DROP_RANGE
    for _ in range(100):
        assert queue.take_next_action(Disk(), ALL) is None
    assert queue.examined == COUNT + 1
    for name in [*queue.list_covered_entries(drop.name), drop.name]:
        queue.finish(name)
    assert not queue.list_entries()


def test_recheck_finds_what_nobody_told() -> None:
    """The part came by another way while fetches were stopped. Waiting long does not pile anything up."""
    now = [100.0]
    queue, disk = ReplicationQueue("r1", lambda: 0.0, lambda: now[0]), Disk()
    queue.add("queue-0000000000", fetch(0))
    for _ in range(1000):
        now[0] += 31
        assert queue.take_next_action(disk, PoolLimits(1, 0, 1)) is None
    assert sum(map(len, queue._schedule._parked.values())) < 100
    assert len(queue._schedule._timers) < 100
    disk.parts.add(PartName("p", 0, 0, 0))
    now[0] += 31
    action = queue.take_next_action(disk, PoolLimits(1, 0, 1))
    assert action is not None
    assert action.kind is ActionKind.SKIP


def test_large_merge_is_fetched_at_the_very_moment_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was parked until that moment, and a clock that stands there must not make it look again and again."""
    sources = [PartName("p", number, number, 0) for number in range(2)]
    now = [40.0]
    queue = ReplicationQueue("r1", lambda: 0.0, lambda: now[0])
    queue.add("queue-0000000000", make_merge_entry(sources, "r2", 1e12, size_bytes=10))
    now[0] = 100.0
    disk = Disk()
    disk.parts.update(sources)
    limits = PoolLimits(0, 4, 1 << 60, prefer_fetch_seconds=60.0, prefer_fetch_bytes=0)
    looks = iter(range(10))
    monkeypatch.setattr(Disk, "size_bytes", lambda *_: next(looks))
    action = queue.take_next_action(disk, limits)
    assert action is not None
    assert action.kind is ActionKind.FETCH


def test_an_insert_that_stays_keeps_no_memory_of_those_that_passed_it() -> None:
    index = QueueIndex()
    for number in range(COUNT):
        index.put(QueueItem(f"queue-{number:010d}", fetch(number)))
        if number:
            index.pop(f"queue-{number:010d}")
    assert len(index._insert_times) < COUNT // 10
    assert index.find_oldest_insert_time() == 1.0


def exchange(*names: str, gone: str = "") -> LogEntry:
    parts = tuple(StagedPart(PartName.parse(name), "hash", "r2", name) for name in names)
    ranges = (PartName.parse(gone),) if gone else ()
    return LogEntry(EntryType.REPLACE_RANGE, None, 1.0, "r2", drop_ranges=ranges, replace_parts=parts, transaction="t")


def test_what_covers_a_part_of_an_exchange_waits_until_all_its_parts_are_here() -> None:
    """Fetched before, it would show some rows of a transaction without the others."""
    sources = [PartName("p", 0, 0, 0), PartName("p", 1, 1, 0)]
    queue = queue_of([exchange("p_1_1_0", "q_0_0_0"), make_merge_entry(sources, "r2", 1.0), fetch(9)])
    action = queue.take_next_action(Disk(), ALL)
    assert action is not None
    assert action.kind is ActionKind.REPLACE
    queue.fail(action.name, "the other replica does not answer")
    others = queue.take_next_action(Disk(), ALL)
    assert others is not None
    assert others.entry == fetch(9)
    assert queue.take_next_action(Disk(), ALL) is None
    assert "has not been executed" in queue.list_entries()[1].postpone_reason
    queue.finish(action.name)
    assert queue.take_next_action(Disk(), ALL) is not None


def test_a_drop_waits_for_the_exchange_before_it_and_takes_what_is_older_along() -> None:
    queue = queue_of(
        [fetch(0), exchange("p_3_3_0", "q_0_0_0", gone="p_0_2_999999999"), LogEntry(
            EntryType.DROP_RANGE, drop_range_name("p", 5), 1.0, "r2"
        )]
    )  # fmt: skip
    first = queue.take_next_action(Disk(), ALL)
    assert first is not None
    assert first.kind is ActionKind.REPLACE
    assert queue.list_covered_entries(first.name) == ["queue-0000000000"]
    assert queue.find_later_removal(first.name, PartName.parse("p_3_3_0")) is not None
    assert queue.find_later_removal(first.name, PartName.parse("q_0_0_0")) is None
    assert queue.take_next_action(Disk(), ALL) is None
    queue.finish(first.name)
    second = queue.take_next_action(Disk(), ALL)
    assert second is not None
    assert second.kind is ActionKind.DROP_RANGE


def drop_entry(type_: EntryType, gone: str, *, detach: bool = False) -> LogEntry:
    return LogEntry(type_, PartName.parse(gone), 1.0, "r2", detach=detach)


DETACHED = drop_entry(EntryType.DROP_RANGE, "q_0_4_999999999", detach=True)
DROPPED = drop_entry(EntryType.DROP_PART, "q_3_3_0")
FIRST, LAST = exchange("p_3_3_0", "q_3_3_0"), exchange("p_6_6_0", gone="p_0_5_999999999")


@pytest.mark.parametrize(
    "entries",
    [
        # The last waits for the drop, the drop for the first, and the first is one step with the last.
        [FIRST, DETACHED, exchange("q_6_6_0", gone="q_0_5_999999999")],
        [FIRST, DROPPED, exchange("q_6_6_0", gone="q_0_5_999999999")],
        # The drop also waits for an entry that has nothing to do with the others.
        [FIRST, exchange("q_2_2_0", "s_2_2_0"), DETACHED, exchange("q_6_6_0", gone="q_0_5_999999999")],
        # The last waits for two drops, one behind the other.
        [FIRST, DROPPED, DETACHED, exchange("q_6_6_0", gone="q_0_5_999999999")],
        # Two steps, of which each has a drop that waits for the other one.
        [
            exchange("p_1_1_0", "q_1_1_0"),
            exchange("s_1_1_0", "t_1_1_0"),
            drop_entry(EntryType.DROP_RANGE, "t_0_2_999999999", detach=True),
            drop_entry(EntryType.DROP_RANGE, "q_0_2_999999999", detach=True),
            replace(exchange("p_9_9_0"), drop_ranges=tuple(drop_range_name(name, 9) for name in "pt")),
            replace(exchange("s_9_9_0"), drop_ranges=tuple(drop_range_name(name, 9) for name in "sq")),
        ],
    ],
)  # fmt: skip
def test_a_drop_between_the_halves_of_a_step_is_part_of_it(entries: list[LogEntry]) -> None:
    queue = queue_of(entries)
    first = queue.take_next_action(Disk(), ALL)
    assert first is not None
    assert first.kind is ActionKind.REPLACE
    more = queue.start_replacements_with([first.name], first.entry.created_parts)
    assert more is not None
    names = {first.name, *(action.name for action in more)}
    assert names == queue.names()
    for action in more:
        is_drop = action.entry.type is not EntryType.REPLACE_RANGE
        assert action.kind is (ActionKind.DROP_RANGE if is_drop else ActionKind.REPLACE)
        assert queue.get(action.name).is_executing  # type: ignore[union-attr]
        queue.postpone(action.name, "begun together", pause_seconds=0.0)
    queue.finish(first.name)
    drain(queue, Disk())
    assert not queue.list_entries()


def test_a_drop_that_no_half_of_a_step_waits_for_stays_by_itself() -> None:
    plain = drop_entry(EntryType.DROP_RANGE, "q_0_4_999999999")
    queue = queue_of([FIRST, plain, DETACHED, LAST])
    first = queue.take_next_action(Disk(), ALL)
    assert first is not None
    more = queue.start_replacements_with([first.name], first.entry.created_parts)
    assert more is not None
    assert [action.entry for action in more] == [LAST]


def test_a_step_waits_for_what_a_drop_of_it_waits_for() -> None:
    queue = queue_of([FIRST, DETACHED, exchange("q_6_6_0", gone="q_0_5_999999999")])
    first = queue.take_next_action(Disk(), ALL)
    assert first is not None
    with queue.mark_insert(PartName.parse("q_4_4_0")):
        assert queue.start_replacements_with([first.name], first.entry.created_parts) is None
    assert queue.start_replacements_with([first.name], first.entry.created_parts) is not None
