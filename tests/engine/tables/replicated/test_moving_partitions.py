"""MOVE PARTITION between replicated tables: the rows are in one of them, once, whatever comes in between.

The faults at every request and every fsync are in ``tests.alter.fault_matrix``.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordination.drops.move_partition import why_parts_are_incomplete
from coordination.inserts.block_numbers import (
    BlockLock,
    allocate_block_number,
    read_committing_numbers,
    release_block_number,
)
from coordination.keeper.interface import Op
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import run_jobs_inline
from parts.read.part_reader import Part
from tests.faults import hit_request
from tests.portions import one_in

COLUMNS = "(p UInt8, k UInt64, v String)"
REPLICATED = "ENGINE = ReplicatedMergeTree('/tables/{}', '{{replica}}') PARTITION BY p ORDER BY k"
MOVE = "ALTER TABLE t MOVE PARTITION 1 TO TABLE u"
Make = Callable[..., SimulatedServers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Servers of a table ``t``; ``u`` is on those of ``second``, by default on all."""
    disks: dict[Path, SimulatedDisk] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(record_syncs(disks))
        stack.enter_context(run_jobs_inline())

        def make(replicas: int = 2, *, second: tuple[int, ...] = (), **settings: object) -> SimulatedServers:
            servers = SimulatedServers(tmp_path / str(len(disks)), replicas, 1, Trace(None), disks, **settings)
            stack.callback(servers.end)
            for number, server in enumerate(servers.servers):
                if number in (second or range(replicas)):
                    server.sql(f"CREATE TABLE u {COLUMNS} {REPLICATED.format('u')}")
            servers.settle()
            return servers

        yield make


def keys(server: SimulatedServer, table: str) -> list[object]:
    return [key for (key,) in server.sql(f"SELECT k FROM {table} ORDER BY k")[1]]


def both(server: SimulatedServer) -> tuple[list[object], list[object]]:
    return keys(server, "t"), keys(server, "u")


def code(action: Callable[[], object]) -> int:
    try:
        action()
    except PandoError as error:
        return error.code
    return 0


def settle(servers: SimulatedServers) -> None:
    for server in servers.servers:
        for table in server.tables:
            for action in StoppableAction:
                table.allow(action, True)
    servers.settle()
    servers.check_equal()


def fill(servers: SimulatedServers) -> tuple[SimulatedServer, SimulatedServer]:
    """Partition 1 as one merged part and another, of which the second server has only the first."""
    one, two, *_ = servers.servers
    one.insert(1, [1])
    two.insert(1, [3])
    two.insert(2, [2])
    servers.settle()
    one.sql("OPTIMIZE TABLE t PARTITION 1 FINAL")
    servers.settle()
    one.insert(1, [4])
    return one, two


def test_what_was_moved_away_is_forgotten_and_may_come_back(make: Make) -> None:
    servers = make()
    one, two = servers.servers
    one.insert(1, [1, 2])
    one.sql(MOVE)
    settle(servers)
    two.sql("ALTER TABLE t FORGET PARTITION 1")
    one.sql("ALTER TABLE u MOVE PARTITION 1 TO TABLE t")
    one.insert(1, [3])
    settle(servers)
    assert both(one) == both(two) == ([1, 2, 3], [])
    two.sql(MOVE)
    settle(servers)
    assert both(one) == both(two) == ([], [1, 2, 3])


def test_all_replicas_follow(make: Make) -> None:
    servers = make()
    one, two = fill(servers)
    one.sql(f"{MOVE} SETTINGS alter_sync = 2")
    assert [both(one), both(two)] == [([2], [1, 3, 4])] * 2
    two.sql(MOVE)  # nothing is there any more
    two.sql("ALTER TABLE t MOVE PARTITION 77 TO TABLE u")
    assert one.insert(1, [4]) == 1  # is no duplicate
    settle(servers)
    two.sql("ALTER TABLE u MOVE PARTITION 1 TO TABLE t")
    settle(servers)
    for server in servers.servers:
        server.restart()
    settle(servers)
    assert [both(one), both(two)] == [([1, 2, 3, 4, 4], [])] * 2


