"""Rows deleted through Spark's catalog, servers that are away, and the catalog's options."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from parts.common.errors import UserError
from spark_connector import use_catalog
from tests.spark.catalog import Session, database, sql
from tests.spark.conftest import SECRET
from tests.spark.edges import CONDITIONS, LEFT_TO_SPARK, make_table_of_edges
from tests.spark.test_jvm_read import Between, plan
from tests.spark.test_spark_scans import free_port

__all__ = ["database", "sql"]

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.xdist_group("spark")]

REFUSED = LEFT_TO_SPARK | {"s LIKE '_ä%'", "s LIKE 'a\\\\%_'", "isnan(f)", "lc LIKE 'x_'"}
"""Conditions that Spark does not give to a source, or that a server may understand otherwise."""


# -- deleting ---------------------------------------------------------------------------------------------------------


class Edges:
    """A table with values at which the two could differ, and its rows in Spark's memory."""

    def __init__(self, sql: Session) -> None:
        self.name = make_table_of_edges(sql.pando)
        options = {"url": sql.pando.urls["r1"], "table": self.name}
        self.oracle = sql.spark.read.format("pando").options(**options).load().cache()

    def keys(self, condition: str) -> list[int]:
        return sorted(row.k for row in self.oracle.where(condition).select("k").collect())


@pytest.fixture(scope="module")
def edges(sql: Session) -> Edges:
    return Edges(sql)


@pytest.mark.long
@pytest.mark.parametrize("place", range(0, len(CONDITIONS), 6))
def test_delete_takes_the_rows_that_spark_would_take(sql: Session, edges: Edges, place: int) -> None:
    """Also where Spark has to look for them itself."""
    client = sql.pando["r1"]
    for condition in CONDITIONS[place : place + 6]:
        name = sql.new_name()
        client.execute(f"CREATE TABLE {name} AS {edges.name} ENGINE = MergeTree ORDER BY tuple()")
        client.execute(f"INSERT INTO {name} SELECT * FROM {edges.name}")
        expected = edges.keys(f"NOT coalesce({condition}, false)")
        sql(f"DELETE FROM alone.default.{name} WHERE {condition}")
        is_by_spark = sql.server(f"SELECT count() FROM system.transactions WHERE table = '{name}'") != [(0,)]
        assert not is_by_spark or condition in REFUSED, condition
        assert [row[0] for row in sql.server(f"SELECT k FROM {name} ORDER BY k")] == expected, condition
        client.execute(f"DROP TABLE {name}")


def test_delete_on_replicas(sql: Session, database: str) -> None:
    table = f"pando.{database}.t"
    sql(f"CREATE TABLE {table} (k INT, s STRING, f DOUBLE) TBLPROPERTIES (order_by = 'k')")
    values = "(1, 'a', 0.5), (2, NULL, nan), (3, 'it''s', -0.0), (4, 'b', NULL)"
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES {values}")
    sql.pando.sync(f"{database}.t")
    sql(f"DELETE FROM {table} WHERE s = 'it\\'s' AND k > 1")
    sql(f"DELETE FROM {table} WHERE f > 1e300")
    for replica in ("r1", "r2"):
        assert sql.server(f"SELECT k FROM {database}.t ORDER BY k", replica) == [(1,), (4,)]
    sql(f"DELETE FROM {table} WHERE (k < 3 AND length(s) = 9) OR k = 5")
    sql(f"DELETE FROM {table} WHERE k IN (SELECT 5)")
    assert sql(f"SELECT count(*) FROM {table}") == [(2,)]
    sql(f"DELETE FROM {table} WHERE s IS NOT NULL AND k IN (4, 9)")
    assert sql(f"SELECT k FROM {table}") == [(1,)]
    sql(f"DELETE FROM {table}")
    assert sql(f"SELECT count(*) FROM {table}") == [(0,)]


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_server_that_is_away(sql: Session, database: str) -> None:
    """Rows and columns are changed at another one; of definitions the error tells who has them."""
    dead = f"http://127.0.0.1:{free_port()}"
    name = f"half_{database}"
    use_catalog(sql.spark, f"{dead},{sql.pando.urls['r2']}", name, retries="0")
    late = f"late_{database}"
    use_catalog(sql.spark, f"{sql.pando.urls['r2']},{dead}", late, retries="0")
    sql(f"CREATE TABLE pando.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    sql.pando.sync(f"{database}.t")
    sql(f"DELETE FROM {name}.{database}.t WHERE k = 1")
    sql(f"ALTER TABLE {name}.{database}.t ADD COLUMN n INT")
    assert sql(f"SELECT * FROM {name}.{database}.t") == [(2, None)]
    sql.refuse(f"CREATE TABLE {name}.{database}.u (k INT)", f"Cannot connect to {dead}")
    assert sql.server(f"SELECT count() FROM system.tables WHERE database = '{database}'", "r2") == [(1,)]
    sql.refuse(f"CREATE TABLE {late}.{database}.u (k INT)", f"{sql.pando.urls['r2']} carried it out, {dead} did not")
    assert sql.server(f"SELECT count() FROM system.tables WHERE database = '{database}'", "r2") == [(2,)]


def test_a_statement_is_never_sent_twice(sql: Session, database: str) -> None:
    """Its answer is lost: nobody knows whether it was carried out, at one server or at each."""
    sql(f"CREATE TABLE pando.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    name = f"cut_{database}"
    with Between(sql.pando.urls["r1"]) as between:
        use_catalog(sql.spark, between.url, name)
        assert sql(f"SELECT count(*) FROM {name}.{database}.t") == [(0,)]
        between.loses = "ALTER TABLE"
        sql.refuse(f"ALTER TABLE {name}.{database}.t ADD COLUMN n INT", "The connection was lost before the answer")
        assert between.lost == 1
        between.loses = "MODIFY COMMENT"
        sql.refuse(f"COMMENT ON TABLE {name}.{database}.t IS 'lost'", "The connection was lost before the answer")
        assert between.lost == 2
    assert sql.spark.table(f"pando.{database}.t").columns == ["k", "n"]


# -- options and secrets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tabel": "x"}, "A catalog has no option 'tabel'. Its options are compression"),
        ({"table": "x"}, "A catalog has no option 'table'"),
        ({"filter": "k = 1"}, "A catalog has no option 'filter'"),
        ({"partitions": "many"}, "the option 'partitions' has a wrong value: 'many'"),
        ({"url": "http://u:hidden@127.0.0.1"}, "the option 'url' has a wrong value: expected http"),
        ({"urls": "http://127.0.0.1"}, "Give 'url' or 'urls', not both"),
        ({"password_env": "PANDO_NOT_SET"}, "'PANDO_NOT_SET', named by the option 'password_env', is not set"),
        ({"password_file": "/nope/x"}, "/nope/x"),
        ({"password_file": "/nope/x", "password_env": "X"}, "give one of"),
        ({"user": "nobody"}, r"Code: 516\."),
        ({"retries": "0", "url": "http://127.0.0.1:1"}, "Cannot connect to http://127.0.0.1:1"),
    ],
)
def test_wrong_options(sql: Session, options: dict[str, str], message: str) -> None:
    name, given = sql.new_name(), {"url": sql.pando.urls["r1"], **options}

    def show_tables() -> None:
        use_catalog(sql.spark, name=name, **given)
        sql(f"SHOW TABLES IN {name}.default")

    with pytest.raises(Exception, match=message) as refused:
        show_tables()
    assert "hidden" not in str(refused.value)


