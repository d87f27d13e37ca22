"""Merges, drops, clones, cleanup and the queue's shell, one scenario a test."""

from __future__ import annotations

import pytest

from coordination.inserts.deduplication_window import DeduplicationWindow
from coordination.inserts.insert_commit import InsertStatus
from coordination.keeper.interface import NoNode
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.log.log_entry import EntryType, LogEntry, StagedPart
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.log.replication_queue import ReplicationQueue
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.merges_mutations.merge_predicate import guess_predicate, read_merge_predicate
from coordination.nodes.part_record import PartRecord
from coordination.replicas import log_pull
from coordination.replicas.cleanup import CleanupSettings, run_cleanup
from coordination.replicas.clone import finish_clone
from coordination.replicas.part_commit import PartCommitStatus
from parts.common.errors import ConflictError, PandoError, UnknownOutcomeError
from parts.common.part_name import PartName
from tests.coordination.members import TABLE, Member, fault_once
from tests.coordination.real_time import clone_replica, commit_produced_part, drop_all_partitions, drop_partition


def test_two_leaders_a_merge_chosen_before_a_drop_is_not_assigned_after_it(members: list[Member]) -> None:
    a, b = members[0].insert("a"), members[0].insert("b")
    predicate = members[0].predicate()
    assert predicate.can_merge(a, b) is None
    drop_partition(members[1].keeper, TABLE, "r2", "all")
    assert not log_merges_and_mutations(
        members[0].keeper, TABLE, predicate.log_version, [make_merge_entry([a, b], "r1", 1.0)]
    )
    predicate = members[0].predicate()
    assert predicate.can_merge(a, b) == f"part {a} was dropped"


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.EXPIRE_AFTER])
def test_drop_of_which_nobody_can_be_asked_is_not_refused(
    ensemble: MemoryEnsemble, members: list[Member], fault: Fault
) -> None:
    members[0].insert("a")
    keeper, faults = members[0].keeper, []

    def lose(session: int, kind: str, path: str) -> Fault | None:
        if kind == "multi" and path.startswith(TABLE.log) and not faults:
            faults.append(fault)
            return fault
        return None

    ensemble.faults = lose
    with pytest.raises(UnknownOutcomeError):
        drop_partition(keeper, TABLE, "r1", "all", clock=lambda: 1.0)
    assert members[1].pull() == 2, "the block and its drop"


def test_merge_does_not_reach_over_a_block_that_is_being_committed(members: list[Member]) -> None:
    a = members[0].insert("a")
    request = members[1].request("between")
    b = members[0].insert("b")
    predicate = members[0].predicate()
    assert "still being inserted" in (predicate.can_merge(a, b) or "")
    assert predicate.list_mergeable_runs("all") == [[a], [b]]
    members[1].commit(request)
    predicate = members[0].predicate()
    assert predicate.list_mergeable_runs("all") == [[a], [b]]
    predicate = members[0].predicate()
    assert "between" in (predicate.can_merge(a, b) or "")
    assert predicate.list_mergeable_runs("all") == [[a, request.part, b]]


def test_merges_nothing_in_a_partition_that_nobody_asked_about(members: list[Member]) -> None:
    one = members[0]
    a, b = (one.insert(f"p_{number}", partition="p") for number in range(2))
    c, d = (one.insert(f"q_{number}", partition="q") for number in range(2))
    predicate = read_merge_predicate(one.keeper, TABLE, one.queue, one.pull, one.mutations.load, ["q"])
    assert predicate.can_merge(c, d) is None
    assert predicate.why_not_mergeable(a) is None
    assert "nobody has asked" in (predicate.can_merge(a, b) or "")
    assert predicate.list_mergeable_runs("p") == [[a], [b]]
    with pytest.raises(ConflictError, match="nobody has asked"):
        predicate.list_whole_partition("p", lambda part: True)


