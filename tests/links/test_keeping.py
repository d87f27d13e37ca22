"""A replica of a linked table keeps every change and block, whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.interface import Keeper, Stat
from coordination.keeper.memory_keeper import Fault
from coordination.links.stream.kept_changes import KeptChanges
from coordination.nodes.paths import ReplicaPaths, TablePaths
from coordination.replicas.log_pull import read_log_pointer
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.tables.replicated.links.source import change_keeping
from parts.common.errors import PandoError, UnavailableError
from tests.links.linked_source import (
    INSERT,
    Asker,
    find_folder,
    keep_all,
    kept,
    name_cluster,
    restart,
    table_with_a_row,
    tables,
)
from tests.portions import one_in


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with table_with_a_row(tmp_path) as asker:
        yield asker


def crash_at(asker: Asker, name: str, times: int = 1) -> Callable[[], bool]:
    """Crashes the second server at a failpoint; the answer says whether it has."""
    second, left = asker.table.servers.servers[1], [times]

    def on_failpoint(node: SimulatedNode, reached: str) -> None:
        if node is second and reached == name:
            left[0] -= 1
            if left[0] == 0:
                second.crash_here()

    asker.table.servers.on_failpoint = on_failpoint
    return lambda: left[0] <= 0


def test_both_replicas_keep_what_either_inserted(asker: Asker) -> None:
    asker.begin()
    first, second = asker.table.servers.servers
    first.sql(INSERT.format(1, 1))
    second.sql(INSERT.format(2, 2))
    keep_all(asker, 2)
    assert kept(tables(asker)[0]) == kept(tables(asker)[1]) == ["1_1_1_0", "2_0_0_0"]
    places = [block.zxid for block in tables(asker)[0].links.blocks.outbox.list_blocks()]
    assert [change.place for change in asker.take_all()] == places


@pytest.mark.parametrize(
    "point",
    one_in(3, ["links.before_journal", "links.after_journal", "produced.after_rename", "produced.after_commit"]),
)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_crash_loses_no_change_and_no_block(asker: Asker, point: str, times: int) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    has_crashed = crash_at(asker, point, times)
    for key in range(1, 5):
        asker.table.first.sql(INSERT.format(key % 2, key))
        asker.table.servers.now += 1
        asker.table.servers.step_others()
    asker.table.servers.on_failpoint = lambda node, name: None
    if has_crashed():
        restart(asker, second)
    asker.table.settle()
    keep_all(asker, 4)
    changes = asker.take_all(1)
    assert [str(block.part) for change in changes for block in change.blocks] == kept(tables(asker)[0])
    assert kept(tables(asker)[1]) == kept(tables(asker)[0])


@pytest.mark.parametrize("point", ["links.after_beginning"])
def test_a_crash_while_the_keeping_begins(asker: Asker, point: str) -> None:
    second = asker.table.servers.servers[1]
    crash_at(asker, point)
    with pytest.raises(PandoError, match="replicas r2"):  # whose session has not ended
        asker.begin()
    asker.table.servers.on_failpoint = lambda node, name: None
    assert not second.is_up
    asker.table.first.sql(INSERT.format(1, 1))
    restart(asker, second)
    asker.table.work_until(lambda: tables(asker)[1].links.keeping.is_keeping)
    begun = asker.begin()
    assert tables(asker)[1].links.keeping.since <= begun.newest
    asker.table.first.sql(INSERT.format(1, 2))
    asker.table.settle()
    assert [str(b.part) for c in asker.take_all(1) for b in c.blocks] == ["1_2_2_0"]


def test_a_replica_that_was_away_keeps_before_it_pulls(asker: Asker) -> None:
    second = asker.table.servers.servers[1]
    second.stop()
    asker.begin()
    asker.table.first.sql(INSERT.format(1, 1))
    restart(asker, second)
    asker.table.settle()
    asker.table.first.sql(INSERT.format(1, 2))
    asker.table.settle()
    assert tables(asker)[1].links.keeping.is_keeping
    first_changes = asker.take_all(0)
    assert [str(b.part) for c in first_changes for b in c.blocks] == ["1_1_1_0", "1_2_2_0"]
    assert asker.ask(1).changes == ()


def test_a_restart_goes_on_with_its_journal(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    since = tables(asker)[1].links.keeping.since
    second.stop()
    asker.table.first.sql(INSERT.format(1, 2))
    asker.table.first.sql("ALTER TABLE costs ADD COLUMN w UInt8")
    restart(asker, second)
    asker.table.settle()
    assert tables(asker)[1].links.keeping.since == since
    expected = asker.ask(0).changes
    assert len(expected) == 3
    assert asker.take_all(1) == list(expected)


def test_a_clone_begins_its_journal_anew(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    since = tables(asker)[1].links.keeping.since
    second.crash()
    asker.table.servers.end_zombies()
    asker.table.first.sql(INSERT.format(1, 2))
    asker.table.servers.ensemble.connect().set(asker.table.table.replication.paths.replica("r2").is_lost, b"1")
    restart(asker, second)
    asker.table.settle()
    begun = tables(asker)[1].links.keeping.since
    assert begun > since
    with pytest.raises(PandoError, match="begins after zxid"):
        asker.ask(1)
    asker.take_all(0)
    asker.table.first.sql(INSERT.format(1, 3))
    asker.table.settle()
    asker.take_all(0)
    assert asker.applied(asker.ask(0).source.origin) > begun
    assert asker.ask(1).changes == ()


def test_a_journal_that_lacks_what_was_pulled_begins_anew(asker: Asker) -> None:
    """The journal's folder is put back to an older state, as a restored disk is."""
    asker.begin()
    second = asker.table.servers.servers[1]
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    second.stop()
    older = find_folder(second.found, "link_journal")["link_journal"]
    restart(asker, second)
    asker.table.first.sql(INSERT.format(1, 2))
    asker.table.settle()
    since = tables(asker)[1].links.keeping.since
    second.stop()
    restart(asker, second)
    assert tables(asker)[1].links.keeping.since == since
    second.stop()
    find_folder(second.found, "link_journal")["link_journal"] = older
    restart(asker, second)
    assert tables(asker)[1].links.keeping.since > since


