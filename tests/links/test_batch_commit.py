"""A link's batch at its target: all of it is committed with the vector, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.positions import Position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.table_gate import move_gate
from engine.simulator.simulated_node import Crash, SimulatedNode
from parts.common.errors import CancelledError, PandoError
from tests.links.changes import NORTH
from tests.links.link_tables import WEST
from tests.links.linked_tables import LinkedTables, linked_tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.begin()
        yield made


def test_inserts_arrive_once_on_all_replicas(tables: LinkedTables) -> None:
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    tables.first.sql("INSERT INTO source VALUES (1, 3, 0)")
    applied = tables.apply()
    assert (applied.is_applied, applied.rows, applied.blocks) == (True, 3, 3)
    tables.must_be_equal()
    assert tables.apply().rows == 0
    tables.must_be_equal()


def test_a_batch_of_commands_and_blocks(tables: LinkedTables) -> None:
    """Drop and block, mutation and block, in one batch, on top of what the target has."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
    assert tables.apply().rows == 3
    for statement in (
        "INSERT INTO source VALUES (1, 4, 0)",
        "ALTER TABLE source DROP PARTITION 1",
        "INSERT INTO source VALUES (1, 5, 0), (2, 6, 0)",
        "ALTER TABLE source UPDATE v = 7 WHERE k < 6",
        "INSERT INTO source VALUES (2, 1, 0), (4, 8, 0)",
        "ALTER TABLE source DELETE WHERE k = 6",
        "ALTER TABLE source DROP PARTITION 3",
    ):
        tables.first.sql(statement, mutations_sync=0)
    applied = tables.apply()
    assert applied.is_applied
    tables.must_be_equal()
    assert sorted(tables.rows()) == [(1, 5, 7), (2, 1, 0), (2, 2, 7), (4, 8, 0)]


def test_what_the_batch_drops_is_not_fetched(tables: LinkedTables) -> None:
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.first.sql("ALTER TABLE source DROP PARTITION 1")
    tables.first.sql("INSERT INTO source VALUES (1, 2, 0)")
    assert tables.apply().rows == 1
    assert len(tables.fetched) == 1
    tables.must_be_equal()


def test_a_transaction_is_one_change(tables: LinkedTables) -> None:
    tables.first.sql("INSERT INTO source SETTINGS insert_transaction = 'job' VALUES (1, 1, 0), (2, 2, 0)")
    tables.first.sql("INSERT INTO source SETTINGS insert_transaction = 'job' VALUES (1, 3, 0)")
    tables.first.sql("COMMIT TRANSACTION 'job' ON source")
    assert len(tables.changes()) == 1
    assert tables.apply().rows == 3
    tables.must_be_equal()


def test_two_leaders_apply_a_batch_once(tables: LinkedTables) -> None:
    """Both have read the same vector."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    first, second = tables.batch(), tables.batch(replica=1)
    assert tables.apply(first, 0).is_applied
    assert not tables.apply(second, 1).is_applied
    assert not tables.apply(first, 0).is_applied
    tables.must_be_equal()


def test_a_batch_goes_on_when_another_link_moves_the_vector(tables: LinkedTables) -> None:
    """Its blocks are fetched once, so a link of large batches does not wait for ever for one of small ones."""
    path, moves = tables.table.table.replication.paths.linked.vector, []

    def move_vector(_: SimulatedNode, name: str) -> None:
        if name == "link.before_commit" and len(moves) < 3:
            moves.append(len(moves) + 10)
            vector = tables.state().vector.begin_with(VersionVector().begin_at(Position(NORTH, 9)))
            tables.keeper.set(path, vector.advance(Position(NORTH, moves[-1])).to_bytes())

    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    tables.table.servers.on_failpoint = move_vector
    applied = tables.apply()
    assert (applied.is_applied, applied.rows, len(moves), set(tables.fetched.values())) == (True, 2, 3, {1})
    vector = tables.state().vector
    assert vector.applied(NORTH) == 12
    assert vector.applied(tables.origin()) == tables.changes()[-1].place
    tables.must_be_equal()


def test_an_end_without_changes_moves_the_vector_alone(tables: LinkedTables) -> None:
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    log = tables.table.table.replication.paths.log
    before = len(tables.keeper.children(log))
    assert tables.apply().is_applied
    assert len(tables.keeper.children(log)) == before
    assert tables.state().vector.applied(tables.origin()) == tables.changes()[-1].place


def test_block_ids_travel(tables: LinkedTables) -> None:
    """A client that repeats its INSERT at the target after a switch stores nothing twice."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.settle()
    tables.with_settings(two_way=True)
    result, _ = tables.first.sql("INSERT INTO costs VALUES (1, 1, 0)")
    assert result.statistics.written_rows == 0
    tables.must_be_equal()