def test_nothing_is_assigned_by_a_guess(members: list[Member]) -> None:
    one, two, _ = members
    a = one.insert("a")
    two.request("between")
    b = one.insert("b")
    guess = guess_predicate(one.queue, one.mutations.current)
    assert guess.list_mergeable_runs("all") == [[a, b]]
    assert not log_merges_and_mutations(one.keeper, TABLE, guess.log_version, [make_merge_entry([a, b], one.name, 1.0)])


def test_drop_takes_back_inserts_in_flight_and_spares_later_ones(members: list[Member]) -> None:
    gone = members[0].insert("gone")
    flying = members[1].request("flying")
    assert drop_all_partitions(members[2].keeper, TABLE, "r3") != []
    assert members[1].commit(flying).status is InsertStatus.RETRY
    later = members[1].insert("flying")
    again = members[1].insert("gone")
    for _ in range(2):
        for member in members:
            member.pull()
            member.drain()
    assert all(member.active == {later, again} for member in members)
    assert gone not in members[0].active


def test_drop_after_pull_but_before_the_own_insert_is_active_waits_for_it(members: list[Member]) -> None:
    member = members[0]
    request = member.request()
    with member.queue.mark_insert(request.part):
        member.commit(request)
        drop_partition(members[1].keeper, TABLE, "r2", "all")
        member.pull()
        assert member.queue.take_next_action(member, PoolLimits(1, 1, 1)) is None
        member.active.add(request.part)
        member.queue.add_active(request.part)
    assert ActionKind.DROP_RANGE in member.drain()
    assert not member.active
    assert not list(member.queue.copy_virtual_parts())


def test_dropped_data_is_not_resurrected_by_a_clone(members: list[Member]) -> None:
    part = members[0].insert("id")
    drop_partition(members[0].keeper, TABLE, "r1", "all")
    members[0].pull()  # the drop is in r1's queue, not executed: r1 still lists the part
    members[1].expire()
    members[2].expire()
    fresh = Member(members[0].ensemble, "r4")
    fresh.pull()
    assert fresh.drain() == [ActionKind.DROP_RANGE]
    assert part not in fresh.queue.copy_virtual_parts()


