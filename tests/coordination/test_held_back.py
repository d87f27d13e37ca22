"""The order of reads and the checks that a rule stands on: another actor comes in at every single request.

A rule that is tried at one chosen place holds there; these tests try each place, so they need not know which one is
dangerous.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

from coordination.drops.forget_partition import forget_partition
from coordination.inserts.block_numbers import release_orphaned_numbers
from coordination.inserts.insert_commit import InsertStatus
from coordination.inserts.quorum import QuorumPlan
from coordination.inserts.quorum_failure import fail_unreachable_part, list_own_failed_parts
from coordination.inserts.quorum_wait import wait_for_quorum
from coordination.keeper.interface import Create, MultiFailed
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble, MemoryKeeper
from coordination.log.log_entry import LogEntry
from coordination.log.queue_rules import PoolLimits
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.nodes.part_record import PartRecord
from coordination.replicas import log_pull
from coordination.replicas.cleanup import CleanupSettings, run_cleanup
from coordination.replicas.clone import finish_clone, needs_clone, request_clone
from coordination.replicas.part_commit import PartCommitStatus
from coordination.replicas.table_nodes import drop_dead_replica
from parts.common.errors import PandoError, UnknownOutcomeError
from parts.common.part_name import PartName
from tests.coordination.members import RECORD, TABLE, Member, at_request, fault_once
from tests.coordination.real_time import (
    clone_replica,
    commit_produced_part,
    drop_all_partitions,
    drop_partition,
    resolve_insert,
)


@pytest.mark.parametrize("number", range(1, 16))
def test_block_that_is_committed_while_the_predicate_is_built(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """It is seen as a lock or in the log, never in neither."""
    one, two, _ = members
    before = one.insert("before")
    between = two.request("between")
    after = one.insert("after")
    one.pull()
    left = at_request(ensemble, one, number, lambda: two.commit(between))
    predicate = one.predicate()
    ensemble.faults = None
    assert predicate.can_merge(before, after) is not None
    assert left[0] <= 0 or number > 5, "the commit comes in while the predicate is built"


@pytest.mark.parametrize("number", range(1, 40))
def test_entry_that_the_source_carries_out_while_it_is_cloned(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """It is seen in the source's queue or in its list of parts, never in neither."""
    one, two, three = members
    three.pull()
    part = two.insert("id")
    one.pull()
    three.keeper.set(three.paths.is_lost, b"1")
    at_request(ensemble, three, number, one.drain)
    clone_replica(three.keeper, three.paths, {})
    ensemble.faults = None
    finish_clone(three.keeper, three.paths)
    log_pull.load_queue(three.keeper, three.paths, three.queue, [])
    assert three.queue.find_virtual_cover(part) == part


@pytest.mark.parametrize("number", range(1, 40))
def test_drop_that_the_source_carries_out_while_it_is_cloned(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """What it takes along is not queued without it: nobody has it any more."""
    one, two, three = members
    three.pull()
    part = two.insert("id")
    drop_partition(two.keeper, TABLE, two.name, part.partition_id, clock=lambda: 60.0)
    one.pull()
    three.keeper.set(three.paths.is_lost, b"1")
    at_request(ensemble, three, number, one.drain)
    clone_replica(three.keeper, three.paths, {})
    ensemble.faults = None
    finish_clone(three.keeper, three.paths)
    log_pull.load_queue(three.keeper, three.paths, three.queue, [])
    three.drain()
    assert not three.active


@pytest.mark.parametrize("number", range(1, 20))
def test_holder_that_comes_back_while_its_quorum_part_is_given_up(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    one, two, _ = members
    one.insert("id", QuorumPlan(2, is_parallel=True))
    two.pull()
    one.expire()
    taken_back: list[str] = []

    def come_back() -> None:
        one.keeper.reconnect()
        taken_back.extend(list_own_failed_parts(one.keeper, one.paths))
        one.start()

    left = at_request(ensemble, two, number, come_back)
    has_failed = False
    with contextlib.suppress(MultiFailed):
        has_failed = fail_unreachable_part(two.keeper, two.paths, two.queue.list_entries()[0].entry)
    ensemble.faults = None
    assert has_failed == (left[0] > 0), "who came back without knowing of a failure keeps the part"
    assert not taken_back


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST])
def test_unknown_commit_is_settled_on_what_is_and_not_on_what_a_server_last_saw(
    ensemble: MemoryEnsemble, members: list[Member], fault: Fault
) -> None:
    one = members[0]
    request = one.request()
    fault_once(ensemble, fault)
    assert one.commit(request).status is InsertStatus.UNKNOWN
    one.keeper.reconnect(lagging=True)
    kinds: list[str] = []

    def note(session: int, kind: str, path: str) -> None:
        kinds.append(kind)

    ensemble.faults = note
    settled = resolve_insert(one.keeper, request, resolve_seconds=0, sleep=lambda _: None)
    assert kinds[0] == "sync", "nothing is read before the server has caught up"
    assert settled.status is (InsertStatus.COMMITTED if fault is Fault.LOSE_ANSWER else InsertStatus.RETRY)


