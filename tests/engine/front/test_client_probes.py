"""What clients and BI tools ask of a server when they connect: the same columns as ClickHouse, and true rows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.http_client.http_client import HttpClient
from tests.engine.front.conftest import RunningServer

_TABLES = (
    "CREATE TABLE probed.t (a UInt32, b Nullable(String) COMMENT 'x', c DateTime64(3), INDEX i b TYPE minmax, "
    "CONSTRAINT small CHECK a < 10) ENGINE = MergeTree PARTITION BY toYYYYMM(c) ORDER BY a",
    "CREATE VIEW probed.v AS SELECT 1 AS one",
)
SAME = (
    "SHOW FULL TABLES FROM probed", "SHOW FULL TABLES FROM probed LIKE 'v%'", "SHOW FULL COLUMNS FROM probed.t",
    "SHOW EXTENDED FULL FIELDS FROM t FROM probed", "SHOW DICTIONARIES FROM probed", "SHOW CLUSTERS LIKE 'none'",
    "SHOW CURRENT ROLES", "SHOW ENABLED ROLES", "SELECT * FROM system.dictionaries", "SELECT * FROM system.projections",
    "SELECT * FROM system.constraints", "SELECT * FROM system.storage_policies", "SELECT * FROM system.view_refreshes",
    "SELECT * FROM system.moves", "SELECT * FROM system.asynchronous_inserts", "SELECT * FROM system.named_collections",
    "SELECT * FROM system.distribution_queue", "SELECT * FROM system.warnings LIMIT 0",
    "SELECT name, type, is_remote, is_read_only FROM system.disks",
    "SELECT table_catalog, table_schema, table_name, table_type, table_comment, engine FROM information_schema.tables "
    "WHERE table_schema = 'probed' ORDER BY table_name",
    "SELECT * FROM information_schema.views WHERE table_schema = 'probed' ORDER BY table_name LIMIT 0",
    "SELECT table_name, is_updatable, is_insertable_into FROM information_schema.views WHERE table_schema = 'probed'",
    "SELECT * FROM information_schema.columns WHERE table_schema = 'probed' ORDER BY table_name, ordinal_position",
    "SELECT * FROM information_schema.engines WHERE engine LIKE 'MergeTree'",
    "SELECT * FROM information_schema.collations WHERE id > 0 ORDER BY id",
    # The listing of tables by the JDBC driver, which names the tables beside their aliases.
    "SELECT '' AS TABLE_CAT, t.database AS TABLE_SCHEM, t.name AS TABLE_NAME, CASE WHEN t.engine LIKE '%Log' THEN "
    "'LOG TABLE' WHEN t.is_temporary != 0 THEN 'TEMPORARY TABLE' WHEN t.engine like '%View' THEN 'VIEW' WHEN "
    "empty(t.data_paths) THEN 'REMOTE TABLE' ELSE 'TABLE' END AS TABLE_TYPE, t.comment AS REMARKS, null AS TYPE_CAT "
    "FROM system.tables t JOIN system.databases d ON system.tables.database = system.databases.name "
    "WHERE t.database LIKE 'probed' AND t.name LIKE '%' AND TABLE_TYPE IN ('TABLE', 'VIEW') ORDER BY t.name",
    "SELECT t.* FROM probed.t AS x LEFT JOIN probed.v AS t ON 1 SETTINGS join_use_nulls = 0",
    "SELECT count() FROM probed.t AS x JOIN probed.t AS y ON x.a = y.a WHERE probed.t.a = 1 AND t.a = 1",
    "SELECT name, skipping_indices_types, loading_dependencies_table, loading_dependent_database, target_table, "
    "lifetime_rows FROM system.tables WHERE database = 'probed' ORDER BY name",
    "SHOW MERGES", "SHOW MERGES LIKE 'a%'", "SHOW MERGES NOT ILIKE 'x' LIMIT 5",
    # What clients for MySQL ask.
    "SELECT @@version, @@version_comment, @@max_allowed_packet, @@sql_mode, @@tx_isolation, @@Wait_Timeout",
    "SELECT @@session.auto_increment_increment, @@SESSION.transaction_isolation, @@ global . Version AS v, @@session",
    "SELECT @@version, count(), @@version || 'x' AS x FROM numbers(3) WHERE -@@query_cache_size < 5 GROUP BY @@version",
    "SELECT globalVariable('SQL_MODE'), globalVariable('nothing')",
)  # fmt: skip


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[object]:
    from chdb.session import Session

    session = Session()
    for sql in ("CREATE DATABASE probed", *_TABLES):
        session.query(sql)
    yield session
    session.close()


@pytest.fixture(scope="module")
def probed(server: RunningServer) -> Iterator[HttpClient]:
    with server.client() as client:
        for sql in ("CREATE DATABASE probed", *_TABLES):
            client.execute(sql)
        yield client
        client.execute("DROP DATABASE probed")


@pytest.mark.parametrize("sql", SAME)
@pytest.mark.long
def test_the_same_columns_and_rows(probed: HttpClient, clickhouse: object, sql: str) -> None:
    form = "JSONCompactEachRowWithNamesAndTypes"
    theirs = clickhouse.query(sql, form).bytes().decode()  # type: ignore[attr-defined]
    names, types, *rows = map(json.loads, probed.execute(f"{sql} FORMAT {form}").text.splitlines())
    their_names, their_types, *their_rows = map(json.loads, theirs.splitlines())
    ours = [dict(zip(names, values, strict=True)) for values in (types, *rows)]
    assert ours == [dict(zip(their_names, values, strict=True)) for values in (their_types, *their_rows)]


def test_disks_tell_the_room(probed: HttpClient, server: RunningServer) -> None:
    (row,) = probed.rows("SELECT path, free_space, total_space FROM system.disks")
    assert row[0] == f"{server.engine.path}/"
    assert 0 < row[1] < row[2]


def test_table_functions_and_combinators(probed: HttpClient) -> None:
    functions = [row[0] for row in probed.rows("SELECT name FROM system.table_functions")]
    assert {"numbers", "file", "remote", "merge", "view"} <= {*functions}
    assert probed.rows("SELECT name FROM system.aggregate_function_combinators WHERE name = 'If'") == [["If"]]


def test_keywords_are_clickhouses(probed: HttpClient, clickhouse: object) -> None:
    text = clickhouse.query("SELECT keyword FROM system.keywords", "TSV").bytes().decode()  # type: ignore[attr-defined]
    ours = {row[0] for row in probed.rows("SELECT keyword FROM system.keywords")}
    assert ours - {*text.split()} == set()


def test_a_definition_has_a_file(probed: HttpClient, server: RunningServer) -> None:
    (row,) = probed.rows(
        "SELECT metadata_path, metadata_modification_time > now() - 3600 FROM system.tables "
        "WHERE database = 'probed' AND name = 't'"
    )
    assert row == [str(server.engine.path / "metadata" / "probed" / "t.sql"), 1]


@pytest.mark.parametrize("end", ["", " FOR CURRENT_USER", " WITH IMPLICIT", " FINAL"])
def test_a_user_has_all_rights(probed: HttpClient, end: str) -> None:
    """ClickHouse's answer for such a user, whom settings may make read-only."""
    assert probed.rows(f"SHOW GRANTS{end}") == [["GRANT ALL ON *.* TO default WITH GRANT OPTION"]]
    assert probed.rows(f"SHOW GRANTS{end} SETTINGS readonly = 1") == probed.rows(f"SHOW GRANTS{end}")
