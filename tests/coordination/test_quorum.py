"""insert_quorum, one scenario a test; the names of known bugs of other systems are the tests' names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from coordination.inserts.block_numbers import DuplicateBlock, read_committing_numbers
from coordination.inserts.insert_commit import InsertStatus, begin_insert
from coordination.inserts.quorum import QuorumPlan, parse_last_parts, plan_quorum, required_replicas
from coordination.inserts.quorum_failure import fail_unreachable_part, list_own_failed_parts, unlist_failed_parts
from coordination.inserts.quorum_wait import QuorumOutcome, decide_quorum_outcome, wait_for_quorum
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.reads.sequential_reads import read_confirmed
from coordination.replicas import log_pull
from coordination.replicas.cleanup import CleanupSettings, run_cleanup
from coordination.replicas.part_commit import PartCommitStatus
from parts.common.errors import UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from tests.coordination.members import RECORD, TABLE, Member, fault_once
from tests.coordination.real_time import commit_produced_part, drop_partition


def plan(member: Member, setting: int | str = 2, *, is_parallel: bool = True) -> QuorumPlan:
    found = plan_quorum(member.keeper, TABLE, setting, is_parallel=is_parallel)
    assert found is not None
    return found


def wait(member: Member, part: PartName, *, is_parallel: bool = True) -> None:
    wait_for_quorum(
        member.keeper,
        TABLE,
        part,
        member.activation,
        is_parallel=is_parallel,
        timeout_seconds=0,
        clock=lambda: 0.0,
        wait=lambda event, seconds: None,
    )


def test_auto_quorum_counts_all_replicas_not_the_live_ones(members: list[Member]) -> None:
    members[2].expire()
    assert plan(members[0], "auto").required == 2
    assert [required_replicas("auto", n) for n in (1, 2, 3, 4, 5)] == [1, 2, 2, 3, 3]


def test_too_few_live_replicas_is_285(members: list[Member]) -> None:
    members[1].expire()
    members[2].expire()
    with pytest.raises(UnavailableError) as caught:
        plan(members[0], 2)
    assert caught.value.code == 285


@pytest.mark.parametrize("is_parallel", [True, False])
def test_quorum_is_met_by_the_fetcher(members: list[Member], is_parallel: bool) -> None:
    part = members[0].insert("id", plan(members[0], is_parallel=is_parallel))
    with pytest.raises(UnknownOutcomeError) as caught:
        wait(members[0], part, is_parallel=is_parallel)
    assert caught.value.code == 319
    members[1].pull()
    assert members[1].drain() == [ActionKind.FETCH]
    wait(members[0], part, is_parallel=is_parallel)
    if not is_parallel:
        last = parse_last_parts(members[0].keeper.get(TABLE.quorum_last_part)[0])
        assert last == {"all": str(part)}


def test_second_quorum_insert_while_one_is_pending_is_286_unless_parallel(members: list[Member]) -> None:
    members[0].insert("one", plan(members[0], is_parallel=False))
    pending = plan(members[1], is_parallel=False)
    with pytest.raises(UnavailableError) as caught:
        begin_insert(members[1].keeper, TABLE, "all", "two", owner="r2", quorum=pending)
    assert caught.value.code == 286
    assert read_committing_numbers(members[0].keeper, TABLE, ["all"]) == {"all": []}
    members[1].insert("three", plan(members[1], is_parallel=True))


def test_of_two_quorum_commits_at_once_the_second_is_286(members: list[Member]) -> None:
    first = members[0].request("one", plan(members[0], is_parallel=False))
    second = members[1].request("two", plan(members[1], is_parallel=False))
    assert members[0].commit(first).status is InsertStatus.COMMITTED
    with pytest.raises(UnavailableError) as caught:
        members[1].commit(second)
    assert caught.value.code == 286


def test_repeated_insert_of_a_pending_block_waits_for_the_original_quorum(members: list[Member]) -> None:
    """A retry with the same token after 319 stores the rows once."""
    part = members[0].insert("id", plan(members[0], is_parallel=False))
    with pytest.raises(UnknownOutcomeError):
        wait(members[0], part, is_parallel=False)
    again = begin_insert(members[1].keeper, TABLE, "all", "id", owner="r2", quorum=plan(members[1], is_parallel=False))
    assert isinstance(again, DuplicateBlock)
    members[1].pull()
    members[1].drain()
    wait(members[1], PartName.parse(again.part), is_parallel=False)


def test_retry_with_the_same_token_after_an_unknown_commit_is_a_duplicate(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.LOSE_ANSWER)
    assert members[0].commit(request).status is InsertStatus.UNKNOWN
    assert isinstance(begin_insert(members[1].keeper, TABLE, "all", "id", owner="r2"), DuplicateBlock)


def test_quorum_node_gone_is_not_success_when_a_peer_marked_failure(members: list[Member]) -> None:
    quorum = plan(members[0])
    part = members[0].insert("id", quorum)
    members[1].pull()
    members[0].expire()
    entry = members[1].queue.list_entries()[0].entry
    assert fail_unreachable_part(members[1].keeper, members[1].paths, entry)
    members[0].keeper.reconnect()
    with pytest.raises(UnknownOutcomeError, match="lost its ZooKeeper session"):
        wait(members[0], part)
    with pytest.raises(UnknownOutcomeError, match="given up"):
        wait(members[1], part)


def test_quorum_wait_over_an_expired_session_is_unknown_even_if_the_marker_is_gone(members: list[Member]) -> None:
    part = members[0].insert("id", plan(members[0]))
    former = members[0].activation
    members[0].restart()
    members[0].keeper.delete(TABLE.quorum_parallel_part(str(part)))
    members[0].activation = former
    with pytest.raises(UnknownOutcomeError):
        wait(members[0], part)


@pytest.mark.parametrize("node_exists", [True, False])
@pytest.mark.parametrize("marked_failed", [True, False])
@pytest.mark.parametrize("is_still_active", [True, False])
@pytest.mark.parametrize("is_lowered", [True, False])
def test_judge_says_met_in_one_case_only(
    node_exists: bool, marked_failed: bool, is_still_active: bool, is_lowered: bool
) -> None:
    verdict = decide_quorum_outcome(
        node_exists=node_exists, marked_failed=marked_failed, is_still_active=is_still_active, is_lowered=is_lowered
    )
    assert (verdict is QuorumOutcome.MET) == (
        not node_exists and not marked_failed and is_still_active and not is_lowered
    )


def test_failed_part_is_taken_back_by_its_owner_and_its_block_can_be_inserted_again(members: list[Member]) -> None:
    """The block id of a part that failed does not swallow the retry."""
    part = members[0].insert("id", plan(members[0]))
    members[1].pull()
    members[0].expire()
    entry = members[1].queue.list_entries()[0]
    assert fail_unreachable_part(members[1].keeper, members[1].paths, entry.entry)
    log_pull.abandon_entry(members[1].keeper, members[1].paths, members[1].queue, entry.name)
    assert part not in members[1].queue.copy_virtual_parts()
    again = members[1].insert("id")
    assert again != part
    members[0].keeper.reconnect()
    assert list_own_failed_parts(members[0].keeper, members[0].paths) == [str(part)]
    unlist_failed_parts(members[0].keeper, members[0].paths, [str(part)])
    assert members[0].keeper.exists(members[0].paths.part(str(part))) is None


def test_part_is_not_given_up_while_its_owner_lives_or_comes_back(members: list[Member]) -> None:
    members[0].insert("id", plan(members[0]))
    members[1].pull()
    entry = members[1].queue.list_entries()[0].entry
    assert not fail_unreachable_part(members[1].keeper, members[1].paths, entry)


def test_failed_quorum_part_is_not_merged_by_who_has_not_heard_of_it(members: list[Member]) -> None:
    a = members[0].insert("a")
    b = members[0].insert("b", plan(members[0]))
    for member in members[1:]:
        member.pull()
    predicate = members[2].predicate()
    assert predicate.can_merge(a, b) == f"quorum for part {b} is not satisfied"
    stale = members[2].predicate()
    members[0].expire()
    entry = next(item.entry for item in members[1].queue.list_entries() if item.entry.new_part == b)
    assert fail_unreachable_part(members[1].keeper, members[1].paths, entry)
    run_cleanup(members[1].keeper, TABLE, CleanupSettings(0, 1000))
    again = members[2].predicate()
    assert again.can_merge(a, b) == f"quorum for part {b} is not satisfied"
    assert not log_merges_and_mutations(
        members[2].keeper, TABLE, stale.log_version, [make_merge_entry([a, b], "r3", 1.0)]
    )


def test_fetched_part_whose_quorum_failed_meanwhile_is_not_committed(members: list[Member]) -> None:
    part = members[0].insert("id", plan(members[0]))
    for member in members[1:]:
        member.pull()
    action = members[2].queue.take_next_action(members[2], PoolLimits(1, 1, 1))
    assert action is not None
    members[0].expire()
    assert fail_unreachable_part(members[1].keeper, members[1].paths, action.entry)
    status = commit_produced_part(
        members[2].keeper, members[2].paths, members[2].queue, action.name, action.entry, part, RECORD
    )
    assert status is PartCommitStatus.DROPPED


def test_drop_of_the_pending_part_does_not_wedge_quorum(members: list[Member]) -> None:
    part = members[0].insert("id", plan(members[0], is_parallel=False))
    assert drop_partition(members[1].keeper, TABLE, "r2", "all") is not None
    with pytest.raises(UnknownOutcomeError, match="given up"):
        wait(members[0], part, is_parallel=False)
    members[1].insert("next", plan(members[1], is_parallel=False))


@dataclass(frozen=True)
class Held:
    name: PartName


class HeldParts:
    """A snapshot of a member's active parts."""

    def __init__(self, member: Member) -> None:
        self.parts = [Held(name) for name in member.active]

    def release(self) -> None: ...


