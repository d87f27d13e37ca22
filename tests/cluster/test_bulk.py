"""``pando export`` and ``pando load`` on servers that die: whole and once, or not at all."""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.client.shared_work import ServerGroup
from engine.client.table_export import TableExport, export_table
from engine.client.table_load import LoadResult, TableLoad, load_folder
from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.xdist_group("replicas")]
_ROWS = 300_000
_SUMS = "SELECT count(), sum(k), uniqExact(v) FROM {}"


class Bulk:
    """Exports and loads of the cluster's tables."""

    def __init__(self, replicas: Replicas) -> None:
        self.replicas = replicas
        self.root = replicas.cluster.directory / "user_files"
        urls = [f"http://127.0.0.1:{s.http_port}" for s in replicas.cluster.status() if s.http_port]
        self.servers = ServerGroup(urls, stall_seconds=10)

    def filled(self, rows: int = _ROWS) -> str:
        table = self.replicas.new_table()
        self.replicas["r1"].execute(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers({rows})")
        self.replicas.wait_rows(table, rows)
        return table

    def export(self, table: str, directory: str, **more: Any) -> dict[str, Any]:
        return export_table(self.servers, TableExport(f"default.{table}", directory, **more))

    def load(self, directory: str, table: str, **more: Any) -> LoadResult:
        return load_folder(self.servers, TableLoad(directory, f"default.{table}", **more))

    def sums(self, table: str, name: str = "r2") -> list[list[object]]:
        self.replicas[name].execute(f"SYSTEM SYNC REPLICA {table}")
        return self.replicas[name].rows(_SUMS.format(table))

    def left(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if ".unfinished-" in path.name)


@pytest.fixture
def bulk(replicas: Replicas) -> Iterator[Bulk]:
    made = Bulk(replicas)
    yield made
    made.servers.close()


def test_what_is_exported_is_loaded_once(bulk: Bulk) -> None:
    table, other = bulk.filled(), bulk.replicas.new_table()
    manifest = bulk.export(table, "once", bytes_per_file=1 << 20)
    directory = bulk.root / "once"
    assert json.loads((directory / "_manifest.json").read_text()) == manifest
    assert manifest["rows"] == _ROWS
    assert len(manifest["files"]) > 3
    assert sorted(path.name for path in directory.iterdir()) == [
        "_manifest.json", *sorted(file["name"] for file in manifest["files"])
    ]  # fmt: skip
    for file in manifest["files"]:
        assert (directory / file["name"]).stat().st_size == file["bytes"]
        assert pq.ParquetFile(directory / file["name"]).metadata.num_rows == file["rows"]
    parts = bulk.replicas["r1"].rows(f"SELECT name FROM system.parts WHERE table = '{table}' AND active ORDER BY name")
    assert [[part["name"]] for part in manifest["parts"]] == parts
    assert bulk.load("once", other) == LoadResult(len(manifest["files"]), _ROWS, True)
    assert bulk.load("once", other) == LoadResult(len(manifest["files"]), _ROWS, False)
    assert bulk.sums(other) == bulk.sums(table)
    assert bulk.load("once", other, identity="again").is_new
    assert bulk.sums(other)[0][0] == 2 * _ROWS
    assert bulk.load("once", other, identity="anew", overwrite="TABLE").is_new
    assert bulk.sums(other) == bulk.sums(table)


@pytest.mark.long
def test_an_export_is_one_state_of_the_table(bulk: Bulk) -> None:
    """Every INSERT adds a row with k and one with -k: their sum is 0 in every state."""
    table = bulk.replicas.new_table("k Int64, v String")
    insert = f"INSERT INTO {table} SELECT (number % 2 * 2 - 1) * (intDiv(number, 2) + {{}}), 'x' FROM numbers(20000)"
    bulk.replicas["r1"].execute(insert.format(0))
    bulk.replicas.wait_rows(table, 20_000)
    is_over = threading.Event()

    def insert_on() -> None:
        for number in range(1, 1000):
            if is_over.is_set():
                return
            bulk.replicas["r3"].execute(insert.format(number))

    writer = threading.Thread(target=insert_on)
    writer.start()
    try:
        for number in range(3):
            manifest = bulk.export(table, f"state{number}", bytes_per_file=100_000)
            read = pq.read_table(bulk.root / f"state{number}")
            assert sum(read.column("k").to_pylist()) == 0
            assert read.num_rows == manifest["rows"]
            assert manifest["rows"] % 20_000 == 0
    finally:
        is_over.set()
        writer.join()


@pytest.mark.long
def test_a_server_dies_while_it_exports(bulk: Bulk) -> None:
    table = bulk.filled()
    done: list[dict[str, Any]] = []
    exporting = threading.Thread(target=lambda: done.append(bulk.export(table, "killed", bytes_per_file=50_000)))
    exporting.start()
    bulk.replicas.wait(lambda: bool(list(bulk.root.glob("killed.unfinished-*/part-*"))), "a file")
    bulk.replicas.cluster.kill("r2")
    exporting.join()
    assert done[0]["rows"] == _ROWS
    read = pq.read_table(bulk.root / "killed")
    assert (read.num_rows, len(set(read.column("k").to_pylist()))) == (_ROWS, _ROWS)
    assert bulk.left() == []


@pytest.mark.long
def test_a_client_dies_while_it_exports(bulk: Bulk) -> None:
    """Nobody removes what it left, but the servers, when nothing was written there for a day."""
    table, export = bulk.filled(), uuid.uuid4().hex
    request = {"table": table, "columns": ["k"], "scan": export, "directory": "left", "export": export}
    bulk.servers.try_in_turn(lambda url: bulk.servers.call(url, "/scan/export", {**request, "slot": 0, "slots": 2}))
    (folder,) = bulk.root.glob("left.unfinished-*")
    bulk.replicas.restart("r1")
    bulk.replicas.wait(lambda: bulk.replicas.try_value("r1", "SELECT 1") == 1, "r1")
    assert len(list(folder.iterdir())) == 1
    for path in (*folder.iterdir(), folder):
        os.utime(path, (0, 0))
    bulk.replicas.restart("r1")
    bulk.replicas.wait(lambda: not folder.exists(), "its end")
    with pytest.raises(PandoError) as raised:
        bulk.servers.call(
            bulk.servers.urls[1],
            "/scan/publish",
            {
                "directory": "left",
                "export": export,
                "manifest": {"files": [{"name": f"part-00000-{export[:12]}.parquet", "bytes": 1}]},
            },
        )
    assert raised.value.code == 107


def test_a_server_dies_while_it_loads(bulk: Bulk) -> None:
    table, other = bulk.filled(), bulk.replicas.new_table()
    bulk.export(table, "kept", bytes_per_file=200_000)
    bulk.replicas.restart("r3", "stage.after_told=kill")
    bulk.replicas.wait(lambda: bulk.replicas.try_value("r3", f"SELECT count() FROM {other}") == 0, "r3")
    assert bulk.load("kept", other).is_new
    assert bulk.sums(other) == bulk.sums(table)


@pytest.mark.long
def test_a_load_that_broke_off_goes_on(bulk: Bulk) -> None:
    table, other = bulk.filled(), bulk.replicas.new_table()
    bulk.export(table, "broken_off", bytes_per_file=1 << 20)
    with pytest.raises(PandoError):
        bulk.load("broken_off", other, settings={"max_execution_time": "0.000001"})
    assert bulk.sums(other)[0][0] == 0
    assert bulk.load("broken_off", other).is_new
    assert bulk.sums(other) == bulk.sums(table)


@pytest.mark.long
def test_a_file_that_was_changed_is_not_loaded(bulk: Bulk) -> None:
    table, other = bulk.filled(), bulk.replicas.new_table()
    manifest = bulk.export(table, "changed", bytes_per_file=1 << 20)
    file = bulk.root / "changed" / manifest["files"][1]["name"]
    data = file.read_bytes()
    file.write_bytes(data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
    with pytest.raises(PandoError, match="is not what was written") as caught:
        bulk.load("changed", other)
    assert caught.value.code == 40
    assert bulk.sums(other)[0][0] == 0
    file.write_bytes(data)
    assert bulk.load("changed", other).is_new
    assert bulk.sums(other) == bulk.sums(table)


@pytest.mark.long
def test_a_folder_of_anybody(bulk: Bulk) -> None:
    import pyarrow as pa

    directory = bulk.root / "foreign"
    directory.mkdir(parents=True)
    for number in range(3):
        rows = {"k": [number], "v": [f"row {number}"]}
        pq.write_table(pa.table(rows), directory / f"{number}.snappy.parquet")
    (directory / "_SUCCESS").touch()
    other = bulk.replicas.new_table("k UInt64, v String, more UInt8 DEFAULT 7")
    assert bulk.load("foreign", other) == LoadResult(3, 3, True)
    assert bulk.load("foreign", other) == LoadResult(3, 3, False)
    bulk.replicas["r1"].execute(f"SYSTEM SYNC REPLICA {other}")
    assert bulk.replicas["r1"].rows(f"SELECT * FROM {other} ORDER BY k")[2] == [2, "row 2", 7]
    with pytest.raises(PandoError) as caught:
        bulk.load("foreign", bulk.replicas.new_table("k UInt64, w String"))
    assert caught.value.code == 16


@pytest.mark.long
def test_an_export_that_fails_leaves_nothing(bulk: Bulk, tmp_path: Path) -> None:
    table = bulk.filled(1000)
    with pytest.raises(PandoError) as caught:
        bulk.export(table, "failing", filter="throwIf(k = 900, 'enough') = 0")
    assert caught.value.code in (395, 46, 48)
    assert not (bulk.root / "failing").exists()
    assert bulk.left() == []
    bulk.export(table, "taken")
    with pytest.raises(PandoError) as caught:
        bulk.export(table, "taken")
    assert caught.value.code == 641


@pytest.mark.long
def test_a_table_without_rows(bulk: Bulk) -> None:
    table = bulk.replicas.new_table("k UInt64, v DateTime64(9)")
    manifest = bulk.export(table, "empty")
    assert (manifest["rows"], len(manifest["files"])) == (0, 1)
    assert pq.read_schema(bulk.root / "empty" / manifest["files"][0]["name"]).names == ["k", "v"]
    assert bulk.load("empty", bulk.replicas.new_table("k UInt64, v DateTime64(9)")).rows == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("export", {"directory": "../x", "export": "0" * 32}, 291),
        ("export", {"directory": "x", "export": "../../x"}, 36),
        ("export", {"directory": "x\0y", "export": "0" * 32}, 36),
        ("publish", {"directory": "../x", "export": "0" * 32}, 291),
        ("publish", {"directory": "x", "export": "0" * 32, "manifest": {"files": [{"name": "../y", "bytes": 1}]}}, 36),
        ("publish", {"directory": "x", "export": "0" * 32, "manifest": {"files": []}}, 36),
        ("publish", {"directory": "x", "export": "0" * 32}, 107),
        ("discard", {"directory": "a\ud800", "export": "0" * 32}, 36),
        ("discard", {"directory": "/etc", "export": "0" * 32}, 291),
        ("discard", {"directory": "x", "export": "*"}, 36),
    ],
)
def test_hostile_requests(bulk: Bulk, path: str, body: dict[str, Any], code: int) -> None:
    table = bulk.filled(10)
    whole = {"files": [{"name": "part-00000-0.parquet", "bytes": 1}]}
    request = {"database": "default", "table": table, "columns": ["k"], "scan": "x", "manifest": whole, **body}
    with pytest.raises(PandoError) as caught:
        bulk.servers.call(bulk.servers.urls[0], f"/scan/{path}", request)
    assert caught.value.code == code


@pytest.mark.long
def test_who_may_only_read_writes_no_files(bulk: Bulk) -> None:
    with ServerGroup(bulk.servers.urls, user="reader") as servers, pytest.raises(PandoError) as caught:
        servers.call(servers.urls[0], "/scan/discard", {"directory": "x", "export": "0" * 32})
    assert caught.value.code == 164
