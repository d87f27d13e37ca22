"""Single histories that broke links: each is decided from what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination.links.positions import Epoch, Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import LogRecord, MutationRecord, Reading, build_changes
from coordination.links.stream.cuts import find_cuts, is_cut
from coordination.links.stream.frontier import Frontier, Lock, LockKind, Observation, find_frontier, select_undecided
from coordination.links.stream.gap_check import (
    BehindFork,
    Fork,
    Gap,
    admit_changes,
    require_one_name,
    require_same_source,
)
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry, StagedPart, drop_range_name
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.errors import UserError
from parts.common.part_name import PartName
from tests.links.changes import EAST, NORTH, WEST, make_block, make_change

BLOCK, COMMAND = LockKind.BLOCK, LockKind.COMMAND


def insert(zxid: int, number: int, *, type_: EntryType = EntryType.GET_PART, **options: object) -> LogRecord:
    part = PartName("p", number, number, 0)
    return LogRecord(zxid, zxid, LogEntry(type_, part, 1.0, "r1", rows=1, **options))  # type: ignore[arg-type]


def drop(zxid: int, number: int, partition_id: str = "p") -> LogRecord:
    return LogRecord(zxid, zxid, LogEntry(EntryType.DROP_RANGE, drop_range_name(partition_id, number), 1.0, "r1"))


def mutation(zxid: int, number: int) -> MutationRecord:
    return MutationRecord(zxid, zxid, MutationEntry(f"{zxid:010d}", 1.0, "r1", "UPDATE", {"p": number}))


def reading(*records: LogRecord | MutationRecord) -> Reading:
    return Reading(
        tuple(record for record in records if isinstance(record, LogRecord)),
        tuple(record for record in records if isinstance(record, MutationRecord)),
    )


def observe(
    first: Reading,
    *locks: Lock,
    second: Reading | None = None,
    open_quorums: frozenset[PartName] = frozenset(),
    failed: frozenset[PartName] = frozenset(),
) -> Observation:
    return Observation(first, locks, open_quorums, failed, second or first)


def frontier(observation: Observation, *, is_ordered: bool = False) -> Frontier:
    return find_frontier(observation, WEST, is_ordered=is_ordered)


# --- order of numbers and order of commits ---------------------------------------------------------------------


def test_a_command_with_the_lower_number_that_commits_later_is_not_parted_from_the_block() -> None:
    assert frontier(observe(reading(insert(1, 3), mutation(2, 2), insert(3, 4)))).cuts == (2, 3)
    assert frontier(observe(reading(insert(1, 3), drop(2, 2)))).cuts == (2,)


def test_a_block_with_the_lower_number_that_commits_later_is_not_parted_from_the_command() -> None:
    assert frontier(observe(reading(mutation(1, 2), insert(2, 1), insert(3, 3)))).cuts == (2, 3)


def test_nothing_between_the_two_commits_is_a_cut() -> None:
    records = reading(insert(1, 5), insert(2, 6), insert(3, 7), mutation(4, 4), insert(5, 3), insert(6, 8))
    assert frontier(observe(records)).cuts == (5, 6)


def test_blocks_are_parted_unless_their_order_counts() -> None:
    records = reading(insert(1, 3), insert(2, 2), insert(3, 4))
    assert frontier(observe(records)).cuts == (1, 2, 3)
    assert frontier(observe(records), is_ordered=True).cuts == (2, 3)


def test_other_partitions_are_not_held() -> None:
    records = reading(insert(1, 3), drop(2, 9, "q"), mutation(3, 4))
    assert frontier(observe(records)).cuts == (1, 2, 3)


@pytest.mark.parametrize(
    ("records", "lock", "place", "ordered"),
    [
        (reading(insert(1, 3)), Lock("p", 2, BLOCK), 1, 0),
        (reading(insert(1, 3)), Lock("p", 2, COMMAND), 0, 0),
        (reading(insert(1, 3)), Lock("p", 2), 0, 0),
        (reading(insert(1, 3)), Lock("q", 2), 1, 1),
        (reading(insert(1, 3)), Lock("p", 4), 1, 1),
        (reading(mutation(1, 3)), Lock("p", 2, BLOCK), 0, 0),
        (reading(drop(1, 3)), Lock("p", 2, BLOCK), 1, 0),
        (reading(insert(1, 1), mutation(2, 3)), Lock("p", 2, BLOCK), 1, 1),
    ],
)
def test_what_waits_for_an_undecided_number(records: Reading, lock: Lock, place: int, ordered: int) -> None:
    observation = observe(records, lock)
    assert frontier(observation).place == place
    assert frontier(observation, is_ordered=True).place == ordered
    assert bool(frontier(observation).waits) == (place < records.newest)


def test_an_insert_of_a_minute_beside_a_mutation() -> None:
    """100 INSERTs a second. Unless the mutation takes the number away, all of a minute is one batch."""
    short = [make_change(zxid, make_block(zxid + 1)) for zxid in range(1, 6_001)]
    at = make_change(101, mutations=[("UPDATE", {"p": 102})])
    others = [change for change in short if change.place != 101]
    late = make_change(6_001, make_block(1))
    again = make_change(6_001, make_block(6_002))
    assert find_cuts(sorted([*others, at, late], key=lambda c: c.place), 0, is_ordered=False) == [*range(1, 101), 6_001]
    assert len(find_cuts(sorted([*others, at, again], key=lambda c: c.place), 0, is_ordered=False)) == 6_001


# --- reads while all moves -------------------------------------------------------------------------------------


def test_what_only_the_second_reading_has_is_not_sent() -> None:
    first, second = reading(insert(1, 1)), reading(insert(1, 1), insert(2, 3), mutation(3, 2))
    seen = frontier(observe(first, second=second))
    assert (seen.place, [change.place for change in seen.changes]) == (1, [1])


def test_the_second_reading_shows_that_there_is_no_cut() -> None:
    first, second = reading(insert(1, 3)), reading(insert(1, 3), mutation(2, 2))
    assert frontier(observe(first, second=second)).place == 0


def test_a_lock_that_vanishes_between_listing_and_reading_is_decided() -> None:
    locks = select_undecided({"p": [2, 5], "q": [1]}, {("p", 5): None, ("q", 1): BLOCK})
    assert locks == (Lock("p", 5), Lock("q", 1, BLOCK))


def test_a_log_that_is_trimmed_between_the_readings_is_complete() -> None:
    seen = frontier(observe(reading(insert(1, 1), insert(2, 2)), second=reading(insert(2, 2))))
    assert [change.place for change in seen.changes] == [1, 2]


def test_an_open_quorum_is_named() -> None:
    part = PartName("p", 2, 2, 0)
    seen = frontier(observe(reading(insert(1, 1), insert(2, 2), insert(3, 3)), open_quorums=frozenset({part})))
    assert seen.place == 1
    assert seen.waits == ("the quorum of part p_2_2_0 is open",)


def test_a_quorum_that_fails_after_its_block_is_known_leaves_no_hole() -> None:
    part = PartName("p", 2, 2, 0)
    seen = frontier(observe(reading(insert(1, 1), insert(2, 2), insert(3, 3)), failed=frozenset({part})))
    assert [(change.place, change.previous) for change in seen.changes] == [(1, 0), (3, 1)]


def test_an_idle_table_stays_where_it_is() -> None:
    seen = find_frontier(observe(reading(insert(1, 1))), WEST, after=1, previous=1)
    assert (seen.place, seen.changes, seen.cuts) == (1, (), ())


# --- what is a change ------------------------------------------------------------------------------------------


def test_what_has_one_zxid_is_one_change() -> None:
    (change,) = build_changes(reading(drop(1, 3), drop(1, 5, "q"), mutation(1, 9)), WEST)
    assert list(change.command_numbers()) == [("p", 3), ("q", 5), ("p", 9)]


def test_a_transaction_is_one_change() -> None:
    parts = tuple(StagedPart(PartName(p, n, n, 0), "h", "r1", "x", 2, 3) for p, n in (("p", 4), ("q", 7)))
    entry = LogEntry(
        EntryType.REPLACE_RANGE, None, 1.0, "r1", drop_ranges=(drop_range_name("p", 3),), replace_parts=parts
    )
    (change,) = build_changes([LogRecord(1, 1, entry)], WEST)
    assert list(change.numbers()) == [("p", 4), ("q", 7), ("p", 3)]
    assert (change.rows, change.size_bytes) == (4, 6)


def test_merges_and_parts_that_come_back_are_no_changes() -> None:
    merge = LogEntry(EntryType.MERGE_PARTS, PartName("p", 1, 2, 1), 1.0, "r1")
    mutated = LogEntry(EntryType.MUTATE_PART, PartName("p", 1, 1, 0, 5), 1.0, "r1")
    records = [LogRecord(2, 2, merge), LogRecord(3, 3, mutated), insert(4, 1, is_restored=True), insert(5, 6)]
    assert [(c.place, c.previous) for c in build_changes(records, WEST, previous=1)] == [(5, 1)]


def test_an_attached_part_is_a_change() -> None:
    (change,) = build_changes([insert(1, 1, type_=EntryType.ATTACH_PART)], WEST)
    assert list(change.block_numbers()) == [("p", 1)]


def test_a_dropped_part_cannot_be_passed() -> None:
    entry = LogEntry(EntryType.DROP_PART, PartName("p", 1, 1, 0), 1.0, "r1")
    with pytest.raises(UserError, match="drop of part p_1_1_0"):
        build_changes([LogRecord(1, 1, entry)], WEST)


def test_a_lost_block_keeps_its_place_and_its_rows_are_counted() -> None:
    lost = [PartName("p", 2, 2, 0), PartName("p", 3, 8, 2)]
    changes = build_changes(reading(insert(1, 1), insert(2, 2), insert(3, 3)), WEST, lost=lost)
    assert [(change.previous, change.rows, change.blocks[0].is_lost) for change in changes] == [
        (0, 1, False),
        (1, 0, True),
        (2, 1, False),
    ], "of a merged part that was given up, sources may be left"


def test_a_link_begins_at_cuts_alone() -> None:
    changes = build_changes(reading(insert(3, 3), mutation(6, 2), insert(9, 4)), WEST)
    assert [place for place in range(11) if not is_cut(changes, place, is_ordered=False)] == [3, 4, 5]


# --- gaps, forks, other tables ---------------------------------------------------------------------------------


def _at(**zxids: int) -> VersionVector:
    vector = VersionVector()
    for name, zxid in zxids.items():
        vector = vector.advance(Position({"west": WEST, "east": EAST, "north": NORTH}[name], zxid))
    return vector


def _chain(*zxids: int, origin: Origin = WEST) -> list[Change]:
    return [
        make_change(zxid, origin=origin, previous=previous)
        for previous, zxid in zip((0, *zxids[:-1]), zxids, strict=True)
    ]


def test_a_hole_is_a_gap_and_names_what_is_missing() -> None:
    admission = admit_changes(_at(west=3), EAST, _chain(3, 5, 6, 8, 9)[2:])
    assert (admission.changes, admission.stop) == ((), Gap(WEST, 4, 5))
    admission = admit_changes(_at(west=3), EAST, [*_chain(3, 5, 6), *_chain(7, 9)[1:]])
    assert [change.position.zxid for change in admission.changes] == [5, 6]
    assert admission.vector.applied(WEST) == 6
    assert str(admission.stop).startswith(f"missing change 7 of cluster {WEST.cluster}")
    assert "changes 4 to 5" in str(Gap(WEST, 4, 5))


def test_a_hole_is_closed_by_another_source_that_has_it() -> None:
    """West no longer has 5 and 6; another cluster sends them on, and the link from west finds its place again."""
    ours, *_, last = _chain(3, 5, 6, 9)
    hole = _chain(3, 5, 6)[1:]
    stopped = admit_changes(_at(west=ours.position.zxid), EAST, [last])
    assert stopped.stop == Gap(WEST, 4, 6)
    closed = admit_changes(stopped.vector, EAST, [replace(change, place=100 + change.place) for change in hole])
    assert (closed.vector.applied(WEST), closed.stop) == (6, None)
    again = admit_changes(closed.vector, EAST, [last])
    assert (again.vector.applied(WEST), again.stop) == (9, None)


def test_a_neighbour_that_began_now_has_a_gap_for_who_did_not() -> None:
    """N began at 9 and passes on 10: who has 6 must not take it, who has 9 may."""
    change = make_change(10, origin=WEST, previous=9)
    assert VersionVector().begin_at(Position(WEST, 9)).applied(WEST) == 9
    assert admit_changes(_at(west=6), EAST, [change]).stop == Gap(WEST, 7, 9)
    assert admit_changes(_at(west=9), EAST, [change]).stop is None


def test_two_tables_of_one_cluster_are_two_origins() -> None:
    other = replace(WEST, table=999)
    admission = admit_changes(_at(west=8), EAST, _chain(5, 7, origin=other))
    assert [change.position.zxid for change in admission.changes] == [5, 7]
    assert admission.vector.applied(WEST) == 8


def test_old_changes_of_a_table_that_was_made_anew_come_back_as_another_origin_s() -> None:
    anew = replace(WEST, epoch=Epoch(2, 9))
    assert len(admit_changes(VersionVector(), anew, _chain(5)).changes) == 1
    assert not admit_changes(VersionVector(), WEST, _chain(5)).changes
    assert not admit_changes(_at(west=5), anew, _chain(5)).changes, "the fork wrote the former origin into the vector"


def test_what_still_arrives_of_a_forgotten_origin_is_dropped() -> None:
    admission = admit_changes(_at(west=3).forget(WEST), EAST, _chain(3, 5, 6))
    assert (admission.changes, admission.stop) == ((), None)


def test_what_lies_behind_a_fork_is_refused() -> None:
    admission = admit_changes(_at(west=3), EAST, _chain(3, 5, 6), [Fork(WEST, 9), Fork(WEST, 5)])
    assert [change.position.zxid for change in admission.changes] == [5]
    assert admission.stop == BehindFork(Position(WEST, 6), 5)
    assert "REJOIN" in str(admission.stop)


@pytest.mark.parametrize(
    ("origin", "newest", "told"),
    [
        (WEST, 5, "has lost its past: its newest zxid is 5"),
        (replace(WEST, table=7), 50, "the table was made anew"),
        (replace(WEST, cluster=EAST.cluster), 50, "instead of"),
        (replace(WEST, epoch=Epoch(2, 1)), 50, "ended at the fork"),
    ],
)
def test_a_source_that_is_not_what_it_was_stops_the_link(origin: Origin, newest: int, told: str) -> None:
    with pytest.raises(UserError) as raised:
        require_same_source("west", origin, newest, _at(west=6), WEST, [Fork(WEST, 4)])
    assert told in raised.value.message
    require_same_source("west", WEST, 6, _at(west=6), WEST)


def test_a_cluster_has_one_name_and_a_name_one_cluster() -> None:
    known = {"west": WEST.cluster, "east": EAST.cluster}
    require_one_name(known, "west", WEST.cluster)
    require_one_name(known, "north", NORTH.cluster)
    with pytest.raises(UserError, match="two share a name"):
        require_one_name(known, "west", NORTH.cluster)
    with pytest.raises(UserError, match="was named 'east'"):
        require_one_name(known, "north", EAST.cluster)