def test_to_itself(make: Make) -> None:
    servers = make()
    one, two = fill(servers)
    one.sql("ALTER TABLE t MOVE PARTITION 1 TO TABLE t SETTINGS alter_sync = 2")
    assert [keys(one, "t"), keys(two, "t")] == [[1, 2, 3, 4]] * 2


def test_tables_on_other_servers_and_replicas_that_are_away(make: Make) -> None:
    servers = make(3, second=(0, 2))
    one, two, three = servers.servers
    three.sql("DROP TABLE t SYNC")
    fill(servers)
    two.crash()
    three.crash()
    one.sql(MOVE)
    assert both(one) == ([2], [1, 3, 4])
    two.start()
    three.start()
    three.sql("DROP TABLE t SYNC")
    settle(servers)
    assert (keys(two, "t"), keys(three, "u")) == ([2], [1, 3, 4])


RIVALS = {
    "update": "ALTER TABLE t UPDATE v = 'new' WHERE 1 SETTINGS mutations_sync = 0",
    "insert": "INSERT INTO t VALUES (1, 9, 'new')",
    "delete": "ALTER TABLE t DELETE WHERE k = 3 SETTINGS mutations_sync = 0",
    "drop": "ALTER TABLE t DROP PARTITION 1",
    "drop part": "ALTER TABLE t DROP PART '1_0_1_1'",
    "merge": "OPTIMIZE TABLE t PARTITION 1 FINAL",
    "move": MOVE,
}


@pytest.mark.parametrize("rival", one_in(6, RIVALS))
def test_something_comes_between_two_requests(make: Make, rival: str) -> None:
    commit = beside(make, rival, 0)[1]
    assert 20 < commit < 150
    numbers = range(1 + list(RIVALS).index(rival), commit + 8, 7)
    assert True in {beside(make, rival, number)[0] for number in numbers}


def beside(make: Make, rival: str, number: int) -> tuple[bool, int]:
    """Whether what the other replica did before request ``number`` went well, and which request was the commit."""
    servers = make(queue_wait_seconds=3.0)
    one, two = fill(servers)
    servers.settle()
    answers: list[int] = []

    def look() -> None:
        if len(requests) + 1 == number and not answers and servers.stack == [one]:
            answers.append(-1)
            answers[0] = code(lambda: two.sql(RIVALS[rival]))

    requests = hit_request(servers, 0, "crash", look)
    assert code(lambda: one.sql(MOVE)) == 0
    commits = [n for n, request in enumerate(requests, 1) if request == "r1 multi /tables/u/log/log-"]
    commit = commits[-1] if commits else len(requests)  # before which nothing may be left to move
    is_before = number <= commit
    servers.on_request = lambda node, kind, path: None
    settle(servers)
    left, moved = both(one)
    rows = one.sql("SELECT k, v FROM u ORDER BY k")[1]
    is_done = answers == [0]
    if rival == "insert" and is_done:
        assert sorted([*left, *moved]) == [1, 2, 3, 4, 9]
        assert set(moved) - {9} == {1, 3, 4}
        assert is_before or 9 in left
    elif rival in ("drop", "drop part") and is_done and is_before:
        assert (left, moved) == ([2], [] if rival == "drop" else [4])
    elif rival == "delete" and is_done and is_before:
        assert (left, moved) == ([2], [1, 4])
    else:
        assert (left, moved) == ([2], [1, 3, 4])
    if rival == "update" and is_done:
        assert {v for _, v in rows} == ({"new"} if is_before else {"value 1", "value 3", "value 4"})
    assert both(two) == (left, moved)
    return is_done, commit


