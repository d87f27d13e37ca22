"""A table is copied to a link's target: real replicas, whose work goes on meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordination.keeper.interface import Keeper
from coordination.keeper.memory_keeper import Fault
from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.links.positions import Origin, Position
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.table_gate import move_gate
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.capabilities.table_links import UncoveredSchema
from engine.tables.replicated.links.bootstrap import copy_writers
from engine.tables.replicated.links.bootstrap import giver as bootstrap_giver
from engine.tables.replicated.links.bootstrap import taker as bootstrap_taker
from engine.tables.replicated.links.bootstrap.own_changes import find_last_own_change
from parts.common.errors import ConflictError, CorruptionError, PandoError, UnavailableError, UserError
from parts.common.query_status import QueryStatus
from tests.links.bootstrap_tables import (
    CLUSTER,
    LINK,
    PARTITIONED,
    SOURCE,
    TARGET,
    BootstrapTables,
    DirectSource,
    bootstrap_tables,
)
from tests.links.changes import NORTH


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[BootstrapTables]:
    with bootstrap_tables(tmp_path) as made:
        yield made


def test_an_empty_target_gets_parts_ids_vector_and_its_place(tables: BootstrapTables) -> None:
    tables.insert(1, 2)
    tables.insert(3, server=1)
    tables.insert(4, partition=2)
    tables.settle()
    tables.sql("OPTIMIZE TABLE source PARTITION 1 FINAL")
    report = tables.run()
    tables.must_be_equal()
    assert (report.rows, report.parts) == (4, 2)
    held_origin = tables.vector()
    assert [position.zxid for position in held_origin] == [report.place]
    link = tables.read_link()
    assert link.is_begun
    assert link.source_origin == str(next(iter(held_origin)).origin)
    assert not tables.gate().bars
    assert not tables.staged()
    assert not tables.staged(0)
    before = tables.rows()
    tables.insert(1, 2, table="costs")  # the client repeats an INSERT after a switch
    tables.insert(4, table="costs", partition=2)
    assert tables.rows() == before


def late_target(tables: BootstrapTables) -> list[tuple[object, ...]]:
    """Gives the target the source's rows of now; then the source goes on. Returns the target's rows."""
    tables.insert(1, 2)
    tables.insert(3)
    tables.insert(9, partition=3)
    tables.settle()
    tables.run()
    tables.settle()
    former = tables.rows()
    tables.insert(5)
    tables.sql("ALTER TABLE source DROP PARTITION 3")
    tables.insert(6, partition=2)
    tables.settle()
    return former


def test_a_late_target_is_copied_anew_and_keeps_its_rows_until_then(tables: BootstrapTables) -> None:
    former = late_target(tables)
    source, shown = DirectSource(tables), []
    source.before_hold = lambda _: shown.append(tables.rows())
    report = tables.run(source, replaces=True)
    assert shown == [former, former]
    tables.must_be_equal()
    assert report.parts == 4
    assert len(source.fetched) == 2, "equal parts are linked"
    first, second = source.held
    assert first.place <= second.place == report.place
    assert tables.vector().covers(second.position)


def test_a_target_with_rows_is_refused(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.insert(7, 8, table="costs")
    tables.settle()
    with pytest.raises(UserError, match=r"has 2 rows.*SYSTEM BOOTSTRAP") as refused:
        tables.run()
    assert refused.value.name == "BAD_ARGUMENTS"
    tables.must_be([(1, 7, 7), (1, 8, 8)])
    assert not tables.gate().bars
    assert not tables.vector().entries
    tables.insert(9, table="costs")
    tables.run(replaces=True)
    tables.must_be_equal()


def test_a_link_that_has_its_place_is_copied_only_on_demand(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.run()
    with pytest.raises(ConflictError, match="has its place already"):
        tables.run()
    tables.must_be_equal()


def test_the_table_takes_no_writes_while_it_is_closed(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def write(part: object) -> None:
        if tables.gate().bars:
            for statement in (
                "INSERT INTO costs VALUES (1, 5, 5)",
                "TRUNCATE TABLE costs",
                "ALTER TABLE costs ADD COLUMN w UInt8",
            ):
                with pytest.raises(PandoError, match="being copied from its source by replication link l"):
                    tables.sql(statement)
            refused.append(True)

    refused: list[bool] = []
    source.before_hold = lambda round_: write(None)
    tables.run(source)
    assert refused
    tables.must_be_equal()
    tables.insert(5, table="costs")


# --- while the giver works -------------------------------------------------------------------------------------------


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


# --- holds -----------------------------------------------------------------------------------------------------------


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


# --- what ends a bootstrap -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["disabled", "dropped"])
@pytest.mark.parametrize("round_", [0, 1])
def test_a_link_that_is_disabled_or_dropped_is_not_copied(tables: BootstrapTables, how: str, round_: int) -> None:
    tables.insert(1)
    source = DirectSource(tables)

    def end(now: int) -> None:
        if now == round_:
            if how == "disabled":
                tables.change_link(is_enabled=False)
            else:
                tables.keeper.delete(TARGET.linked.incoming_link("l"))

    source.before_hold = end
    with pytest.raises((UnavailableError, ConflictError)) as ended:
        tables.run(source)
    assert ended.value.name == "ABORTED"
    tables.must_be([])
    assert not tables.gate().bars
    assert not tables.vector().entries
    assert not tables.source().links.bootstrap.giver._holds
    if how == "dropped":
        tables.table.servers.now += 700
        tables.table.work_until(lambda: not tables.staged())


def test_whoever_was_overtaken_commits_nothing(tables: BootstrapTables) -> None:
    """Another server is elected, opens the table, and a client writes."""
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def take_over(round_: int) -> None:
        if round_ == 1:
            (bar,) = tables.gate().bars
            tables.clean_up(0)
            tables.insert(5, table="costs")
            move_gate(tables.keeper, TARGET, lambda gate: gate.with_bar(bar))  # it closes the table for its own copy

    source.before_hold = take_over
    with pytest.raises(ConflictError) as ended:
        tables.run(source)
    assert ended.value.name == "ABORTED"
    tables.must_be([(1, 5, 5)])


def test_another_link_that_moves_the_vector_is_not_undone(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)

    def move(round_: int) -> None:
        if round_ == 1:
            tables.keeper.set(TARGET.linked.vector, VersionVector().advance(Position(NORTH, 5)).to_bytes())

    source.before_hold = move
    with pytest.raises(ConflictError, match="not committed"):
        tables.run(source)
    assert tables.vector().applied(NORTH) == 5


def test_a_source_that_lacks_what_the_target_has_is_refused(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    tables.keeper.create_parents(TARGET.linked.vector)
    tables.keeper.set(TARGET.linked.vector, VersionVector().advance(Position(NORTH, 5)).to_bytes())
    with pytest.raises(ConflictError, match=f"lacks changes up to {Position(NORTH, 5)}") as refused:
        tables.run()
    assert refused.value.name == "INCORRECT_DATA"
    assert not tables.gate().bars
    source = DirectSource(tables)
    source.change = lambda held: replace(held, vector=held.vector.advance(Position(NORTH, 6)))
    tables.run(source)
    assert tables.vector().applied(NORTH) == 6


def test_own_changes_of_a_two_way_target_must_be_in_the_source(tables: BootstrapTables) -> None:
    tables.change_link(settings={"two_way": True})
    tables.insert(1)
    tables.insert(7, table="costs")
    tables.settle()
    with pytest.raises(ConflictError, match="lacks changes up to"):
        tables.run(replaces=True)
    tables.must_be([(1, 7, 7)])
    ids = tables.keeper.children(TARGET.blocks)
    written = tables.keeper.get(TARGET.log_entry(0))[1].created_zxid
    own = Origin.parse(f"{CLUSTER}.{tables.keeper.get(TARGET.root)[1].created_zxid}.{tables.gate().epoch}")
    source = DirectSource(tables)
    source.change = lambda held: replace(held, vector=held.vector.advance(Position(own, written)))
    tables.run(source, replaces=True)
    tables.must_be_equal()
    assert own not in tables.vector().entries
    assert ids
    assert set(ids) <= set(tables.keeper.children(TARGET.blocks)), "a client may repeat an INSERT whose rows came back"


def test_a_relay_whose_log_was_trimmed_is_copied(tables: BootstrapTables) -> None:
    """Links alone write to it, so what its log does not show any more came by them too."""
    tables.insert(1)
    tables.settle()
    tables.run()
    tables.settle()
    assert find_last_own_change(tables.keeper, TARGET, is_written=False) == 0
    tables.keeper.create(TARGET.log_prefix, tables.keeper.get(TARGET.log_entry(0))[0], sequential=True)
    tables.keeper.delete(TARGET.log_entry(0))
    first = tables.keeper.get(TARGET.log_entry(1))[1].created_zxid
    assert find_last_own_change(tables.keeper, TARGET, is_written=False) == 0
    assert find_last_own_change(tables.keeper, TARGET, is_written=True) == first - 1
    data = tables.keeper.get(TARGET.log_entry(1))[0]
    mutation = MutationEntry("", 0, "r1", "UPDATE v = 1 WHERE 1", {"1": 1}, 0).to_bytes()
    tables.keeper.create(TARGET.mutation_prefix, mutation, sequential=True)  # of a batch that is not shown any more
    tables.keeper.create(TARGET.log_prefix, data, sequential=True)
    tables.keeper.delete(TARGET.log_entry(1))
    assert find_last_own_change(tables.keeper, TARGET, is_written=False) == 0
    own = tables.keeper.create(TARGET.mutation_prefix, mutation, sequential=True)
    assert find_last_own_change(tables.keeper, TARGET, is_written=False) == tables.keeper.get(own)[1].created_zxid


# --- other definitions -----------------------------------------------------------------------------------------------


def test_a_copy_carries_the_alters_before_its_place(tables: BootstrapTables) -> None:
    """With replicate_ddl = 1: the stream behind the copy does not have them any more."""
    tables.change_link(settings={"replicate_ddl": True})
    tables.insert(1)
    tables.servers[0].sql("ALTER TABLE source ADD COLUMN e UInt64 DEFAULT k + 5")
    tables.settle()
    tables.run()
    tables.settle()
    assert tables.servers[1].sql("SELECT * FROM costs")[1] == tables.servers[0].sql("SELECT * FROM source")[1]
    tables.servers[0].sql("ALTER TABLE source DROP COLUMN e")
    tables.insert(2)
    tables.settle()
    tables.run(replaces=True)
    tables.settle()
    assert [name for name, _ in tables.servers[1].sql("SELECT * FROM costs")[0].columns] == ["p", "k", "v"]


def test_rows_are_written_anew_where_the_definitions_differ(
    tables: BootstrapTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_writers, "SLICE_ROWS", 1)
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    tables.insert(1, 2)
    tables.insert(3, server=1)
    tables.insert(4, partition=2)
    tables.settle()
    tables.sql("ALTER TABLE source DROP COLUMN v")
    tables.sql("ALTER TABLE source ADD COLUMN w UInt8 DEFAULT 5")
    tables.insert_values("(1, 6, 60)")
    tables.sql("ALTER TABLE costs ADD COLUMN w UInt16, ADD COLUMN x String DEFAULT 'x'")
    tables.settle()
    tables.merge()
    tables.settle()
    report = tables.run()
    wanted = sorted((p, k, 0, w, "x") for p, k, w in tables.rows("source"))
    assert [w for *_, w, _ in wanted] == [5, 5, 5, 60, 5]
    tables.must_be(wanted)
    assert report.rows == 5
    before = tables.rows()
    assert tables.keeper.children(TARGET.blocks)
    crash_once(tables, "before_commit")
    with pytest.raises(Crash):
        tables.run(replaces=True)
    tables.table.servers.on_failpoint = lambda node, name: None
    tables.start(1)
    tables.clean_up(0)
    source = DirectSource(tables)
    tables.run(source, replaces=True)
    assert not source.fetched
    tables.must_be(before)


def test_rows_that_the_target_cannot_hold_are_not_copied(tables: BootstrapTables) -> None:
    tables.sql("ALTER TABLE source ADD COLUMN w UInt8 DEFAULT 5")
    tables.insert_values("(1, 6, 6, 60)")
    tables.settle()
    with pytest.raises(UncoveredSchema, match="Column w UInt8 of the source is missing at the target") as refused:
        tables.run()
    assert refused.value.rows == 1
    tables.must_be([])
    assert not tables.gate().bars
    tables.sql("ALTER TABLE costs ADD COLUMN w UInt32")
    tables.table.work_until(lambda: "w" in tables.target().description.schema)
    tables.run()
    tables.must_be_equal()


def test_a_part_with_another_content_is_not_taken(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    source = DirectSource(tables)
    source.change = lambda held: replace(held, parts=tuple(replace(part, content_hash="0" * 32) for part in held.parts))
    with pytest.raises(CorruptionError, match="another content"):
        tables.run(source)
    tables.must_be([])
    assert not tables.gate().bars


# --- crashes ---------------------------------------------------------------------------------------------------------

LOSSES = [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER]
FAILPOINTS = ["after_hold", "after_part", "after_copy", "after_bar", "before_commit", "after_commit"]


def crash_once(tables: BootstrapTables, failpoint: str, times: int = 1) -> None:
    """Crashes the server that passes the failpoint for the given time."""
    left = [times]

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == f"bootstrap.{failpoint}":
            left[0] -= 1
            if left[0] == 0:
                node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint


@pytest.mark.parametrize("failpoint", FAILPOINTS)
@pytest.mark.parametrize("is_late", [False, True])
def test_after_a_crash_there_is_all_or_nothing(
    tables: BootstrapTables, failpoint: str, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    former: list[tuple[object, ...]] = []
    if is_late:
        former = late_target(tables)
    else:
        tables.insert(1, 2)
        tables.insert(3)
        tables.insert(4, partition=2)
        tables.settle()
    crash_once(tables, failpoint)
    with pytest.raises(Crash):
        tables.run(replaces=is_late)
    tables.table.servers.on_failpoint = lambda node, name: None
    tables.start(1)
    tables.settle()
    is_done = failpoint == "after_commit"
    tables.must_be(tables.rows("source") if is_done else former)
    tables.clean_up(0)
    assert not tables.gate().bars
    source = DirectSource(tables)
    if is_late or not is_done:
        tables.run(source, replaces=is_late)
    if failpoint in ("after_copy", "after_bar", "before_commit"):
        assert not source.fetched, "what was copied before the crash is kept"
    tables.must_be_equal()
    assert tables.read_link().is_begun
    tables.table.servers.now += 700
    tables.table.work_until(lambda: not tables.staged())


def test_a_giver_that_restarts_is_asked_anew(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.insert(2)
    tables.settle()
    source = DirectSource(tables)

    def restart(part: HeldPart) -> None:
        if not source.fetched:
            tables.servers[0].crash()
            tables.start(0)

    source.before_fetch = restart
    with pytest.raises(UserError, match="not held"):
        tables.run(source)
    source.before_fetch = lambda part: None
    tables.run(source)
    tables.must_be_equal()


@pytest.mark.parametrize("fault", [*LOSSES])
def test_a_commit_without_an_answer_is_settled(tables: BootstrapTables, fault: Fault) -> None:
    tables.insert(1)
    tables.settle()
    lost: list[bool] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if kind == "multi" and path == TARGET.log_prefix and not lost:
            lost.append(True)
            return fault
        return None

    tables.table.servers.on_request = on_request
    with pytest.raises(PandoError):
        tables.run()
    assert lost
    server = tables.servers[1]
    server.keeper.reconnect()
    if not server.keeper.session_id or fault in (Fault.EXPIRE, Fault.EXPIRE_AFTER):
        former = tables.target().state.activation
        tables.table.work_until(lambda: tables.target().state.activation not in (None, former))
    tables.table.work_until(lambda: tables.target().replication.problem() is None)
    is_done = fault in (Fault.LOSE_ANSWER, Fault.EXPIRE_AFTER)
    assert tables.read_link().is_begun is is_done
    tables.settle()
    tables.must_be(tables.rows("source") if is_done else [])
    tables.clean_up()
    if is_done:
        with pytest.raises(ConflictError, match="has its place already"):
            tables.run()
    else:
        tables.run()
    tables.must_be_equal()
    assert not tables.gate().bars
    tables.table.servers.now += 700
    tables.table.work_until(lambda: not tables.staged())


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_newest_ids_travel_when_the_request_has_no_room_for_all(tables: BootstrapTables) -> None:
    tables.insert(1)
    tables.settle()
    for number in range(9000):
        tables.keeper.create(SOURCE.block(f"1_{'x' * 60}{number:05d}"), b"1_0_0_0")
    tables.insert(2)
    report = tables.run()
    assert report.block_ids_left_out > 0
    tables.must_be_equal()
    ids = tables.keeper.children(TARGET.blocks)
    assert f"1_{'x' * 60}08999" in ids
    assert f"1_{'x' * 60}00000" not in ids
    assert len(ids) + report.block_ids_left_out == 9002


def test_rows_show_the_block_number_that_they_have_here(tmp_path: Path) -> None:
    with bootstrap_tables(tmp_path, rest=f"{PARTITIONED} SETTINGS enable_block_number_column = 1") as tables:
        tables.insert(5, table="costs")
        for number in range(3):
            tables.insert(number)
        tables.settle()
        tables.merge()
        tables.insert(4)
        tables.settle()
        tables.run(replaces=True)
        tables.must_be_equal()
        shown = tables.sql("SELECT k, _block_number FROM costs ORDER BY k")
        names = tables.target().store.list_active()
        numbers = {part.name.min_block for part in names}
        assert {number for _, number in shown} == numbers
        assert len({number for k, number in shown if k != 4}) == 1
        tables.merge(table="costs")
        assert tables.sql("SELECT k, _block_number FROM costs ORDER BY k") == shown
