"""``currentPosition('db.t')``: the place behind everything that was committed before it was asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.cluster_identity import ClusterIdentity, claim_cluster_identity
from coordination.links.positions import Position
from coordination.links.table_position import read_current_position
from coordination.nodes.paths import TablePaths
from engine.remote.cluster_membership import ClusterMembership
from engine.simulator.statement_costs import CountedTable, counted_table
from parts.common.errors import PandoError

POSITION = re.compile(r"([0-9a-f]{8}-[0-9a-f-]{27})\.([0-9]+)\.(1-[0-9a-f]{16}):([0-9]+)")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[CountedTable]:
    with counted_table(tmp_path, "p UInt16, k UInt64, v UInt64", "PARTITION BY p ORDER BY k", replicas=2) as table:
        for server in table.servers.servers:
            server.engine.cluster_membership = ClusterMembership("west", server.engine.services.new_uuid)
        yield table


def parsed(table: CountedTable, replica: int = 0) -> tuple[str, str, str, int]:
    (text,) = table.servers.servers[replica].sql("SELECT currentPosition('default.costs')")[1][0]
    found = POSITION.fullmatch(str(text))
    assert found is not None, text
    assert str(Position.parse(str(text))) == text
    return found[1], found[2], found[3], int(found[4])


CHANGES = (
    "INSERT INTO costs VALUES (1, 1, 0), (2, 2, 0)",
    "ALTER TABLE costs UPDATE v = 1 WHERE p = 1",
    "ALTER TABLE costs ADD COLUMN w UInt8",
    "ALTER TABLE costs DROP PARTITION 1",
    "TRUNCATE TABLE costs",
)


def test_every_commit_moves_it(table: CountedTable) -> None:
    """Whichever replica is asked."""
    cluster, identity, epoch, zxid = parsed(table)
    keeper = table.servers.ensemble.connect()
    root = keeper.get(table.table.replication.paths.root)[1]
    assert int(identity) == root.created_zxid
    assert cluster == claim_cluster_identity(keeper, "west", table.first.engine.services.new_uuid).uuid
    for statement in CHANGES:
        table.first.sql(statement)
        later = parsed(table, replica=1)
        assert later[:3] == (cluster, identity, epoch)
        assert later[3] > zxid, statement
        zxid = later[3]
        assert parsed(table)[3] == zxid
        table.settle()


def test_without_commits_it_stays(table: CountedTable) -> None:
    table.first.sql(CHANGES[0])
    table.settle()
    before = parsed(table)
    table.servers.now += 1000
    table.settle()
    assert parsed(table) == before


def test_a_table_made_anew_has_another_identity(table: CountedTable) -> None:
    former = parsed(table)
    for server in table.servers.servers:
        server.sql("DROP TABLE costs SYNC")
    table.create("p UInt16, k UInt64, v UInt64", "PARTITION BY p ORDER BY k")
    _, identity, epoch, _ = parsed(table)
    assert int(identity) > int(former[1])
    assert epoch != former[2]


def test_the_log_is_trimmed_between_two_requests(table: CountedTable) -> None:
    table.first.sql(CHANGES[0])
    keeper, other, paths = (
        table.servers.ensemble.connect(),
        table.servers.ensemble.connect(),
        table.table.replication.paths,
    )
    session, left = keeper.session_id, [1]

    def faults(asking: int, kind: str, path: str) -> None:
        if asking == session and path.startswith(f"{paths.log}/") and left:
            left.clear()
            other.delete_tree(f"{paths.log}/{other.children(paths.log)[-1]}")

    table.servers.ensemble.faults = faults
    position = read_current_position(keeper, paths, "x")
    table.servers.ensemble.faults = None
    assert not left
    assert position == read_current_position(other, paths, "x")


@pytest.mark.parametrize(
    ("name", "code", "problem"),
    [
        ("plain", 36, "Only Replicated tables have positions"),
        ("default.absent", 60, "absent"),
        ("nowhere.costs", 81, "nowhere"),
        ("costs costs", 62, "end of the table's name"),
        ("", 62, "table name"),
    ],
)
def test_what_has_no_position(table: CountedTable, name: str, code: int, problem: str) -> None:
    table.first.sql("CREATE TABLE plain (k UInt8) ENGINE = MergeTree ORDER BY k")
    with pytest.raises(PandoError, match=problem) as caught:
        table.first.sql(f"SELECT currentPosition('{name}')")
    assert caught.value.code == code


def test_a_cluster_without_a_name_has_none(table: CountedTable) -> None:
    table.first.engine.cluster_membership = ClusterMembership(None, table.first.engine.services.new_uuid)
    with pytest.raises(PandoError, match="no cluster_name"):
        table.first.sql("SELECT currentPosition('costs')")


def test_a_table_without_a_gate_has_none(table: CountedTable) -> None:
    table.servers.ensemble.connect().delete(table.table.replication.paths.gate)
    with pytest.raises(PandoError, match="has no positions yet"):
        table.first.sql("SELECT currentPosition('costs')")


def test_a_name_needs_quotes_as_in_a_statement(table: CountedTable) -> None:
    table.first.sql(
        "CREATE TABLE `a b.c` (k UInt8) ENGINE = ReplicatedMergeTree('/tables/abc', '{replica}') ORDER BY k"
    )
    assert POSITION.fullmatch(str(table.first.sql("SELECT currentPosition('`a b.c`')")[1][0][0]))
    assert POSITION.fullmatch(str(table.first.sql("SELECT currentPosition('default.`a b.c`')")[1][0][0]))


def test_it_must_be_one_constant(table: CountedTable) -> None:
    for call in ("currentPosition()", "currentPosition('a', 'b')", "currentPosition(toString(number))"):
        with pytest.raises(PandoError):
            table.first.sql(f"SELECT {call} FROM numbers(2)")


def test_nothing_is_stored_by_it(table: CountedTable) -> None:
    """Its value changes: mutations refuse it."""
    table.first.sql(CHANGES[0])
    with pytest.raises(PandoError):
        table.first.sql("ALTER TABLE costs UPDATE v = length(currentPosition('costs')) WHERE p = 1")


def test_the_identity_is_that_of_the_cluster() -> None:
    keeper = MemoryEnsemble(clock=lambda: 1.0).connect()
    assert ClusterIdentity.parse(ClusterIdentity("a", "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10").to_bytes()).name == "a"
    with pytest.raises(PandoError, match="metadata is missing"):
        read_current_position(keeper, TablePaths("/none"), "x")