def test_what_is_not_whole_here_is_waited_for(make: Make) -> None:
    servers = make(queue_wait_seconds=3.0)
    one, two = fill(servers)
    two.table.allow(StoppableAction.FETCHES, False)
    assert code(lambda: two.sql(MOVE)) == 159  # it lacks a part
    assert code(lambda: one.insert(1, [5], quorum=2, quorum_timeout_seconds=2.0)) == 319
    assert code(lambda: one.sql(MOVE)) == 159  # and that one has no quorum
    two.table.allow(StoppableAction.FETCHES, True)
    servers.settle()
    one.table.allow(StoppableAction.MERGES, False)
    two.table.allow(StoppableAction.MERGES, False)
    one.sql("ALTER TABLE t UPDATE v = 'new' WHERE 1 SETTINGS mutations_sync = 0")
    assert code(lambda: one.sql(MOVE)) == 159  # nor is that done
    assert [both(one), both(two)] == [([1, 2, 3, 4, 5], [])] * 2
    settle(servers)
    two.sql(MOVE)
    settle(servers)
    assert one.sql("SELECT k, v FROM u ORDER BY k")[1] == [(key, "new") for key in (1, 3, 4, 5)]


def test_a_number_is_held_only_at_the_end(make: Make) -> None:
    """While one is held, a link sends nothing that commits behind it."""
    servers = make(queue_wait_seconds=4.0)
    one, _ = fill(servers)
    table, rival = one.table, servers.ensemble.connect()
    held_while_preparing: list[int] = []
    held_while_waiting: list[bool] = []

    def count_held() -> int:
        return len(read_committing_numbers(rival, table.state.paths, ["1"])["1"])

    def prepare(parts: Sequence[Part]) -> bool:
        held_while_preparing.append(count_held())
        return len(held_while_preparing) < 3

    def attach(parts: Sequence[Part], ops: Sequence[Op]) -> None:
        raise UserError("CANNOT_ASSIGN_ALTER", "the target takes nothing")

    def move(moved: ReplicatedTable) -> None:
        moved.partitions.move("1", attach, QueryStatus(), prepare)

    assert code(lambda: one.call(move)) == 517
    assert held_while_preparing == [0, 0, 0]
    lock = allocate_block_number(rival, table.state.paths, "1", owner="r2")  # an INSERT that does not end
    assert isinstance(lock, BlockLock)
    sleep = table.state.sleep

    def sleep_and_look(seconds: float) -> None:
        held_while_waiting.append(count_held() > 1)
        sleep(seconds)

    table.state.sleep = sleep_and_look  # type: ignore[method-assign]
    assert code(lambda: one.call(move)) == 159
    assert held_while_waiting[0]
    assert not held_while_waiting[-1]
    assert count_held() == 1
    release_block_number(rival, lock)
    assert code(lambda: one.call(move)) == 517
    assert count_held() == 0


def test_a_merge_that_is_only_logged_is_not_waited_for(make: Make) -> None:
    servers = make(queue_wait_seconds=3.0)
    one, two = fill(servers)
    servers.settle()
    one.table.allow(StoppableAction.MERGES, False)
    two.sql("OPTIMIZE TABLE t PARTITION 1 FINAL")
    one.sql(MOVE)
    settle(servers)
    assert both(two) == both(one) == ([2], [1, 3, 4])


def test_it_is_cancelled(make: Make) -> None:
    servers = make()
    one, _ = fill(servers)
    status = QueryStatus()
    status.stop()

    def move(table: ReplicatedTable) -> None:
        table.partitions.move("1", lambda parts, ops: pytest.fail("it was cancelled"), status)

    assert code(lambda: one.call(move)) == 394
    settle(servers)
    assert both(one) == ([1, 2, 3, 4], [])