def test_block_ids_of_two_way_links_do_not_travel(tables: LinkedTables) -> None:
    tables.with_settings(two_way=True)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.settle()
    tables.first.sql("INSERT INTO costs VALUES (1, 1, 0)")
    assert tables.rows() == [(1, 1, 0), (1, 1, 0)]


def test_an_id_that_is_there_is_set_to_the_new_part(tables: LinkedTables) -> None:
    """The source forgot the id, and took the same rows again."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    for name in tables.keeper.children("/tables/source/blocks"):
        tables.keeper.delete(f"/tables/source/blocks/{name}")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.must_be_equal()
    (id_,) = tables.keeper.children(tables.table.table.replication.paths.blocks)
    assert b"1_1_1_0" in tables.keeper.get(tables.table.table.replication.paths.block(id_))[0]


def test_own_rows_and_those_of_the_link(tables: LinkedTables) -> None:
    """A drop that arrives takes what the target's clients wrote, too, as far as it was committed before."""
    tables.with_settings(two_way=True)
    tables.first.sql("INSERT INTO costs VALUES (1, 100, 0)")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.settle()
    assert tables.rows() == [(1, 1, 0), (1, 100, 0)]
    tables.first.sql("TRUNCATE TABLE source")
    tables.apply()
    tables.first.sql("INSERT INTO costs VALUES (1, 101, 0)")
    tables.settle()
    assert tables.rows() == [(1, 101, 0)]


def test_without_a_vector_nothing_is_applied(tmp_path: Path) -> None:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.first.sql("INSERT INTO source VALUES (1, 1, 0)")
        assert not made.apply().is_applied
        assert made.begin()
        assert made.apply().is_applied


def by_lists(tables: LinkedTables) -> None:
    for replica in range(2):
        tables.target(replica).committer.limits = BatchLimits(0, 0, entry_bytes=100)


def list_names(tables: LinkedTables) -> list[str]:
    return (tables.keeper.children_many([tables.table.table.replication.paths.linked.lists])[0]) or []


def test_a_large_batch_is_a_list(tables: LinkedTables) -> None:
    """Its commit names the list; its block ids are set right after it."""
    by_lists(tables)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
    tables.first.sql("ALTER TABLE source DROP PARTITION 3")
    tables.first.sql("ALTER TABLE source UPDATE v = 7 WHERE k = 1", mutations_sync=0)
    assert tables.apply().rows == 2
    assert len(list_names(tables)) == 1
    paths = tables.table.table.replication.paths
    assert all(len(tables.keeper.get(f"{paths.log}/{name}")[0]) < 1000 for name in tables.keeper.children(paths.log))
    tables.must_be_equal()
    assert len(tables.keeper.children(paths.blocks)) == 2
    tables.first.sql("INSERT INTO source VALUES (1, 9, 0)")
    tables.apply()
    assert len(tables.keeper.children(paths.blocks)) == 3
    tables.must_be_equal()


def interrupt_ids(tables: LinkedTables) -> None:
    """Commits a batch of two blocks as a list; the ids of the blocks are not set."""
    by_lists(tables)
    for server in tables.servers:
        server.sql("SYSTEM STOP CLEANUP costs")
    lists = tables.target().committer.lists
    former = lists._try_to_set
    lists._try_to_set = lambda keeper, ids: False  # type: ignore[method-assign]
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    with pytest.raises(PandoError, match="block ids"):
        tables.apply()
    lists._try_to_set = former  # type: ignore[method-assign]
    tables.settle()
    assert tables.keeper.children(tables.table.table.replication.paths.blocks) == []


def clean_up(tables: LinkedTables) -> None:
    """Cleans up once, as a table does whose gate names the link."""
    link = GateLink(tables.link.name, LinkDirection.IN, tables.link.uuid, "peer", is_two_way=True)
    state = tables.table.table.state
    with tables.first.acting(), state.hold_write_access() as (keeper, _):
        move_gate(keeper, state.paths, lambda gate: gate.with_link(link))
        state.gate.load(keeper)
        tables.target().clean_up(keeper)


