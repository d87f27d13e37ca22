"""How far a table can be read in the order of its blocks: nothing comes later at or below a position."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from coordination.inserts.block_numbers import release_block_number
from coordination.inserts.insert_commit import InsertRequest, InsertStatus
from coordination.inserts.quorum import QuorumPlan
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.log.part_set import PartSet
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.reads.dropped_blocks import read_dropped_blocks
from coordination.reads.stream_positions import compute_stream_positions, read_stream_positions
from parts.common.errors import ConflictError
from parts.common.part_name import PartName
from tests.coordination.members import TABLE, Member
from tests.coordination.real_time import drop_partition
from tests.portions import one_in


def positions(member: Member) -> dict[str, int]:
    return read_stream_positions(
        member.keeper,
        TABLE,
        member.queue,
        member.pull,
        lambda part: member.covering_active(part) is not None,
    )


def part(text: str) -> PartName:
    return PartName.parse(text)


def test_decided_is_what_no_lock_no_quorum_and_no_missing_part_lies_below() -> None:
    known = PartSet(map(part, ["a_0_4_1", "a_6_6_0", "b_2_2_0"]))
    current = PartSet(map(part, ["a_0_6_2", "a_8_8_0", "b_2_2_0"]))

    def decided(committing: dict[str, list[int]], unconfirmed: set[str], missing: set[str]) -> dict[str, int]:
        return compute_stream_positions(
            known, committing, set(map(part, unconfirmed)), current, lambda name: str(name) not in missing
        )

    assert decided({}, set(), set()) == {"a": 6, "b": 2}
    assert decided({"a": [5, 7], "b": []}, set(), set()) == {"a": 4, "b": 2}
    assert decided({"a": [7]}, set(), {"a_8_8_0"}) == {"a": 6, "b": 2}
    assert decided({}, {"b_2_2_0"}, set()) == {"a": 6, "b": 1}
    assert decided({}, set(), {"a_0_6_2"}) == {"a": -1, "b": 2}


def test_a_number_taken_and_not_committed_holds_the_position_until_it_is_decided(members: list[Member]) -> None:
    member, other = members[:2]
    first = member.insert("1")
    waiting = other.request("2")
    later = member.insert("3")
    assert positions(member) == {"all": first.max_block}
    assert other.commit(waiting).status is InsertStatus.COMMITTED
    assert positions(member) == {"all": first.max_block}, "it is committed, and not here"
    member.drain()
    assert positions(member) == {"all": later.max_block}
    given_up = other.request("4")
    last = member.insert("5")
    assert positions(member) == {"all": given_up.part.min_block - 1}
    release_block_number(other.keeper, given_up.lock)
    assert positions(member) == {"all": last.max_block}


def test_a_block_whose_quorum_is_pending_is_not_passed(members: list[Member]) -> None:
    member, other = members[:2]
    first = member.insert("1")
    member.insert("2", QuorumPlan(2, is_parallel=True))
    member.insert("3")
    assert positions(member) == {"all": first.max_block}
    other.pull()
    other.drain()
    assert positions(member) == {"all": first.max_block + 2}


def test_a_replica_that_is_behind_reports_what_it_has(members: list[Member]) -> None:
    member, other = members[:2]
    names = [member.insert(str(number)) for number in range(3)]
    assert positions(other) == {"all": -1}
    other.drain()
    assert positions(other) == positions(member) == {"all": names[-1].max_block}


def test_a_drop_remembers_the_last_block_it_took(members: list[Member]) -> None:
    member, other = members[:2]
    last = member.insert("1")
    release_block_number(other.keeper, other.request("2").lock)

    def last_blocks(ranges: Sequence[PartName]) -> list[int | None]:
        member.pull()
        (gone,) = ranges
        parts = member.queue.list_virtual_parts(gone.partition_id)
        return [max((name.max_block for name in parts if name.max_block <= gone.max_block), default=None)]

    for _ in range(2):  # the second has nothing to take
        drop_partition(member.keeper, TABLE, "r1", "all", last_blocks=last_blocks)
        assert read_dropped_blocks(other.keeper, TABLE) == {"all": last.max_block}
        member.pull()
        member.drain()
    later = other.insert("3")
    drop_partition(member.keeper, TABLE, "r1", "all", last_blocks=last_blocks)
    assert read_dropped_blocks(other.keeper, TABLE) == {"all": later.max_block}


class World:
    """Random deeds of three members, and what was committed by when."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        ensemble = MemoryEnsemble(time.monotonic)
        self.members = [Member(ensemble, f"r{number}") for number in (1, 2, 3)]
        self.open: list[tuple[Member, InsertRequest]] = []
        self.committed: set[PartName] = set()
        self.promised: dict[str, int] = {}
        self.blocks = 0

    def insert(self) -> None:
        member = self.random.choice(self.members)
        self.blocks += 1
        self.open.append((member, member.request(str(self.blocks), partition=self.random.choice("ab"))))

    def end_insert(self) -> None:
        if self.open:
            member, request = self.open.pop(self.random.randrange(len(self.open)))
            if self.random.random() < 0.2:
                release_block_number(member.keeper, request.lock)
                return
            assert member.commit(request).status is InsertStatus.COMMITTED
            member.active.add(request.part)
            member.queue.add_active(request.part)
            self.committed.add(request.part)
            name = request.part
            assert name.min_block > self.promised.get(name.partition_id, -1), f"{name} comes behind {self.promised}"

    def work(self) -> None:
        member = self.random.choice(self.members)
        member.pull()
        if self.random.random() < 0.7:
            member.drain()

    def merge(self) -> None:
        member = self.random.choice(self.members)
        predicate = member.predicate()
        runs = [run for name in "ab" for run in predicate.list_mergeable_runs(name) if len(run) > 1]
        if runs:
            log_merges_and_mutations(
                member.keeper,
                TABLE,
                predicate.log_version,
                [make_merge_entry(self.random.choice(runs), member.name, 1.0)],
            )

    def look(self) -> None:
        member = self.random.choice(self.members)

        def pull() -> None:
            for _ in range(self.random.randrange(3)):
                self.random.choice((self.insert, self.end_insert))()
            member.pull()
            if self.random.random() < 0.5:
                self.end_insert()

        found = read_stream_positions(
            member.keeper, TABLE, member.queue, pull, lambda part: member.covering_active(part) is not None
        )
        for name in self.committed:
            if name.min_block <= found.get(name.partition_id, -1):
                assert member.covering_active(name) is not None, f"{name} is not on {member.name}"
        self.promised = {key: max(self.promised.get(key, -1), found.get(key, -1)) for key in "ab"}


@pytest.mark.parametrize("seed", one_in(4, range(40)))
def test_nothing_is_committed_behind_a_position_and_all_before_it_is_there(seed: int) -> None:
    world = World(seed)
    deeds = [world.insert, world.end_insert, world.work, world.look, world.look]
    for _ in range(120):
        try:
            world.random.choice([*deeds, *([world.merge] if world.random.random() < 0.3 else [])])()
        except ConflictError:
            continue
    while world.open:
        world.end_insert()
    for member in world.members * 2:
        member.pull()
        member.drain()
    last = {key: max(name.max_block for name in world.committed if name.partition_id == key) for key in "ab"}
    assert all(positions(member) == last for member in world.members)