def test_a_name_is_given_once(sql: Session) -> None:
    """After wrong options it may be given again. A catalog can be used first in another thread."""
    name, url = sql.new_name(), sql.pando.urls["r1"]
    with pytest.raises(Exception, match="'retries' has a wrong value"):
        use_catalog(sql.spark, url, name, retries="many")
    use_catalog(sql.spark, url, name, retries="1")
    use_catalog(sql.spark, url, name, retries="1")
    for other in ({"retries": "2"}, {}):
        with pytest.raises(UserError, match="with other options"):
            use_catalog(sql.spark, url, name, **other)
    with pytest.raises(UserError, match="must be a word"):
        use_catalog(sql.spark, url, "a.b")
    with ThreadPoolExecutor(1) as threads:
        assert ("default",) in threads.submit(sql, f"SHOW NAMESPACES IN {name}").result(60)


@pytest.mark.long
def test_a_password_is_nowhere_to_be_read(
    sql: Session, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    name = f"ada_{database}"
    use_catalog(sql.spark, sql.pando.urls["r1"], name, user="ada", password_file=str(file))
    table = f"{name}.{database}.t"
    sql(f"CREATE TABLE {table} (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    frame = sql.spark.table(table).where("k > 1")
    assert frame.collect() == [(2,)]
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "cost", "formatted"):
            frame.explain(mode=mode)
    texts = [shown.getvalue(), frame.schema.json(), plan(frame)]
    for statement in (
        "DESCRIBE TABLE EXTENDED",
        "SHOW TBLPROPERTIES",
        "SHOW CREATE TABLE",
        "EXPLAIN EXTENDED DELETE FROM",
    ):
        texts.append(repr(sql(f"{statement} {table}")))
    texts.append(repr(sql("SET")))
    assert "BatchScan" in texts[2]
    assert not [text for text in texts if SECRET in text]
    with pytest.raises(UserError, match="must not have a password"):
        use_catalog(sql.spark, sql.pando.urls["r1"], "secret", password=SECRET)
    sql.spark.conf.set("spark.sql.catalog.leaky", "pando.spark.PandoCatalog")
    sql.spark.conf.set("spark.sql.catalog.leaky.url", sql.pando.urls["r1"])
    sql.spark.conf.set("spark.sql.catalog.leaky.password", "hunter2")
    try:
        with pytest.raises(Exception, match="must not have a password") as refused:
            sql("SHOW TABLES IN leaky.default")
        assert "hunter2" not in str(refused.value)
    finally:
        sql.spark.conf.unset("spark.sql.catalog.leaky.password")
        sql.spark.conf.unset("spark.sql.catalog.leaky")


@pytest.mark.long
def test_options_of_one_read(sql: Session, database: str) -> None:
    sql(f"CREATE TABLE alone.{database}.t (k INT) TBLPROPERTIES (order_by = 'k')")
    sql.pando["r1"].execute(f"INSERT INTO {database}.t SELECT number FROM numbers(100)")
    reader = sql.spark.read
    assert reader.option("filter", "k % 2 = 0").table(f"alone.{database}.t").count() == 50
    with pytest.raises(Exception, match="'table' is not of a read of a catalog's table"):
        sql.spark.read.option("table", "x").table(f"alone.{database}.t").count()
    sql.spark.conf.set("spark.pando.filter", "k < 3")
    try:
        sql.refuse(f"SELECT * FROM alone.{database}.t", "spark.pando.filter and spark.pando.columns must not be set")
    finally:
        sql.spark.conf.unset("spark.pando.filter")
