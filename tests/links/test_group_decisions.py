"""The pure decisions of transactional groups: the common cut, and which cut a replica shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.cut_mutations import compare_with_parts, list_new_marks
from coordination.links.groups.group_frontier import find_group_cut
from coordination.links.groups.link_group import GroupMember, LinkGroup
from coordination.links.groups.shown_cut import TableProgress, find_showable, may_carry_out
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Block, Change, Mutation
from coordination.links.stream.cuts import find_cuts
from coordination.links.stream.stream_index import StreamIndex
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet
from parts.common.part_name import PartName

OWN = Origin.parse("6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10.7.1-0000000000000001")


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Two tables of one ZooKeeper: blocks and mutations whose numbers and zxids have any order."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=2))
    zxids = draw(st.permutations(range(1, sum(sizes) + 1)))
    tables = []
    for size in sizes:
        own, zxids = sorted(zxids[:size]), zxids[size:]
        numbers = draw(st.permutations(range(1, size + 1)))
        kinds = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        changes = []
        for zxid, number, is_command in zip(own, numbers, kinds, strict=True):
            blocks = () if is_command else (Block(PartName("all", number, number, 0), "h", 1, 1),)
            mutations = (Mutation("DELETE WHERE 1", (("all", number),)),) if is_command else ()
            changes.append(Change(Position(OWN, zxid), zxid, 0, 0, blocks, (), mutations))
        tables.append(changes)
    return tables


def allows(changes: list[Change], place: int) -> bool:
    """Whether no command is parted from a block that it covers, or that is above it."""
    numbers = [(change.place, number, bool(change.mutations)) for change in changes for _, number in change.numbers()]
    return not any(
        first_place <= place < later_place and first > later and (is_first or is_later)
        for first_place, first, is_first in numbers
        for later_place, later, is_later in numbers
    )


def index_of(changes: list[Change]) -> StreamIndex:
    index = StreamIndex(0)
    cuts = [cut for cut in find_cuts(changes, 0, is_ordered=False) if allows(changes, cut)]
    index.extend(OWN, changes, cuts, 100)
    return index


@given(histories(), st.integers(0, 9))
@settings(max_examples=80, deadline=None)
def test_the_common_cut_is_the_largest_that_all_tables_allow(tables: list[list[Change]], bound: int) -> None:
    wanted = max(place for place in range(bound + 1) if all(allows(changes, place) for changes in tables))
    assert find_group_cut([index_of(changes) for changes in tables], bound) == wanted


def test_the_least_frontier_may_part_a_command_from_its_block() -> None:
    """Table A may be cut at 2; in B the mutation of 1 covers the block of 3. So the common cut is 0."""
    a = [Change(Position(OWN, 2), 2, 0, 0, (Block(PartName("all", 1, 1, 0), "h", 1, 1),))]
    b = [
        Change(Position(OWN, 1), 1, 0, 0, (), (), (Mutation("DELETE WHERE 1", (("all", 2),)),)),
        Change(Position(OWN, 3), 3, 0, 0, (Block(PartName("all", 1, 1, 0), "h", 1, 1),)),
    ]
    assert find_group_cut([index_of(a), index_of(b)], 2) == 0
    assert find_group_cut([index_of(a), index_of(b)], 3) == 3


# -- which cut is shown ------------------------------------------------------------------------------------------------


@dataclass
class ModelTable:
    """One table of a replica: which cuts of it are pulled, carried out, and active."""

    pulled: int = 0
    """How many of the cuts."""
    done: set[int] = field(default_factory=set)
    active: set[int] = field(default_factory=set)
    touched: int = 0
    lacks_until: int = 0
    """The cut that drops what the table lacks, and nobody has any more; 0 if it lacks nothing."""

    def progress(self, cuts: list[int]) -> TableProgress:
        marks = [
            CutMark(cut, former, "g")
            for former, cut in pairwise([0, *cuts])
            if cut in cuts[: self.pulled] and cut not in self.done
        ]
        lacks = bool(self.lacks_until) and self.lacks_until not in self.done
        return TableProgress(not lacks, max([0, *cuts[: self.pulled]]), marks, self.touched, lacks_parts=lacks)


@given(st.data(), st.lists(st.integers(1, 50), min_size=1, max_size=6, unique=True), st.integers(2, 3))
@settings(max_examples=80, deadline=None)
def test_what_is_shown_is_one_cut_of_all_tables(data: st.DataObject, places: list[int], count: int) -> None:
    cuts, shown = sorted(places), 0
    tables = [ModelTable(lacks_until=data.draw(st.sampled_from([0, 0, *cuts]))) for _ in range(count)]

    def look() -> int:
        found = find_showable([table.progress(cuts) for table in tables])
        if found is None:
            return shown
        for table in tables:
            assert table.active == {cut for cut in cuts if cut <= found}
        return max(shown, found)

    def step(table: ModelTable, reach: int) -> bool:
        """Carries out the next cut, with those up to ``reach`` that a merged part brings."""
        marks = table.progress(cuts).queued
        if not marks or not may_carry_out(
            marks[0], table.progress(cuts), [each.progress(cuts) for each in tables], shown
        ):
            return False
        last = max([marks[0].place, *(mark.place for mark in marks if mark.place <= reach)])
        table.touched = max(table.touched, last)
        table.active |= {mark.place for mark in marks if mark.place <= last}
        look()
        table.done.add(marks[0].place)  # the others leave the queue one by one
        return True

    for _ in range(data.draw(st.integers(0, 30))):
        table = data.draw(st.sampled_from(tables))
        if data.draw(st.booleans()):
            table.pulled = min(len(cuts), table.pulled + 1)
        else:
            step(table, data.draw(st.sampled_from([0, *cuts])))
        shown = look()
    for table in tables:
        table.pulled = len(cuts)
    while any(step(table, 0) for table in tables):
        shown = look()
    assert look() == cuts[-1]


def test_a_table_that_reaches_further_draws_the_others() -> None:
    mark = CutMark(9, 7, "g")
    ahead, behind = TableProgress(True, 9, touched=9), TableProgress(True, 9, [CutMark(7, 5, "g"), mark])
    assert find_showable([ahead, behind]) is None
    assert may_carry_out(mark, behind, [ahead, behind], 5)
    assert not may_carry_out(CutMark(12, 9, "g"), ahead, [ahead, behind], 5)


def test_tables_that_are_not_ready_show_nothing() -> None:
    assert find_showable([TableProgress(True, 5), TableProgress(False, 5)]) is None
    assert find_showable([TableProgress(True, 5), TableProgress(True, 7)]) is None
    assert find_showable([TableProgress(True, 5), TableProgress(True, 7, has_joined=False)]) == 5
    assert find_showable([TableProgress(True, 0)]) is None


def test_marks_and_groups_are_read_again() -> None:
    entry = LogEntry(EntryType.REPLACE_RANGE, None, 1.0, "r1", extra=(("later", 1),))
    mark = CutMark(9, 7, "u", True, 5)
    marked = LogEntry.parse(mark.put_into(entry).to_bytes())
    assert CutMark.of(marked) == mark
    assert CutMark.of(entry) is None
    member = GroupMember("a", "u1", "default", "a", "/tables/a")
    group = LinkGroup("g", "u", "west", "w", (member,), extra=(("later", 1),))
    assert LinkGroup.parse("g", group.to_bytes()) == group
    assert b'"later":1' in LinkGroup.parse("g", group.to_bytes()).to_bytes()
    assert group.advance(9, 5).members[0].joined == 9
    assert group.advance(9, 5).advance(12, 6).members[0].joined == 9


# -- mutations ---------------------------------------------------------------------------------------------------------


def _mutation(number: int, place: int = 0, group: str = "u") -> MutationEntry:
    entry = MutationEntry(f"{number:010d}", 0.0, "r1", "DELETE WHERE 1", {"p": number})
    return CutMark(place, place - 10, group).put_into(entry) if place else entry


def _parts(*names: str) -> list[PartName]:
    return [PartName.parse(name) for name in names]


def test_a_cut_is_carried_out_when_its_mutations_have_changed_every_part() -> None:
    known = MutationSet((_mutation(3, 50), _mutation(6, 70)))
    before = compare_with_parts(known, _parts("p_0_0_0", "p_1_1_0", "p_4_4_0"), "u")
    assert [mark.place for mark in before.undone] == [50, 70]
    assert before.touched == 0
    begun = compare_with_parts(known, _parts("p_0_0_0_3", "p_1_1_0", "p_4_4_0"), "u")
    assert ([mark.place for mark in begun.undone], begun.touched) == ([50, 70], 50)
    ahead = compare_with_parts(known, _parts("p_0_0_0_6", "p_1_1_0_3"), "u")
    assert ([mark.place for mark in ahead.undone], ahead.touched) == ([70], 70)
    done = compare_with_parts(known, _parts("p_0_1_1_6", "p_4_4_0_6", "p_8_8_0"), "u")
    assert (done.undone, done.touched, done.has_others) == ([], 70, False)


def test_mutations_that_no_cut_of_the_group_has_are_told_apart() -> None:
    known = MutationSet((_mutation(3), _mutation(6, 70, "of another group")))
    found = compare_with_parts(known, _parts("p_0_0_0"), "u")
    assert (found.undone, found.touched, found.unchanged, found.has_others) == ([], 0, [], True)
    assert compare_with_parts(known, _parts("p_0_0_0_3"), "u").has_others
    assert not compare_with_parts(known, _parts("p_0_0_0_6", "q_0_0_0"), "u").has_others


def test_a_part_brings_the_mutations_that_those_before_it_lack() -> None:
    known = MutationSet((_mutation(3, 50), _mutation(6, 70), _mutation(9, 90)))
    (made,) = _parts("p_0_1_1_6")
    assert [mark.place for mark in list_new_marks(known, made, _parts("p_0_0_0_3", "p_1_1_0_3"))] == [70]
    assert [mark.place for mark in list_new_marks(known, made, _parts("p_0_0_0", "p_1_1_0_3"))] == [50, 70]
    assert [mark.place for mark in list_new_marks(known, made, [])] == [50, 70]
    assert not list_new_marks(known, PartName.parse("p_12_12_0"), [])
    assert not list_new_marks(known, made, [made])


def test_the_mark_of_a_mutation_is_read_again() -> None:
    marked = _mutation(3, 50)
    again = MutationEntry.parse(marked.mutation_id, marked.to_bytes())
    assert again == marked
    assert CutMark.of(again) == CutMark(50, 40, "u")
    assert CutMark.of(MutationEntry.parse("0000000003", _mutation(3).to_bytes())) is None
