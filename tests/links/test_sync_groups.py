"""Synchronous links in transactional groups: an INSERT is answered when its cut is shown on every active replica."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from coordination.links.groups.link_group import find_group
from coordination.links.groups.told_cut import ToldCut
from coordination.nodes.paths import TablePaths
from engine.http_client.http_client import HttpClient
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.test_sync_inserts import find_state

_SECONDS = 20.0
_numbers = count(1)


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("sync"), west=2, east=2) as found:
        yield found


class Pair:
    """A source and a target of two servers each, with two tables whose synchronous links are in a group."""

    def __init__(self, servers: dict[str, list[LinkedServer]]) -> None:
        self.west, self.east = servers["west"], servers["east"]
        self.source = self.west[0].client()
        self.targets = [server.client() for server in self.east]
        number = next(_numbers)
        self.a, self.b, self.group = f"a{number}", f"b{number}", f"g{number}"

    def link(self, *sync: str) -> None:
        """Makes tables, links and the group, and waits until the synchronous links are enabled."""
        for table in (self.a, self.b):
            create_table([*self.west, *self.east], table)
            self.targets[0].execute(
                f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west SETTINGS start_position = 'now', "
                f"mode = '{'sync' if table in sync else 'async'}', replication_timeout = 0.5"
            )
        self.targets[0].execute(f"CREATE REPLICATION LINK GROUP {self.group} ({self.a}, {self.b})")
        for table in sync:
            self.enabled(table)

    def enabled(self, table: str, state: tuple[str, str] = ("sync", "enabled")) -> None:
        wait(lambda: find_state(self.source, f"east/{table}") == state, f"link {table} to be {state}")

    def keys(self, client: HttpClient) -> tuple[list[int], list[int]]:
        """What a statement shows of both tables."""
        a, b = (f"(SELECT arraySort(groupArray(k)) FROM {table})" for table in (self.a, self.b))
        ((first, second),) = client.rows(f"SELECT {a}, {b}")
        return [int(key) for key in first], [int(key) for key in second]

    def insert(self, table: str, key: int, seconds: float = 30.0) -> None:
        self.source.execute(f"INSERT INTO {table} SETTINGS insert_timeout = {seconds} VALUES ({key}, 'x')")

    def fails(self, table: str, key: int, seconds: float) -> PandoError:
        with pytest.raises(PandoError) as caught:
            self.insert(table, key, seconds)
        return caught.value

    def close(self) -> None:
        for client in (self.source, *self.targets):
            client.close()


@pytest.fixture
def pair(servers: dict[str, list[LinkedServer]]) -> Iterator[Pair]:
    made = Pair(servers)
    yield made
    made.targets[0].execute(f"DROP REPLICATION LINK GROUP IF EXISTS {made.group}")
    for table in (made.a, made.b):
        made.targets[0].execute(f"DROP REPLICATION LINK IF EXISTS {table}")
    made.close()


def test_an_acknowledged_insert_is_shown_on_every_replica(pair: Pair) -> None:
    pair.link(pair.a, pair.b)
    a, b = list[int](), list[int]()
    for key in range(12):
        table, keys = ((pair.a, a), (pair.b, b))[key % 2]
        pair.insert(table, key)
        keys.append(key)
        assert [pair.keys(client) for client in pair.targets] == [(a, b)] * 2


def test_a_replica_whose_other_table_is_late_is_waited_for(pair: Pair) -> None:
    """The cut is shown when all tables have it, though the INSERT is into one of them."""
    pair.link(pair.a)
    other = pair.targets[1]
    pair.insert(pair.a, 1)
    other.execute(f"SYSTEM STOP REPLICATION QUEUES {pair.b}")
    error = pair.fails(pair.a, 2, seconds=1.5)
    assert error.code == 319
    assert f"table {pair.b} has not carried it out on r2" in error.message
    assert pair.keys(other) == ([1], [])
    other.execute(f"SYSTEM START REPLICATION QUEUES {pair.b}")
    pair.insert(pair.a, 2)  # the same one waits again
    assert [pair.keys(client) for client in pair.targets] == [([1, 2], [])] * 2


def test_what_holds_a_cut_back_at_the_source_is_named(pair: Pair) -> None:
    """The quorum of another table is open: its rows may still be nowhere."""
    pair.link(pair.a)
    pair.insert(pair.a, 1)
    with pair.west[1].client() as other:
        other.execute(f"SYSTEM STOP FETCHES {pair.b}")

        def insert_slowly() -> None:
            with pair.west[0].client() as client:
                client.execute(f"INSERT INTO {pair.b} SETTINGS insert_quorum = 2 VALUES (7, 'x')")

        slow = threading.Thread(target=insert_slowly)
        slow.start()
        try:
            wait(lambda: pair.source.rows(f"SELECT k FROM {pair.b}") == [[7]], "the INSERT with a quorum")
            error = pair.fails(pair.a, 2, seconds=2.5)
            assert error.code == 319
            assert f"group {pair.group} has no cut there yet; table {pair.b}" in error.message
        finally:
            other.execute(f"SYSTEM START FETCHES {pair.b}")
            slow.join()
    pair.insert(pair.a, 2)
    assert [pair.keys(client) for client in pair.targets] == [([1, 2], [7])] * 2


def test_a_group_that_rests_takes_no_inserts(pair: Pair) -> None:
    pair.link(pair.a, pair.b)
    pair.targets[0].execute(f"ALTER REPLICATION LINK {pair.b} DISABLE")
    pair.enabled(pair.b, ("sync", "disabled"))

    def is_refused() -> bool:
        try:
            pair.insert(pair.a, 1, 0.5)
        except PandoError as error:
            return error.code == 285 and f"Group {pair.group} waits: link {pair.b} is disabled" in error.message
        return False

    wait(is_refused, "the group to rest")
    pair.source.execute(f"INSERT INTO {pair.b} SETTINGS require_sync_replica = 0 VALUES (5, 'x')")  # waits for nobody
    pair.source.execute(f"ALTER REPLICATION LINK 'east/{pair.a}' MODE async")
    pair.enabled(pair.a, ("async", "enabled"))
    pair.insert(pair.a, 2)
    pair.targets[0].execute(f"ALTER REPLICATION LINK {pair.b} ENABLE")
    pair.source.execute(f"ALTER REPLICATION LINK 'east/{pair.a}' MODE sync")
    for table in (pair.a, pair.b):
        pair.enabled(table)
    shown = [pair.keys(client) for client in pair.targets]
    assert shown[0] == shown[1]
    assert (shown[0][0][-1], shown[0][1]) == (2, [5])


def test_merges_at_the_source_do_not_keep_links_from_being_enabled(pair: Pair) -> None:
    """The newest entry of its log is no change, so no cut comes for its rows."""
    pair.link()
    for key in (1, 2):
        pair.insert(pair.a, key)
    pair.targets[0].execute(f"SYSTEM WAIT REPLICATION LINK {pair.a}")
    pair.source.execute(f"OPTIMIZE TABLE {pair.a} FINAL")
    pair.targets[0].execute(f"ALTER REPLICATION LINK {pair.a} MODE sync")
    pair.enabled(pair.a)
    pair.insert(pair.a, 2)  # a duplicate: it waits, and finds what it waits for
    pair.source.execute(f"ALTER TABLE {pair.a} DELETE WHERE k = 1 SETTINGS mutations_sync = 3")
    assert [pair.keys(client) for client in pair.targets] == [([2], [])] * 2


def test_tables_enter_and_leave_while_their_links_are_synchronous(pair: Pair) -> None:
    pair.link(pair.a, pair.b)
    pair.insert(pair.a, 1)
    pair.targets[0].execute(f"ALTER REPLICATION LINK GROUP {pair.group} REMOVE {pair.a}")
    pair.insert(pair.a, 2)
    pair.insert(pair.b, 3)
    for client in pair.targets:
        assert client.rows(f"SELECT k FROM {pair.a} ORDER BY k") == [[1], [2]]
        assert client.rows(f"SELECT k FROM {pair.b} ORDER BY k") == [[3]]
    pair.targets[0].execute(f"ALTER REPLICATION LINK GROUP {pair.group} ADD {pair.a}")
    for key in (4, 5):
        pair.insert(pair.a, key)
        pair.insert(pair.b, key)
        assert [pair.keys(client)[0][-1] for client in pair.targets] == [key, key]


def test_a_replica_that_does_not_know_that_its_table_left_is_waited_for(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows the table as of the last cut that it knows."""
    pair.link(pair.a)
    pair.insert(pair.a, 1)
    table = pair.east[1].table(pair.a)
    assert isinstance(table, ReplicatedTable)
    with monkeypatch.context() as patched:
        patched.setattr(table.gate_control, "_on_gate", ())  # the watch is late
        pair.targets[0].execute(f"ALTER REPLICATION LINK GROUP {pair.group} REMOVE {pair.a}")
        error = pair.fails(pair.a, 2, seconds=1.0)
        assert error.code == 319
        assert "replicas r2 still show the table in a group that it has left" in error.message
        assert pair.targets[1].rows(f"SELECT k FROM {pair.a}") == [[1]]
    table.gate_control._on_moved("")
    pair.insert(pair.a, 2)
    assert pair.targets[1].rows(f"SELECT k FROM {pair.a} ORDER BY k") == [[1], [2]]


def test_replicas_tell_nothing_without_a_synchronous_link(pair: Pair) -> None:
    pair.link(pair.a)
    pair.insert(pair.a, 1)
    keeper = pair.east[0].engine.replication.require_keeper()
    found = find_group(keeper, pair.group)
    assert found is not None
    assert {member.link: member.is_told for member in found[0].members} == {pair.a: True, pair.b: False}
    told = [
        keeper.get_many([TablePaths(f"/tables/{table}").replica(name).shown_cut])[0]
        for table in (pair.a, pair.b)
        for name in ("r1", "r2")
    ]
    assert [ToldCut.parse(answer[0]) for answer in told if answer is not None] == [
        ToldCut(found[0].uuid, found[0].place)
    ] * 2