def test_the_cleaning_sets_the_ids_of_an_interrupted_list(tables: LinkedTables) -> None:
    interrupt_ids(tables)
    paths = tables.table.table.replication.paths
    clean_up(tables)
    assert len(tables.keeper.children(paths.blocks)) == 2
    tables.must_be_equal()


def test_ids_of_an_interrupted_list_do_not_come_back_with_dropped_blocks(tables: LinkedTables) -> None:
    """Otherwise an INSERT of the same rows would be taken for a duplicate."""
    interrupt_ids(tables)
    paths = tables.table.table.replication.paths
    tables.first.sql("ALTER TABLE costs DROP PARTITION 1")
    clean_up(tables)
    assert [name.partition("_")[0] for name in tables.keeper.children(paths.blocks)] == ["2"]


def test_blocks_are_not_fetched_by_the_threads_of_inserts(tables: LinkedTables) -> None:
    """A link that waits for the network would keep INSERTs waiting."""

    class Refusing(Executor):
        pass

    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    services = tables.table.table.services
    former, services.writers = services.writers, Refusing()
    try:
        assert tables.apply().rows == 2
    finally:
        services.writers = former


def test_a_replica_that_was_away_reads_the_list(tables: LinkedTables) -> None:
    """From the log, and from its queue when it starts again."""
    by_lists(tables)
    second = tables.servers[1]
    second.crash()
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    tables.apply()
    tables.heal()
    tables.must_be_equal()


def register(tables: LinkedTables) -> None:
    """Names the link in the gate, as CREATE REPLICATION LINK does."""
    entry = GateLink(tables.link.name, LinkDirection.IN, tables.link.uuid, WEST, "west", is_two_way=True)
    move_gate(tables.keeper, tables.table.table.replication.paths, lambda gate: gate.with_link(entry))


def test_lists_go_with_their_entries(tables: LinkedTables) -> None:
    register(tables)
    by_lists(tables)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.settle()
    tables.apply()
    assert len(list_names(tables)) == 1
    clean_up(tables)
    assert len(list_names(tables)) == 1, "the log still has its entry"
    log = tables.table.table.replication.paths.log
    for name in tables.keeper.children(log):
        tables.keeper.delete(f"{log}/{name}")
    clean_up(tables)
    assert list_names(tables) == []


def test_nothing_is_committed_behind_the_drop_of_a_link(tables: LinkedTables) -> None:
    """The link is dropped between a batch's plan and its commit, on a server that does not know it yet."""
    paths, link = tables.table.table.replication.paths, tables.link
    register(tables)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    assert tables.apply().rows == 1
    dropped: list[object] = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == "link.before_commit" and not dropped:
            dropped.append(move_gate(tables.keeper, paths, lambda gate: gate.without_link(link.name)))

    tables.table.servers.on_failpoint = on_failpoint
    tables.first.sql("INSERT INTO source VALUES (1, 2, 0)")
    with pytest.raises(CancelledError, match="was dropped"):
        tables.apply()
    assert dropped
    tables.settle()
    assert len(tables.rows()) == 1
    with tables.first.acting(), pytest.raises(CancelledError, match="was dropped"):
        tables.target().begin_link(link, VersionVector())
    tables.first.sql("INSERT INTO costs VALUES (1, 3, 0)")  # no lock of a number is left


def test_a_list_that_was_never_committed_goes_with_the_next_leader(tables: LinkedTables) -> None:
    by_lists(tables)
    second = tables.servers[1]

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is second and name == "link.after_list":
            node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    with pytest.raises(Crash):
        tables.apply(replica=1)
    (left,) = list_names(tables)
    tables.heal()
    by_lists(tables)
    assert tables.apply(replica=0).rows == 1
    assert left not in list_names(tables)
    tables.must_be_equal()


def test_a_former_leader_cannot_commit_the_list_that_its_successor_removed(tables: LinkedTables) -> None:
    by_lists(tables)
    done = []

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is tables.servers[1] and name == "link.after_list" and not done:
            done.append(tables.apply(replica=0))

    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.table.servers.on_failpoint = on_failpoint
    assert not tables.apply(replica=1).is_applied
    assert done[0].rows == 1
    tables.must_be_equal()
