"""Scans of the tables of a transactional group: one execution reads all of them at one cut, on whichever replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

import httpx
import pyarrow as pa
import pytest

from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.nodes.paths import TablePaths
from coordination.reads.cut_records import decode_cut, name_cut_record, record_cut
from engine.tables.parts_table import PartsTable
from parts.common.errors import CorruptionError
from parts.common.part_name import PartName
from tests.links.linked_servers import PASSWORD, USER, LinkedServer, create_table, linked_servers
from tests.links.test_link_groups import until

_names = count(1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=1, east=2) as found:
        yield found


@pytest.fixture
def tables(servers: dict[str, list[LinkedServer]]) -> tuple[str, str]:
    """Two tables with a row each, whose links at both servers of east are in a group."""
    number = next(_names)
    a, b = f"a{number}", f"b{number}"
    with servers["east"][0].client() as east:
        for name in (a, b):
            create_table([*servers["west"], *servers["east"]], name)
            east.execute(f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west")
        east.execute(f"CREATE REPLICATION LINK GROUP g{number} ({a}, {b})")
    _insert(servers, (a, b), 1)
    return a, b


def _insert(servers: dict[str, list[LinkedServer]], tables: tuple[str, str], key: int) -> None:
    """Inserts a row into each table, and waits until both servers of east show them."""
    with servers["west"][0].client() as west:
        for table in tables:
            west.execute(f"INSERT INTO {table} VALUES ({key}, 'x')")
    for server in servers["east"]:
        with server.client() as east:
            until(east, f"SELECT (SELECT max(k) FROM {tables[0]}), (SELECT max(k) FROM {tables[1]})", [[key, key]])


def _read(server: LinkedServer, table: str, scan: str, *, is_alone: bool = False, **more: object) -> list[int]:
    body = {"scan": scan, "table": table, "columns": ["k"], "is_alone": is_alone, "compression": "none", **more}
    answer = httpx.post(f"{server.url}/scan/read", json=body, auth=(USER, PASSWORD), timeout=30)
    assert answer.status_code == 200, answer.text
    with pa.ipc.open_stream(answer.content) as stream:
        return sorted(stream.read_all()["k"].to_pylist())


@pytest.mark.parametrize("replica", [0, 1])
@pytest.mark.parametrize("is_alone", [False, True])
def test_all_tables_of_a_query_are_read_at_the_cut_of_the_first(
    servers: dict[str, list[LinkedServer]], tables: tuple[str, str], replica: int, is_alone: bool
) -> None:
    a, b = tables
    assert _read(servers["east"][0], a, "first 1", is_alone=is_alone) == [1]
    _insert(servers, tables, 2)
    for server in servers["east"]:
        with server.client() as east:
            east.execute(f"OPTIMIZE TABLE {b} FINAL")  # the part of the cut is a former one now
    assert _read(servers["east"][replica], b, "first 1", is_alone=is_alone) == [1]
    assert _read(servers["east"][replica], a, "first 1", is_alone=is_alone) == [1]
    assert _read(servers["east"][replica], b, "first 2", is_alone=is_alone) == [1, 2]
    _insert(servers, tables, 3)
    assert _read(servers["east"][replica], a, "first 2", is_alone=is_alone) == [1, 2]


def test_the_parts_of_all_tables_are_held_with_the_first(
    servers: dict[str, list[LinkedServer]], tables: tuple[str, str]
) -> None:
    server, (a, b) = servers["east"][0], tables
    _read(server, a, "held 1")
    table = server.table(b)
    assert isinstance(table, PartsTable)
    (first,) = table.store.list_active()
    _insert(servers, tables, 2)
    with server.client() as east:
        east.execute(f"OPTIMIZE TABLE {b} FINAL")
    _insert(servers, tables, 3)  # the shown cut has the merged part
    assert first.name not in {part.name for part in table.store.list_deletable(math.inf)}
    release = {"table": a, "scan": "held 1"}
    assert httpx.post(f"{server.url}/scan/release", json=release, auth=(USER, PASSWORD)).json() == {"released": True}
    assert first.name in {part.name for part in table.store.list_deletable(math.inf)}


def test_a_table_that_enters_later_is_not_read_by_a_query_that_runs(
    servers: dict[str, list[LinkedServer]], tables: tuple[str, str]
) -> None:
    a, _ = tables
    number = a[1:]
    late = f"c{number}"
    create_table([*servers["west"], *servers["east"]], late)
    server = servers["east"][0]
    _read(server, a, "late 1")
    with server.client() as east:
        east.execute(f"CREATE REPLICATION LINK {late} ON {late} FROM CLUSTER west")
        east.execute(f"ALTER REPLICATION LINK GROUP g{number} ADD {late}")
        until(east, f"SELECT count() FROM {late}", [[0]])
    body = {"scan": "late 1", "table": late, "columns": ["k"]}
    answer = httpx.post(f"{server.url}/scan/read", json=body, auth=(USER, PASSWORD))
    assert answer.text.startswith("Code: 232.")
    assert "run it again" in answer.text
    assert _read(server, late, "late 2") == []


def test_records_of_a_cut_are_made_together_or_not_at_all() -> None:
    keeper = MemoryEnsemble(lambda: 0.0).connect()
    for root in ("/a", "/b"):
        keeper.create_parents(f"{root}/replicas")
    part = [PartName.parse("all_1_1_0")]
    assert record_cut(keeper, "x", {"/a": part, "/b": []})
    assert not record_cut(keeper, "x", {"/a": [], "/b": part})
    assert record_cut(keeper, "y", {"/b": part})
    assert not record_cut(keeper, "y", {"/a": part, "/b": part})
    assert keeper.exists(TablePaths("/a").scan(name_cut_record("y"))) is None
    assert decode_cut(keeper.get(TablePaths("/a").scan(name_cut_record("x")))[0]) == part
    with pytest.raises(CorruptionError):
        decode_cut(b"no record")
