"""One Spark session and one cluster of two replicas with a real ZooKeeper, for all tests of the connector."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.cluster_state import ClusterState, Member, find_free_ports, save_state
from engine.http_client.errors import RefusedError
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from spark_connector.jvm.jar import add_jar
from spark_connector.shared.options import Options, parse_options
from tests import low_descriptors

SECRET = "lovelace1815"
SIDE = os.environ.get("PANDO_TEST_SPARK", "python")
"""Who reads and writes the rows of the fixture ``spark``: ``python`` or ``jvm``."""
_numbers = itertools.count(1)
_loaders: dict[SparkSession, Any] = {}


class Pando:
    """The cluster, with a client for each replica and what Spark needs to find it."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(directory)
        ports = find_free_ports(5)
        members = [Member("r1", ports[1], ports[2]), Member("r2", ports[3], ports[4])]
        save_state(directory, ClusterState(Member(ZOOKEEPER, ports[0]), members))
        overrides = {
            "zookeeper": {"session_timeout_ms": 4000},
            "users": {"default": {}, "ada": {"password": SECRET}},
            "remote_servers": shards(*(member.port for member in members)),
        }
        self.cluster.start(2, overrides=overrides)
        self.urls = {member.name: f"http://127.0.0.1:{member.port}" for member in members}
        self.clients = {member.name: HttpClient(port=member.port, timeout_seconds=60) for member in members}

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self.cluster.stop(grace_seconds=5)

    def __getitem__(self, name: str) -> HttpClient:
        return self.clients[name]

    def new_table(
        self, columns: str, key: str = "tuple()", engine: str = "", settings: str = "", partition: str = ""
    ) -> str:
        """A table on both replicas; ``engine`` defaults to a replicated one."""
        name = f"s{next(_numbers)}"
        engine = engine or f"ReplicatedMergeTree('/tables/{name}', '{{replica}}')"
        tail = f" SETTINGS {settings}" if settings else ""
        engine += f" PARTITION BY {partition}" if partition else ""
        for client in self.clients.values():
            client.execute(f"CREATE TABLE {name} ({columns}) ENGINE = {engine} ORDER BY {key}{tail}")
        return name

    def options(self, table: str, **more: str) -> dict[str, str]:
        """For both replicas, unless ``url`` says otherwise."""
        return {"url": ",".join(self.urls.values()), "table": table, **more}

    def parsed(self, table: str, **more: str) -> Options:
        return parse_options(self.options(table, **more))

    def sync(self, table: str) -> None:
        """A server that learns only now that its session has expired (ZooKeeper was killed) asks for a retry."""
        deadline = time.monotonic() + 60
        for client in self.clients.values():
            while True:
                try:
                    client.execute(f"SYSTEM SYNC REPLICA {table}")
                    break
                except RefusedError:
                    assert time.monotonic() < deadline, "a replica does not come back"
                    time.sleep(0.05)

    def wait_writable(self, table: str) -> None:
        """After something was killed and is there again."""
        deadline = time.monotonic() + 60
        for client in self.clients.values():
            while True:
                try:
                    if rows(client, f"SELECT is_readonly FROM system.replicas WHERE table = '{table}'") == [(0,)]:
                        break
                except PandoError:
                    pass
                assert time.monotonic() < deadline, "a replica does not come back"
                time.sleep(0.05)

    def value(self, sql: str, replica: str = "r1") -> object:
        return rows(self[replica], sql)[0][0]


def shards(first: int, second: int) -> dict[str, object]:
    """Clusters: in ``databases`` both servers have all of both shards, each in a database of its own; of ``alone``
    one server each; in ``gone`` nobody has the second shard."""

    def shard(*ports: int, database: str = "default") -> dict[str, object]:
        return {"replicas": [{"host": "127.0.0.1", "port": port, "default_database": database} for port in ports]}

    return {
        "databases": [shard(first, second, database="left"), shard(first, second, database="right")],
        "alone": [shard(first), shard(second)],
        "gone": [shard(first), shard(1)],
    }


def rows(client: HttpClient, sql: str) -> list[tuple[object, ...]]:
    answer = client.execute(f"{sql} FORMAT ArrowStream").data
    with pa.ipc.open_stream(answer) as stream:
        return [tuple(row.values()) for row in stream.read_all().to_pylist()]


@pytest.fixture(scope="session")
def pando(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pando]:
    cluster = Pando(tmp_path_factory.mktemp("spark_cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Spark's UI shows, as files."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def python_session(tmp_path_factory: pytest.TempPathFactory, event_log: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PANDO_TEST_PASSWORD"] = ""
    workers = str(Path(__file__).with_name("workers"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (workers, os.environ.get("PYTHONPATH"))))
    session = (
        SparkSession.builder.master("local[2, 2]")
        .config("spark.ui.enabled", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", str(event_log))
        .config("spark.eventLog.compress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    low_descriptors.release()
    ensure_callback_server_started(session.sparkContext._gateway)
    _loaders[session] = _thread(session).getContextClassLoader()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="session")
def jvm_session(python_session: SparkSession) -> SparkSession:
    """A session with the jar: there the format ``pando`` needs no Python workers."""
    session = python_session.newSession()
    add_jar(session)
    _loaders[session] = _thread(session).getContextClassLoader()
    return session


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """The session whose format ``pando`` is tested."""
    session: SparkSession = request.getfixturevalue(f"{SIDE}_session")
    return session


@pytest.fixture(autouse=True)
def _formats_of_the_session(request: pytest.FixtureRequest) -> None:
    name = next((name for name in ("spark", "jvm_session") if name in request.fixturenames), "")
    if name:
        enter(request.getfixturevalue(name))


def enter(session: SparkSession) -> None:
    """Makes the formats of this thread those of a session: Spark finds their classes by the thread alone."""
    if session in _loaders:
        _thread(session).setContextClassLoader(_loaders[session])


def _thread(session: SparkSession) -> Any:
    return session._jvm.java.lang.Thread.currentThread()


def load(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    enter(spark)
    return spark.read.format("pando").options(**options).load()


def save(frame: DataFrame, options: dict[str, str], mode: str = "append") -> None:
    enter(frame.sparkSession)
    frame.write.format("pando").options(**options).mode(mode).save()


def first_line(error: BaseException) -> str:
    """What a user reads first of an error."""
    return str(error).splitlines()[0]
