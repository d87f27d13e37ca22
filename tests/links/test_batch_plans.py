"""What one batch commits: as data, and as a multi that ZooKeeper takes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.inserts.block_ids import select_block_ids_of_partitions
from coordination.inserts.block_numbers import BlockLock, allocate_block_number, read_committing_numbers
from coordination.inserts.partition_nodes import PartitionNode, find_partitions
from coordination.keeper.interface import BadVersion, Create, MultiFailed, SetData
from coordination.keeper.memory_keeper import MemoryEnsemble, MemoryKeeper
from coordination.links.batches.batch_list import make_list, must_be_list
from coordination.links.batches.batch_ops import BatchCommit, TargetReads, make_batch_commit
from coordination.links.batches.batch_plan import (
    BatchLimits,
    BatchPlan,
    count_numbers,
    estimate_bytes,
    net_block_ids,
    select_batch_end,
)
from coordination.links.positions import Position
from coordination.links.stream.carried_changes import read_carried_changes
from coordination.links.stream.change import Change, Definition
from coordination.links.version_vector import VersionVector
from coordination.log.entry_list import list_name, read_list
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from tests.links.changes import EAST, WEST, make_block, make_change, plan

TABLE = TablePaths("/t")
NO_LIMITS = BatchLimits(10**9, 10**15)


def _names(planned: BatchPlan) -> list[str]:
    assert planned.entry is not None
    return [str(staged.part) for staged in planned.entry.replace_parts]


def test_only_the_last_drop_of_a_partition_counts() -> None:
    planned = plan([make_change(1, make_block(4)), make_change(2, drops=[("p", 5)]), make_change(3, make_block(6)),
                    make_change(4, drops=[("p", 7)]), make_change(5, make_block(8))])  # fmt: skip
    assert planned.entry is not None
    assert planned.entry.type is EntryType.REPLACE_RANGE
    assert list(map(str, planned.entry.drop_ranges)) == ["p_0_102_999999999"]
    assert _names(planned) == ["p_104_104_0"]
    assert planned.drops == {"p": 103}


def test_a_command_that_commits_late_covers_what_it_covered_at_the_source() -> None:
    """The drop has number 2 and commits after block 3: block 3 stays."""
    planned = plan([make_change(1, make_block(3)), make_change(2, drops=[("p", 2)]), make_change(3, make_block(1))])
    assert planned.drops == {"p": 101}
    assert _names(planned) == ["p_102_102_0"]


def test_a_block_that_commits_after_its_mutation_is_changed_by_it() -> None:
    planned = plan([make_change(1, mutations=[("UPDATE", {"p": 2, "q": 1})]), make_change(2, make_block(1))])
    (mutation,) = planned.mutations
    assert dict(mutation.numbers) == {"p": 101, "q": 100}
    assert _names(planned) == ["p_100_100_0"]
    assert planned.commands == {"p": 101, "q": 100}


def test_an_alter_between_a_command_and_a_block_goes_with_them() -> None:
    alter = replace(make_change(2), definitions=(Definition(7, "", "a UInt8"),))
    planned = plan([make_change(1, make_block(3)), alter, make_change(3, drops=[("p", 2)])])
    assert planned.definition == Definition(7, "", "a UInt8")
    assert planned.entry is not None
    carried = read_carried_changes(LogEntry.parse(planned.entry.to_bytes()), 50)
    assert [change.definitions for change in carried] == [(), alter.definitions, ()]


def test_the_changes_of_a_batch_are_read_back_as_what_they_were() -> None:
    changes = [
        make_change(7, make_block(3, block_id="p_x"), make_block(1, "q"), previous=2),
        make_change(9, make_block(4, rows=5, is_lost=True), origin=EAST, previous=8, place=8),
        make_change(8, mutations=[("DELETE", {"p": 5})], drops=[("q", 2)], previous=7, place=9),
    ]
    planned = plan(changes)
    assert planned.entry is not None
    carried = read_carried_changes(LogEntry.parse(planned.entry.to_bytes()), 50)
    assert [change.position for change in carried] == [change.position for change in changes]
    assert [change.previous for change in carried] == [2, 8, 7]
    assert [change.commit_ms for change in carried] == [1007, 1009, 1008]
    assert {change.place for change in carried} == {50}
    assert carried == [replace(change, place=50) for change in planned.changes]
    assert planned.lost_rows == 5
    assert carried[1].rows == 0


def test_a_damaged_batch_is_refused() -> None:
    planned = plan([make_change(1, make_block(1))])
    assert planned.entry is not None
    told = {"origins": [str(WEST)], "changes": [[-1, 1, 1, 0, [], [], [], []]]}
    late = {"origins": [str(WEST)], "changes": [[0, 1, 1, 2, [], [], [], []]]}
    for damaged in (
        replace(planned.entry, replace_parts=()),
        *(replace(planned.entry, extra=(("link", document),)) for document in ({}, told, late, [])),
    ):
        with pytest.raises(CorruptionError, match="Cannot read the changes"):
            read_carried_changes(damaged, 1)


def test_a_batch_of_known_changes_moves_the_vector_alone() -> None:
    vector = VersionVector().advance(Position(EAST, 4))
    end = Position(WEST, 30)
    planned = replace(plan([make_change(1)]), entry=None, changes=(), vector=vector.advance(end), end=end)
    commit = make_batch_commit(planned, TABLE, TargetReads(3))
    assert commit.ops == (SetData(TABLE.linked.vector, planned.vector.to_bytes(), 3),)
    assert commit.entry is None


# --- where a batch ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (NO_LIMITS, 4),
        (BatchLimits(2, 10**9), 2),
        (BatchLimits(10**9, 35), 3),
        (BatchLimits(0, 0), 1),
        (BatchLimits(10**9, 10**9, entry_bytes=10), 1),
        (BatchLimits(10**9, 10**9, request_bytes=10), 1),
    ],
)
def test_a_batch_ends_at_the_last_cut_within_the_limits(limits: BatchLimits, end: int) -> None:
    changes = [make_change(zxid, make_block(zxid)) for zxid in range(1, 5)]
    assert select_batch_end(changes, [1, 2, 3, 4], limits) == end


def test_a_limit_between_two_cuts_moves_no_cut() -> None:
    """Four changes that may not be parted are one batch, however few rows are allowed."""
    changes = [make_change(zxid, make_block(zxid)) for zxid in range(1, 7)]
    assert select_batch_end(changes, [4, 5, 6], BatchLimits(1, 1)) == 4
    assert select_batch_end(changes, [4, 5, 6], BatchLimits(5, 10**9)) == 5


def test_the_estimate_of_a_batch_is_never_too_small() -> None:
    many = [
        make_change(zxid, make_block(zxid, block_id=f'p_{"ü" * 30}"{zxid}'), drops=[("q", zxid)],
                    mutations=[('UPDATE "ä" \n' * 9, {"r": zxid})])
        for zxid in range(1, 200)
    ]  # fmt: skip
    planned = plan(many, first=10**18)
    assert planned.entry is not None
    guards = {p: (PartitionNode(TABLE, p), 3) for p in ("p", "q", "r")}
    commit = make_batch_commit(planned, TABLE, TargetReads(1, guards=guards), limit_bytes=10**9)
    estimated = [estimate_bytes(change) for change in many]
    assert len(planned.entry.to_bytes()) <= sum(entry for entry, _ in estimated) + 1024
    assert commit.size_bytes <= sum(map(sum, estimated)) + 96 * 1024


@pytest.mark.long
def test_a_transaction_of_thousands_of_parts_becomes_a_list() -> None:
    blocks = [make_block(number, block_id=f"p_{number}") for number in range(1, 6_001)]
    change = make_change(1, *blocks)
    assert select_batch_end([change], [1], NO_LIMITS) == 1
    planned = plan([change])
    commit = make_batch_commit(planned, TABLE, TargetReads(1))
    assert must_be_list(commit, NO_LIMITS)
    listed = make_list(planned, "list-1")
    short = make_batch_commit(listed.plan, TABLE, TargetReads(1), sets_ids=False)
    assert not must_be_list(short, NO_LIMITS)
    assert short.size_bytes < 2_000
    assert short.entry is not None
    logged = LogEntry.parse(short.entry.to_bytes())
    assert list_name(logged) == "list-1"
    assert all(len(piece) <= 256 * 1024 for piece in listed.pieces)
    whole = read_list(logged, listed.pieces)
    assert whole == planned.entry
    assert whole.to_bytes() == logged.to_bytes(), "it is written as the short one again"
    assert LogEntry.parse(whole.to_bytes(is_whole=True)) == whole
    assert net_block_ids(read_carried_changes(whole, 9)) == planned.block_ids


def test_a_list_with_other_pieces_is_refused() -> None:
    listed = make_list(plan([make_change(1, *(make_block(n) for n in range(1, 50)))]), "list-1", piece_bytes=1_000)
    assert listed.plan.entry is not None
    assert len(listed.pieces) > 2
    for pieces in (listed.pieces[:-1], listed.pieces[::-1], (*listed.pieces, b"")):
        with pytest.raises(CorruptionError, match="List list-1"):
            read_list(listed.plan.entry, pieces)


# --- the multi -------------------------------------------------------------------------------------------------


class Table:
    """A target's nodes, as far as a batch's multi touches them."""

    def __init__(self) -> None:
        self.keeper: MemoryKeeper = MemoryEnsemble(lambda: 0.0).connect()
        for path in ("", "log", "blocks", "block_numbers", "mutations", "columns", "links"):
            self.keeper.multi([Create(f"{TABLE.root}/{path}".rstrip("/"))])
        self.keeper.multi([Create(TABLE.linked.vector, VersionVector().to_bytes())])

    def insert(self, partition_id: str, block_id: str) -> None:
        lock = allocate_block_number(self.keeper, TABLE, partition_id)
        assert not hasattr(lock, "block_id")
        name = str(PartName(partition_id, lock.number, lock.number, 0))
        self.keeper.multi([Create(TABLE.block(block_id), name.encode())])
        self.keeper.delete(lock.path)

    def read(self, changes: list[Change]) -> tuple[BatchPlan, TargetReads]:
        versions = [self.keeper.get(path)[1].version for path in (TABLE.linked.vector, TABLE.mutations, TABLE.columns)]
        counts = count_numbers(changes)
        locks = [allocate_block_number(self.keeper, TABLE, p, count=count) for p, count in counts.items()]
        first = {lock.partition_id: lock.number for lock in locks}  # type: ignore[union-attr]
        guards = {
            p: (node, stat.version) for p, (node, stat) in find_partitions(self.keeper, TABLE, list(counts)).items()
        }
        committing = read_committing_numbers(self.keeper, TABLE, list(counts))
        names = self.keeper.children(TABLE.blocks)
        ids = {name: PartName.parse(self.keeper.get(TABLE.block(name))[0].decode()) for name in names}
        planned = plan(changes, firsts=first)
        return planned, TargetReads(versions[0], tuple(locks), committing, guards, ids, *versions[1:])  # type: ignore[arg-type]

    def commit(self, changes: list[Change]) -> BatchCommit:
        planned, reads = self.read(changes)
        commit = make_batch_commit(planned, TABLE, reads)
        self.keeper.multi(commit.ops)
        return commit

    def ids(self) -> dict[str, str]:
        names = sorted(self.keeper.children(TABLE.blocks))
        return {name: self.keeper.get(TABLE.block(name))[0].decode() for name in names}


def test_a_block_and_drops_above_it_are_one_multi() -> None:
    """One by one: the second drop finds the guard moved, and the drop the lock gone."""
    table = Table()
    table.insert("p", "p_old")
    waiting = allocate_block_number(table.keeper, TABLE, "p")
    changes = [
        make_change(1, make_block(1, block_id="p_a")),
        make_change(2, drops=[("p", 2)]),
        make_change(3, make_block(3, block_id="p_b")),
        make_change(4, drops=[("p", 4)]),
        make_change(5, make_block(5, block_id="p_c")),
        make_change(6, mutations=[("UPDATE", {"p": 6})]),
    ]
    log_version = table.keeper.get(TABLE.log)[1].version
    table.commit(changes)
    assert table.ids() == {"p_c": "p_6_6_0"}
    assert read_committing_numbers(table.keeper, TABLE, ["p"]) == {"p": []}, (
        "an INSERT below the drop takes a new number"
    )
    assert table.keeper.exists(waiting.path) is None  # type: ignore[union-attr]
    assert table.keeper.get(TABLE.log)[1].version > log_version, "no merge is assigned over a drop"
    assert len(table.keeper.children(TABLE.mutations)) == 1
    assert VersionVector.parse(table.keeper.get(TABLE.linked.vector)[0]).applied(WEST) == 6


def test_an_id_that_is_there_is_set_to_the_new_part() -> None:
    """The source forgot the id and took the same rows again: the vector alone says what is applied."""
    table = Table()
    table.insert("p", "p_a")
    table.commit([make_change(1, make_block(1, block_id="p_a")), make_change(2, make_block(2, block_id="p_a"))])
    assert table.ids() == {"p_a": "p_2_2_0"}
    (name,) = table.keeper.children(TABLE.log)
    entry = LogEntry.parse(table.keeper.get(f"{TABLE.log}/{name}")[0])
    assert [str(staged.part) for staged in entry.replace_parts] == ["p_1_1_0", "p_2_2_0"], "both blocks arrive"


def test_a_former_leader_cannot_commit() -> None:
    table = Table()
    planned, reads = table.read([make_change(1, make_block(1))])
    table.commit([make_change(1, make_block(1))])
    with pytest.raises(MultiFailed) as raised:
        table.keeper.multi(make_batch_commit(planned, TABLE, reads).ops)
    assert isinstance(raised.value.cause, BadVersion)
    assert raised.value.op.path == TABLE.linked.vector
    assert len(table.keeper.children(TABLE.log)) == 1


def test_a_drop_moves_the_guard_of_its_partition_even_without_ids() -> None:
    table = Table()
    table.insert("p", "q_other")
    before = select_block_ids_of_partitions(table.keeper, TABLE, {"p": lambda part: False})["p"]
    table.commit([make_change(1, drops=[("p", 1)])])
    with pytest.raises(MultiFailed):
        table.keeper.multi([before.guard_op])


def test_ids_that_do_not_fit_are_left_to_the_replicas() -> None:
    table = Table()
    for number in range(40):
        table.insert("p", f"p_{number:04d}")
    planned, reads = table.read([make_change(1, drops=[("p", 1)])])
    all_of = make_batch_commit(planned, TABLE, reads)
    some = make_batch_commit(planned, TABLE, reads, limit_bytes=all_of.size_bytes - 500)
    assert all_of.entry is not None
    assert some.entry is not None
    assert not all_of.entry.has_leftovers
    assert some.entry.has_leftovers
    assert some.size_bytes <= all_of.size_bytes - 500
    table.keeper.multi(some.ops)
    assert 0 < len(table.ids()) < 40


_ITEMS = st.lists(
    st.tuples(st.sampled_from("bbbdm"), st.sampled_from("pq"), st.integers(0, 3)), min_size=1, max_size=12
)


@given(_ITEMS, st.randoms(use_true_random=False), st.lists(st.integers(0, 3), unique=True))
@settings(max_examples=150, deadline=None)
@pytest.mark.long
def test_any_batch_is_one_multi_and_leaves_the_ids_that_its_changes_leave(
    items: list[tuple[str, str, int]], chance: Random, existing: list[int]
) -> None:
    """Numbers and commits are in orders of their own. The ids are those of the changes in the order of numbers."""
    table = Table()
    for number in existing:
        table.insert("p", f"p_{number}")
    waiting = [allocate_block_number(table.keeper, TABLE, partition_id) for partition_id in "pq"]
    numbers = list(range(1, len(items) + 1))
    chance.shuffle(numbers)
    changes = []
    for zxid, (number, (kind, partition_id, id_)) in enumerate(zip(numbers, items, strict=True), 1):
        block = make_block(number, partition_id, block_id=f"{partition_id}_{id_}")
        drops = [(partition_id, number)] if kind == "d" else []
        mutations = [("UPDATE", {partition_id: number})] if kind == "m" else []
        changes.append(make_change(zxid, *([block] if kind == "b" else []), drops=drops, mutations=mutations))
    want = set(table.ids())
    for _, (kind, partition_id, id_) in sorted(zip(numbers, items, strict=True)):
        if kind == "d":
            want = {name for name in want if not name.startswith(partition_id)}
        elif kind == "b":
            want.add(f"{partition_id}_{id_}")
    commit = table.commit(changes)
    assert commit.entry is not None
    parts = {str(staged.part): staged.content_hash for staged in commit.entry.replace_parts}
    ids = table.ids()
    assert set(ids) == want
    assert {part for part in ids.values() if int(part.split("_")[1]) > len(existing)} <= set(parts)
    commands = {partition_id for kind, partition_id, _ in items if kind != "b"}
    for lock in waiting:
        assert isinstance(lock, BlockLock)
        assert (table.keeper.exists(lock.path) is None) == (lock.partition_id in commands)