@pytest.mark.parametrize("number", range(1, 40))
def test_replica_that_comes_back_while_it_is_marked_as_lost(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """Whoever was told that it is not lost finds the log that it needs."""
    one, two, three = members
    three.pull()
    three.expire()
    for key in range(5):
        one.insert(f"id {key}")
    for member in (one, two):
        member.pull()
    was_lost: list[bool] = []

    def come_back() -> None:
        three.keeper.reconnect()
        was_lost.append(needs_clone(three.keeper, three.paths))
        three.start()

    left = at_request(ensemble, one, number, come_back)
    with contextlib.suppress(PandoError):
        run_cleanup(one.keeper, TABLE, CleanupSettings(1, 2))
    ensemble.faults = None
    if left[0] > 0:
        come_back()
        assert was_lost == [True]
        return
    if not was_lost[0]:
        assert not needs_clone(three.keeper, three.paths)
        assert three.pull() == 5
    three.pull()
    three.drain()
    assert {PartName("all", n, n, 0) for n in range(5)} == three.active


@pytest.mark.parametrize("number", range(1, 30))
@pytest.mark.parametrize("is_cleaner", [True, False])
def test_of_two_replicas_one_stays_to_be_cloned_from(
    ensemble: MemoryEnsemble, members: list[Member], number: int, is_cleaner: bool
) -> None:
    """Whether one marks the other as lost and then itself, or each finds that the log has gone on without it."""
    one, two, three = members
    one.keeper.set(three.paths.is_lost, b"1")
    two.expire()
    for key in range(5):
        one.insert(f"id {key}")
    one.pull()
    observer = ensemble.connect()
    other = one if is_cleaner else two
    left = at_request(ensemble, one, number, lambda: request_clone(observer, other.paths))
    if is_cleaner:
        run_cleanup(one.keeper, TABLE, CleanupSettings(1, 2))
    else:
        request_clone(one.keeper, one.paths)
    ensemble.faults = None
    if left[0] > 0:
        assert not request_clone(observer, other.paths)
    assert [needs_clone(observer, member.paths) for member in members].count(False) == 1


@pytest.mark.parametrize("number", range(1, 20))
def test_merge_that_two_replicas_commit_with_other_content(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """Neither has listed its result when the other looks: one of them must give way."""
    one, two, _ = members
    parts = [one.insert("a"), one.insert("b")]
    two.pull()
    two.drain()
    assert log_merges_and_mutations(
        one.keeper, TABLE, one.predicate().log_version, [make_merge_entry(parts, "r1", 1.0)]
    )
    statuses: list[PartCommitStatus] = []

    def commit(member: Member, content_hash: str) -> None:
        member.pull()
        action = member.queue.take_next_action(member, PoolLimits(9, 9, 1 << 40))
        assert action is not None
        assert action.entry.new_part is not None
        record = PartRecord(content_hash, 1, 10)
        status = commit_produced_part(
            member.keeper, member.paths, member.queue, action.name, action.entry, action.entry.new_part, record
        )
        statuses.append(status)

    left = at_request(ensemble, one, number, lambda: commit(two, "theirs"))
    commit(one, "ours")
    ensemble.faults = None
    if left[0] > 0:
        commit(two, "theirs")
    assert sorted(status.name for status in statuses) == ["COMMITTED", "DIFFERENT"]


@pytest.mark.parametrize("number", range(1, 30))
def test_quorum_part_that_is_given_up_while_it_is_committed(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """Its owner died after it had sent the part. Nobody commits a part whose ids are free again."""
    one, two, three = members
    part = one.insert("id", QuorumPlan(2, is_parallel=True))
    for member in (two, three):
        member.pull()
    action = two.queue.take_next_action(two, PoolLimits(9, 9, 1 << 40))
    assert action is not None
    one.expire()
    has_failed: list[bool] = []

    def give_up() -> None:
        has_failed.append(fail_unreachable_part(three.keeper, three.paths, three.queue.list_entries()[0].entry))

    left = at_request(ensemble, two, number, give_up)
    status = commit_produced_part(two.keeper, two.paths, two.queue, action.name, action.entry, part, RECORD)
    ensemble.faults = None
    if left[0] > 0:
        give_up()
    assert has_failed == [status is PartCommitStatus.DROPPED]
    assert status is PartCommitStatus.DROPPED or two.keeper.exists(two.paths.part(str(part)))
    assert (three.keeper.exists(TABLE.block("id")) is None) == has_failed[0]


@pytest.mark.parametrize("number", range(1, 8))
def test_quorum_that_is_given_up_while_its_waiter_looks(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """A repeated INSERT waits on another replica, and the only holder has died. Reached is what is not told then."""
    one, two, three = members
    part = one.insert("id", QuorumPlan(2, is_parallel=True))
    three.pull()
    one.expire()
    entry = three.queue.list_entries()[0].entry
    left = at_request(ensemble, two, number, lambda: fail_unreachable_part(three.keeper, three.paths, entry))
    with pytest.raises(UnknownOutcomeError):
        wait_for_quorum(
            two.keeper, TABLE, part, two.activation, is_parallel=True, timeout_seconds=0.0, clock=lambda: 0.0,
            wait=lambda event, seconds: None,
        )  # fmt: skip
    assert left[0] <= 0 or number > 5, "it is given up meanwhile"


@pytest.mark.parametrize("number", range(1, 30))
def test_log_that_is_trimmed_while_a_new_replica_is_cloned(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """Its pointer holds the log only once it has one."""
    one, two, three = members
    three.keeper.set(three.paths.log_pointer, b"")
    three.keeper.set(three.paths.is_lost, b"1")

    def work() -> None:
        parts.extend(two.insert(f"id {key}") for key in range(3))
        one.pull()
        two.pull()
        run_cleanup(one.keeper, TABLE, CleanupSettings(1, 1000))

    parts: list[PartName] = []
    at_request(ensemble, three, number, work)
    clone_replica(three.keeper, three.paths, {})
    ensemble.faults = None
    finish_clone(three.keeper, three.paths)
    log_pull.load_queue(three.keeper, three.paths, three.queue, [])
    three.pull()
    three.drain()
    assert three.active.issuperset(parts)


@pytest.mark.parametrize("number", range(1, 24))
def test_block_that_is_committed_while_its_partition_is_dropped(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """Its rows go, and with them its id: their repeat would be taken for a duplicate of what is gone."""
    one, two, _ = members
    request = two.request("between")
    left = at_request(ensemble, one, number, lambda: two.commit(request))
    drop_partition(one.keeper, TABLE, one.name, "all", clock=lambda: 60.0)
    ensemble.faults = None
    if left[0] > 0:
        assert two.commit(request).status is InsertStatus.RETRY
    one.pull()
    one.drain()
    assert not one.active
    assert one.keeper.exists(TABLE.block("between")) is None


@pytest.mark.parametrize("number", range(1, 24))
def test_block_that_is_committed_while_all_partitions_are_dropped_together(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    one, two, _ = members
    for partition in ("a", "b", "c"):
        one.insert(f"{partition}_1", partition=partition)
    request = two.request("b_2", partition="b")
    left = at_request(ensemble, one, number, lambda: two.commit(request))
    drop_all_partitions(one.keeper, TABLE, one.name, clock=lambda: 60.0)
    ensemble.faults = None
    if left[0] > 0:
        assert two.commit(request).status is InsertStatus.RETRY
    for member in (one, two):
        member.pull()
        member.drain()
        assert not member.active
    assert one.keeper.children(TABLE.blocks) == []
    assert not any(one.keeper.children(TABLE.partition(partition)) for partition in ("a", "b", "c"))


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
@pytest.mark.parametrize("number", range(1, 5))
def test_an_answer_that_is_lost_while_all_partitions_are_dropped_together(
    ensemble: MemoryEnsemble, members: list[Member], monkeypatch: pytest.MonkeyPatch, number: int, fault: Fault
) -> None:
    """What was logged is not logged again, whether the client comes back at once or not."""
    one, two, _ = members
    for partition in ("a", "b", "c"):
        one.insert(f"{partition}_1", partition=partition)
    left = [number]

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= kind == "multi" and session == one.keeper.session_id
        return fault if kind == "multi" and left[0] == 0 else None

    def sync(path: str) -> None:
        one.keeper.reconnect()
        MemoryKeeper.sync(one.keeper, path)

    ensemble.faults = faults
    monkeypatch.setattr(one.keeper, "sync", sync)
    with contextlib.suppress(PandoError):  # before anything is logged
        drop_all_partitions(one.keeper, TABLE, one.name, clock=lambda: 60.0)
    ensemble.faults = None
    one.keeper.reconnect()
    later = {two.insert(f"{partition}_2", partition=partition) for partition in ("a", "b", "c")}
    dropped = Counter(gone.partition_id for entry in logged(two) for gone in entry.removed_ranges)
    assert set(dropped.values()) <= {1}
    assert len(dropped) in (0, 3)
    assert dropped or number < 3
    for member in (one, two):
        member.pull()
        member.drain()
        assert member.active >= later
        assert not dropped or member.active == later


@pytest.mark.parametrize("number", [1, 2, 3])
def test_partition_that_is_forgotten_while_all_are_dropped_together(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    one, two, _ = members
    kept = {one.insert(f"{partition}_1", partition=partition) for partition in ("a", "c")}
    one.insert("b_1", partition="b")
    drop_partition(one.keeper, TABLE, one.name, "b", clock=lambda: 60.0)
    for member in members:
        member.pull()
        member.drain()
    outcomes: list[str | None] = []

    def forget() -> None:
        outcomes.append(forget_partition(two.keeper, two.paths, "b", is_streamed=False, known={}))

    at_request(ensemble, one, number, forget)
    drop_all_partitions(one.keeper, TABLE, one.name, clock=lambda: 60.0)
    assert (outcomes == [None]) == (number <= 2), "behind its lock it is not forgotten"
    ensemble.faults = None
    for member in (one, two):
        member.pull()
        member.drain()
        assert not member.active & kept
    assert not any(one.keeper.children(TABLE.partition(partition)) for partition in ("a", "c"))


def test_partitions_that_are_too_much_for_one_request_are_dropped_one_by_one(members: list[Member]) -> None:
    """Each has so many inserts under way that two of them would be more than ZooKeeper takes."""
    one, two, _ = members
    for partition in ("a", "b"):
        one.insert(f"{partition}_1", partition=partition)
        for _ in range(23):
            creates = [Create(f"{TABLE.partition(partition)}/block-", ephemeral=True, sequential=True)] * 200
            two.keeper.multi(creates)
    indices = drop_all_partitions(one.keeper, TABLE, one.name, clock=lambda: 60.0)
    assert len(indices) == 2
    assert not any(one.keeper.children(TABLE.partition(partition)) for partition in ("a", "b"))


def logged(member: Member) -> list[LogEntry]:
    names = member.keeper.children(TABLE.log)
    answers = member.keeper.get_many([f"{TABLE.log}/{name}" for name in names])
    return [LogEntry.parse(answer[0]) for answer in answers if answer is not None]


def test_a_replica_that_starts_takes_back_its_own_numbers_only(members: list[Member]) -> None:
    one, two, _ = members
    mine, theirs = one.request("mine"), two.request("theirs")
    assert release_orphaned_numbers(one.keeper, TABLE, one.name) == 1
    assert one.commit(mine).status is InsertStatus.RETRY
    assert two.commit(theirs).status is InsertStatus.COMMITTED


@pytest.mark.parametrize("number", range(1, 12))
def test_missing_part_whose_repair_is_cut_short(ensemble: MemoryEnsemble, members: list[Member], number: int) -> None:
    """It is still listed, or its fetch is queued: the next start goes on."""
    one, two, _ = members
    part = one.insert("id")
    two.pull()
    two.drain()
    two.active.clear()
    left = at_request(ensemble, two, number, two.keeper.expire)
    with contextlib.suppress(PandoError):
        log_pull.queue_missing_fetches(two.keeper, two.paths, two.queue, [part])
    ensemble.faults = None
    assert left[0] <= 0 or number > 5, "it is cut short"
    queued = one.keeper.children(two.paths.queue)
    assert (one.keeper.exists(two.paths.part(str(part))) is None) == (len(queued) == 1)


@pytest.mark.parametrize("number", range(1, 16))
def test_replica_that_comes_back_while_it_is_dropped(
    ensemble: MemoryEnsemble, members: list[Member], number: int
) -> None:
    """It is refused its start, or nothing of it goes."""
    one, _, three = members
    three.expire()
    has_started: list[bool] = []

    def come_back() -> None:
        three.keeper.reconnect()
        with contextlib.suppress(PandoError):
            three.start()
            has_started.append(True)

    left = at_request(ensemble, one, number, come_back)
    with contextlib.suppress(PandoError):
        drop_dead_replica(one.keeper, TABLE, three.name)
    ensemble.faults = None
    assert left[0] <= 0 or number > 8, "it comes back meanwhile"
    assert (one.keeper.exists(three.paths.host) is not None) == bool(has_started)
    assert (one.keeper.exists(three.paths.parts) is not None) == bool(has_started)
