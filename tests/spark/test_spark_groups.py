"""Spark reads the tables of a transactional group of links: a query sees all of them at one cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_connector import configure
from tests.links.linked_clusters import LinkedClusters
from tests.links.test_link_groups import follow
from tests.spark.conftest import SIDE, enter

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

_QUERIES = (
    "SELECT (SELECT sum(k) FROM a), (SELECT sum(k) FROM b)",
    "SELECT sum(if(t = 'a', k, 0)), sum(if(t = 'b', k, 0)) FROM "
    "(SELECT k, 'a' AS t FROM a UNION ALL SELECT k, 'b' AS t FROM b)",
    # the second table is read when the first has been, and a second later
    "SELECT /*+ BROADCAST(x) */ first(x.s), sum(b.k) FROM b "
    "CROSS JOIN (SELECT slow(CAST(sum(k) AS BIGINT)) AS s FROM a) AS x",
)
_LEAST = "SELECT least((SELECT count() FROM a), (SELECT count() FROM b))"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedClusters]:
    found = LinkedClusters(tmp_path_factory.mktemp("clusters"), west=1, east=2)
    try:
        for table in ("a", "b"):
            found.create_table(table)
            found["east"].execute(f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west")
        found["east"].execute("CREATE REPLICATION LINK GROUP g (a, b)")
        yield found
    finally:
        found.close()


@pytest.fixture
def session(spark: SparkSession, clusters: LinkedClusters) -> SparkSession:
    """A session with views of both tables, read from both servers of east."""
    own = spark.newSession()
    configure(own, use_jvm=SIDE == "jvm")
    enter(spark)
    own.udf.register("slow", _return_late, "long")
    urls = ",".join(f"http://127.0.0.1:{client.port}" for client in clusters.clients["east"])
    for table in ("a", "b"):
        own.read.format("pando").option("url", urls).option("table", table).load().createOrReplaceTempView(table)
    return own


def _return_late(value: int) -> int:
    time.sleep(1)
    return value


def test_every_query_sees_one_commit_of_the_source(session: SparkSession, clusters: LinkedClusters) -> None:
    source, seen, is_over = clusters["west"], list[tuple[int, int]](), threading.Event()
    history = [(0, 0)]

    def write() -> None:
        while not is_over.is_set():
            number, (a, b) = len(history), history[-1]
            source.execute(f"INSERT INTO {'ab'[number % 2]} VALUES ({number}, 'x')")
            history.append((a, b + number) if number % 2 else (a + number, b))
            time.sleep(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for server in clusters.clients["east"]:
            clusters.wait(lambda server=server: server.value(_LEAST), "rows of both tables")  # type: ignore[misc]
        for number in range(9):
            (row,) = session.sql(_QUERIES[number % len(_QUERIES)]).collect()
            seen.append((int(row[0]), int(row[1])))
    finally:
        is_over.set()
        writer.join()
    assert len(follow(seen, history)) > 4, "the source went on, and the queries saw it"
