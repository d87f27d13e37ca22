"""The order of reads and the checks that a rule stands on: another actor comes in at every single request.

A rule that is tried at one chosen place holds there; these tests try each place, so they need not know which one is
dangerous.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from coordination import queue_io
from coordination.cleanup import CleanupSettings, clean_once
from coordination.clone import finish_clone, is_lost
from coordination.drop_range import drop_partition
from coordination.insert_commit import InsertStatus
from coordination.keeper import MultiFailed
from coordination.memory_keeper import Fault, MemoryEnsemble
from coordination.quorum import QuorumPlan
from coordination.quorum_failure import fail_unreachable_part, take_back_failed_parts
from parts.errors import PandoError
from parts.part_name import PartName
from tests.coordination.members import TABLE, Member, fault_once
from tests.coordination.real_time import clone_replica, resolve_insert


def at_request(ensemble: MemoryEnsemble, member: Member, number: int, action: Callable[[], object]) -> list[int]:
    """Runs ``action`` once, before the member's request of this number. The list tells how many are left till then."""
    left = [number]

    def faults(session: int, kind: str, path: str) -> None:
        if session == member.keeper.session_id:
            left[0] -= 1
            if left[0] == 0:
                action()

    ensemble.faults = faults
    return left


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
    queue_io.load_queue(three.keeper, three.paths, three.queue, [])
    assert three.queue.has_virtual_cover(part) == part


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
    queue_io.load_queue(three.keeper, three.paths, three.queue, [])
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
        taken_back.extend(take_back_failed_parts(one.keeper, one.paths))
        one.start()

    left = at_request(ensemble, two, number, come_back)
    has_failed = False
    with contextlib.suppress(MultiFailed):
        has_failed = fail_unreachable_part(two.keeper, two.paths, two.queue.entries()[0].entry)
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
        was_lost.append(is_lost(three.keeper, three.paths))
        three.start()

    left = at_request(ensemble, one, number, come_back)
    with contextlib.suppress(PandoError):
        clean_once(one.keeper, TABLE, CleanupSettings(1, 2))
    ensemble.faults = None
    if left[0] > 0:
        come_back()
        assert was_lost == [True]
        return
    if not was_lost[0]:
        assert not is_lost(three.keeper, three.paths)
        assert three.pull() == 5
    three.pull()
    three.drain()
    assert {PartName("all", n, n, 0) for n in range(5)} == three.active