def test_refusals(make: Make) -> None:
    servers = make()
    one, two = fill(servers)
    replicated = REPLICATED.replace("ReplicatedMergeTree", "Replicated{}MergeTree")
    one.sql(f"CREATE TABLE plain {COLUMNS} ENGINE = MergeTree PARTITION BY p ORDER BY k")
    one.sql(f"CREATE TABLE log {COLUMNS} ENGINE = Log")
    one.sql(f"CREATE TABLE other {COLUMNS[:-1]}, w Int8) {REPLICATED.format('other')}")
    one.sql(f"CREATE TABLE keys {COLUMNS} {REPLICATED.format('keys').replace('ORDER BY k', 'ORDER BY v')}")
    one.sql(f"CREATE TABLE same {COLUMNS} {replicated.format('Replacing', 'same')}")
    refusals = {"plain": 48, "log": 48, "other": 122, "keys": 36, "nope": 60, "same": 0}
    assert {target: code(partial(one.sql, MOVE[:-1] + target)) for target in refusals} == refusals
    assert code(lambda: one.sql("ALTER TABLE t MOVE PARTITION ALL TO TABLE u")) == 344
    assert keys(one, "same") == [1, 3, 4]
    servers.settle()
    address = two.table.replication.replica.host.replace("/t/", "/u/")
    document = json.loads(one.keeper.get(address)[0])
    one.keeper.set(address, json.dumps({**document, "features": []}).encode())
    assert code(lambda: one.sql("ALTER TABLE t MOVE PARTITION 2 TO TABLE u")) == 48
    one.keeper.set(address, json.dumps(document).encode())
    one.keeper.expire()
    assert code(lambda: one.sql("ALTER TABLE t MOVE PARTITION 2 TO TABLE u")) in (242, 999)
    one.keeper.reconnect()
    settle(servers)
    assert both(one) == ([2], [])


def part(text: str) -> PartName:
    return PartName.parse(text)


def entry(type_: EntryType, made: str, *sources: str) -> LogEntry:
    return LogEntry(type_, part(made), 0.0, "r1", source_parts=tuple(map(part, sources)))


@pytest.mark.parametrize(
    ("active", "virtual", "entries", "expected"),
    [
        ("1_0_0_0 1_1_1_0", "1_0_0_0 1_1_1_0", [], None),
        ("1_0_0_0", "1_0_0_0 1_1_1_0", [], "1_1_1_0 is not here"),
        ("1_0_0_0", "1_0_0_0 1_1_1_0", [entry(EntryType.GET_PART, "1_1_1_0")], "1_1_1_0 is not here"),
        ("1_0_0_0 1_1_1_0", "1_0_0_0", [], "1_1_1_0 is about to go"),
        ("1_0_0_0", "1_0_0_0", [entry(EntryType.DROP_PART, "1_3_3_0")], "DROP_PART"),
        ("1_0_0_0", "1_0_0_0", [entry(EntryType.DROP_RANGE, "2_0_3_9")], None),
        (
            "1_0_0_0 1_1_1_0 1_2_2_0",
            "1_0_2_2",
            [
                entry(EntryType.MERGE_PARTS, "1_0_1_1", "1_0_0_0", "1_1_1_0"),
                entry(EntryType.MERGE_PARTS, "1_0_2_2", "1_0_1_1", "1_2_2_0"),
            ],
            None,
        ),
        ("1_0_0_0", "1_0_1_1", [entry(EntryType.MERGE_PARTS, "1_0_1_1", "1_0_0_0", "1_1_1_0")], "1_0_1_1 is not here"),
        ("1_0_0_0", "1_0_0_1", [replace(entry(EntryType.MERGE_PARTS, "1_0_0_1", "1_0_0_0"), deduplicate=True)], "here"),
        ("1_0_0_0", "1_0_0_0_4", [entry(EntryType.MUTATE_PART, "1_0_0_0_4", "1_0_0_0")], "1_0_0_0_4 is not here"),
        ("1_7_7_0", "1_7_7_0", [], "quorum"),
        ("1_2_2_0", "1_2_2_0", [], None),
        ("3_2_2_0", "3_2_2_0", [], "mutation 0000000000"),
        ("3_2_2_0_5", "3_2_2_0_5", [], None),
    ],
)
def test_when_the_parts_are_whole(active: str, virtual: str, entries: list[LogEntry], expected: str | None) -> None:
    mutations = MutationSet((MutationEntry("0000000000", 0.0, "r1", "", {"3": 5}),))
    names = [[part(name) for name in text.split()] for text in (active, virtual)]
    reason = why_parts_are_incomplete(names[0], names[1], entries, [part("1_7_7_0")], mutations)
    assert reason is None if expected is None else expected in (reason or "")
