"""Scans without Spark around them: leases, merges and deaths between planning and reading, pruning."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.scan.leases import LeaseBook
from parts.errors import CorruptionError, PandoError, UserError
from parts.types import parse_type
from spark_connector.options import parse_options
from spark_connector.reader import PandoReader, ScanPartition
from spark_connector.transport import Transport
from tests.spark.conftest import Pando

SCHEMA = StructType([StructField("k", LongType(), False), StructField("s", StringType(), False)])
cluster = pytest.mark.cluster
pytestmark = pytest.mark.xdist_group("spark")


def read_all(reader: PandoReader, partitions: list[ScanPartition]) -> pa.Table:
    return pa.Table.from_batches([batch for item in partitions for batch in reader.read(item)])


def fill(pando: Pando, table: str, parts: int = 4, rows: int = 20_000, replica: str = "r1") -> None:
    for number in range(parts):
        pando[replica].execute(
            f"INSERT INTO {table} SELECT number, toString(number) FROM numbers({number * rows}, {rows})"
        )


@pytest.fixture
def table(pando: Pando) -> str:
    name = pando.new_table("k UInt32, s String", "k", settings="old_parts_lifetime = 1")
    fill(pando, name)
    pando.sync(name)
    return name


@cluster
def test_a_lease_outlives_a_merge(pando: Pando, table: str) -> None:
    reader = PandoReader(pando.parsed(table, url=pando.urls["r1"], partitions="3"), SCHEMA)
    partitions = reader.partitions()
    assert len(partitions) == 3
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando["r1"].execute(f"TRUNCATE TABLE {table}")
    assert read_all(reader, partitions).num_rows == 80_000
    assert PandoReader(reader.options, SCHEMA).partitions() == []


@cluster
def test_a_released_lease_reads_on_while_the_parts_are_here(pando: Pando, table: str) -> None:
    reader = PandoReader(pando.parsed(table, url=pando.urls["r1"]), SCHEMA)
    partitions = reader.partitions()
    with Transport(reader.options) as transport:
        assert transport.call(pando.urls["r1"], "/scan/release", {"lease": partitions[0].lease}) == {"released": True}
        assert transport.call(pando.urls["r1"], "/scan/release", {"lease": partitions[0].lease}) == {"released": False}
    assert read_all(reader, partitions).num_rows == 80_000


@cluster
def test_another_replica_with_the_same_parts_goes_on(pando: Pando, table: str) -> None:
    reader = PandoReader(pando.parsed(table, retries="1", partitions="2"), SCHEMA)
    first, second = reader.partitions()
    dead = first.urls[0]
    whole = read_all(reader, [first, second]).sort_by("k")
    port = free_port()
    for item in (first, second):
        item.urls = (f"http://127.0.0.1:{port}", *(url for url in item.urls if url != dead))
    assert read_all(reader, [first, second]).sort_by("k").equals(whole)


@cluster
def test_a_task_breaks_off_and_goes_on_elsewhere(pando: Pando, table: str) -> None:
    """The first server is a proxy that cuts the answer off in its middle; no row is lost or repeated."""
    reader = PandoReader(pando.parsed(table, retries="0", partitions="1"), SCHEMA)
    (item,) = reader.partitions()
    with CuttingProxy(item.urls[0], 150_000) as proxy:
        item.urls = (proxy.url, *item.urls)
        keys = read_all(reader, [item])["k"].to_pylist()
        assert proxy.was_cut
    assert sorted(keys) == list(range(80_000))


class _BrokenOn(PandoReader):
    """A reader for which a part is broken on some servers, behind its first rows."""

    broken: tuple[str, ...] = ("http://r1:1",)

    def _scan(self, transport: Transport, url: str, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.record_batch([pa.array([1, 2, 3], pa.uint32())], names=["k"])
        yield batch.slice(0, 1)
        if url in self.broken:
            raise CorruptionError(f"Checksum of all_1_1_0 on {url} does not match")
        yield batch.slice(1)


@pytest.mark.parametrize("broken", [("http://r1:1",), ("http://r1:1", "http://r2:1")])
def test_a_part_that_is_broken_on_one_server_is_read_from_another(broken: tuple[str, ...]) -> None:
    options = parse_options({"url": "http://r1:1,http://r2:1", "table": "t", "retries": "0"})
    reader = _BrokenOn(options, StructType([StructField("k", LongType(), False)]))
    reader.broken = broken
    item = ScanPartition(options.urls, "lease", 0, 3, [])
    if len(broken) == 1:
        assert read_all(reader, [item])["k"].to_pylist() == [1, 2, 3]
        return
    with pytest.raises(CorruptionError, match=r"r1:1 does not match; .*r2:1 does not match"):
        read_all(reader, [item])


@cluster
def test_a_replica_without_the_parts_is_no_substitute(pando: Pando, table: str) -> None:
    pando["r2"].execute("SYSTEM STOP FETCHES")
    try:
        pando["r1"].execute(f"INSERT INTO {table} VALUES (1000000, 'only on r1')")
        reader = PandoReader(pando.parsed(table, url=pando.urls["r1"], retries="0"), SCHEMA)
        partitions = reader.partitions()
        for item in partitions:
            item.urls = (f"http://127.0.0.1:{free_port()}", pando.urls["r2"])
        with pytest.raises(PandoError, match=r"not on this server.*all_4_4_0|not on this server"):
            read_all(reader, partitions)
    finally:
        pando["r2"].execute("SYSTEM START FETCHES")


@cluster
def test_the_filter_chooses_granules(pando: Pando, table: str) -> None:
    reader = PandoReader(pando.parsed(table, filter="k >= 70000 AND s LIKE '%7'"), SCHEMA)
    partitions = reader.partitions()
    assert sum(item.rows for item in partitions) <= 20_000
    assert sorted(read_all(reader, partitions)["k"].to_pylist()) == list(range(70_007, 80_000, 10))


@cluster
def test_quorum_is_respected_when_asked(pando: Pando, table: str) -> None:
    pando["r2"].execute("SYSTEM STOP FETCHES")
    try:
        settings = {"insert_quorum": 2, "insert_quorum_timeout": 300}
        with pytest.raises(PandoError):
            pando["r1"].execute(f"INSERT INTO {table} VALUES (1000000, 'unconfirmed')", settings=settings)
        options = {"url": pando.urls["r1"], "select_sequential_consistency": "true"}
        reader = PandoReader(pando.parsed(table, **options), SCHEMA)
        assert read_all(reader, reader.partitions()).num_rows == 80_000
    finally:
        pando["r2"].execute("SYSTEM START FETCHES")


@cluster
def test_bad_requests_are_refused(pando: Pando, table: str) -> None:
    with Transport(pando.parsed(table)) as transport:
        for path, body, code in [
            ("/scan/plan", {"table": table, "columns": []}, 36),
            ("/scan/plan", {"table": table, "columns": ["nope"]}, 16),
            ("/scan/plan", {"table": table, "columns": ["k"], "filter": "k = 1 GROUP BY k"}, 62),
            ("/scan/plan", {"table": table, "columns": ["k"], "filter": "nope = 1"}, 47),
            ("/scan/plan", {"table": table, "columns": ["k"], "lease_seconds": -1}, 69),
            ("/scan/read", {"table": table, "columns": ["k"], "lease": "x", "parts": [{"name": "all_9_9_0"}]}, 36),
            ("/scan/read", [1], 36),
        ]:
            with pytest.raises(PandoError) as raised:
                transport.call(pando.urls["r1"], path, body)
            assert raised.value.code == code, (path, body)


# -- without servers --------------------------------------------------------------------------------------------------


class FakeSnapshot:
    def __init__(self) -> None:
        self.parts: tuple[object, ...] = ()
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_leases_end_by_time_by_reading_and_by_pressure() -> None:
    now = [0.0]
    book = LeaseBook(lambda: now[0], uuid.uuid4, limit=3)
    snapshots = [FakeSnapshot() for _ in range(6)]
    timed = book.open(None, snapshots[0], 10, 1)  # type: ignore[arg-type]
    now[0] = 9
    with book.reading(timed.id, None) as lease:
        assert lease is timed
        now[0] = 30
        book.expire()
        assert not snapshots[0].released
    now[0] = 39
    book.expire()
    assert len(book) == 1
    now[0] = 41
    book.expire()
    assert snapshots[0].released == 1

    both = book.open(None, snapshots[1], 10, 2)  # type: ignore[arg-type]
    for task in (0, 1):
        assert not snapshots[1].released
        with book.reading(both.id, task):
            pass
    assert snapshots[1].released == 1
    with book.reading(both.id, 0) as gone:
        assert gone is None

    oldest, middle, _ = (book.open(None, snapshots[n], 10, 1) for n in (2, 3, 4))  # type: ignore[arg-type]
    with book.reading(oldest.id, None):
        book.open(None, snapshots[5], 10, 1)  # type: ignore[arg-type]
    assert [item.released for item in snapshots[2:]] == [0, 1, 0, 0]
    assert not book.release(middle.id)
    book.close()
    assert [item.released for item in snapshots] == [1] * 6


def test_busy_leases_are_not_taken_away() -> None:
    book = LeaseBook(lambda: 0.0, uuid.uuid4, limit=1)
    lease = book.open(None, FakeSnapshot(), 10, 1)  # type: ignore[arg-type]
    with book.reading(lease.id, None), pytest.raises(UserError) as raised:
        book.open(None, FakeSnapshot(), 10, 1)  # type: ignore[arg-type]
    assert raised.value.code == 202


def test_a_schema_is_checked_against_what_a_column_is() -> None:
    from spark_connector.schema import check_read_schema

    schema = StructType([StructField("c", IntegerType(), False)])
    check_read_schema(schema, [("c", parse_type("UInt16"))])
    for type_ in ("UInt32", "Nullable(Int32)", "String"):
        with pytest.raises(UserError):
            check_read_schema(schema, [("c", parse_type(type_))])


# -- helpers -----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class CuttingProxy:
    """Passes one connection on, and cuts the answer off after some bytes."""

    def __init__(self, url: str, limit: int) -> None:
        import socket

        self._target = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._limit = limit
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.was_cut = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        import socket

        client, _ = self._listener.accept()
        self._listener.close()
        with client, socket.create_connection(self._target) as server:
            forward = threading.Thread(target=self._forward, args=(client, server), daemon=True)
            forward.start()
            passed = 0
            while passed < self._limit and (data := server.recv(16_384)):
                client.sendall(data[: self._limit - passed])
                passed += len(data)
            self.was_cut = passed >= self._limit
            for end in (client, server):
                end.shutdown(socket.SHUT_RDWR)  # a close alone waits for the thread that reads

    @staticmethod
    def _forward(client: object, server: object) -> None:
        try:
            while data := client.recv(16_384):  # type: ignore[attr-defined]
                server.sendall(data)  # type: ignore[attr-defined]
        except OSError:
            pass
