"""The decisions of a bootstrap: which place, which parts, which names, which vector."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from coordination.links.bootstrap_place import RestingReplica, explain_unfinished, find_places, select_held_parts
from coordination.links.bootstrap_plan import (
    MOST_ROUNDS,
    HeldPart,
    HeldTable,
    bootstrap_vector,
    count_pieces,
    explain_missing,
    is_little_left,
    make_marks,
    number_pieces,
    plan_copy,
    rename_block_ids,
)
from coordination.links.positions import Position
from coordination.links.stream.carried_changes import carried_document, read_carried_changes
from coordination.links.stream.change_stream import LogRecord, MutationRecord
from coordination.links.stream.frontier import Lock, LockKind
from coordination.links.stream.gap_check import Gap, admit_changes
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from parts.common.part_name import PartName
from tests.links.bootstrap_model import GiverModel
from tests.links.changes import EAST, NORTH, WEST, make_change

# --- the place ---------------------------------------------------------------------------------------------------

PROGRAMS = st.text("OIQMD", min_size=2, max_size=6)


@settings(max_examples=600, deadline=None)
@given(program=PROGRAMS, seed=st.integers(0, 10**9), says_kinds=st.booleans())
@pytest.mark.long
def test_held_parts_and_the_changes_behind_their_place_are_the_table(program: str, seed: int, says_kinds: bool) -> None:
    model = GiverModel(program, Random(seed), says_kinds)
    model.run()
    event("held" if model.held is not None else "never held")
    if model.held is None or not model.is_over():
        return
    assert model.bootstrapped() == model.expected(), f"F = {model.held.place}"


def resting(**changes: object) -> RestingReplica:
    parts = (PartName("p", 0, 3, 1), PartName("p", 5, 5, 0))
    made = RestingReplica((), 10, 0, (), frozenset(), frozenset(), (), parts, ())
    return replace(made, **changes)  # type: ignore[arg-type]


def logged(zxid: int, type_: EntryType, part: PartName) -> LogRecord:
    return LogRecord(zxid, zxid, LogEntry(type_, part, 1.0, "r1"))


def mutation(zxid: int, number: int) -> MutationRecord:
    return MutationRecord(zxid, zxid, MutationEntry(f"{zxid:010d}", 1.0, "r1", "UPDATE", {"p": number}))


OWN = PartName("p", 6, 6, 0)


def test_own_inserts_whose_entries_are_not_pulled_are_left_out() -> None:
    replica = resting(parts=(*resting().parts, OWN), behind=(logged(11, EntryType.GET_PART, OWN),))
    assert find_places(replica) == [10]
    assert select_held_parts(replica) == list(resting().parts)
    assert explain_unfinished(replica, 10) == ""


def test_there_is_no_place_where_something_newer_than_the_next_entry_is_needed() -> None:
    assert find_places(resting(behind=(logged(9, EntryType.GET_PART, OWN),))) == []


def test_a_mutation_behind_the_last_entry_may_be_the_place() -> None:
    """It is the better place, as long as no entry that is not pulled lies between."""
    assert find_places(resting(last_mutation=12)) == [12, 10]
    assert find_places(resting(last_mutation=12, behind=(logged(11, EntryType.GET_PART, OWN),))) == [10]
    assert find_places(resting(last_mutation=9)) == [10]


@pytest.mark.parametrize(
    ("replica", "reason"),
    [
        (resting(queued=(LogEntry(EntryType.GET_PART, OWN, 1.0, "r1"),)), "has not carried out GET_PART p_6_6_0"),
        (resting(queued=(LogEntry(EntryType.DROP_RANGE, OWN, 1.0, "r1"),)), "has not carried out DROP_RANGE"),
        (resting(open_quorums=frozenset({PartName("p", 5, 5, 0)})), "the quorum of part p_5_5_0 is open"),
        (resting(failed_quorums=frozenset({PartName("p", 5, 5, 0)})), "has failed"),
        (resting(mutations=(mutation(9, 4), mutation(10, 6))), "mutation 0000000009 is not applied to part p_0_3_1"),
        (resting(locks=(Lock("p", 4, LockKind.COMMAND),)), "block number 4"),
        (resting(locks=(Lock("p", 4),)), "block number 4"),
        (resting(mutations=(mutation(11, 4),)), "the lower number 4"),
        (resting(behind=(logged(11, EntryType.DROP_RANGE, PartName("p", 0, 3, 999999999)),)), "the lower number 4"),
        (resting(behind=(logged(11, EntryType.DROP_PART, PartName("p", 5, 5, 0)),)), "has to be carried out first"),
    ],
)
def test_what_keeps_parts_from_being_held(replica: RestingReplica, reason: str) -> None:
    assert reason in explain_unfinished(replica, 10)


def test_merges_and_later_commands_do_not_keep_parts_from_being_held() -> None:
    merge = LogEntry(EntryType.MERGE_PARTS, PartName("p", 0, 5, 2), 1.0, "r1")
    assert explain_unfinished(resting(queued=(merge,)), 10) == ""
    assert explain_unfinished(resting(mutations=(mutation(11, 6),)), 10) == ""
    assert explain_unfinished(resting(locks=(Lock("p", 4, LockKind.BLOCK),)), 10) == ""
    assert explain_unfinished(resting(failed_quorums=frozenset({PartName("p", 2, 2, 0)})), 10) == ""


def test_a_block_that_commits_late_below_a_mutation_is_waited_for() -> None:
    done = (PartName("p", 0, 3, 1, 5),)
    waits = resting(parts=done, mutations=(mutation(9, 5),), locks=(Lock("p", 4, LockKind.BLOCK),))
    assert "block number 4" in explain_unfinished(waits, 10)
    late = resting(
        parts=done, mutations=(mutation(9, 5),), behind=(logged(11, EntryType.GET_PART, PartName("p", 4, 4, 0)),)
    )
    assert "the lower number 4" in explain_unfinished(late, 10)


def test_where_the_order_of_blocks_counts_lower_blocks_are_waited_for() -> None:
    replica = resting(locks=(Lock("p", 4, LockKind.BLOCK),))
    assert "block number 4" in explain_unfinished(replica, 10, is_ordered=True)
    late = resting(behind=(logged(11, EntryType.GET_PART, PartName("p", 4, 4, 0)),))
    assert "the lower number 4" in explain_unfinished(late, 10, is_ordered=True)
    assert explain_unfinished(late, 10) == ""


# --- the copy ----------------------------------------------------------------------------------------------------


def held_part(name: str, content_hash: str, file_bytes: int = 100) -> HeldPart:
    return HeldPart(PartName.parse(name), content_hash, 1, 10, file_bytes)


def held_table(*parts: HeldPart, vector: VersionVector | None = None, **changes: object) -> HeldTable:
    known = vector if vector is not None else VersionVector().advance(Position(WEST, 10))
    made = HeldTable("lease", WEST, 10, known, "fingerprint", parts)
    return replace(made, **changes)  # type: ignore[arg-type]


names = st.tuples(st.sampled_from("pq"), st.integers(0, 30), st.integers(0, 3), st.integers(0, 2))
held_parts = st.lists(
    st.builds(
        lambda name, hashed: HeldPart(PartName(name[0], name[1], name[1] + name[2], name[3]), hashed, 1, 10, 100),
        names,
        st.sampled_from(["a", "b", "c"]),
    ),
    max_size=6,
    unique_by=lambda part: part.key(),
)


@given(parts=held_parts, others=held_parts, active=st.dictionaries(st.tuples(st.sampled_from("pq"), st.sampled_from(
    ["a", "b"])), st.just(PartName("p", 1, 1, 0))))  # fmt: skip
def test_a_round_fetches_what_is_neither_copied_nor_the_same_here(
    parts: list[HeldPart], others: list[HeldPart], active: dict[tuple[str, str], PartName]
) -> None:
    copied = {part.key() for part in others}
    plan = plan_copy(parts, copied, active)
    assert sorted([*plan.kept, *plan.fetched, *(part for part, _ in plan.linked)], key=lambda p: p.key()) == sorted(
        parts, key=lambda part: part.key()
    )
    assert {part.key() for part in plan.kept} == copied & {part.key() for part in parts}
    assert set(plan.surplus) == copied - {part.key() for part in parts}
    assert all((part.name.partition_id, part.content_hash) in active for part, _ in plan.linked)
    assert not any((part.name.partition_id, part.content_hash) in active for part in plan.fetched)


def test_the_table_is_closed_when_little_is_left_or_the_giver_is_faster() -> None:
    assert is_little_left(10, 1, 10)
    assert not is_little_left(11, 1, 10)
    assert is_little_left(11, MOST_ROUNDS, 10)


def test_parts_get_one_number_each_in_the_order_of_their_blocks() -> None:
    parse = PartName.parse
    pieces = {parse("p_7_9_2_12"): ["p"], parse("p_0_3_1"): ["p", "q"], parse("q_0_0_0"): ["q"]}
    assert count_pieces(pieces) == {"p": 2, "q": 2}
    numbered = number_pieces(pieces, {"p": [40, 41], "q": [3, 9]})
    assert {str(old): list(map(str, new)) for old, new in numbered.items()} == {
        "p_0_3_1": ["p_40_40_0", "q_3_3_0"],
        "p_7_9_2_12": ["p_41_41_0"],
        "q_0_0_0": ["q_9_9_0"],
    }


def test_block_ids_name_the_parts_that_hold_their_blocks() -> None:
    block = PartName.parse
    numbered = number_pieces(
        {block("p_0_3_1"): ["p", "p"], block("p_7_9_2_12"): ["p"], block("r_0_0_0"): []}, {"p": range(40, 44)}
    )
    ids = [("i", "p_8_8_0"), ("j", "p_3_3_0"), ("k", "p_5_5_0"), ("l", "q_0_0_0"), ("m", "r_0_0_0")]
    assert [(id_, str(part)) for id_, part in rename_block_ids([(i, block(p)) for i, p in ids], numbered)] == [
        ("i", "p_42_42_0"),
        ("j", "p_40_40_0"),
    ]


# --- the vector --------------------------------------------------------------------------------------------------


def vector(**applied: int) -> VersionVector:
    origins = {"west": WEST, "east": EAST, "north": NORTH}
    made = VersionVector()
    for name, zxid in applied.items():
        made = made.advance(Position(origins[name], zxid))
    return made


def test_what_this_table_has_beyond_the_held_one_is_named() -> None:
    held = held_table(vector=vector(west=10, north=5))
    assert explain_missing(held, vector(west=9, north=5), None) == ""
    assert str(Position(NORTH, 6)) in explain_missing(held, vector(north=6), None)
    assert str(Position(EAST, 3)) in explain_missing(held, vector(), Position(EAST, 3))
    assert explain_missing(held_table(vector=vector(west=10, east=3)), vector(), Position(EAST, 3)) == ""
    assert explain_missing(held, vector(east=4).forget(EAST), None) == ""


def test_the_vector_afterwards_is_the_held_one_with_what_is_forgotten_here() -> None:
    held = held_table(vector=vector(west=10, north=5, east=2))
    assert bootstrap_vector(held, vector(west=3), EAST) == vector(west=10, north=5)
    forgotten = bootstrap_vector(held, vector(north=4).forget(NORTH), EAST)
    assert forgotten.applied(NORTH) == 5
    assert forgotten.entries[NORTH].is_forgotten


def test_marks_are_passed_by_who_has_the_changes_and_are_a_gap_to_others() -> None:
    marks = make_marks(vector(west=10, north=5), 1)
    entry = LogEntry(EntryType.REPLACE_RANGE, None, 1.0, "r1", extra=(("link", carried_document(marks)),))
    carried = read_carried_changes(entry, 77)
    assert admit_changes(vector(west=10, north=6), EAST, carried).stop is None
    assert admit_changes(vector(north=5), WEST, carried).stop is None, "the origin has its own changes"
    admitted = admit_changes(vector(west=9, north=5), EAST, carried)
    assert admitted.stop == Gap(WEST, 10, 10)
    assert not admitted.changes
    later = make_change(12, origin=WEST, previous=10)
    assert admit_changes(vector(west=10, north=5), EAST, [*carried, later]).changes == (later,)
