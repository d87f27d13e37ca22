"""Rare interleavings that once went wrong: each test holds one request back and lets others run in its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination.drops import drop_partition as drop_range
from coordination.inserts.block_numbers import read_committing_numbers
from coordination.inserts.insert_commit import InsertStatus
from coordination.inserts.quorum import QuorumPlan
from coordination.keeper import request_limits
from coordination.keeper.interface import Op
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.queue_rules import ActionKind
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from coordination.nodes.replica_activation import ReplicaAddress
from coordination.replicas import clone, log_pull
from coordination.replicas.cleanup import CleanupSettings, run_cleanup
from coordination.replicas.clone import finish_clone
from parts.common.errors import ConflictError, PandoError, UnavailableError
from parts.common.part_name import PartName
from tests.coordination.members import TABLE, Member, fault_once
from tests.coordination.real_time import activate, clone_replica, drop_partition, resolve_insert

KEEP_TWO_BLOCKS = CleanupSettings(replicated_deduplication_window=2)


def before_multi(ensemble: MemoryEnsemble, member: Member, path_part: str, action: Callable[[], object]) -> None:
    """Runs ``action`` once, just before the member's next multi whose first path has ``path_part`` in it."""

    def faults(session: int, kind: str, path: str) -> None:
        if session == member.keeper.session_id and kind == "multi" and path_part in path:
            ensemble.faults = None
            action()

    ensemble.faults = faults


def merge_all(member: Member) -> PartName:
    predicate = member.predicate()
    (run,) = predicate.list_mergeable_runs("all")
    entry = make_merge_entry(run, member.name, 1.0)
    assert log_merges_and_mutations(member.keeper, TABLE, predicate.log_version, [entry])
    assert entry.new_part is not None
    member.pull()
    member.drain()
    assert entry.new_part in member.active
    return entry.new_part


