"""A quorum of three that fails while somebody still commits the part: tried with the commit at every single request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.inserts.quorum import QuorumPlan, make_fetch_entries, restored_entry_time
from coordination.inserts.quorum_failure import fail_unreachable_part
from coordination.keeper.interface import MultiFailed
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.replicas import log_pull
from coordination.replicas.part_commit import PartCommitStatus
from parts.common.part_name import PartName
from tests.coordination.members import RECORD, TABLE, Member, at_request
from tests.coordination.real_time import commit_produced_part

QUORUM = QuorumPlan(3, is_parallel=True)


def take_fetch(member: Member, part: PartName) -> Callable[[], PartCommitStatus]:
    """The member has fetched the part; the commit is to come."""
    action = member.queue.take_next_action(member, PoolLimits(1, 1, 1))
    assert action is not None
    return lambda: commit_produced_part(
        member.keeper, member.paths, member.queue, action.name, action.entry, part, RECORD
    )


def give_up(member: Member, entry: LogEntry) -> bool:
    with contextlib.suppress(MultiFailed):
        return fail_unreachable_part(member.keeper, member.paths, entry)
    return False


def check_one_outcome(members: list[Member], part: PartName, has_failed: bool, commit: PartCommitStatus) -> None:
    """Nobody alive keeps a part that was given up."""
    marker = members[1].keeper.exists(TABLE.quorum_failed_part(str(part)))
    listed = members[1].keeper.exists(members[1].paths.part(str(part)))
    assert (marker is not None) == has_failed
    assert (listed is not None) == (commit is PartCommitStatus.COMMITTED) == (not has_failed)


@pytest.mark.parametrize("number", range(1, 25))
def test_fetcher_commits_while_a_peer_gives_the_part_up(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    one, two, three = members
    part = one.insert("id", QUORUM)
    two.pull()
    three.pull()
    commit = take_fetch(two, part)
    one.expire()
    statuses: list[PartCommitStatus] = []
    left = at_request(ensemble, three, number, lambda: statuses.append(commit()))
    has_failed = give_up(three, three.queue.list_entries()[0].entry)
    ensemble.faults = None
    if left[0] > 0:
        statuses.append(commit())
    check_one_outcome(members, part, has_failed, statuses[0])


@pytest.mark.parametrize("number", range(1, 25))
def test_former_holder_commits_its_new_copy_while_a_peer_gives_the_part_up(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """It stands in the status already, so its commit does not change the status."""
    one, two, three = members
    part = one.insert("id", QUORUM)
    two.pull()
    two.drain()
    three.pull()
    two.active.clear()  # its disk
    assert log_pull.queue_missing_fetches(two.keeper, two.paths, two.queue, [part])
    commit = take_fetch(two, part)
    one.expire()
    statuses: list[PartCommitStatus] = []
    left = at_request(ensemble, three, number, lambda: statuses.append(commit()))
    has_failed = give_up(three, three.queue.list_entries()[0].entry)
    ensemble.faults = None
    if left[0] > 0:
        statuses.append(commit())
    check_one_outcome(members, part, has_failed, statuses[0])


def test_a_part_whose_quorum_failed_is_not_fetched_by_a_clone(members: list[Member]) -> None:
    """Its owner, which was away, lists it still."""
    one, two, three = members
    part = one.insert("id", QuorumPlan(2, is_parallel=True))
    two.pull()
    one.expire()
    assert fail_unreachable_part(two.keeper, two.paths, two.queue.list_entries()[0].entry)
    assert one.ensemble.connect().exists(one.paths.part(str(part))) is not None
    assert make_fetch_entries(three.keeper, TABLE, {part: "", PartName("all", 7, 7, 0): ""}, "r1") == [
        LogEntry(
            EntryType.GET_PART,
            PartName("all", 7, 7, 0),
            restored_entry_time(three.keeper, TABLE),
            "r1",
            is_restored=True,
        )
    ]


def test_a_part_that_came_under_another_entry_counts_for_its_quorum(members: list[Member]) -> None:
    one, two, _ = members
    part = one.insert("id", QuorumPlan(2, is_parallel=True))
    two.pull()
    two.keeper.create(two.paths.part(str(part)), RECORD.to_bytes())
    two.active.add(part)
    assert two.drain() == [ActionKind.SKIP]
    assert one.keeper.children(TABLE.quorum_parallel) == []
