"""Pulling the log from a cursor: few requests, nothing left out, a trimmed log noticed."""

from __future__ import annotations

import pytest

from coordination.keeper.interface import BadVersion, KeeperConnectionLoss
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.replicas import log_pull
from coordination.replicas.log_pull import LogCursor, LogTrimmedError, pull_log
from parts.common.errors import ConflictError
from tests.coordination.members import TABLE, Member, fault_once


def _pull(member: Member, cursor: LogCursor, fired: list[str] | None = None) -> int:
    watch = None if fired is None else fired.append
    return pull_log(member.keeper, member.paths, member.queue, watch=watch, cursor=cursor)


def test_a_pull_from_a_cursor_reads_neither_pointer_nor_queue(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    one, two = members[:2]
    one.insert("a")
    cursor = LogCursor()
    assert _pull(two, cursor) == 1
    part = one.insert("b")
    paths: list[str] = []

    def note(session: int, kind: str, path: str) -> None:
        paths.append(path)

    ensemble.faults = note
    assert _pull(two, cursor) == 1
    ensemble.faults = None
    assert not {two.paths.queue, two.paths.log_pointer} & set(paths)
    assert paths.count(TABLE.log) <= 1  # where it ends
    assert [item.entry.new_part for item in two.queue.list_entries()][-1] == part
    assert log_pull.read_log_position(two.keeper, two.paths)[0] == 2


@pytest.mark.parametrize("count", [1, 3, 4, 5, 20, 21, 230])
def test_however_many_entries_came_all_are_pulled_and_the_watch_waits_for_the_next(
    members: list[Member], count: int
) -> None:
    one, two = members[:2]
    cursor, fired = LogCursor(), list[str]()
    _pull(two, cursor, fired)
    for number in range(count):
        one.insert(f"b{number}")
    assert fired == [TABLE.log_entry(0)]
    assert _pull(two, cursor, fired) == count
    assert len(two.queue.list_entries()) == count
    assert cursor.position is not None
    assert cursor.position[0] == count
    one.insert("next")
    assert fired == [TABLE.log_entry(0), TABLE.log_entry(count)]


def test_an_entry_that_comes_while_the_watch_is_set_wakes_at_once(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    one, two = members[:2]
    cursor, fired, reads = LogCursor(), list[str](), list[str]()
    _pull(two, cursor)

    def insert_between(session: int, kind: str, path: str) -> None:
        reads.append(path)
        if reads.count(TABLE.log_entry(0)) == 2:  # read and found missing, now asked for with a watch
            ensemble.faults = None
            one.insert("between")

    ensemble.faults = insert_between
    assert _pull(two, cursor, fired) == 0
    assert fired == [TABLE.log_entry(0)]
    assert _pull(two, cursor, fired) == 1


def test_a_failed_pull_forgets_the_cursor_and_the_next_takes_up_what_it_left(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    one, two = members[:2]
    cursor = LogCursor()
    _pull(two, cursor)
    part = one.insert("a")
    fault_once(ensemble, Fault.LOSE_ANSWER)
    with pytest.raises(KeeperConnectionLoss):
        _pull(two, cursor)
    assert cursor.position is None
    two.keeper.reconnect()
    assert _pull(two, cursor) == 0
    assert [item.entry.new_part for item in two.queue.list_entries()] == [part]


def test_a_pointer_that_somebody_else_moved_is_refused(members: list[Member]) -> None:
    one, two = members[:2]
    cursor = LogCursor()
    _pull(two, cursor)
    one.insert("a")
    pull_log(two.keeper, two.paths, two.queue)
    with pytest.raises(ConflictError, match="two servers") as refused:
        _pull(two, cursor)
    assert isinstance(getattr(refused.value.__cause__, "cause", None), BadVersion)


def test_a_pull_without_a_cursor_notices_that_the_log_was_trimmed(members: list[Member]) -> None:
    one, two = members[:2]
    one.insert("a")
    one.insert("b")
    one.keeper.delete(TABLE.log_entry(0))
    with pytest.raises(LogTrimmedError):
        _pull(two, LogCursor())


def test_a_gap_in_the_log_is_trimming_too(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    one, two = members[:2]
    for number in range(3):
        one.insert(f"b{number}")

    def trim(session: int, kind: str, path: str) -> None:
        if path == TABLE.log_entry(0):  # after the log was listed
            ensemble.faults = None
            for index in range(2):
                one.keeper.delete(TABLE.log_entry(index))

    ensemble.faults = trim
    with pytest.raises(LogTrimmedError):
        _pull(two, LogCursor())
