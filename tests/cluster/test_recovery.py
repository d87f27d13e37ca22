"""When disk and ZooKeeper disagree: small things mend themselves, suspicious ones are refused until force is given."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from coordination.keeper.kazoo_keeper import KazooKeeper
from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]

PARTS = 10


def filled_table(replicas: Replicas) -> str:
    """Ten parts that are not merged."""
    table = replicas.new_table(settings="min_bytes_for_full_part_storage = 0")
    for client in replicas.clients.values():
        client.execute(f"SYSTEM STOP MERGES {table}")
    for number in range(PARTS):
        replicas["r1"].execute(f"INSERT INTO {table} SELECT number + {number * 100}, 'x' FROM numbers(100)")
    replicas.wait_rows(table, PARTS * 100)
    return table


def server_path(replicas: Replicas, name: str) -> Path:
    return next(replicas.cluster.replica_directory(name).rglob("metadata")).parent


def data_path(replicas: Replicas, name: str, table: str) -> Path:
    return server_path(replicas, name) / "data" / "default" / table


def part_directories(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.name.startswith("all_"))


def test_an_emptied_directory_is_filled_again(replicas: Replicas) -> None:
    table = filled_table(replicas)
    replicas.cluster.kill("r2")
    shutil.rmtree(data_path(replicas, "r2", table))
    replicas.restart("r2")
    replicas.wait_rows(table, PARTS * 100)
    replicas.wait_equal(table)


@pytest.mark.long
@pytest.mark.parametrize("way", ["command", "znode", "file"])
def test_a_great_loss_is_refused_until_forced(replicas: Replicas, way: str) -> None:
    table = filled_table(replicas)
    replicas.cluster.kill("r2")
    for directory in part_directories(data_path(replicas, "r2", table))[: PARTS * 6 // 10]:
        shutil.rmtree(directory)
    replicas.restart("r2")
    status = f"SELECT is_readonly, last_queue_update_exception FROM system.replicas WHERE table = '{table}'"
    readonly, reason = replicas["r2"].rows(status)[0]
    assert readonly == 1
    assert "231" in reason
    assert replicas["r2"].value(f"SELECT count() FROM {table}") == PARTS * 40
    with pytest.raises(PandoError) as raised:
        replicas["r2"].execute(f"INSERT INTO {table} VALUES (1, 'y')")
    assert raised.value.code == 242
    force(replicas, table, way)
    replicas.wait_rows(table, PARTS * 100)
    replicas.wait_equal(table)
    assert replicas["r2"].rows(status) == [[0, ""]]


def keeper_of(replicas: Replicas) -> closing[KazooKeeper]:
    return closing(KazooKeeper(f"127.0.0.1:{replicas.status('zookeeper').port}"))  # type: ignore[attr-defined]


def force(replicas: Replicas, table: str, way: str) -> None:
    if way == "file":
        flag = server_path(replicas, "r2") / "flags" / "force_restore_data"
        flag.parent.mkdir(exist_ok=True)
        flag.touch()
        replicas.restart("r2")
        return
    config = str(next(replicas.cluster.replica_directory("r2").rglob("*.yaml")))
    pando = [sys.executable, "-m", "engine.cli", "recovery"]
    if way == "znode":
        with keeper_of(replicas) as keeper:
            keeper.create(f"/tables/{table}/replicas/r2/flags/force_restore_data")
        return
    listed = subprocess.run(
        [*pando, "status", "--config", config], capture_output=True, text=True, timeout=60, check=True
    )
    assert table in listed.stdout
    arguments = ["force-restore-data", "--config", config, "--table", f"default.{table}"]
    dry = subprocess.run([*pando, *arguments, "--dry-run"], capture_output=True, text=True, timeout=60, check=True)
    assert table in dry.stdout
    subprocess.run([*pando, *arguments], capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.long
def test_a_flipped_byte_is_found_and_mended(replicas: Replicas) -> None:
    table = filled_table(replicas)
    victim = part_directories(data_path(replicas, "r2", table))[3] / "data.bin"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 0x40
    victim.write_bytes(content)
    with pytest.raises(PandoError) as raised:
        replicas["r2"].execute(f"SELECT sum(k), max(v) FROM {table}")
    assert raised.value.code == 40
    assert victim.parent.name in raised.value.message
    total = PARTS * 100
    replicas.wait(
        lambda: (
            replicas.try_value("r2", f"SELECT sum(k) + length(max(v)) FROM {table}") == total * (total - 1) // 2 + 1
        ),
        "the right answer after the refetch",
    )
    names = replicas["r2"].rows(f"SELECT name FROM system.detached_parts WHERE table = '{table}'")
    assert [f"broken_{victim.parent.name}"] in names


@pytest.mark.long
def test_check_table_finds_what_no_query_met_and_has_it_mended(replicas: Replicas) -> None:
    table = filled_table(replicas)
    victim = part_directories(data_path(replicas, "r3", table))[7] / "data.bin"
    victim.write_bytes(victim.read_bytes()[:-1] + b"\0\0")
    check = f"CHECK TABLE {table}"
    failed = [row for row in replicas["r3"].rows(check) if not row[1]]
    assert [row[0] for row in failed] == [victim.parent.name]
    replicas.wait(lambda: all(row[1] for row in replicas["r3"].rows(check)), "a good copy")
    assert replicas["r3"].value(f"SELECT count() FROM {table}") == PARTS * 100


@pytest.mark.long
def test_removed_is_active_is_made_again_by_its_server(replicas: Replicas) -> None:
    """The server hears of it by its watch, and again by the watch of the new session."""
    table = filled_table(replicas)
    node = f"/tables/{table}/replicas/r1/is_active"
    answered = f"SELECT is_readonly FROM system.replicas WHERE table = '{table}'"
    with keeper_of(replicas) as keeper:
        for number in range(2):
            keeper.delete(node)
            replicas.wait(lambda: keeper.exists(node) is not None, "the server to notice")
            replicas.wait(lambda: replicas["r1"].value(answered) == 0, "the table to be writable")
            replicas["r1"].execute(f"INSERT INTO {table} VALUES ({10_000 + number}, 'y')")
    replicas.wait_rows(table, PARTS * 100 + 2)


@pytest.mark.long
def test_zookeeper_away_at_start(replicas: Replicas) -> None:
    table = filled_table(replicas)
    replicas.cluster.kill("zookeeper")
    lost = f"SELECT is_readonly, is_session_expired FROM system.replicas WHERE table = '{table}'"
    replicas.wait(lambda: replicas["r1"].rows(lost) == [[1, 1]], "a running replica to show that ZooKeeper is lost")
    replicas.restart("r3")
    assert replicas["r3"].value(f"SELECT count() FROM {table}") == PARTS * 100
    with pytest.raises(PandoError) as raised:
        replicas["r3"].execute(f"INSERT INTO {table} VALUES (1, 'y')")
    assert raised.value.code in (242, 999)
    replicas.cluster.restart("zookeeper")
    replicas.wait(
        lambda: all(
            replicas.try_value(name, f"SELECT is_readonly FROM system.replicas WHERE table = '{table}'") == 0
            for name in replicas.clients
        ),
        "the replicas to become writable",
    )
    replicas["r3"].execute(f"INSERT INTO {table} VALUES (123456, 'y')")
    replicas.wait_rows(table, PARTS * 100 + 1)


@pytest.mark.long
def test_a_replica_that_will_not_come_back_is_dropped_by_another(replicas: Replicas) -> None:
    table = filled_table(replicas)
    path = f"/tables/{table}"
    drop = f"SYSTEM DROP REPLICA 'r3' FROM TABLE {table}"
    for refused in (drop, drop.replace("r3", "r1"), drop.replace("r3", "nobody")):  # active, its own, unknown
        with pytest.raises(PandoError) as raised:
            replicas["r1"].execute(refused)
        assert raised.value.code == 305
    replicas.cluster.kill("r3")
    listed = f"SELECT name FROM system.zookeeper WHERE path = '{path}/replicas' ORDER BY name"
    active = f"SELECT active_replicas FROM system.replicas WHERE table = '{table}'"
    replicas.wait(lambda: replicas["r1"].value(active) == 2, "ZooKeeper to notice")
    replicas["r1"].execute(f"SYSTEM DROP REPLICA 'r3' FROM ZKPATH '{path}'")
    assert replicas["r2"].rows(listed) == [["r1"], ["r2"]]
    replicas["r2"].execute(f"INSERT INTO {table} VALUES (987654, 'z')")
    replicas.wait_rows(table, PARTS * 100 + 1, ["r1", "r2"])
    replicas.restart("r3")
    assert replicas["r3"].value(f"SELECT count() FROM {table}") == PARTS * 100, "what it has stays readable"
    with pytest.raises(PandoError) as raised:
        replicas["r3"].execute(f"INSERT INTO {table} VALUES (1, 'y')")
    assert raised.value.code == 242


@pytest.mark.long
@pytest.mark.parametrize("data", ["put back to an older copy", "emptied"])
def test_zookeeper_that_lost_its_data_is_written_down_anew(replicas: Replicas, data: str) -> None:
    table = filled_table(replicas)
    directory = replicas.cluster.directory / "zookeeper"
    older = directory.with_name("older")
    if data != "emptied":
        replicas.cluster.kill("zookeeper")
        shutil.copytree(directory, older)
        replicas.cluster.restart("zookeeper")
        readonly = f"SELECT is_readonly FROM system.replicas WHERE table = '{table}'"
        replicas.wait(
            lambda: all(replicas.try_value(name, readonly) == 0 for name in replicas.clients), "writable replicas"
        )
    for number in range(3):
        insert = f"INSERT INTO {table} SELECT number + {(PARTS + number) * 100}, 'x' FROM numbers(100)"
        replicas["r1"].execute(f"{insert} SETTINGS insert_quorum = 3")
    total = (PARTS + 3) * 100
    for name in ("zookeeper", *replicas.clients):
        replicas.cluster.kill(name)
    if data == "emptied":
        shutil.rmtree(directory / "data")
    else:
        shutil.rmtree(directory)
        older.rename(directory)
    replicas.cluster.restart("zookeeper")
    for name in replicas.clients:
        replicas.restart(name)
    status = f"SELECT is_readonly, last_queue_update_exception FROM system.replicas WHERE table = '{table}'"
    for name, client in replicas.clients.items():
        readonly, reason = client.rows(status)[0]
        assert (readonly, client.value(f"SELECT count() FROM {table}")) == (1, total), name
        assert f"SYSTEM RESTORE REPLICA default.{table}" in reason
        assert ("missing" if data == "emptied" else "from the past: 3 parts with 300 rows") in reason
    for client in replicas.clients.values():
        client.execute(f"SYSTEM RESTORE REPLICA {table}")
    replicas["r2"].execute(f"INSERT INTO {table} SETTINGS insert_quorum = 3 VALUES (99999, 'y')")
    replicas.wait_rows(table, total + 1)
    replicas.wait_equal(table)
    detached = f"SELECT count() FROM system.detached_parts WHERE table = '{table}'"
    assert [client.value(detached) for client in replicas.clients.values()] == [0, 0, 0]
