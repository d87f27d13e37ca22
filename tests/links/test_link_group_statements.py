"""Statements about transactional groups, what a target shows and refuses, and cuts that queries name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.groups.link_group import require_group
from coordination.links.groups.shown_cut import find_showable
from engine.http_client.http_client import HttpClient
from engine.tables.replicated.links.groups import cut_commit
from engine.tables.replicated.links.groups.group_member import GroupMember
from engine.tables.replicated.links.groups.held_view import HeldView
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.shown_groups.shown_group import GroupRegistry
from parts.common.errors import PandoError
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

_SECONDS = 30.0
_numbers = count(1)
SUMS = "SELECT (SELECT toInt64(sum(k)) FROM {a}), (SELECT toInt64(sum(k)) FROM {b})"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=1, east=1) as found:
        yield found


@pytest.fixture
def west(servers: dict[str, list[LinkedServer]]) -> Iterator[HttpClient]:
    with servers["west"][0].client() as client:
        yield client


@pytest.fixture
def east(servers: dict[str, list[LinkedServer]]) -> Iterator[HttpClient]:
    with servers["east"][0].client() as client:
        yield client


def wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)


def fails(client: HttpClient, text: str) -> PandoError:
    with pytest.raises(PandoError) as told:
        client.execute(text)
    return told.value


def make_links(servers: dict[str, list[LinkedServer]], east: HttpClient, number: int = 2) -> list[str]:
    names = [f"t{next(_numbers):03}" for _ in range(number)]
    for name in names:
        create_table([*servers["west"], *servers["east"]], name)
        east.execute(f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west")
    return names


def make_group(servers: dict[str, list[LinkedServer]], east: HttpClient) -> tuple[str, str, str]:
    a, b = make_links(servers, east)
    group = f"g_{a}"
    east.execute(f"CREATE REPLICATION LINK GROUP {group} ({a}, {b}) SETTINGS transactional = 1")
    wait(lambda: is_read(east, a) and is_read(east, b), "the first cut")
    return group, a, b


def insert_in_one_cut(west: HttpClient, east: HttpClient, group: str, a: str, b: str) -> None:
    """Commits to both tables while the group rests, so that one cut brings both."""
    rest_group(east, group, a, b)
    west.execute(f"INSERT INTO {a} VALUES (10, 'x')")
    west.execute(f"INSERT INTO {b} VALUES (20, 'x')")
    east.execute(f"ALTER REPLICATION LINK {b} ENABLE")


def rest_group(east: HttpClient, group: str, asked: str, disabled: str) -> None:
    """Disables one link of the group, and waits until another says so."""
    east.execute(f"ALTER REPLICATION LINK {disabled} DISABLE")
    message = f"SELECT message FROM system.replication_links WHERE name = '{asked}' AND direction = 'in'"
    wait(lambda: f"Group {group} waits: link {disabled} is disabled" in east.value(message), "the group to rest")


def is_read(client: HttpClient, table: str) -> bool:
    return read_or_none(client, f"SELECT count() FROM {table}") is not None


def read_or_none(client: HttpClient, text: str) -> list[list[object]] | None:
    """The rows; ``None`` while no cut is shown."""
    try:
        return client.rows(text)
    except PandoError as error:
        if error.code != 369:
            raise
        return None


def test_groups_are_shown_and_end(servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient) -> None:
    group, a, b = make_group(servers, east)
    assert east.value(f"SHOW CREATE REPLICATION LINK GROUP {group}") == (
        f"CREATE REPLICATION LINK GROUP {group} ({a}, {b})\nSETTINGS transactional = 1"
    )
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    (row,) = east.rows(f"SELECT members, tables, cut, message FROM system.link_groups WHERE `group` = '{group}'")
    assert row == [[a, b], [f"default.{a}", f"default.{b}"], east.value(f"SELECT lastCut('{a}')"), ""]
    assert group in [row[0] for row in east.rows("SHOW REPLICATION LINK GROUPS LIKE 'g_%'")]
    assert fails(east, f"DROP REPLICATION LINK {a}").code == 36
    east.execute(f"DROP REPLICATION LINK GROUP {group}")
    assert fails(east, f"DROP REPLICATION LINK GROUP {group}").code == 36
    east.execute(f"DROP REPLICATION LINK GROUP IF EXISTS {group}")
    west.execute(f"INSERT INTO {b} VALUES (2, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {b}")
    wait(lambda: east.rows(SUMS.format(a=a, b=b)) == [[1, 2]], "links that go on alone")
    assert fails(east, f"SELECT lastCut('{a}')").code == 36


@pytest.mark.long
def test_all_links_say_that_one_is_disabled(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """The first link leads the group; the other one only looks on."""
    group, a, b = make_group(servers, east)
    for asked, disabled in ((a, b), (b, a)):
        rest_group(east, group, asked, disabled)
        west.execute(f"INSERT INTO {b} VALUES (1, 'x')")
        east.execute(f"ALTER REPLICATION LINK {disabled} ENABLE")
        east.execute(f"SYSTEM WAIT REPLICATION LINK {b}")
    message = "SELECT name, message FROM system.replication_links WHERE direction = 'in' AND name IN ('{}', '{}')"
    wait(lambda: {row[1] for row in east.rows(message.format(a, b))} == {""}, "messages that end")


def test_what_no_group_takes(servers: dict[str, list[LinkedServer]], east: HttpClient) -> None:
    group, a, b = make_group(servers, east)
    (other,) = make_links(servers, east, 1)
    create = "CREATE REPLICATION LINK GROUP"
    assert fails(east, f"{create} {group} ({other})").code == 36
    assert "is in the group" in fails(east, f"{create} h ({other}, {a})").message
    assert fails(east, f"{create} h ({other}, {other})").code == 36
    assert fails(east, f"{create} h (nolink)").code == 36
    assert fails(east, f"{create} h ({other}) SETTINGS transactional = 0").code == 48
    assert fails(east, f"{create} h ({other}) SETTINGS speed = 1").code == 115
    for setting in ("two_way = 1", "run_views = 1", "replicate_ddl = 1", "preserve_timestamps = 0"):
        refused = fails(east, f"ALTER REPLICATION LINK {a} MODIFY SETTING {setting}")
        assert refused.code in (36, 48)
        assert "group" in refused.message or "fixed" in refused.message
    east.execute(f"ALTER REPLICATION LINK {other} MODIFY SETTING replicate_ddl = 1")
    assert "replicate_ddl = 1 cannot be in a transactional group" in fails(east, f"{create} h ({other})").message
    assert fails(east, f"INSERT INTO {b} VALUES (1, 'x')").code == 242


def test_a_mutation_is_part_of_a_cut(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """What comes behind it is not shown before it has changed every part."""
    group, a, b = make_group(servers, east)
    for key in (1, 2, 3):
        west.execute(f"INSERT INTO {a} VALUES ({key}, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    east.execute(f"SYSTEM STOP MERGES {a}")
    west.execute(f"ALTER TABLE {a} DELETE WHERE k < 3")
    west.execute(f"INSERT INTO {b} VALUES (7, 'x')")
    wait(lambda: east.value(f"SELECT count() FROM system.mutations WHERE table = '{a}'") == 1, "the mutation")
    assert fails(east, f"SYSTEM WAIT REPLICATION LINK {b} TIMEOUT 1").code == 159
    assert east.rows(SUMS.format(a=a, b=b)) == [[6, 0]]
    message = east.value(f"SELECT message FROM system.link_groups WHERE `group` = '{group}'")
    assert "is at" in message
    assert "lacks parts" not in message  # the mutation is one of a cut
    east.execute(f"SYSTEM START MERGES {a}")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {b}")
    assert east.rows(SUMS.format(a=a, b=b)) == [[3, 7]]


def test_a_part_that_a_later_cut_drops_is_not_changed_first(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """Nobody makes the changed part any more: the cuts of the mutation and of the drop are shown together."""
    _, a, b = make_group(servers, east)
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    east.execute(f"SYSTEM STOP MERGES {a}")
    west.execute(f"ALTER TABLE {a} DELETE WHERE k = 1")
    wait(lambda: east.value(f"SELECT count() FROM system.mutations WHERE table = '{a}'") == 1, "the mutation")
    west.execute(f"TRUNCATE TABLE {a}")
    west.execute(f"INSERT INTO {b} VALUES (7, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {b} TIMEOUT 20")
    assert east.rows(SUMS.format(a=a, b=b)) == [[0, 7]]
    east.execute(f"SYSTEM START MERGES {a}")


def test_a_mutation_from_before_the_group_is_waited_for(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    a, b = make_links(servers, east)
    west.execute(f"INSERT INTO {a} VALUES (1, 'x'), (2, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    east.execute(f"SYSTEM STOP MERGES {a}")
    west.execute(f"ALTER TABLE {a} DELETE WHERE k = 1")
    wait(lambda: east.value(f"SELECT count() FROM system.mutations WHERE table = '{a}'") == 1, "the mutation")
    east.execute(f"CREATE REPLICATION LINK GROUP g_{a} ({a}, {b})")
    west.execute(f"INSERT INTO {b} VALUES (7, 'x')")
    entered = f"SELECT message FROM system.link_groups WHERE `group` = 'g_{a}'"
    wait(lambda: "lacks parts" in east.value(entered), "both tables to enter")
    assert not is_read(east, a)
    east.execute(f"SYSTEM START MERGES {a}")
    wait(lambda: is_read(east, a), "the first cut")
    assert east.value(f"SELECT sum(k) FROM {a}") == 2
    wait(lambda: east.rows(SUMS.format(a=a, b=b)) == [[2, 7]], "the next cut")


def test_a_table_enters_a_running_group(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    group, a, b = make_group(servers, east)
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    (c,) = make_links(servers, east, 1)
    west.execute(f"INSERT INTO {c} VALUES (5, 'x')")
    east.execute(f"ALTER REPLICATION LINK GROUP {group} ADD {c}")
    west.execute(f"INSERT INTO {b} VALUES (3, 'x')")
    wait(lambda: is_read(east, c) and east.rows(SUMS.format(a=b, b=c)) == [[3, 5]], "the third table")
    assert east.rows(SUMS.format(a=a, b=c)) == [[1, 5]]


def test_a_table_is_hidden_until_it_has_entered(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """Meanwhile the others go on."""
    group, a, _ = make_group(servers, east)
    (c,) = make_links(servers, east, 1)
    west.execute(f"INSERT INTO {c} VALUES (5, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {c}")
    east.execute(f"SYSTEM STOP REPLICATION QUEUES {c}")
    east.execute(f"ALTER REPLICATION LINK GROUP {group} ADD {c}")
    wait(lambda: count_waiting_cuts(east, c) == 1, "the cut with which it enters")
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    wait(lambda: east.value(f"SELECT count() FROM {a}") == 1, "the row of another table")
    assert not is_read(east, c)
    east.execute(f"SYSTEM START REPLICATION QUEUES {c}")
    wait(lambda: is_read(east, c) and east.rows(SUMS.format(a=a, b=c)) == [[1, 5]], "the third table")


def test_nothing_is_shown_before_all_tables_have_it(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    group, a, b = make_group(servers, east)
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    before = east.value(f"SELECT lastCut('{a}')")
    east.execute(f"SYSTEM STOP REPLICATION QUEUES {b}")
    insert_in_one_cut(west, east, group, a, b)
    wait(lambda: east.value(f"SELECT sum(rows) FROM system.parts WHERE table = '{a}' AND active") == 2, "the row")
    west.execute(f"TRUNCATE TABLE {a}")
    wait(lambda: count_waiting_cuts(east, a) == 1, "the cut of the TRUNCATE")
    shown = f"SELECT (SELECT count() FROM {a}), (SELECT toInt64(sum(k)) FROM {a}), lastCut('{b}')"
    assert east.rows(shown) == [[1, 1, before]]
    assert east.rows(f"SELECT k FROM {a} WHERE k = 1") == [[1]]
    waiting = f"SELECT count() FROM {a} SETTINGS link_read_cut = '{raised(before)}', link_wait_timeout_ms = 50"
    assert fails(east, waiting).code == 159
    assert east.value(f"SELECT count() FROM {a} SETTINGS link_read_cut = '{before}'") == 1
    assert fails(east, f"SELECT count() FROM {a} SETTINGS link_read_cut = 'x'").code == 36
    east.execute(f"SYSTEM START REPLICATION QUEUES {b}")
    wait(lambda: east.value(f"SELECT count() FROM {a}") == 0, "the empty table")
    assert east.value(f"SELECT count() FROM {b} SETTINGS link_read_cut = '{raised(before)}'") == 1


def count_waiting_cuts(east: HttpClient, table: str) -> int:
    return int(east.value(f"SELECT count() FROM system.replication_queue WHERE table = '{table}'"))


def raised(cut: str) -> str:
    """The text of a later cut."""
    source, _, place = cut.rpartition(":")
    return f"{source}:{int(place) + 1}"


@pytest.mark.long
def test_a_server_that_starts_shows_no_half_of_a_cut(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """The server ends between the exchanges of two tables."""
    group, a, b = make_group(servers, east)
    west.execute(f"INSERT INTO {a} VALUES (1, 'x')")
    east.execute(f"SYSTEM WAIT REPLICATION LINK {a}")
    east.execute(f"SYSTEM STOP REPLICATION QUEUES {b}")
    insert_in_one_cut(west, east, group, a, b)
    wait(lambda: east.value(f"SELECT sum(rows) FROM system.parts WHERE table = '{a}' AND active") == 2, "the row")
    (server,) = servers["east"]
    ensemble: MemoryEnsemble = server._ensemble
    server.close()
    again = servers["east"][0] = LinkedServer("east", "r1", server.engine.path, ensemble)
    again.know(west=[servers["west"][0].url], east=[again.url])
    seen: set[tuple[object, ...]] = set()
    with again.client() as client:
        deadline = time.monotonic() + _SECONDS
        while (11, 20) not in seen:
            assert time.monotonic() < deadline
            found = read_or_none(client, SUMS.format(a=a, b=b))
            seen |= {tuple(row) for row in found or ()}
    assert seen <= {(1, 0), (11, 20)}


def test_a_statement_takes_one_view(
    servers: dict[str, list[LinkedServer]], east: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, scalar subqueries and ``lastCut`` of one statement; another statement looks anew."""
    group, a, b = make_group(servers, east)
    engine, asked = servers["east"][0].engine, list[str]()
    real = engine.open_group_view

    def count_views(name: str, wanted: str, seconds: float) -> HeldView:
        asked.append(name)
        return real(name, wanted, seconds)

    monkeypatch.setattr(engine, "open_group_view", count_views)
    joined = f"SELECT count() FROM {a} AS l JOIN {b} AS r ON l.k = r.k WHERE l.k IN (SELECT k FROM {b})"
    for number in (1, 2):
        east.execute(f"SELECT lastCut('{a}'), (SELECT count() FROM {a}), (SELECT max(k) FROM {b}), ({joined})")
        assert asked == [group] * number


