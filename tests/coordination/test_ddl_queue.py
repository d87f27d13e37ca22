"""The queue of distributed DDL: its contents, what is written below an entry, and which entries are removed."""

from __future__ import annotations

import pytest

from coordination.ddl.ddl_cleanup import EntryAge, clean_queue, plan_cleanup
from coordination.ddl.ddl_entry import DdlEntry, DdlHost, DdlOutcome
from coordination.ddl.ddl_queue import DdlQueue, EntryGone
from coordination.keeper.memory_keeper import MemoryEnsemble
from parts.common.errors import UserError

A, B = DdlHost("a", 8123), DdlHost("::1", 9000, "d")
ENTRY = DdlEntry("DROP TABLE t", "default", "c", ((A,), (B,)), "a:8123", "ada", {"alter_sync": 2}, {"p": "1"})
QUEUE = DdlQueue("/q/ddl", "/q/replicas")


def test_an_entry_is_read_as_it_was_written() -> None:
    assert DdlEntry.decode(ENTRY.encode()) == ENTRY
    assert [host.id for host in ENTRY.hosts] == ["a:8123", "[::1]:9000"]
    assert ENTRY.shard_of(B) == 1


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"version": 1, "shards": [[["a"]]]}', b'{"version": 2}'])
def test_what_is_no_entry(data: bytes) -> None:
    with pytest.raises(UserError):
        DdlEntry.decode(data)


def test_outcomes() -> None:
    failed = DdlOutcome.from_error(UserError("UNKNOWN_TABLE", "There is no t"), 7)
    assert DdlOutcome.decode(failed.encode()) == failed
    raised = failed.to_error("a:1")
    assert (raised.code, raised.message) == (60, "There was an error on [a:1]: There is no t")
    assert DdlOutcome.decode(b"?").code == 1001


def test_what_is_below_an_entry_is_written_once() -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    name = QUEUE.add(keeper, ENTRY)
    assert QUEUE.names(keeper) == [name]
    assert QUEUE.begin(keeper, name, ENTRY, A, "p1") == "p1"
    assert QUEUE.begin(keeper, name, ENTRY, A, "p2") == "p1"
    QUEUE.finish(keeper, name, ENTRY, [A], DdlOutcome())
    QUEUE.finish(keeper, name, ENTRY, [A, B], DdlOutcome(60, "no"))
    assert QUEUE.status(keeper, name).finished == {"a:8123": DdlOutcome(), "[::1]:9000": DdlOutcome(60, "no")}
    assert QUEUE.finish_shard(keeper, name, ENTRY, 0, DdlOutcome()) == DdlOutcome()
    assert QUEUE.finish_shard(keeper, name, ENTRY, 0, DdlOutcome(1, "")) == DdlOutcome()
    assert QUEUE.read_outcome(keeper, name, 0) == DdlOutcome()
    assert QUEUE.read_outcome(keeper, name, 1) is None


def test_parts_that_the_initiator_did_not_make() -> None:
    """It ended behind the first write."""
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    keeper.create_parents("/q/ddl")
    name = keeper.create("/q/ddl/query-", ENTRY.encode(), sequential=True).rpartition("/")[2]
    assert QUEUE.status(keeper, name).finished == {}
    assert QUEUE.become_active(keeper, name, ENTRY, A, "server")
    assert QUEUE.lock_shard(keeper, name, ENTRY, 1, "server")
    QUEUE.finish(keeper, name, ENTRY, [A], DdlOutcome())
    assert QUEUE.is_finished(keeper, name, A)


def test_an_entry_that_is_gone_is_not_made_anew() -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    name = QUEUE.add(keeper, ENTRY)
    keeper.set(QUEUE.entry_path(name), b"")  # it is being removed
    for _ in range(2):
        with pytest.raises(EntryGone):
            QUEUE.begin(keeper, name, ENTRY, A, "p")
        with pytest.raises(EntryGone):
            QUEUE.finish(keeper, name, ENTRY, [A], DdlOutcome())
        keeper.delete_tree(QUEUE.entry_path(name))
    assert keeper.children("/q/ddl") == []


def test_one_replica_has_the_lock_and_a_new_session_takes_its_own_back() -> None:
    ensemble = MemoryEnsemble(lambda: 0.0)
    one, other = ensemble.connect(), ensemble.connect()
    name = QUEUE.add(one, ENTRY)
    assert QUEUE.lock_shard(one, name, ENTRY, 0, "s1")
    assert QUEUE.lock_shard(one, name, ENTRY, 0, "s1")
    assert not QUEUE.lock_shard(other, name, ENTRY, 0, "s2")
    anew = ensemble.connect()  # of the server s1, whose former session lives on for a while
    assert not QUEUE.lock_shard(anew, name, ENTRY, 0, "s1")
    assert QUEUE.lock_shard(anew, name, ENTRY, 0, "s1")
    QUEUE.begin_shard(anew, name, ENTRY, 0, "p")
    QUEUE.unlock_shard(anew, name, 0)
    assert QUEUE.lock_shard(other, name, ENTRY, 0, "s2")
    assert QUEUE.begin_shard(other, name, ENTRY, 0, "p2") == "p2"
    QUEUE.finish_shard(other, name, ENTRY, 0, DdlOutcome())
    assert not QUEUE.lock_shard(other, name, ENTRY, 0, "s2")


def test_who_reads_the_queue() -> None:
    ensemble = MemoryEnsemble(lambda: 0.0)
    one, other = ensemble.connect(), ensemble.connect()
    assert QUEUE.announce(one, A.id, "s1")
    assert QUEUE.announce(one, A.id, "s1")
    assert not QUEUE.announce(other, A.id, "s2")
    assert QUEUE.list_readers(other, [A.id, B.id]) == {A.id}
    ensemble.end_session(one.session_id)
    assert QUEUE.list_readers(other, [A.id, B.id]) == set()


@pytest.mark.parametrize(
    ("entries", "removed"),
    [
        ([(0, False, False)], ["0"]),  # too old, whatever became of it
        ([(0, True, False)], []),  # somebody carries it out
        ([(9_000, False, True), (9_100, False, True), (9_200, False, True)], ["0"]),  # more than two
        ([(9_000, False, False), (9_100, False, True), (9_200, False, True)], []),  # it is not finished
    ],
)
def test_which_entries_go(entries: list[tuple[int, bool, bool]], removed: list[str]) -> None:
    ages = [EntryAge(str(number), *entry) for number, entry in enumerate(entries)]
    assert plan_cleanup(ages, 10_000, lifetime_seconds=5, most=2) == removed


def test_an_entry_of_a_later_version_is_not_surplus() -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    QUEUE.add(keeper, ENTRY)
    keeper.create("/q/ddl/query-", b'{"version": 2}', sequential=True)
    keeper.create("/q/ddl/query-", b"", sequential=True)  # half removed
    QUEUE.finish(keeper, "query-0000000000", ENTRY, [A, B], DdlOutcome())
    assert clean_queue(keeper, QUEUE, 1000, 0) == ["query-0000000000", "query-0000000002"]


def test_ages_are_those_of_zookeeper() -> None:
    now = 0.0
    keeper = MemoryEnsemble(lambda: now).connect()
    QUEUE.add(keeper, ENTRY)
    now = 4.0
    assert clean_queue(keeper, QUEUE, 5, 10) == []
    now = 6.0
    assert clean_queue(keeper, QUEUE, 5, 10) == ["query-0000000000"]
    assert QUEUE.names(keeper) == []