def test_merge_over_an_unused_number_does_not_prove_that_its_block_was_committed(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    """The commit never arrived and the number went with the session; a part merged over it has not its rows."""
    member = members[0]
    member.insert("before")
    lost = member.request("lost")
    member.insert("after")
    fault_once(ensemble, Fault.LOSE_REQUEST)
    assert member.commit(lost).status is InsertStatus.UNKNOWN
    member.restart()
    assert merge_all(member).covers(lost.part)
    assert resolve_insert(member.keeper, lost).status is InsertStatus.RETRY


def test_half_dropped_replica_does_not_keep_others_from_committing_merges(members: list[Member]) -> None:
    """DROP REPLICA was cut short: the node is there, its list of parts is not."""
    one, two, three = members
    one.insert("a")
    one.insert("b")
    three.expire()
    two.keeper.delete(three.paths.host)
    two.keeper.delete_tree(three.paths.parts)
    assert merge_all(one).level == 1


def test_clone_notices_that_its_source_was_lost_and_cleared_its_queue(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    """Between the copy of the pointer and the copy of the queue the source becomes a clone itself."""
    source, copy, third = members
    third.keeper.set(third.paths.is_lost, b"1")
    copy.keeper.set(copy.paths.is_lost, b"1")
    third.expire()
    part = third_part(third, source)
    source.pull()  # the part is in its queue, and nowhere else behind its pointer

    def lose_source(session: int, kind: str, path: str) -> None:
        if session == copy.keeper.session_id and path == source.paths.queue:
            ensemble.faults = None
            source.keeper.set(source.paths.is_lost, b"1")
            clone._clear_queue(source.keeper, source.paths)

    ensemble.faults = lose_source
    with pytest.raises(ConflictError):
        clone_replica(copy.keeper, copy.paths, {})
    assert copy.keeper.get(copy.paths.is_lost)[0] == b"1"
    source.keeper.set(source.paths.is_lost, b"0")
    log_pull.queue_missing_fetches(source.keeper, source.paths, source.queue, [part])
    clone_replica(copy.keeper, copy.paths, {})
    finish_clone(copy.keeper, copy.paths)
    log_pull.load_queue(copy.keeper, copy.paths, copy.queue, [])
    assert part in copy.queue.copy_virtual_parts()


def third_part(third: Member, source: Member) -> PartName:
    """A block of ``third`` that only the log and ``third``'s list know."""
    third.keeper.reconnect()
    third.start()
    part = third.insert("id")
    third.keeper.set(third.paths.is_lost, b"1")
    third.expire()
    return part


def test_window_cleanup_does_not_take_a_block_id_that_was_made_anew(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    """The cleaner saw an old id; it was dropped with its rows, and the same rows came again, before the deletion."""
    one, two, three = members
    for name in ("old", "x", "y"):
        one.insert(name)

    def drop_and_repeat() -> None:
        assert drop_partition(two.keeper, TABLE, "r2", "all") is not None
        two.insert("old")

    before_multi(ensemble, three, "/block_numbers/", drop_and_repeat)
    run_cleanup(three.keeper, TABLE, KEEP_TWO_BLOCKS)
    assert two.keeper.exists(TABLE.block("old")) is not None


def test_two_cleaners_do_not_take_a_block_id_that_was_made_anew(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    one, two, three = members
    for name in ("old", "x", "y"):
        one.insert(name)

    def clean_and_repeat() -> None:
        run_cleanup(two.keeper, TABLE, KEEP_TWO_BLOCKS)
        one.insert("old")

    before_multi(ensemble, three, "/block_numbers/", clean_and_repeat)
    run_cleanup(three.keeper, TABLE, KEEP_TWO_BLOCKS)
    assert two.keeper.exists(TABLE.block("old")) is not None


def test_window_cleanup_in_several_packets(members: list[Member], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "MAX_MULTI_OPERATIONS", 3)
    for number in range(10):
        members[0].insert(f"b{number}")
    assert run_cleanup(members[1].keeper, TABLE, KEEP_TWO_BLOCKS).blocks == 8
    assert members[0].keeper.children(TABLE.blocks) == ["b8", "b9"]


def test_window_cleanup_goes_on_while_merges_are_assigned(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    """Every request of the cleaner meets a merge that was assigned since its last one."""
    one, two, _ = members
    for number in range(500):
        one.insert(f"b{number}", partition=f"p{number % 2}")
    busy = ensemble.connect()

    def faults(session: int, kind: str, path: str) -> None:
        if session == two.keeper.session_id:
            busy.set(TABLE.log, b"")

    ensemble.faults = faults
    run_cleanup(two.keeper, TABLE, KEEP_TWO_BLOCKS)
    assert len(one.keeper.children(TABLE.blocks)) == 2


def test_merge_whose_entry_zookeeper_would_not_take_is_refused(members: list[Member]) -> None:
    sources = [PartName("0" * 32, number, number, 0) for number in range(20_000)]
    large, small = make_merge_entry(sources, "r1", 1.0), make_merge_entry(sources[:10], "r1", 1.0)
    version = members[0].keeper.get(TABLE.log)[1].version
    with pytest.raises(PandoError, match="20000 parts") as refused:
        log_merges_and_mutations(members[0].keeper, TABLE, version, [small, large])
    assert refused.value.code == 290
    assert members[0].keeper.children(TABLE.log) == []


def drop_of_many(ensemble: MemoryEnsemble, members: list[Member], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """More ids than a request may hold are about to be dropped; returns their rows."""
    monkeypatch.setattr(drop_range, "MAX_MULTI_BYTES", 2000)
    names = {f"b{number}" for number in range(50)}
    for name in sorted(names):
        members[0].insert(name)
    return names


def test_rows_of_a_drop_that_was_cut_short_can_be_inserted_again(
    ensemble: MemoryEnsemble, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More ids than one request holds: others delete the rest before their rows disappear."""
    names = drop_of_many(ensemble, members, monkeypatch)
    drop_partition(members[0].keeper, TABLE, "r1", "all")
    members[0].expire()
    left = set(members[1].keeper.children(TABLE.blocks))
    assert left
    assert left < names
    members[1].pull()
    assert ActionKind.DROP_RANGE in members[1].drain()
    assert members[1].keeper.children(TABLE.blocks) == []


@pytest.mark.parametrize("number", range(1, 7))
def test_drop_that_is_not_logged_leaves_every_block_id(
    ensemble: MemoryEnsemble, members: list[Member], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Its session is lost at one of its multis: the rows stay, so a repeat must still be a duplicate."""
    names = drop_of_many(ensemble, members, monkeypatch)
    multis = []

    def faults(session: int, kind: str, path: str) -> Fault | None:
        if kind != "multi" or session != members[0].keeper.session_id:
            return None
        multis.append(path)
        return Fault.EXPIRE if len(multis) == number else None

    ensemble.faults = faults
    with contextlib.suppress(PandoError):
        drop_partition(members[0].keeper, TABLE, "r1", "all")
    ensemble.faults = None
    observer = ensemble.connect()
    logged = [LogEntry.parse(observer.get(f"{TABLE.log}/{name}")[0]) for name in observer.children(TABLE.log)]
    # The first multi takes the block number, the second makes the list of what was dropped.
    assert any(entry.removed_ranges for entry in logged) == (number > 3)
    assert number > 3 or set(observer.children(TABLE.blocks)) == names


def test_quorums_beyond_the_request_of_their_drop_are_resolved(
    ensemble: MemoryEnsemble, members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drop_range, "MAX_MULTI_BYTES", 2000)
    for number in range(30):
        members[0].insert(f"b{number}", QuorumPlan(2, is_parallel=True))
    drop_partition(members[1].keeper, TABLE, "r2", "all")
    assert members[0].keeper.children(TABLE.quorum_parallel)
    members[2].pull()
    members[2].drain()
    assert members[0].keeper.children(TABLE.quorum_parallel) == []
    assert members[0].keeper.children(TABLE.blocks) == []


def test_large_entries_are_pulled_in_packets_that_zookeeper_takes(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of more than 1 MiB breaks the connection, and would do so for ever."""
    one, two, _ = members
    for entry in _large_entries():
        one.keeper.create(TABLE.log_prefix, entry.to_bytes(), sequential=True)
    sizes: list[int] = []
    _record_sizes(two, sizes, monkeypatch)
    assert two.pull() == 40
    assert len(two.keeper.children(two.paths.queue)) == 40
    assert log_pull.read_log_pointer(two.keeper, two.paths)[0] == 40
    assert max(sizes) < 1024 * 1024
    assert two.pull() == 0


def test_large_entries_are_cloned_in_packets_that_zookeeper_takes(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of more than 1 MiB breaks the connection, and would do so for ever."""
    one, _, three = members
    for entry in _large_entries():
        for name in ("r1", "r2"):
            one.keeper.create(TABLE.replica(name).queue_prefix, entry.to_bytes(), sequential=True)
    sizes: list[int] = []
    _record_sizes(three, sizes, monkeypatch)
    three.keeper.set(three.paths.is_lost, b"1")
    clone_replica(three.keeper, three.paths, {})
    assert len(three.keeper.children(three.paths.queue)) == 40
    assert max(sizes) < 1024 * 1024


def _large_entries() -> list[LogEntry]:
    """Some 1.4 MiB."""
    sources = tuple(PartName("f" * 32, number, number, 0) for number in range(800))
    names = [PartName(f"{number:032}", 0, 800, 1) for number in range(40)]
    return [LogEntry(EntryType.MERGE_PARTS, name, 1.0, "r1", source_parts=sources) for name in names]


def _record_sizes(member: Member, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    multi = member.keeper.multi

    def recording(ops: list[Op]) -> object:
        sizes.append(sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops))
        return multi(ops)

    monkeypatch.setattr(member.keeper, "multi", recording)


def test_merges_of_many_partitions_are_assigned_in_several_packets(members: list[Member]) -> None:
    """OPTIMIZE FINAL of a table with many partitions; whoever assigns in between still wins."""
    one, two, _ = members
    log = one.keeper.exists(TABLE.log)
    assert log is not None
    entries = [
        make_merge_entry([PartName(f"p{n}", 0, 0, 0), PartName(f"p{n}", 1, 1, 0)], "r1", 1.0) for n in range(250)
    ]
    assert log_merges_and_mutations(one.keeper, TABLE, log.version, entries)
    assert len(two.keeper.children(TABLE.log)) == 250
    assert not log_merges_and_mutations(two.keeper, TABLE, log.version, entries[:1])
    assert not log_merges_and_mutations(two.keeper, TABLE, log.version + 1, entries[:1])
    assert log_merges_and_mutations(two.keeper, TABLE, log.version + 2, [])


def test_insert_of_a_server_whose_replica_another_has_taken_over_fails(members: list[Member]) -> None:
    """A server that was thought dead wakes up: its rows would be listed for a replica that has them not."""
    sleeper = members[0]
    sleeper.insert("before")
    taken = sleeper.paths
    heir = members[1].ensemble.connect()
    activate(heir, taken, ReplicaAddress("elsewhere", 1), "r1", wait_seconds=1, takes_over=True)
    with pytest.raises(UnavailableError, match="lost its ZooKeeper session"):
        sleeper.insert("after")
    assert heir.exists(TABLE.block("after")) is None
    assert read_committing_numbers(heir, TABLE, ["all"]) == {"all": []}