def test_a_failed_quorum_is_never_sent(asker: Asker) -> None:
    """The block is in the journals when its quorum fails."""
    asker.begin()
    first, second = asker.table.servers.servers
    asker.table.servers.on_wait = lambda: None
    second.is_frozen = True
    with pytest.raises(PandoError):
        first.sql("INSERT INTO costs SETTINGS insert_quorum = 2, insert_quorum_timeout = 1 VALUES (1, 7, 0)")
    answer = asker.ask(0)
    assert answer.changes == ()
    assert "quorum of part 1_1_1_0 is open" in " ".join(answer.waits)
    first.sql(INSERT.format(2, 8))
    assert asker.ask(0).changes == ()
    first.crash()
    asker.table.servers.end_zombies()
    second.is_frozen = False
    asker.table.servers.on_wait = asker.table.servers.step_others
    paths: TablePaths = tables(asker)[1].replication.paths
    keeper = asker.table.servers.ensemble.connect()
    asker.table.servers.now += 100
    for _ in range(500):
        asker.table.servers.now += 1
        second.step_all()
        if keeper.children(paths.quorum_failed_parts):
            break
    assert keeper.children(paths.quorum_failed_parts) == ["1_1_1_0"]
    restart(asker, first)
    asker.table.settle()
    for number in (0, 1):
        changes = asker.ask(number).changes
        assert [str(block.part) for change in changes for block in change.blocks] == ["2_0_0_0"]


