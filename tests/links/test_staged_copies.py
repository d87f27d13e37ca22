"""Before a batch is committed, ``link_quorum`` replicas have its parts staged: one lost disk loses none of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.interserver.protocol import StagedCopy
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.step_pool import Crash
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from tests.links.linked_servers import create_table, linked_servers
from tests.links.linked_tables import LinkedTables, linked_tables


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[LinkedTables]:
    with linked_tables(tmp_path) as made:
        made.create_source()
        made.begin()
        yield made


def staged_places(tables: LinkedTables, replica: int) -> list[list[str]]:
    staged = tables.table.of(tables.servers[replica]).store.staged
    return [staged.list_places(name) for name in staged.list_transactions()]


def clean_up(tables: LinkedTables, replica: int) -> None:
    server = tables.servers[replica]
    table = tables.table.of(server)
    with server.acting():
        table.links.target.clean_up(table.state.require_writable())


def test_a_part_that_the_committing_server_lost_is_at_its_sibling(tables: LinkedTables) -> None:
    """Nobody asks the source again."""
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (2, 2, 0)")
    tables.apply()
    assert staged_places(tables, 0) == staged_places(tables, 1) != []
    staged = tables.table.table.store.staged
    (name,) = staged.list_transactions()
    staged.remove(name)
    tables.must_be_equal()
    assert set(tables.fetched.values()) == {1}
    assert staged_places(tables, 0) == staged_places(tables, 1) == []


def test_a_sibling_that_cannot_copy_does_not_stop_the_link(tables: LinkedTables) -> None:
    tables.table.servers.cuts.add(frozenset(("r1", "r2")))
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    assert tables.apply().is_applied
    assert staged_places(tables, 1) == []
    tables.table.servers.cuts.clear()
    tables.must_be_equal()


def test_no_more_replicas_copy_than_the_link_asks_for(tables: LinkedTables) -> None:
    tables.link.settings["link_quorum"] = 1  # type: ignore[index]
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    assert (len(staged_places(tables, 0)), staged_places(tables, 1)) == (1, [])
    tables.must_be_equal()


def test_a_copy_of_a_batch_that_was_never_committed_is_removed(tables: LinkedTables) -> None:
    def crash_before_commit(node: SimulatedNode, name: str) -> None:
        if node is tables.servers[0] and name == "link.before_commit":
            node.crash_here()

    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.table.servers.on_failpoint = crash_before_commit
    with pytest.raises(Crash):
        tables.apply()
    tables.heal()
    clean_up(tables, 1)
    assert len(staged_places(tables, 1)) == 1  # its log entry may still come
    tables.table.servers.now += 121
    clean_up(tables, 1)
    assert staged_places(tables, 1) == []
    assert tables.apply(replica=1).is_applied
    tables.must_be_equal()


def test_a_sibling_stages_nothing_but_batches_of_links(tables: LinkedTables) -> None:
    copies = tables.table.of(tables.servers[1]).links.copies
    part = PartName.parse("1_0_0_0")
    with tables.servers[1].acting():
        for source, name, place, why in (
            ("r1", "t-1", "0", "which is no batch of a link"),
            ("r1", "link-../..", "0", "which is no batch of a link"),
            ("r1", "link-1", "..", "is no place of a staged part"),
            ("nobody", "link-1", "0", "has no address"),
        ):
            with pytest.raises(PandoError, match=why):
                copies.take(source, name, [StagedCopy(place, part, "0" * 32)])
    for text in ("", "0/1_0_0_0", "0/1_0_0_0/", "0/x/abc", "/1_0_0_0/abc", "0/1_0_0_0/a/b"):
        with pytest.raises(UserError, match="is not <place>/<part>/<content hash>"):
            StagedCopy.parse(text)


def test_servers_copy_over_the_part_exchange(tmp_path: Path) -> None:
    with linked_servers(tmp_path, west=1, east=2) as clusters:
        (west,), east = clusters["west"], clusters["east"]
        create_table([west, *east])
        for server in east:
            with server.client() as client:
                client.execute("SYSTEM STOP REPLICATION QUEUES t")
        with west.client() as source, east[0].client() as target:
            target.execute("CREATE REPLICATION LINK l ON t FROM CLUSTER west SETTINGS start_position = 'now'")
            source.execute("INSERT INTO t VALUES (1, 'a')")
        stores = [server.table().store for server in east if isinstance(server.table(), ReplicatedTable)]  # type: ignore[attr-defined]

        def list_staged() -> list[dict[str, tuple[str, ...]]]:
            staged = [store.staged for store in stores]
            return [{name: tuple(each.list_places(name)) for name in each.list_transactions()} for each in staged]

        wait(lambda: all(("0-all_0_0_0",) in places.values() for places in list_staged()))
        first, second = list_staged()
        assert first == second
        assert len(first) == 1
        for server in east:
            with server.client() as client:
                client.execute("SYSTEM START REPLICATION QUEUES t")
                wait(lambda client=client: client.value("SELECT count() FROM t") == 1)


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
