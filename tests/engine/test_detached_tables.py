"""DETACH TABLE, and ATTACH: what comes back by itself, what does not, and who may have the name meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from parts.common.errors import PandoError, UnavailableError
from tests.engine.conftest import Local

TABLE = "CREATE TABLE t (k UInt32) ENGINE = MergeTree ORDER BY k"
DETACHED = "SELECT database, table, metadata_path, is_permanently FROM system.detached_tables ORDER BY table"


def refusal(local: Local, sql: str) -> tuple[int, str]:
    with pytest.raises(PandoError) as refused:
        local.run(sql)
    return refused.value.code, refused.value.message


@pytest.mark.parametrize(("permanently", "returns"), [("", True), (" PERMANENTLY", False)])
def test_a_start_attaches_what_is_not_detached_permanently(local: Local, permanently: str, returns: bool) -> None:
    local.run(TABLE)
    local.run("INSERT INTO t VALUES (1)")
    local.run(f"DETACH TABLE t{permanently}")
    row = ("default", "t", "metadata/default/t.sql", int(not returns))
    assert local.run(DETACHED) == [row]
    local.restart()
    assert local.value("EXISTS TABLE t") == returns
    assert local.run(DETACHED) == ([] if returns else [row])
    if not returns:
        local.run("ATTACH TABLE t")
    assert local.value("SELECT count() FROM t") == 1
    local.restart()  # the mark is gone with ATTACH
    assert local.value("SELECT count() FROM t") == 1
    assert local.run(DETACHED) == []


@pytest.mark.parametrize(("permanently", "how"), [("", "(detached)"), (" PERMANENTLY", "(detached permanently)")])
def test_a_detached_table_keeps_its_name(local: Local, permanently: str, how: str) -> None:
    local.run(TABLE)
    local.run("CREATE TABLE other (k UInt32) ENGINE = MergeTree ORDER BY k")
    local.run(f"DETACH TABLE t{permanently}")
    for statement in (TABLE, "RENAME TABLE other TO t", TABLE.replace("CREATE", "CREATE OR REPLACE")):
        code, message = refusal(local, statement)
        assert code == 57
        assert f"already exists {how}" in message
    local.run(TABLE.replace("TABLE t", "TABLE IF NOT EXISTS t"))
    assert local.value("EXISTS TABLE t") == 0
    for statement in ("DROP TABLE t", "DETACH TABLE t PERMANENTLY", "SELECT * FROM t"):
        assert refusal(local, statement)[0] == 60
    local.run("DROP TABLE IF EXISTS t")
    local.run("ATTACH TABLE t")
    assert refusal(local, "ATTACH TABLE t")[0] == 57
    assert local.value("SELECT count() FROM t") == 0


def test_a_dropped_table_leaves_no_mark(local: Local) -> None:
    local.run(TABLE)
    local.run("DETACH TABLE t PERMANENTLY")
    local.run("ATTACH TABLE t")
    local.run("DROP TABLE t")
    local.run(TABLE)
    local.restart()
    assert local.value("EXISTS TABLE t") == 1


def test_views_and_several_tables_are_detached_permanently(local: Local) -> None:
    local.run(TABLE)
    local.run("CREATE VIEW v AS SELECT 1 AS x")
    local.run("CREATE MATERIALIZED VIEW m ENGINE = MergeTree ORDER BY k AS SELECT k FROM t")
    local.run("DETACH VIEW v PERMANENTLY")
    local.run("DETACH TABLE t, m PERMANENTLY SYNC")
    local.restart()
    assert [row[1] for row in local.run(DETACHED)] == ["m", "t", "v"]
    for name in ("t", "v", "m"):
        local.run(f"ATTACH TABLE {name}")
    local.run("INSERT INTO t VALUES (7)")
    assert local.run("SELECT * FROM m") == [(7,)]
    assert local.run("SELECT * FROM v") == [(1,)]


def test_a_crash_before_the_answer_leaves_the_table_attached_or_detached(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.run(TABLE)
    local.run("DETACH TABLE t PERMANENTLY")

    def fail(file: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("engine.server.durable_texts.remove_durably", fail)
        with pytest.raises(UnavailableError, match="Input/output"):
            local.run("ATTACH TABLE t")
    assert local.run(DETACHED)[0][3] == 1
    local.run("ATTACH TABLE t")
    assert local.value("SELECT count() FROM t") == 0


def test_databases_and_what_is_not_there(local: Local) -> None:
    assert refusal(local, "DETACH DATABASE default PERMANENTLY")[0] == 48
    assert refusal(local, "DETACH TABLE nothing PERMANENTLY")[0] == 60
    local.run("DETACH TABLE IF EXISTS nothing PERMANENTLY")
    local.run("CREATE DATABASE d")
    local.run(TABLE.replace(" t ", " d.t "))
    local.run("DETACH TABLE d.t PERMANENTLY")
    local.run("DETACH DATABASE d")
    local.run("ATTACH DATABASE d")
    assert local.run(DETACHED) == [("d", "t", "metadata/d/t.sql", 1)]