def test_failure_markers_and_definitions_stay_until_all_have_them(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    second.stop()
    asker.table.first.sql("ALTER TABLE costs ADD COLUMN w UInt8 SETTINGS alter_sync = 0")
    keeper, paths = asker.table.servers.ensemble.connect(), asker.table.table.replication.paths
    keeper.create(paths.quorum_failed_part("9_9_9_0"), b"r9")
    clean(asker)
    assert keeper.children(paths.linked.definitions) == ["1"]
    assert keeper.children(paths.quorum_failed_parts) == ["9_9_9_0"]
    restart(asker, second)
    asker.table.settle()
    asker.table.work_until(lambda: b'"failures":0' not in keeper.get(paths.replica("r1").link_keeping)[0])
    clean(asker)
    assert keeper.children(paths.linked.definitions) == []
    assert keeper.children(paths.quorum_failed_parts) == []
    assert len(asker.take_all(1)) == 1


def clean(asker: Asker) -> None:
    with asker.table.first.acting():
        asker.table.table.housekeeping.step()


@pytest.mark.long
def test_a_link_that_never_asks_costs_zookeeper_a_constant(asker: Asker) -> None:
    asker.begin()
    keeper = asker.table.servers.ensemble.connect()

    def work(keys: range) -> int:
        for key in keys:
            asker.table.first.sql(INSERT.format(1, key))
            if key % 10 == 0:
                asker.table.first.sql("OPTIMIZE TABLE costs FINAL")
                asker.table.first.sql(f"ALTER TABLE costs ADD COLUMN w{key} UInt8")
        asker.table.settle()
        for _ in range(3):
            asker.table.servers.now += 10_000
            for server in asker.table.servers.servers:
                server.step_all()
            clean(asker)
        return count_nodes(keeper, asker.table.table.replication.paths)

    work(range(1, 21))
    before = work(range(21, 41))
    assert work(range(41, 81)) <= before + 45  # ids of blocks stay: replicated_deduplication_window


def count_nodes(keeper: object, paths: TablePaths) -> int:
    level, count = [paths.root], 0
    while level:
        count += len(level)
        listings = keeper.children_many(level)  # type: ignore[attr-defined]
        level = [f"{parent}/{name}" for parent, names in zip(level, listings, strict=True) for name in names or ()]
    return count


COMMANDS = {
    "ALTER TABLE costs DROP PART '1_0_0_0'": "DROP PART",
    "ALTER TABLE costs DETACH PART '1_0_0_0'": "DETACH PART",
    "OPTIMIZE TABLE costs FINAL DEDUPLICATE": "OPTIMIZE … DEDUPLICATE",
    "KILL MUTATION WHERE table = 'costs'": "KILL MUTATION",
    "ALTER TABLE costs UPDATE v = rand() WHERE 1 SETTINGS allow_nondeterministic_mutations = 1": "A mutation whose",
}


@pytest.mark.parametrize("statement", COMMANDS, ids=["drop", "detach", "deduplicate", "kill", "uncertain"])
def test_what_links_cannot_carry_is_refused(asker: Asker, statement: str) -> None:
    servers: list[SimulatedServer] = asker.table.servers.servers
    for server in servers:
        server.sql("SYSTEM STOP MERGES costs")
    asker.table.first.sql("ALTER TABLE costs UPDATE v = 9 WHERE p = 1 SETTINGS mutations_sync = 0")
    if "KILL" not in statement:
        for server in servers:
            server.sql("SYSTEM START MERGES costs")
    asker.table.settle()
    asker.table.work_until(lambda: bool(asker.table.table.mutations.shown()))
    asker.begin()
    for server in servers:
        with pytest.raises(PandoError, match=r"west/l") as caught:
            server.sql(statement.replace("1_0_0_0", "1_0_0_0_1") if "PART " in statement else statement)
        assert caught.value.code == 48
        assert COMMANDS[statement] in str(caught.value)


def test_the_time_of_an_answer_is_that_of_the_commits(asker: Asker) -> None:
    asker.begin()
    asker.table.servers.servers[0].clock.skew = 3600.0
    asker.table.first.sql(INSERT.format(1, 1))
    asker.ask()
    asker.table.servers.now += 11
    (change,) = asker.ask().changes
    assert 0 <= asker.ask().clock_ms - change.commit_ms <= 20_000


def test_a_late_look_at_the_gate_does_not_end_what_a_later_gate_began(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread has read the gate without links; another has followed the one with links before it goes on."""
    asker.begin()
    table = tables(asker)[0]
    gate, keeping = table.state.gate, table.links.keeping
    now, resting = gate._known, keeping._log.resting
    assert now is not None
    assert now.gate is not None
    stale = replace(now, gate=replace(now.gate, links=()))

    @contextmanager
    def rest() -> Iterator[None]:
        gate._known = now
        with resting():
            yield

    monkeypatch.setattr(keeping._log, "resting", rest)
    with asker.table.first.acting(), table.state.hold_write_access() as (keeper, _):
        gate._known = stale
        keeping.follow_gate(keeper)
    assert keeping.is_keeping
    assert keeping.journal.is_begun


def test_waiting_in_vain_leaves_nothing_behind(asker: Asker) -> None:
    asker.begin()
    keeping = tables(asker)[0].links.keeping
    with asker.table.first.acting():
        for _ in range(5):
            keeping.wait_for_news(keeping.appended, 0.01)
    assert not keeping._waiting


def test_what_the_journal_has_is_told_after_a_lost_request(asker: Asker) -> None:
    """Else the definition would stay in ZooKeeper for ever: the others wait until this replica has it."""
    asker.begin()
    servers = asker.table.servers
    second, path = servers.servers[1], asker.table.table.replication.paths.replica("r2").link_keeping
    refused: list[str] = []

    def on_request(node: SimulatedNode, kind: str, asked: str) -> Fault | None:
        if node is second and kind == "multi" and asked == path and not refused:
            refused.append(asked)
            return Fault.LOSE_REQUEST
        return None

    servers.on_request = on_request
    asker.table.first.sql("ALTER TABLE costs ADD COLUMN w UInt8")
    asker.table.work_until(lambda: bool(refused))
    servers.on_request = lambda node, kind, asked: None
    servers.calm()
    for server in servers.servers:
        name_cluster(server)
    keeper = servers.ensemble.connect()
    asker.table.work_until(lambda: KeptChanges.parse(keeper.get(path)[0]).definitions > 0)


def test_a_table_that_is_only_a_target_warns_of_no_link(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    asker.begin()
    for key in (1, 2):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    keep_all(asker, 2)
    for table in tables(asker):
        table.links.blocks.find_released = lambda: None
    asker.table.servers.now += 100_000
    asker.table.work_until(lambda: all(len(kept(table)) == 1 for table in tables(asker)))
    assert "a link still needs" not in caplog.text


def test_a_session_that_fails_at_its_beginning_keeps_the_journal(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper is away when the replica reads what it had pulled."""
    asker.begin()
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    second, since = asker.table.servers.servers[1], tables(asker)[1].links.keeping.since
    refused: list[str] = []

    def read(keeper: Keeper, replica: ReplicaPaths) -> tuple[int, Stat]:
        if not refused:
            refused.append(replica.log_pointer)
            raise UnavailableError("KEEPER_EXCEPTION", "connection lost")
        return read_log_pointer(keeper, replica)

    monkeypatch.setattr(change_keeping, "read_log_pointer", read)
    second.stop()
    restart(asker, second)
    asker.table.work_until(lambda: tables(asker)[1].links.keeping.is_keeping)
    assert refused
    assert tables(asker)[1].links.keeping.since == since
