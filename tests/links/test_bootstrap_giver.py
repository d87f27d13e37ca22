"""The source of a copy goes on working, and holds what the copy needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.keeper.interface import Keeper
from coordination.links.bootstrap_plan import HeldTable
from coordination.log.log_entry import LogEntry
from engine.tables.replicated.links.bootstrap import giver as bootstrap_giver
from engine.tables.replicated.links.bootstrap import taker as bootstrap_taker
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.query_status import QueryStatus
from tests.links.bootstrap_tables import (
    LINK,
    SOURCE,
    BootstrapTables,
    DirectSource,
    bootstrap_tables,
)


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        yield made


def test_the_giver_merges_mutates_and_takes_inserts_meanwhile(
    tables: BootstrapTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    for number in range(4):
        tables.insert(number, server=number % 2)
        tables.insert(number, partition=2)
    tables.settle()
    source, expected = DirectSource(tables), []
    work = iter([
        lambda: tables.insert(20, server=1),
        lambda: tables.sql("ALTER TABLE source UPDATE v = v + 100 WHERE 1 SETTINGS mutations_sync = 0"),
        lambda: tables.sql("ALTER TABLE source DROP PARTITION 2"),
        lambda: tables.insert(21, partition=2, server=1),
        tables.merge,
        lambda: tables.insert(22),
    ])  # fmt: skip

    def go_on(part: object) -> None:
        next(work, lambda: None)()

    def note(held: HeldTable) -> HeldTable:
        expected.append(tables.rows("source"))
        return held

    source.before_fetch, source.change = go_on, note
    tables.run(source)
    assert tables.progress[-1].rounds > 2
    tables.must_be(expected[-1])
    assert next(work, None) is None, "all of it happened"
    tables.must_be_equal()


@pytest.mark.parametrize("giver", [0, 1])
def test_a_mutation_that_is_not_done_is_waited_for(tables: BootstrapTables, giver: int) -> None:
    tables.insert(1, 2)
    tables.insert(3)
    tables.settle()
    for server in (0, 1):
        tables.sql("SYSTEM STOP MERGES source", server)
    tables.sql("ALTER TABLE source UPDATE v = 7 WHERE k = 2 SETTINGS mutations_sync = 0")
    tables.insert(4)
    with pytest.raises(UnavailableError, match="mutation 0000000000 is not applied to part"):
        tables.run(DirectSource(tables, giver), taker=1 - giver)
    assert not tables.gate().bars
    for server in (0, 1):
        tables.sql("SYSTEM START MERGES source", server)
    tables.run(DirectSource(tables, giver), taker=1 - giver)
    tables.must_be([(1, 1, 1), (1, 2, 7), (1, 3, 3), (1, 4, 4)])


def test_a_mutation_that_finds_no_rows_is_in_the_copy(tables: BootstrapTables) -> None:
    """Nothing in the log follows it, and a target that has it already must not wait for its source."""
    tables.insert(1)
    tables.sql("ALTER TABLE source DROP PARTITION 1")
    tables.settle()
    tables.sql("ALTER TABLE source UPDATE v = 7 WHERE 1 SETTINGS mutations_sync = 0")
    last = tables.keeper.get(SOURCE.mutation("0000000000"))[1].created_zxid
    with tables.servers[0].acting():
        held = tables.source().links.bootstrap.giver.hold(LINK, QueryStatus())
    assert held.place == last
    tables.insert(2)
    tables.run()
    tables.must_be([(1, 2, 2)])


def test_an_open_quorum_is_waited_for(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    tables.sql("SYSTEM STOP FETCHES source", 1)
    with pytest.raises(PandoError, match="quorum"):
        tables.sql("INSERT INTO source SETTINGS insert_quorum = 2, insert_quorum_timeout = 100 VALUES (1, 2, 2)")
    with pytest.raises(UnavailableError, match="the quorum of part 1_1_1_0 is open"):
        tables.run(taker=0)
    tables.sql("SYSTEM START FETCHES source", 1)
    tables.settle()
    tables.run(taker=0)
    tables.must_be([(1, 1, 1), (1, 2, 2)])


def test_own_inserts_behind_the_place_are_left_to_the_stream(tables: BootstrapTables) -> None:
    """They are active at the giver before its pull has their entries."""
    tables.insert(1)
    tables.settle()
    source = tables.source()
    pull, done = source.links.bootstrap.giver._pull, []

    def pull_then_insert(keeper: Keeper) -> None:
        pull(keeper)
        if not done:
            done.append(True)
            tables.insert(2)  # active at once; its entry is not pulled

    source.links.bootstrap.giver._pull = pull_then_insert
    with tables.servers[0].acting():
        held = source.links.bootstrap.giver.hold(LINK, QueryStatus())
    assert done
    assert [str(part.name) for part in held.parts] == ["1_0_0_0"]
    logged = tables.keeper.get(SOURCE.log_entry(1))[1].created_zxid
    assert held.place < logged


def test_entries_that_arrive_while_the_pull_rests_are_not_held(tables: BootstrapTables) -> None:
    tables.insert(1, server=1)
    tables.settle()
    giver = tables.source().links.bootstrap.giver
    waits: list[int] = []
    on_wait = tables.table.servers.on_wait

    def insert_elsewhere() -> None:
        waits.append(1)
        if len(waits) < 4:
            tables.insert(10 + len(waits), server=1)
        on_wait()

    tables.table.servers.on_wait = insert_elsewhere
    with tables.servers[0].acting():
        held = giver.hold(LINK, QueryStatus())
    tables.table.servers.on_wait = on_wait
    names = tables.keeper.children(SOURCE.log)
    stats = {name: tables.keeper.get(f"{SOURCE.log}/{name}") for name in names}
    entries = {LogEntry.parse(data).new_part: stat.created_zxid for data, stat in stats.values()}
    assert {part.name for part in held.parts} == {part for part, zxid in entries.items() if zxid <= held.place}


def test_truncate_at_the_source_during_a_bootstrap(tables: BootstrapTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    tables.insert(1, 2)
    tables.insert(3, partition=2)
    tables.settle()
    source, truncated = DirectSource(tables), []

    def truncate(part: object) -> None:
        if not truncated:
            truncated.append(tables.sql("TRUNCATE TABLE source"))
            tables.settle()
            tables.insert(4)

    source.before_fetch = truncate
    tables.run(source)
    assert "1_0_0_0" in source.fetched, "what was held came whole"
    tables.must_be([(1, 4, 4)])


def hold(tables: BootstrapTables) -> HeldTable:
    with tables.servers[0].acting():
        return tables.source().links.bootstrap.giver.hold(LINK, QueryStatus())


def test_a_hold_keeps_parts_until_its_lease_ends(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.insert(2)
    tables.settle()
    held, giver = hold(tables), tables.source().links.bootstrap.giver
    tables.merge()
    tables.sql("TRUNCATE TABLE source")

    def let_pass(seconds: float) -> None:
        tables.table.servers.now += seconds
        for _ in range(3):
            tables.table.servers.now += 700
            tables.table.servers.step_others()

    tables.table.servers.now += bootstrap_giver.LEASE_SECONDS - 20
    tables.table.servers.step_others()
    snapshot, path = giver.open_held_part(LINK, held.lease, held.parts[0].name)
    with snapshot:
        assert path.exists()
    with pytest.raises(UserError, match="not held"):
        giver.open_held_part(LINK, "another lease", held.parts[0].name)
    let_pass(bootstrap_giver.LEASE_SECONDS)
    with pytest.raises(UserError, match="not held") as gone:
        giver.open_held_part(LINK, held.lease, held.parts[0].name)
    assert gone.value.name == "NO_SUCH_DATA_PART"
    assert not path.exists()


def test_a_hold_ends_with_the_registration(tables: BootstrapTables) -> None:
    tables.insert(1)
    held, giver = hold(tables), tables.source().links.bootstrap.giver
    tables.keeper.delete(SOURCE.linked.outgoing_link("east", "l"))
    tables.table.servers.now += 60
    tables.table.work_until(lambda: not giver._holds)
    with pytest.raises(UserError, match="not held"):
        giver.open_held_part(LINK, held.lease, held.parts[0].name)
    with pytest.raises(UserError, match="not registered"):
        hold(tables)
