"""The statements, and what one of them leaves on a disk that fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.catalog.database_names import SYSTEM_DATABASES
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.failing_disk.disk import failing

PREPARE = (
    "CREATE TABLE a (x UInt32) ENGINE = MergeTree ORDER BY x",
    "INSERT INTO a VALUES (1), (2)",
    "CREATE TABLE b (x UInt32) ENGINE = MergeTree ORDER BY x",
    "INSERT INTO b VALUES (3)",
    "CREATE TABLE w (x UInt32, v UInt32) ENGINE = MergeTree ORDER BY x",
    "INSERT INTO w VALUES (6, 7)",
    "CREATE TABLE gone (x UInt32) ENGINE = MergeTree ORDER BY x",
    "INSERT INTO gone VALUES (4)",
    "DETACH TABLE gone PERMANENTLY",
    "CREATE TABLE log (x UInt32) ENGINE = Log",
    "INSERT INTO log VALUES (5)",
    "CREATE DATABASE d",
    "CREATE TABLE d.e (x UInt32) ENGINE = MergeTree ORDER BY x",
    "CREATE MATERIALIZED VIEW m ENGINE = MergeTree ORDER BY x AS SELECT x FROM a",
)
STATEMENTS = (
    "CREATE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x",
    "CREATE TABLE t (x UInt32) ENGINE = Log",
    "CREATE VIEW v AS SELECT x FROM a",
    "CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY x AS SELECT x FROM b",
    "CREATE OR REPLACE TABLE a (x UInt32) ENGINE = MergeTree ORDER BY x",
    "CREATE OR REPLACE TABLE t (x UInt32) ENGINE = MergeTree ORDER BY x",
    "REPLACE TABLE a ENGINE = MergeTree ORDER BY x AS SELECT x + 10 AS x FROM b",
    "EXCHANGE TABLES a AND b",
    "EXCHANGE TABLES b AND d.e",
    "RENAME TABLE a TO t",
    "RENAME TABLE m TO d.m",
    "RENAME TABLE a TO t, b TO a",
    "DROP TABLE a",
    "DROP TABLE log",
    "DROP TABLE m",
    "DETACH TABLE a PERMANENTLY",
    "ATTACH TABLE gone",
    "ALTER TABLE a ADD COLUMN y UInt32 DEFAULT 7",
    "ALTER TABLE w MODIFY COLUMN v UInt64",
    "ALTER TABLE w RENAME COLUMN v TO z",
    "ALTER TABLE a COMMENT COLUMN x 'text'",
    "ALTER TABLE m MODIFY QUERY SELECT x + 1 AS x FROM a",
    "CREATE DATABASE n",
    "DROP DATABASE d",
)
SEVERAL_STEPS = ("DROP DATABASE", "RENAME TABLE a TO t, b TO a")
"""What these do table by table is not taken back when a later step fails."""
FAULTS = tuple((times, error) for times in (1, 2) for error in ("ENOSPC", "EIO"))


def shown(local: Local) -> dict[str, object]:
    """Everything that a user sees: databases, tables, their definitions and rows."""
    found: dict[str, object] = {}
    for (database,) in local.run("SHOW DATABASES"):
        if database in SYSTEM_DATABASES:
            continue
        found[str(database)] = None
        for (name,) in local.run(f"SHOW TABLES FROM {database}"):
            full_name = f"{database}.`{name}`"
            found[full_name] = (
                local.run(f"SHOW CREATE TABLE {full_name}"),
                local.run(f"SELECT * FROM {full_name} ORDER BY 1"),
            )
    found["detached"] = local.run(
        "SELECT database, table FROM system.detached_tables WHERE is_permanently ORDER BY 1, 2"
    )
    return found


def insert_everywhere(local: Local, value: int) -> None:
    for (database,) in local.run("SHOW DATABASES"):
        for (name,) in [] if database in SYSTEM_DATABASES else local.run(f"SHOW TABLES FROM {database}"):
            if not str(name).startswith(".inner") and str(name) not in ("v", "m"):
                column = local.run(f"DESCRIBE TABLE {database}.`{name}`")[0][0]
                local.run(f"INSERT INTO {database}.`{name}` ({column}) VALUES ({value})")


@dataclass
class Case:
    """What became of a statement of which some operations failed."""

    statement: str
    number: int
    operation: str
    code: int
    problem: str
    has_failed: bool


def prepared(directory: Path) -> dict[str, object]:
    """A server's directory with the tables of ``PREPARE``, and what is shown of them."""
    local = Local(directory)
    for statement in PREPARE:
        local.run(statement)
    found = shown(local)
    local.engine.stop()
    return found


def run_case(template: Path, path: Path, statement: str, number: int, times: int, error: int) -> Case:
    shutil.copytree(template, path)
    local = Local(path)
    before = shown(local)
    try:
        with failing(number, times=times, error=error) as disk:
            code = _code(local, statement)
        after = shown(local)
        problem = _judged(code, before, after, times > 1 or statement.startswith(SEVERAL_STEPS))
        insert_everywhere(local, 99)
        expected = shown(local)
        local.restart()
        if (found := shown(local)) != expected:
            problem = f"{problem} before the restart {_difference(expected, found)}".strip()
    except Exception as failure:
        problem = f"{type(failure).__name__}: {failure}"
        code = -1
    finally:
        local.engine.stop()
        shutil.rmtree(path, ignore_errors=True)
    operation = disk.done[number - 1] if disk.has_failed else ""
    return Case(statement, number, operation, code, problem, disk.has_failed)


def _judged(code: int, before: dict[str, object], after: dict[str, object], may_be_changed: bool) -> str:
    """An error says that nothing is changed, or 341 that it is."""
    if code in (0, 341) or before == after:
        return ""
    if code not in (243, 75):
        return f"answered {code}"
    return "" if may_be_changed else f"answered {code}, and changed {_difference(before, after)}"


def _difference(one: dict[str, object], other: dict[str, object]) -> str:
    names = sorted(name for name in one.keys() | other.keys() if one.get(name, "-") != other.get(name, "-"))
    return "; ".join(f"{name}: {one.get(name, 'absent')} -> {other.get(name, 'absent')}" for name in names)


def _code(local: Local, statement: str) -> int:
    try:
        local.run(statement)
    except PandoError as error:
        return error.code
    return 0


def run_statement(template: Path, path: Path, statement: str, times: int, error: int) -> Iterator[Case]:
    """Once for every operation of the statement, until it has no more."""
    for number in range(1, 500):
        case = run_case(template, path / "case", statement, number, times, error)
        if not case.has_failed:
            return
        yield case
