"""Recovery by hand, with files and nodes of ZooKeeper, as the page of ClickHouse on data replication describes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coordination.nodes.paths import TablePaths
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from recovery import force_restore_flag
from tests.recovery.conftest import COLUMNS, PLAIN, REPLICATED, ROWS, TABLE_PATH, Operator

TABLE = TablePaths(TABLE_PATH)


# --- after a complete loss ----------------------------------------------------------------------------------------


def test_a_table_without_replicas_is_copied(operator: Operator) -> None:
    operator.first.sql(f"CREATE TABLE plain ({COLUMNS}) {PLAIN}")
    operator.insert(operator.first, "plain")
    operator.second.stop()
    shutil.copytree(operator.data(operator.first, "plain"), operator.data(operator.second, "plain"))
    shutil.copy(operator.definition(operator.first, "plain"), operator.definition(operator.second, "plain"))
    operator.start(operator.second)
    assert operator.rows(operator.second, "plain") == ROWS


@pytest.mark.parametrize("way", ["znode", "file", "no flag"])
def test_definitions_are_copied_and_the_data_come_from_a_replica(operator: Operator, way: str) -> None:
    """Without a flag too: an empty disk beside a replica that has everything is a new disk."""
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.second.stop()
    shutil.rmtree(operator.second.path / "data")
    shutil.rmtree(operator.second.path / "metadata")
    shutil.copytree(operator.first.path / "metadata", operator.second.path / "metadata")
    if way == "znode":
        force_restore_flag.set_flag(operator.first.keeper, TABLE.replica("r2"))
    operator.second.force_restore_all = way == "file"
    operator.start(operator.second)
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS
    assert operator.second.keeper.exists(TABLE.replica("r2").force_restore_data) is None


def test_definitions_are_attached_and_the_data_come_from_a_replica(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.second.stop()
    shutil.rmtree(operator.data(operator.second))
    operator.definition(operator.second).unlink()
    force_restore_flag.set_flag(operator.first.keeper, TABLE.replica("r2"))
    operator.start(operator.second)
    operator.second.sql(f"ATTACH TABLE u ({COLUMNS}) {REPLICATED}")
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS


def test_a_lost_replica_is_removed_from_zookeeper_and_created_again(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    operator.second.stop()
    shutil.rmtree(operator.data(operator.second))
    operator.definition(operator.second).unlink()
    operator.first.keeper.delete_tree(TABLE.replica("r2").root)
    operator.start(operator.second)
    operator.second.sql(f"CREATE TABLE u ({COLUMNS}) {REPLICATED}")
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS


# --- a wrong configuration ----------------------------------------------------------------------------------------


def test_a_replica_that_is_configured_for_another_shard_is_refused(operator: Operator) -> None:
    """Nothing is lost: with the right path again every row is there."""
    first, second = operator.first, operator.second
    for shard, server in enumerate((first, second)):
        engine = REPLICATED.replace(TABLE_PATH, f"/clickhouse/tables/{shard}/u").replace("{replica}", "a")
        server.sql(f"CREATE TABLE u ({COLUMNS}) {engine}")
    operator.insert(first)
    second.sql("INSERT INTO u VALUES " + ", ".join(f"(1, {k})" for k in range(1000)))
    right = operator.definition(first).read_text()
    first.stop()
    second.stop()
    operator.definition(first).write_text(right.replace("/tables/0/u", "/tables/1/u"))
    operator.start(first)
    for _ in range(5):
        first.step_all()
    assert operator.rows(first) == ROWS
    with pytest.raises(PandoError) as refused:
        first.sql("INSERT INTO u VALUES (0, 100)")
    assert refused.value.code == 242
    first.stop()
    operator.definition(first).write_text(right)
    operator.start(first)
    operator.start(second)
    operator.servers.settle()
    assert operator.rows(first) == ROWS
    assert len(operator.rows(second)) == 1000


# --- conversions --------------------------------------------------------------------------------------------------


def test_a_table_is_made_replicated_by_moving_its_parts(operator: Operator) -> None:
    first = operator.first
    first.sql(f"CREATE TABLE u ({COLUMNS}) {PLAIN}")
    operator.insert(first)
    first.sql("RENAME TABLE u TO u_old")
    operator.create_everywhere()
    old, new = (  # RENAME leaves the data where they are
        Path(str(first.sql(f"SELECT data_paths[1] FROM system.tables WHERE name = '{name}'")[1][0][0]))
        for name in ("u_old", "u")
    )
    for part in old.iterdir():
        if PartName.try_parse(part.name):
            part.rename(new / "detached" / part.name)
    for partition in (0, 1):
        first.sql(f"ALTER TABLE u ATTACH PARTITION {partition}")
    operator.servers.settle()
    assert operator.rows(first) == operator.rows(operator.second) == ROWS


def test_a_replicated_table_is_made_plain_by_moving_its_parts(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    first = operator.first
    first.sql(f"CREATE TABLE u_new ({COLUMNS}) {PLAIN}")
    for part in operator.parts(first):
        part.rename(operator.data(first, "u_new") / part.name)
    first.sql("DROP TABLE u SYNC")
    first.stop()
    operator.start(first)
    assert operator.rows(first, "u_new") == ROWS
    operator.servers.settle()
    assert operator.rows(operator.second) == ROWS


def test_a_replicated_table_is_removed_without_its_server(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    first = operator.first
    first.stop()
    operator.definition(first).unlink()
    operator.second.keeper.delete_tree(TABLE.replica("r1").root)
    operator.start(first)
    first.sql(f"CREATE TABLE u_new ({COLUMNS}) {PLAIN}")
    first.stop()
    for part in operator.parts(first):
        part.rename(operator.data(first, "u_new") / part.name)
    operator.start(first)
    assert operator.rows(first, "u_new") == ROWS


# --- metadata lost in ZooKeeper -----------------------------------------------------------------------------------


def test_data_are_saved_into_a_plain_table_when_zookeeper_lost_everything(operator: Operator) -> None:
    operator.create_everywhere()
    operator.insert(operator.first)
    operator.servers.settle()
    first = operator.first
    first.keeper.delete_tree(TABLE.root)
    for _ in range(5):
        first.step_all()
    first.sql(f"CREATE TABLE saved ({COLUMNS}) {PLAIN}")
    for part in operator.parts(first):
        part.rename(operator.data(first, "saved") / part.name)
    first.sql("DROP TABLE u SYNC")
    first.stop()
    operator.start(first)
    assert operator.rows(first, "saved") == ROWS


def test_a_flag_can_be_touched_after_the_first_start(tmp_path: Path) -> None:
    """The directory is there, as ClickHouse's is, and the file counts once."""
    file = tmp_path / "flags" / "force_restore_data"
    assert not force_restore_flag.consume_flag_file(file)
    file.touch()
    assert force_restore_flag.consume_flag_file(file)
    assert not force_restore_flag.consume_flag_file(file)
