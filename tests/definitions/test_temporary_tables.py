"""CREATE TEMPORARY TABLE: of one session, before the tables of the database, gone with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError
from tests.definitions.conftest import Both
from tests.engine.conftest import Local
from tests.engine.workers.server import WorkerServer, wait_for

pytestmark = pytest.mark.long


def test_as_in_clickhouse(both: Both) -> None:
    both.compare(
        """
        CREATE TEMPORARY TABLE t (a Int8, b String);
        SHOW CREATE TEMPORARY TABLE t;
        SHOW CREATE TABLE t;
        CREATE TEMPORARY TABLE t (a Int8);
        CREATE TEMPORARY TABLE IF NOT EXISTS t (a Int8);
        INSERT INTO t VALUES (1, 'x'), (2, 'y');
        INSERT INTO t SELECT a + 2, b FROM t;
        SELECT * FROM t ORDER BY a;
        EXISTS TEMPORARY TABLE t;
        EXISTS TABLE t;
        EXISTS TEMPORARY TABLE u;
        DESCRIBE TABLE t;
        CREATE TABLE t (p String) ENGINE = Log;
        INSERT INTO t VALUES (5, 'z');
        SELECT count() FROM t;
        CREATE TEMPORARY TABLE u AS SELECT * FROM t WHERE a < 2;
        SELECT * FROM u;
        CREATE TEMPORARY TABLE v ENGINE = MergeTree ORDER BY a AS SELECT * FROM t;
        SELECT sum(a) FROM v;
        SHOW CREATE TEMPORARY TABLE v;
        CREATE TABLE w ENGINE = Memory AS SELECT * FROM u;
        CREATE TABLE x AS u ENGINE = Log;
        SHOW TABLES;
        SELECT name, database, is_temporary, engine FROM system.tables WHERE is_temporary ORDER BY name;
        TRUNCATE TABLE t;
        SELECT count() FROM t;
        DROP TABLE t;
        SELECT count() FROM t;
        DROP TEMPORARY TABLE t;
        DROP TEMPORARY TABLE IF EXISTS t;
        DROP TABLE t;
        SELECT count() FROM t;
        DROP TEMPORARY TABLE u;
        DROP TABLE v;
        CREATE TEMPORARY TABLE system.t (a Int8);
        CREATE TEMPORARY TABLE y (a Int8) ENGINE = ReplicatedMergeTree('/y', 'r') ORDER BY a
        """
    )


def test_nobody_else_sees_it(local: Local) -> None:
    local.run("CREATE TEMPORARY TABLE t AS SELECT 1 AS a")
    other = Session()
    with pytest.raises(PandoError, match="does not exist"):
        local.engine.execute("SELECT * FROM t", other)
    assert local.value("SELECT count() FROM system.tables WHERE database NOT LIKE '%system%' AND name != 't'") > 0
    assert local.value("SELECT count() FROM system.databases WHERE name LIKE '%temporary%'") == 0
    assert local.value("SELECT a FROM t") == 1
    shown = "CREATE TEMPORARY TABLE t (`a` UInt8) ENGINE = Memory"
    assert local.run("SELECT create_table_query FROM system.tables WHERE is_temporary") == [(shown,)]
    local.engine.end_session(local.session)
    with pytest.raises(PandoError, match="does not exist"):
        local.run("SELECT * FROM t")
    assert not list((local.path / "tmp" / "temporary_tables").iterdir())


def test_it_is_gone_after_a_restart(local: Local) -> None:
    local.run("CREATE TEMPORARY TABLE t ENGINE = MergeTree AS SELECT 1 AS a")
    local.restart()
    with pytest.raises(PandoError, match="does not exist"):
        local.run("SELECT * FROM t")
    assert not list((local.path / "tmp" / "temporary_tables").iterdir())
    assert not list((local.path / "tmp").rglob("all_*"))


@pytest.mark.cluster
@pytest.mark.parametrize("workers", [0, 2])
def test_sessions_over_http(tmp_path: Path, workers: int) -> None:
    with WorkerServer(tmp_path, workers=workers) as server:
        session = {"session_id": "one"}
        server.execute("CREATE TEMPORARY TABLE t (a UInt8)", settings=session)
        server.execute("INSERT INTO t VALUES (1)", settings=session)
        server.execute("INSERT INTO t SELECT a + 1 FROM t", settings=session)
        for _ in range(4):  # every worker in turn
            assert server.run("SELECT sum(a) FROM t", settings=session) == [[3]]
            with pytest.raises(PandoError, match="does not exist"):
                server.run("SELECT sum(a) FROM t", settings={"session_id": "two"})
        server.execute("CREATE OR REPLACE TEMPORARY TABLE t AS SELECT 7 AS b", settings=session)
        assert server.run("SELECT * FROM t", settings=session) == [[7]]
        server.execute("DROP TABLE t", settings=session)
        with pytest.raises(PandoError, match="does not exist"):
            server.run("SELECT * FROM t", settings=session)
        assert server.run("SELECT name FROM system.tables WHERE is_temporary", settings=session) == []
        server.execute("CREATE TEMPORARY TABLE t (a UInt8)")  # of this request alone
        with pytest.raises(PandoError, match="does not exist"):
            server.run("SELECT * FROM t")
        definitions = tmp_path / "data" / "tmp" / "temporary_tables"
        assert not list(definitions.iterdir())
        ending = {"session_id": "ends", "session_timeout": 1}
        server.execute("CREATE TEMPORARY TABLE t ENGINE = MergeTree ORDER BY a AS SELECT 1 AS a", settings=ending)
        rows = tmp_path / "data" / "tmp" / "memory" / "_temporary_and_external_tables"
        wait_for(lambda: not [*definitions.iterdir(), *rows.iterdir()], "the end of a session, with no other request")
