"""Scans without Spark around them: one state for all slots, leases, merges and deaths between reads, pruning."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from engine.scan.arrow_stream import convert_to_spark, read_batches
from parts.common.errors import CorruptionError, PandoError, UnknownOutcomeError, UserError
from parts.format.primary_index import (
    MarkRange,
)
from parts.table.table_description import Column
from parts.types import parse_type
from spark_connector.python_source.scan_reader import ScanPartition, ScanReader
from spark_connector.shared.options import parse_options
from spark_connector.shared.transport import Transport
from tests.spark.conftest import Pando
from tests.spark.test_spark_read import until

SCHEMA = StructType([StructField("k", LongType(), False), StructField("s", StringType(), False)])
cluster = pytest.mark.cluster
pytestmark = pytest.mark.xdist_group("spark")


def read_all(reader: ScanReader, partitions: list[ScanPartition]) -> pa.Table:
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
def test_a_scan_that_has_begun_outlives_a_merge(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, url=pando.urls["r1"], partitions="3"), SCHEMA)
    first, *others = reader.partitions()
    assert len(others) == 2
    rows = read_all(reader, [first]).num_rows
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando["r1"].execute(f"TRUNCATE TABLE {table}")
    assert rows + read_all(reader, others).num_rows == 80_000
    later = ScanReader(reader.options, SCHEMA)
    assert not [batch for slot in (first, *others) for batch in later.read(slot)]


@cluster
def test_slots_read_from_both_replicas_are_of_one_state(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, partitions="6"), SCHEMA)
    slots = reader.partitions()
    read = [read_all(reader, slots[:1])]
    for replica, rows in (("r1", 1000), ("r2", 500)):
        fill(pando, table, parts=1, rows=rows, replica=replica)
    pando["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    pando.sync(table)
    read += [read_all(reader, [slot]) for slot in slots[1:]]
    assert sorted(pa.concat_tables(read)["k"].to_pylist()) == list(range(80_000))
    for name in ("r1", "r2"):
        assert pando.value(f"SELECT count() FROM {table}", name) == 81_500


@cluster
def test_a_released_scan_reads_on_while_the_parts_are_here(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, url=pando.urls["r1"], partitions="2"), SCHEMA)
    first, second = reader.partitions()
    rows = read_all(reader, [first]).num_rows
    with Transport(reader.options) as transport:
        for expected in (True, False):
            body = {"table": table, "scan": reader.scan}
            assert transport.call(pando.urls["r1"], "/scan/release", body) == {"released": expected}
    assert rows + read_all(reader, [second]).num_rows == 80_000


@cluster
def test_another_replica_with_the_same_parts_goes_on(pando: Pando, table: str) -> None:
    reader = ScanReader(pando.parsed(table, retries="1", partitions="2"), SCHEMA)
    slots = reader.partitions()
    whole = read_all(reader, slots).sort_by("k")
    dead = f"http://127.0.0.1:{free_port()}"
    reader.options = replace(reader.options, urls=(dead, pando.urls["r2"]))
    assert read_all(reader, slots).sort_by("k").equals(whole)


@cluster
def test_a_task_breaks_off_and_goes_on_elsewhere(pando: Pando, table: str) -> None:
    """The first server is a proxy that cuts the answer off in its middle; no row is lost or repeated."""
    reader = ScanReader(pando.parsed(table, retries="0"), SCHEMA)
    if sum(reader.scan.encode()) % 2:
        reader.scan += "a"  # an even name has slot 0 begin at the first server
    with CuttingProxy(pando.urls["r1"], 150_000) as proxy:
        reader.options = replace(reader.options, urls=(proxy.url, pando.urls["r2"]))
        keys = read_all(reader, [ScanPartition(0, 1)])["k"].to_pylist()
        assert proxy.was_cut
    assert sorted(keys) == list(range(80_000))


@cluster
def test_a_repeated_read_opens_nothing(pando: Pando, table: str) -> None:
    """What it had begun with is not known any more, and another state would be mixed with it."""
    body = {"table": table, "columns": ["k"], "scan": "never begun", "behind": 1}
    with (
        Transport(pando.parsed(table)) as transport,
        pytest.raises(PandoError, match="Run the query again") as raised,
        transport.stream(pando.urls["r1"], "/scan/read", body),
    ):
        pass
    assert raised.value.code == 232


class _BrokenOn(ScanReader):
    """A reader for which a part is broken on some servers, behind its first rows."""

    broken: tuple[str, ...] = ("http://r1:1",)

    def _scan(self, transport: Transport, url: str, request: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        left = pa.record_batch([pa.array([1, 2, 3], pa.uint32())], names=["k"]).slice(request["behind"])
        if left.num_rows == 3:
            yield left.slice(0, 1)
        if url in self.broken:
            raise CorruptionError(f"Checksum of all_1_1_0 on {url} does not match")
        yield left.slice(int(left.num_rows == 3))


@pytest.mark.parametrize("broken", [("http://r1:1",), ("http://r1:1", "http://r2:1")])
def test_a_part_that_is_broken_on_one_server_is_read_from_another(broken: tuple[str, ...]) -> None:
    options = parse_options({"url": "http://r1:1,http://r2:1", "table": "t", "retries": "0"})
    reader = _BrokenOn(options, StructType([StructField("k", LongType(), False)]))
    reader.broken = broken
    item = ScanPartition(0, 1)
    if len(broken) == 1:
        assert read_all(reader, [item])["k"].to_pylist() == [1, 2, 3]
        return
    with pytest.raises(CorruptionError, match=r"r(1|2):1 does not match; .*r(2|1):1 does not match"):
        read_all(reader, [item])


class _Interrupted(ScanReader):
    """A reader whose connection is lost after every row."""

    def _scan(self, transport: Transport, url: str, request: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(range(20), pa.uint32())], names=["k"]).slice(request["behind"], 1)
        if request["behind"] < 19:
            raise UnknownOutcomeError("NETWORK_ERROR", "lost")


def test_a_task_that_gets_on_is_not_given_up() -> None:
    options = parse_options({"url": "http://r1:1,http://r2:1", "table": "t", "retries": "0"})
    reader = _Interrupted(options, StructType([StructField("k", LongType(), False)]))
    assert read_all(reader, [ScanPartition(0, 1)])["k"].to_pylist() == list(range(20))


@cluster
@pytest.mark.parametrize("condition", ["", "k % 10 = 3 OR k < 100"])
def test_a_read_goes_on_behind_what_was_given(pando: Pando, table: str, condition: str) -> None:
    def read(behind: int) -> pa.Table:
        body = {"table": table, "columns": ["k"], "filter": condition, "scan": name, "behind": behind}
        with transport.stream(pando.urls["r1"], "/scan/read", body) as answer, pa.ipc.open_stream(answer) as stream:
            return stream.read_all()

    name = uuid.uuid4().hex
    with Transport(pando.parsed(table)) as transport:
        whole = read(0)
        assert whole.num_rows == (8090 if condition else 80_000)
        for behind in (1, 99, 8_091, 8_192, 20_000, 20_001, 60_000, 79_999, 80_000, 90_000):
            assert read(behind).equals(whole.slice(behind)), behind


def test_a_server_is_never_silent_for_long() -> None:
    """Also where its filter leaves no row of many granules."""
    part: Any = SimpleNamespace(granularity=1, rows=9, column_sizes=dict, has_deleted_rows=True)
    part.read = lambda *_, **__: (pa.record_batch({"k": pa.array([8] * (n == 8), pa.uint32())}) for n in range(9))
    column = Column("k", parse_type("UInt32"))
    times = itertools.count(0, 3)
    sent = list(read_batches([(part, [MarkRange(0, 9)])], [column], clock=lambda: float(next(times))))
    assert [batch.num_rows for batch in sent] == [0, 0, 0, 0, 1]


def test_compact_columns_have_one_type_whatever_a_part_gives() -> None:
    """The second part lacks another column, so its columns are read plain."""
    values, texts = [Decimal("-1.25"), None, Decimal("9.00")], ["a", None, "a"]
    wide = pa.array(values, pa.decimal128(9, 2))
    parts: list[Any] = [SimpleNamespace(has_deleted_rows=False, granularity=3, rows=3) for _ in range(2)]
    for part, decimals, strings in (
        (parts[0], wide.cast(pa.decimal64(9, 2)), pa.array(texts).dictionary_encode()),
        (parts[1], wide, pa.array(texts)),
    ):
        batch = pa.record_batch({"d": decimals, "s": strings})
        part.read = lambda *_, batch=batch, **__: iter([batch])
        part.column_sizes, part.has_only_dictionaries = dict, lambda *_: True
    columns = [Column("d", parse_type("Nullable(Decimal(9, 2))")), Column("s", parse_type("Nullable(String)"))]
    schema = pa.schema([("d", pa.decimal128(9, 2)), ("s", pa.string())])
    batches = read_batches([(part, [MarkRange(0, 1)]) for part in parts], columns, is_compact=True)
    sent = pa.Table.from_batches(list(convert_to_spark(batches, schema, truncates=False, is_compact=True)))
    assert sent.schema.types == [pa.int64(), pa.dictionary(pa.int32(), pa.string())]
    assert sent.to_pydict() == {"d": [-125, None, 900] * 2, "s": texts * 2}


@cluster
def test_a_server_that_falls_silent_is_left(pando: Pando, table: str) -> None:
    """Its system still answers for it, as when the process is frozen."""
    reader = ScanReader(pando.parsed(table, retries="0", stall_timeout="0.5"), SCHEMA)
    if sum(reader.scan.encode()) % 2:
        reader.scan += "a"
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        urls = (f"http://127.0.0.1:{silent.getsockname()[1]}", pando.urls["r2"])
        reader.options = replace(reader.options, urls=urls)
        assert read_all(reader, [ScanPartition(0, 1)]).num_rows == 80_000
        silent.settimeout(0)
        silent.accept()[0].close()


@pytest.mark.long
@cluster
def test_a_replica_is_killed_in_the_middle_of_a_task(pando: Pando, spark: SparkSession, tmp_path: Path) -> None:
    """Of two tasks each reads from another replica; what one read there is not read again, the rest elsewhere."""
    table = pando.new_table("k UInt32, s String", "k")
    pando["r1"].execute(f"INSERT INTO {table} SELECT number, repeat(toString(number), 20) FROM numbers(600000)")
    pando.sync(table)
    killed = tmp_path / "killed"

    def wait_in_the_middle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (tmp_path / f"begun{TaskContext.get().partitionId()}").touch()  # type: ignore[union-attr]
            while not killed.exists():
                time.sleep(0.02)
            yield batch.select(["k"])

    frame = spark.read.format("pando").options(**pando.options(table, partitions="2", compression="none")).load()
    found: list[Row] = []
    totals = frame.mapInArrow(wait_in_the_middle, "k BIGINT").selectExpr("count(k)", "sum(k)", "count(distinct k)")
    job = threading.Thread(target=lambda: found.extend(totals.collect()))
    job.start()
    try:
        until(lambda: len(list(tmp_path.glob("begun*"))) == 2)
        workers = pando["r1"].rows("SELECT pid FROM system.workers")
        pando.cluster.kill("r1")
        for (pid,) in workers:  # they would bring to an end what they have begun
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.touch()
        job.join(60)
    finally:
        killed.touch()
        pando.cluster.restart("r1")
    assert found == [(600_000, 600_000 * 599_999 // 2, 600_000)]


@cluster
def test_a_replica_without_the_parts_is_no_substitute(pando: Pando, table: str) -> None:
    pando["r2"].execute("SYSTEM STOP FETCHES")
    try:
        pando["r1"].execute(f"INSERT INTO {table} VALUES (1000000, 'only on r1')")
        reader = ScanReader(pando.parsed(table, retries="0", partitions="2"), SCHEMA)
        slots = reader.partitions()
        both = reader.options
        # The other server is none: what r1 opens is still written down for others.
        reader.options = replace(both, urls=(pando.urls["r1"], f"http://127.0.0.1:{free_port()}"))
        read_all(reader, slots[:1])
        reader.options = replace(both, urls=(pando.urls["r2"], f"http://127.0.0.1:{free_port()}"))
        with pytest.raises(PandoError, match=r"not on this server.*all_4_4_0") as raised:
            read_all(reader, slots[1:])
        assert raised.value.code == 232
    finally:
        pando["r2"].execute("SYSTEM START FETCHES")


@cluster
def test_the_filter_chooses_granules(pando: Pando, table: str) -> None:
    condition = "k >= 70000 AND s LIKE '%7'"
    reader = ScanReader(pando.parsed(table, filter=condition), SCHEMA)
    with Transport(reader.options) as transport:
        body = {"table": table, "columns": ["k"], "filter": condition}
        assert transport.call(pando.urls["r1"], "/scan/plan", body)["rows"] <= 20_000
    assert sorted(read_all(reader, reader.partitions())["k"].to_pylist()) == list(range(70_007, 80_000, 10))


@cluster
def test_slots_have_equal_bytes_and_batches_are_bounded(pando: Pando) -> None:
    """A part of short rows and one of long ones, which stand behind each other."""
    name = pando.new_table("k UInt32, s String", "k", settings="index_granularity = 256")
    pando["r1"].execute(f"INSERT INTO {name} SELECT number, '' FROM numbers(100000)")
    pando["r1"].execute(f"INSERT INTO {name} SELECT 100000 + number, repeat('long', 2500) FROM numbers(5000)")
    one = pando.parsed(name, url=pando.urls["r1"], max_bytes_per_task=str(8 << 20))
    slots = ScanReader(one, SCHEMA).partitions()
    assert len(slots) == 7
    reader = ScanReader(one, SCHEMA)
    batches = [list(reader.read(slot)) for slot in slots]
    assert sum(batch.num_rows for slot in batches for batch in slot) == 105_000
    sizes = [sum(batch.nbytes for batch in slot) for slot in batches]
    assert max(sizes) - min(sizes) < 6 << 20, "two granules of 2.5 MB"
    whole = ScanReader(replace(one, max_bytes_per_task=None, partitions=1), SCHEMA)
    largest = max(batch.nbytes for batch in whole.read(ScanPartition(0, 1)))
    assert 8 << 20 < largest < 17 << 20
    assert len(ScanReader(replace(one, filter="k < 8192"), SCHEMA).partitions()) == 1
    assert len(ScanReader(replace(one, columns=("k",)), StructType(SCHEMA.fields[:1])).partitions()) == 1


@cluster
def test_quorum_is_respected_when_asked(pando: Pando, table: str) -> None:
    pando["r2"].execute("SYSTEM STOP FETCHES")
    try:
        settings = {"insert_quorum": 2, "insert_quorum_timeout": 300}
        with pytest.raises(PandoError):
            pando["r1"].execute(f"INSERT INTO {table} VALUES (1000000, 'unconfirmed')", settings=settings)
        options = {"url": pando.urls["r1"], "select_sequential_consistency": "true"}
        reader = ScanReader(pando.parsed(table, **options), SCHEMA)
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
            ("/scan/read", {"table": table, "columns": ["k"], "scan": "x", "lease_seconds": -1}, 69),
            ("/scan/read", {"table": table, "columns": ["k"], "scan": ""}, 36),
            ("/scan/read", {"table": table, "columns": ["k"], "scan": "x", "slot": 2, "slots": 2}, 36),
            ("/scan/read", [1], 36),
        ]:
            with pytest.raises(PandoError) as raised:
                transport.call(pando.urls["r1"], path, body)
            assert raised.value.code == code, (path, body)


def test_a_schema_is_checked_against_what_a_column_is() -> None:
    from spark_connector.shared.type_mapping import check_read_schema

    schema = StructType([StructField("c", IntegerType(), False)])
    check_read_schema(schema, [("c", parse_type("UInt16"))])
    for type_ in ("UInt32", "Nullable(Int32)", "String"):
        with pytest.raises(UserError):
            check_read_schema(schema, [("c", parse_type(type_))])


# -- helpers -----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class CuttingProxy:
    """Passes one connection on, and cuts the answer off after some bytes."""

    def __init__(self, url: str, limit: int) -> None:
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
