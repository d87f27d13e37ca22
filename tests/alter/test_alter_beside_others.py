"""ALTER TABLE while others read and write: each sees the old definition or the new one, whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.tables.merges.merge_execution import merge_to_temporary
from engine.tables.statement_options import InsertOptions
from parts.common.errors import PandoError
from parts.common.part_name import make_merged_name
from sql.definitions.column_defaults import complete_block
from tests.engine.conftest import Local
from tests.engine.workers.server import WorkerServer


def test_an_insert_that_began_before(local: Local) -> None:
    """Its rows are there under the new names; the column that has gone is left out."""
    local.run("CREATE TABLE t (k UInt32, a String, b UInt8 DEFAULT 7) ENGINE = MergeTree ORDER BY k")
    table = local.engine.catalog.table("default", "t")
    sink = table.begin_insert(InsertOptions())
    block = pa.table({"k": pa.array([1], pa.uint32()), "a": ["x"], "b": pa.array([2], pa.uint8())})
    sink.write(complete_block(block, sink.description.schema))
    local.run("ALTER TABLE t RENAME COLUMN a TO c, DROP COLUMN b")
    local.run("ALTER TABLE t ADD COLUMN b UInt8 DEFAULT 9, ADD COLUMN a UInt8")
    sink.write(complete_block(block, sink.description.schema))
    sink.commit()
    for _ in range(2):
        assert local.run("SELECT k, c, b, a FROM t") == [(1, "x", 9, 0)] * 2
        local.restart()
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run("SELECT k, c, b, a FROM t") == [(1, "x", 9, 0)] * 2


def test_an_insert_whose_rows_do_not_convert_any_more(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32, a String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO t VALUES (1, '10')")
    sink = local.engine.catalog.table("default", "t").begin_insert(InsertOptions())
    block = pa.table({"k": pa.array([2], pa.uint32()), "a": ["x"]})
    sink.write(complete_block(block, sink.description.schema))
    local.run("ALTER TABLE t MODIFY COLUMN a UInt8")
    with pytest.raises(PandoError, match="while converting column a from String to UInt8"):
        sink.commit()
    assert local.run("SELECT * FROM t") == [(1, 10)]
    assert [path.name for path in (local.path / "data/default/t").glob("*_*")] == ["all_1_1_0"]


def test_a_merge_whose_sources_were_found_before(local: Local) -> None:
    """Of a column that was dropped nothing goes into another of its name."""
    local.run("CREATE TABLE t (k UInt32, a UInt8) ENGINE = MergeTree ORDER BY k")
    for k in (1, 2):
        local.run(f"INSERT INTO t VALUES ({k}, 7)")
    table = local.engine.catalog.table("default", "t")
    with table.snapshot() as snapshot:
        local.run("ALTER TABLE t DROP COLUMN a")
        local.run("ALTER TABLE t ADD COLUMN a UInt8 DEFAULT 9")
        name = make_merged_name([part.name for part in snapshot.parts])
        table.store.commit(table.store.add_preactive(merge_to_temporary(table, snapshot.parts, name), name))
    assert local.run("SELECT * FROM t ORDER BY k") == [(1, 9), (2, 9)]


def test_a_query_that_began_before(local: Local) -> None:
    local.run("CREATE TABLE t (k UInt32, a String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO t SELECT number, toString(number) FROM numbers(300000)")
    result = local.engine.execute("SELECT k, a FROM t", local.session, None)
    batches = iter(result.batches)
    rows = [next(batches)]
    local.run("ALTER TABLE t DROP COLUMN a")
    local.run("ALTER TABLE t ADD COLUMN a UInt8")
    rows += batches
    table = pa.Table.from_batches(rows)
    assert table.num_rows == 300_000
    assert table.column("a").to_pylist() == [str(k) for k in table.column("k").to_pylist()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    with WorkerServer(tmp_path_factory.mktemp("alter"), workers=2) as server:
        yield server


@pytest.mark.long
@pytest.mark.cluster
def test_every_worker_knows_it_at_once(server: WorkerServer) -> None:
    server.execute("CREATE TABLE t (k UInt64, a String) ENGINE = MergeTree ORDER BY k")
    server.execute("INSERT INTO t VALUES (1, 'x')")
    for number in range(10):
        server.execute(f"ALTER TABLE t ADD COLUMN c{number} UInt64 DEFAULT k + {number}")
        assert server.everywhere(f"SELECT c{number} FROM t WHERE k = 1") == {f"[[{1 + number}]]"}
        server.execute(f"ALTER TABLE t RENAME COLUMN a TO b{number}")
        assert server.everywhere(f"SELECT b{number} FROM t WHERE k = 1") == {"[['x']]"}
        server.execute(f"ALTER TABLE t RENAME COLUMN b{number} TO a, DROP COLUMN c{number}")
        with pytest.raises(PandoError, match=f"c{number}"):
            server.run(f"SELECT c{number} FROM t")
    server.execute("INSERT INTO t VALUES (2, 'y')")
    server.execute("OPTIMIZE TABLE t FINAL")
    assert server.everywhere("SELECT * FROM t ORDER BY k") == {"[[1, 'x'], [2, 'y']]"}
    server.execute("DROP TABLE t")


@pytest.mark.long
@pytest.mark.cluster
def test_beside_writers_and_readers(server: WorkerServer) -> None:
    """Renames back and forth: no acknowledged row is lost or has another value, whatever name it came under."""
    server.execute("CREATE TABLE u (k UInt64, a UInt64) ENGINE = MergeTree ORDER BY k")
    failures: list[BaseException] = []
    written: list[int] = []
    stop = threading.Event()

    def write(first: int) -> None:
        k = first
        with server.client() as client:
            while not stop.is_set():
                k += 1
                try:
                    client.execute(f"INSERT INTO u VALUES ({k}, {k * 3})")
                except BaseException as failure:
                    failures.append(failure)
                    return
                written.append(k)

    def read() -> None:
        with server.client() as client:
            while not stop.is_set():
                try:
                    assert all(value == k * 3 for k, value in client.rows("SELECT * FROM u"))
                except PandoError as error:
                    if error.code != 517:
                        failures.append(error)
                        return
                except BaseException as failure:
                    failures.append(failure)
                    return

    threads = [threading.Thread(target=write, args=(n * 1_000_000,)) for n in range(2)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    number = 0
    while number < 40 or number % 2 or (len(written) <= 40 and number < 4000 and not failures):
        number += 1
        old, new = ("a", "b") if number % 2 else ("b", "a")
        server.execute(f"ALTER TABLE u RENAME COLUMN {old} TO {new}")
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(written) > 40
    assert server.run("SELECT count(), uniqExact(k), countIf(a != k * 3) FROM u") == [[len(written), len(written), 0]]
    server.execute("OPTIMIZE TABLE u FINAL")
    assert server.run("SELECT count(), uniqExact(k), countIf(a != k * 3) FROM u") == [[len(written), len(written), 0]]
