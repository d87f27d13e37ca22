"""Every commit behind the gate's move has the place of its rows: their origin, and the zxid of the commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination.drops.reached_blocks import free_reached_ids
from coordination.inserts.block_views import BlockNode
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.log.log_entry import LogEntry
from coordination.nodes.gate import Gate
from coordination.nodes.gate_commands import CommandSource
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.paths import TablePaths
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable
from engine.tables.replicated.follow.row_positions import fill_own_positions_in
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from parts.table.row_version import RowVersion, make_place
from tests.links.gated_table import STATEMENTS, at_the_commit, move, prepare

BRING_ROWS = (
    "insert", "insert_of_several_partitions", "insert_with_a_quorum", "attach_partition", "attach_partition_from",
    "replace_partition", "commit", "overwrite", "move_partition_here",
)  # fmt: skip


def keep_places(gate: Gate) -> Gate:
    return gate.with_commands(CommandSource("west", "c.7"))


def list_commits(table: CountedTable) -> dict[PartName, int]:
    """The zxid of the log entry that brought each part."""
    keeper, log = table.servers.ensemble.connect(), table.table.replication.paths.log
    found = {}
    for name in keeper.children(log):
        data, stat = keeper.get(f"{log}/{name}")
        entry = LogEntry.parse(data)
        found |= dict.fromkeys(entry.created_parts if not entry.source_parts else (), stat.created_zxid)
    keeper.close()
    return found


def find_versions(costs: CountedTable, server: SimulatedServer) -> dict[PartName, RowVersion]:
    """The places of all parts, as a merge would take them."""
    table = costs.of(server)
    parts: list[Part] = list(table.store.list_active())
    with table.state.hold_write_access() as (keeper, _):
        return {part.name: part.row_version for part in fill_own_positions_in(table.state, keeper, parts)}


@pytest.mark.parametrize("name", BRING_ROWS)
def test_a_commit_behind_the_move_has_places(table: CountedTable, name: str) -> None:
    """Also one that had looked at the gate before: it is repeated, with places."""
    prepare(table, name)
    before, left = {*find_versions(table, table.first)}, [1]

    def move_once() -> None:
        if left:
            left.pop()
            move(table, keep_places)

    at_the_commit(table, move_once)
    table.first.sql(STATEMENTS[name])
    assert not left
    table.settle()
    commits = list_commits(table)
    for server in table.servers.servers:
        versions = find_versions(table, server)
        new = versions.keys() - before
        assert new
        origin = f"c.7.{table.table.state.gate.gate.epoch}"
        assert {part: versions[part] for part in new} == {part: make_place(origin, commits[part]) for part in new}


def test_a_command_waits_for_a_cluster_that_was_linked_meanwhile(table: CountedTable) -> None:
    """The gate moves behind the look at whom it waits for."""
    keeper, paths = table.servers.ensemble.connect(), table.table.replication.paths
    uuid = "11111111-0000-4000-8000-000000000000"
    keeper.create_parents("/pando")
    keeper.create(CLUSTER_PATH, ClusterIdentity("west", uuid).to_bytes())
    own = f"{uuid}.{keeper.get(paths.root)[1].created_zxid}"
    links = [GateLink(f"{name}/l", LinkDirection.OUT, name, f"{name} uuid", name, True) for name in ("east", "north")]

    def command(gate: Gate) -> Gate:
        began = {f"{own}.{gate.epoch}": 1, "22222222-0000-4000-8000-000000000000.7.1-00000000000000aa": 1}
        link = replace(links[0], peer="22222222-0000-4000-8000-000000000000")
        return gate.with_commands(CommandSource("west", own).with_began(began)).with_link(link)

    move(table, command)
    table.table.state.gate.load(keeper)
    seen: list[str] = []

    def link_beside(_: object, kind: str, path: str) -> None:
        if kind == "multi" and path.startswith(paths.block_numbers) and not seen:
            seen.append(kind)
            move(table, lambda gate: gate.with_link(links[1]))
            table.table.state.gate.load(keeper)  # as its watch does

    table.servers.on_request = link_beside
    with pytest.raises(PandoError, match="waits for the marks of clusters north uuid"):
        table.first.sql(STATEMENTS["update"])
    assert seen, "a number was taken"


def test_a_fetched_part_has_its_position_on_disk(table: CountedTable) -> None:
    move(table, keep_places)
    table.first.sql("INSERT INTO costs VALUES (1, 70, 0)")
    table.settle()
    name = max(list_commits(table), key=lambda part: (part.partition_id == "1", part.max_block))
    here, there = (table.of(server).store.get_active(name) for server in table.servers.servers)
    assert here is not None
    assert there is not None
    assert here.row_version.lacks_position, "it was written before its commit"
    assert there.row_version.position == list_commits(table)[name]


def test_merged_parts_are_equal_on_all_replicas(table: CountedTable) -> None:
    move(table, keep_places)
    for server in (*table.servers.servers, table.first):
        server.sql("INSERT INTO costs VALUES (1, 70, 0)")
    table.first.sql("OPTIMIZE TABLE costs PARTITION 1 FINAL")
    table.settle()
    hashes = [
        {part.name: part.content_hash for part in table.of(server).store.list_active() if part.name.level}
        for server in table.servers.servers
    ]
    assert hashes[0] == hashes[1] != {}


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "active"])
def test_a_part_whose_listing_is_gone_is_fetched_with_its_position(table: CountedTable, *, is_lost: bool) -> None:
    """A replica keeps a part that others list, but without its own listing it does not know the position any more."""
    move(table, keep_places)
    table.first.sql("INSERT INTO costs VALUES (1, 70, 0)")
    table.settle()
    commits = list_commits(table)
    name = max((part for part in commits if part.partition_id == "1"), key=lambda part: part.max_block)
    replica, keeper = table.table.replication.replica, table.servers.ensemble.connect()
    keeper.set(replica.is_lost, b"1" if is_lost else b"0")
    keeper.delete(replica.part(str(name)))
    table.first.sql("SYSTEM RESTART REPLICA costs")
    table.work_until(lambda: keeper.exists(replica.part(str(name))) is not None)
    keeper.close()
    table.settle()
    assert find_versions(table, table.first)[name].position == commits[name]


def test_a_drop_frees_the_ids_of_what_it_reaches_alone() -> None:
    """Not those of blocks behind its reach, whose rows stay, nor those of other partitions."""
    keeper, paths = MemoryEnsemble(clock=lambda: 0.0).connect(), TablePaths("/t")
    for node in (paths.blocks, paths.block_numbers):
        keeper.create_parents(node)
    for partition in ("p", "q"):
        keeper.create(paths.partition(partition))

    def insert(block_id: str, part: str) -> int:
        keeper.create(paths.block(block_id), BlockNode(part).to_bytes())
        return keeper.get(paths.block(block_id))[1].created_zxid

    insert("p_early", "p_0_0_0")
    insert("q_other", "q_0_0_0")
    reach = insert("p_last", "p_2_2_0")
    insert("p_late", "p_1_1_0")
    insert("p_above", "p_4_4_0")
    free_reached_ids(keeper, paths, {"p": 3}, reach)
    free_reached_ids(keeper, paths, {"p": 3}, reach)
    assert sorted(keeper.children(paths.blocks)) == ["p_above", "p_late", "q_other"]
