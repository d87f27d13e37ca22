"""A quorum of three that fails while somebody still commits the part: tried with the commit at every single request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination import queue_io
from coordination.keeper import MultiFailed
from coordination.log_entry import LogEntry
from coordination.memory_keeper import MemoryEnsemble
from coordination.part_commit import ProducedStatus
from coordination.queue_rules import Limits
from coordination.quorum import QuorumPlan
from coordination.quorum_failure import fail_unreachable_part
from parts.part_name import PartName
from tests.coordination.members import RECORD, TABLE, Member
from tests.coordination.real_time import commit_produced_part

QUORUM = QuorumPlan(3, is_parallel=True)


def at_request(ensemble: MemoryEnsemble, member: Member, number: int, action: Callable[[], object]) -> list[int]:
    """Runs ``action`` once, before the member's request of this number. The list tells how many requests are left."""
    left = [number]

    def faults(session: int, kind: str, path: str) -> None:
        if session == member.keeper.session_id:
            left[0] -= 1
            if left[0] == 0:
                action()

    ensemble.faults = faults
    return left


def take_fetch(member: Member, part: PartName) -> Callable[[], ProducedStatus]:
    """The member has fetched the part; the commit is to come."""
    action = member.queue.next_action(member, Limits(1, 1, 1))
    assert action is not None
    return lambda: commit_produced_part(
        member.keeper, member.paths, member.queue, action.name, action.entry, part, RECORD
    )


def give_up(member: Member, entry: LogEntry) -> bool:
    with contextlib.suppress(MultiFailed):
        return fail_unreachable_part(member.keeper, member.paths, entry)
    return False


def check_one_outcome(members: list[Member], part: PartName, has_failed: bool, commit: ProducedStatus) -> None:
    """Nobody alive keeps a part that was given up."""
    marker = members[1].keeper.exists(TABLE.quorum_failed_part(str(part)))
    listed = members[1].keeper.exists(members[1].paths.part(str(part)))
    assert (marker is not None) == has_failed
    assert (listed is not None) == (commit is ProducedStatus.COMMITTED) == (not has_failed)


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
    statuses: list[ProducedStatus] = []
    left = at_request(ensemble, three, number, lambda: statuses.append(commit()))
    has_failed = give_up(three, three.queue.entries()[0].entry)
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
    assert queue_io.requeue_fetch(two.keeper, two.paths, two.queue, [part])
    commit = take_fetch(two, part)
    one.expire()
    statuses: list[ProducedStatus] = []
    left = at_request(ensemble, three, number, lambda: statuses.append(commit()))
    has_failed = give_up(three, three.queue.entries()[0].entry)
    ensemble.faults = None
    if left[0] > 0:
        statuses.append(commit())
    check_one_outcome(members, part, has_failed, statuses[0])