def test_clone_is_resumable_and_reports_local_extras(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    kept, other = members[0].insert("kept"), members[0].insert("other")
    extra = PartName("all", 7, 9, 1)
    replica = members[2]
    replica.pull()
    replica.drain()
    replica.keeper.set(replica.paths.is_lost, b"1")
    for _ in range(2):
        result = clone_replica(replica.keeper, replica.paths, {kept: "hash", extra: "x", other: "differs"})
        assert set(result.parts_to_detach) == {extra, other}
    finish_clone(replica.keeper, replica.paths)
    log_pull.load_queue(replica.keeper, replica.paths, replica.queue, [kept])
    replica.pull()
    assert [item.entry.new_part for item in replica.queue.list_entries()].count(other) >= 1
    assert kept in replica.queue.copy_virtual_parts()


def test_merged_content_that_differs_is_fetched_instead(members: list[Member]) -> None:
    a, b = members[0].insert("a"), members[0].insert("b")
    for member in members:
        member.pull()
        member.drain()
    predicate = members[0].predicate()
    assert log_merges_and_mutations(
        members[0].keeper, TABLE, predicate.log_version, [make_merge_entry([a, b], "r1", 1.0)]
    )
    for member in members[:2]:
        member.pull()
    assert members[0].drain() == [ActionKind.MERGE]
    second = members[1]
    action = second.queue.take_next_action(second, PoolLimits(1, 1, 9))
    assert action is not None
    assert action.kind is ActionKind.MERGE
    assert action.entry.new_part is not None
    other = PartRecord("another hash", 1, 10)
    status = commit_produced_part(
        second.keeper, second.paths, second.queue, action.name, action.entry, action.entry.new_part, other
    )
    assert status is PartCommitStatus.DIFFERENT
    second.queue.fetch_instead(action.name)
    assert second.drain() == [ActionKind.FETCH]


# --- cleanup -------------------------------------------------------------------------------------------------------


def test_log_is_not_trimmed_before_live_pointers_pass_it(members: list[Member]) -> None:
    for number in range(30):
        members[0].insert(f"b{number}")
    for member in members[:2]:
        member.pull()
        member.drain()
    settings = CleanupSettings(min_replicated_logs_to_keep=5, max_replicated_logs_to_keep=1000)
    assert run_cleanup(members[0].keeper, TABLE, settings).log_entries == 0
    members[2].pull()
    assert run_cleanup(members[0].keeper, TABLE, settings).log_entries == 25
    assert members[1].pull() == 0


@pytest.mark.parametrize("is_pulled", [True, False])
def test_sole_copy_on_a_dead_replica_is_not_declared_lost(members: list[Member], is_pulled: bool) -> None:
    """Others wait for it, or have still to hear of it."""
    dead = members[2]
    part = dead.insert("only here")
    dead.expire()
    for number in range(30):
        members[0].insert(f"b{number}")
    for member in members[:2] if is_pulled else ():
        member.pull()
        member.drain()
    settings = CleanupSettings(min_replicated_logs_to_keep=5, max_replicated_logs_to_keep=10)
    assert run_cleanup(members[0].keeper, TABLE, settings).lost_replicas == ()
    dead.restart()
    for member in members:
        member.queue = ReplicationQueue(member.name, lambda: 1e12, lambda: 1e12)
        log_pull.load_queue(
            member.keeper, member.paths, member.queue, log_pull.read_listed_parts(member.keeper, member.paths)
        )
        member.pull()
        member.drain()
    assert all(part in member.active for member in members)


def test_dead_replica_is_marked_lost_and_never_all_are(members: list[Member]) -> None:
    for member in members:
        member.pull()
    members[2].expire()
    for number in range(30):
        members[0].insert(f"b{number}")
    members[1].pull()
    members[1].drain()
    settings = CleanupSettings(min_replicated_logs_to_keep=5, max_replicated_logs_to_keep=10)
    members[0].pull()
    assert run_cleanup(members[0].keeper, TABLE, settings).lost_replicas == ("r3",)
    observer = members[0].ensemble.connect()
    members[0].expire()
    members[1].expire()
    run_cleanup(observer, TABLE, CleanupSettings(1, 0))
    lost = [observer.get(member.paths.is_lost)[0] for member in members]
    assert b"0" in lost


def test_deduplication_window_counts_from_the_newest_block(ensemble: MemoryEnsemble) -> None:
    now = [1000.0]
    ensemble.clock = lambda: now[0]
    member = Member(ensemble, "r1")
    for number in range(5):
        now[0] += 100
        member.insert(f"b{number}")
    now[0] += 1e9
    settings = CleanupSettings(replicated_deduplication_window=100, replicated_deduplication_window_seconds=250)
    assert run_cleanup(member.keeper, TABLE, settings).blocks == 2
    assert member.keeper.children(TABLE.blocks) == ["b2", "b3", "b4"]
    settings = CleanupSettings(replicated_deduplication_window=1, replicated_deduplication_window_seconds=10_000)
    assert run_cleanup(member.keeper, TABLE, settings).blocks == 2


def test_an_id_that_was_made_anew_is_as_old_as_its_new_block(members: list[Member]) -> None:
    """The window remembers ages from one round to the next."""
    one = members[0]
    window = DeduplicationWindow()
    settings = CleanupSettings(replicated_deduplication_window=2)
    one.insert("id")
    one.insert("x")
    assert run_cleanup(one.keeper, TABLE, settings, window).blocks == 0
    drop_partition(one.keeper, TABLE, "r1", "all")
    for block_id in ("y", "id", "z"):
        one.insert(block_id)
    for _ in range(2):  # the first round notices
        run_cleanup(one.keeper, TABLE, settings, window)
    assert one.keeper.children(TABLE.blocks) == ["id", "z"]


# --- log entries and the queue's shell -------------------------------------------------------------------------------


def test_pull_whose_answer_was_lost_is_taken_up(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    part = members[0].insert("id")
    fault_once(ensemble, Fault.LOSE_ANSWER)
    with pytest.raises(PandoError):
        members[1].pull()
    members[1].keeper.reconnect()
    assert members[1].pull() == 0
    assert [item.entry.new_part for item in members[1].queue.list_entries()] == [part]


def test_missing_part_is_requeued_and_fetched(members: list[Member]) -> None:
    part = members[0].insert("id")
    members[1].pull()
    members[1].drain()
    members[1].active.clear()
    log_pull.queue_missing_fetches(members[1].keeper, members[1].paths, members[1].queue, [part])
    with pytest.raises(NoNode):
        members[1].keeper.get(members[1].paths.part(str(part)))
    assert members[1].drain() == [ActionKind.FETCH]
    assert part in members[1].active


def test_optimize_of_a_partition_with_an_insert_in_flight_says_why(members: list[Member]) -> None:
    members[0].insert("a")
    members[1].request("flying")
    members[0].insert("b")
    predicate = members[0].predicate()
    with pytest.raises(ConflictError, match="still being inserted") as caught:
        predicate.list_whole_partition("all", lambda part: True)
    assert caught.value.code == 388


@pytest.mark.parametrize("kind", list(EntryType))
def test_every_type_of_entry_round_trips(kind: EntryType) -> None:
    part = PartName.parse("202001_3_9_2")
    entry = LogEntry(
        kind,
        part,
        12.5,
        "r1",
        source_parts=(PartName.parse("202001_3_3_0"), PartName.parse("202001_4_9_1")),
        block_id="202001_ü",
        quorum=2,
        quorum_parallel=True,
        content_hash="ab",
        rows=3,
        size_bytes=4,
        deduplicate=True,
        deduplicate_by=("a", "b"),
        merge_type="Optimize",
        detach=True,
        drop_ranges=(PartName.parse("202001_0_6_999999999"),),
        replace_parts=(StagedPart(PartName.parse("202001_7_7_0"), "hash", "r2", "attempt-0", 5, 6),),
        transaction="digest",
        metadata="m",
        columns="c",
        alter_version=7,
        extra=(("later", [1, 2]),),
    )
    again = LogEntry.parse(entry.to_bytes())
    assert again == entry
    assert again.extra == entry.extra
    assert LogEntry.parse(again.to_bytes()) == entry


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":2,"type":"GET_PART"}',
        b'{"version":1,"type":"NEW_TYPE","new_part":"all_1_1_0","create_time":1,"source_replica":"r"}',
        b'{"version":1,"type":"GET_PART","new_part":"bad","create_time":1,"source_replica":"r"}',
        b'{"version":1,"type":"GET_PART","new_part":"all_1_1_0"}',
    ],
)
def test_unknown_entries_are_refused(data: bytes) -> None:
    with pytest.raises(PandoError, match="CORRUPTED_DATA"):
        LogEntry.parse(data)


def test_drop_that_was_cut_short_does_not_requeue_what_it_dropped(members: list[Member]) -> None:
    """The disk has dropped the part, ZooKeeper lists it, the drop is still queued: dropped data must not return."""
    part = members[0].insert("id")
    drop_partition(members[0].keeper, TABLE, "r1", "all")
    members[0].pull()
    members[0].active.clear()
    log_pull.queue_missing_fetches(members[0].keeper, members[0].paths, members[0].queue, [part])
    assert members[0].drain() == [ActionKind.DROP_RANGE]
    assert members[0].keeper.children(members[0].paths.parts) == []
    assert not list(members[0].queue.copy_virtual_parts())