def test_what_a_start_finds_in_the_queue_counts_as_begun(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient
) -> None:
    """A crash may have left a cut half carried out, so the state before it is not shown any more."""
    group, a, b = make_group(servers, east)
    for table in (a, b):
        east.execute(f"SYSTEM STOP REPLICATION QUEUES {table}")
    insert_in_one_cut(west, east, group, a, b)
    wait(lambda: count_waiting_cuts(east, a) == 1, "the cut")
    table = servers["east"][0].table(a)
    assert isinstance(table, ReplicatedTable)
    started = GroupMember(table.state, GroupRegistry(), table.log_pull.pull, table.wake_execution)
    assert started.group is not None
    assert started.group.name == group  # before ZooKeeper was asked
    with table.state.hold_write_access() as (keeper, _):
        started.follow_gate(keeper)
        (found, _) = require_group(keeper, group)
    progress = started.read_progress(found.uuid)
    assert (progress.touched, progress.at) == (found.place, progress.queued[0].previous)
    assert find_showable([progress, progress]) is None
    for name in (a, b):
        east.execute(f"SYSTEM START REPLICATION QUEUES {name}")
    wait(lambda: east.rows(SUMS.format(a=a, b=b)) == [[10, 20]], "both rows")


@pytest.mark.long
def test_cuts_that_no_request_holds_are_lists(
    servers: dict[str, list[LinkedServer]], west: HttpClient, east: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, a, b = make_group(servers, east)
    monkeypatch.setattr(cut_commit, "MAX_REQUEST_BYTES", 1)
    insert_in_one_cut(west, east, group, a, b)
    wait(lambda: east.rows(SUMS.format(a=a, b=b)) == [[10, 20]], "both rows")
    paths = servers["east"][0].table(a).replication.paths
    assert servers["east"][0].engine.replication.require_keeper().children(paths.linked.lists)
    assert east.value(f"SELECT lastCut('{a}') = lastCut('{b}')") == 1