def hidden_parts(member: Member) -> frozenset[PartName]:
    return read_confirmed(member.keeper, member.activation, lambda: HeldParts(member))[1]


def test_sequential_read_hides_pending_parts_and_refuses_when_a_confirmed_one_is_missing(members: list[Member]) -> None:
    part = members[0].insert("id", plan(members[0]))
    assert hidden_parts(members[0]) == {part}
    members[1].pull()
    members[1].drain()
    assert hidden_parts(members[0]) == frozenset()
    for pull_first in (False, True):
        if pull_first:
            members[2].pull()
        with pytest.raises(UnavailableError) as caught:
            hidden_parts(members[2])
        assert caught.value.code == 289
    members[2].drain()
    assert hidden_parts(members[2]) == frozenset()


def test_sequential_read_sees_what_others_wrote_before_it(members: list[Member]) -> None:
    """Though its server lags behind."""
    members[2].keeper.lag()
    members[0].insert("id", plan(members[0]))
    members[1].pull()
    members[1].drain()
    with pytest.raises(UnavailableError) as caught:
        hidden_parts(members[2])
    assert caught.value.code == 289


def take_over(member: Member) -> None:
    """Another server of the same data directory."""
    member.keeper.delete(member.paths.is_active)
    member.keeper.set(member.paths.host, b"")
    member.keeper.create(member.paths.is_active, ephemeral=True)


def write_over(member: Member) -> None:
    """It is the same session's node, but nothing can be committed any more by who knows its former version."""
    member.keeper.set(member.paths.is_active, b"another")


OVER = pytest.mark.parametrize("end", [Member.restart, take_over, write_over])


@OVER
def test_sequential_read_after_the_activation_is_refused(members: list[Member], end: Callable[[Member], None]) -> None:
    """Who took the replica over moves its pointer and its queue on, and has the parts elsewhere."""
    former = members[0].activation
    end(members[0])
    members[0].activation = former
    with pytest.raises(UnavailableError) as caught:
        hidden_parts(members[0])
    assert caught.value.code == 242


@OVER
def test_quorum_is_not_told_after_the_activation(members: list[Member], end: Callable[[Member], None]) -> None:
    part = members[0].insert("id", plan(members[0]))
    former = members[0].activation
    end(members[0])
    members[0].activation = former
    members[1].pull()
    members[1].drain()
    assert members[0].keeper.exists(TABLE.quorum_parallel_part(str(part))) is None
    with pytest.raises(UnknownOutcomeError, match="lost its ZooKeeper session"):
        wait(members[0], part)
