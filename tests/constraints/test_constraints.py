"""CONSTRAINT … CHECK and ASSUME: definitions, ALTERs and INSERTs beside ClickHouse's."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.simulator.simulated_disk import (
    record_syncs,
)
from engine.simulator.simulated_servers import SimulatedServers
from engine.simulator.trace import Trace
from parts.common.errors import PandoError
from parts.common.thread_pool import (
    run_jobs_inline,
)
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle
from tests.sql.pruning.test_index_definitions import code, definition

COLUMNS = "a Int32, s String, n Nullable(Int32), m Int32 MATERIALIZED a * 2, l Int32 ALIAS a"


def create(elements: str, engine: str = "MergeTree ORDER BY tuple()") -> str:
    return f"CREATE TABLE t ({COLUMNS}, {elements}) ENGINE = {engine}"


@pytest.mark.parametrize(
    "constraints",
    [
        "CONSTRAINT c CHECK a > 1, CONSTRAINT `d e` ASSUME length(s) < 10, INDEX i a TYPE minmax",
        "CONSTRAINT c CHECK (a > 1) AND (n IN (1, 2))",
        "CONSTRAINT c CHECK a > 1, CONSTRAINT c CHECK a > 2",
        "CONSTRAINT c CHECK zz > 1",
        "CONSTRAINT c ASSUME zz > 1",
        "CONSTRAINT c CHECK l > 1",
        "CONSTRAINT c CHECK a",
        "CONSTRAINT c CHECK",
        "CONSTRAINT c a > 1",
    ],
)
def test_create(local: Local, oracle: Oracle, constraints: str) -> None:
    sql = create(constraints)
    expected = oracle.error(sql)
    assert code(local, sql) == expected
    if not expected:
        shown = str(local.value("SHOW CREATE TABLE t"))
        assert definition(shown) == definition(oracle.run("SHOW CREATE TABLE t"))
        local.restart()
        assert local.value("SHOW CREATE TABLE t") == shown


@pytest.mark.parametrize("engine", one_in(3, ["MergeTree ORDER BY a", "Memory", "Log"]))
@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("CHECK a > 1", "(2, 'x', 1)"),
        ("CHECK a > 1", "(3, 'x', 1), (1, 'y', 2)"),
        ("ASSUME a > 1", "(1, 'x', 1)"),
        ("CHECK n > 1", "(1, 'x', NULL)"),
        ("CHECK n > 1", "(1, 'x', 0)"),
        ("CHECK n > 1", "(1, 'x', 2)"),
        ("CHECK m > 5", "(2, 'x', 1)"),
        ("CHECK m > 5", "(3, 'x', 1)"),
        ("CHECK a", "(1, 'x', 1)"),
        ("CHECK startsWith(s, 'a') AND length(s) < 5", "(1, 'abcd', 1), (1, 'ab', 1)"),
        ("CHECK startsWith(s, 'a') AND length(s) < 5", "(1, 'abcd', 1), (1, 'abcde', 1)"),
    ],
)
def test_insert(local: Local, oracle: Oracle, constraint: str, values: str, engine: str) -> None:
    for run in (local.run, oracle.run):
        run(create(f"CONSTRAINT c {constraint}", engine))
    insert = f"INSERT INTO t (a, s, n) VALUES {values}"
    expected = oracle.error(insert)
    assert code(local, insert) == expected
    assert str(local.value("SELECT count() FROM t")) == oracle.run("SELECT count() FROM t").strip()


def test_says_which_row(local: Local) -> None:
    local.run(create("CONSTRAINT c CHECK a > length(s)"))
    with pytest.raises(PandoError, match=r"`c` for table default.t is violated at row 2.*a = 1, s = xy"):
        local.run("INSERT INTO t (a, s) VALUES (3, 'x'), (1, 'xy')")
    local.run("INSERT INTO t (a, s) SELECT 2, 'x'")
    with pytest.raises(PandoError, match="469"):
        local.run("INSERT INTO t (a, s) SELECT number, 'x' FROM numbers(3)")
    assert local.value("SELECT count() FROM t") == 1


ALTERS = (
    "ADD CONSTRAINT c CHECK a > 1",
    "ADD CONSTRAINT c CHECK a > 5",
    "ADD CONSTRAINT IF NOT EXISTS c CHECK a > 5",
    "ADD CONSTRAINT d ASSUME length(s) < 10, ADD CONSTRAINT e CHECK n > 0",
    "ADD CONSTRAINT f CHECK zz > 0",
    "DROP CONSTRAINT zz",
    "DROP CONSTRAINT IF EXISTS zz",
    "DROP COLUMN s",
    "RENAME COLUMN s TO s2",
    "DROP CONSTRAINT d, DROP COLUMN s2",
    "DROP CONSTRAINT e",
)


def test_alter(local: Local, oracle: Oracle) -> None:
    for run in (local.run, oracle.run):
        run(f"CREATE TABLE t ({COLUMNS}) ENGINE = MergeTree ORDER BY tuple()")
    for commands in ALTERS:
        sql = f"ALTER TABLE t {commands}"
        assert code(local, sql) == oracle.error(sql), sql
        assert definition(str(local.value("SHOW CREATE TABLE t"))) == definition(oracle.run("SHOW CREATE TABLE t")), sql
        insert = "INSERT INTO t (a, n) VALUES (1, 1)"
        assert code(local, insert) == oracle.error(insert), sql


def test_constraints_of_replicas_are_one(tmp_path: Path) -> None:
    disks: dict[Path, object] = {}
    with record_syncs(disks), run_jobs_inline():  # type: ignore[arg-type]
        servers = SimulatedServers(tmp_path, 2, 0, Trace(None), disks)  # type: ignore[arg-type]
        servers.settle()
        one, two = servers.servers
        one.sql("ALTER TABLE t ADD CONSTRAINT c CHECK k < 100")
        servers.settle()
        assert "CONSTRAINT c CHECK k < 100" in str(two.sql("SHOW CREATE TABLE t")[1][0][0])
        two.insert(1, [1])
        with pytest.raises(PandoError, match="469"):
            two.insert(1, [1000])
        two.sql("ALTER TABLE t DROP CONSTRAINT c")
        servers.settle()
        one.insert(1, [1000])
        servers.end()
