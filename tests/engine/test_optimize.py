"""OPTIMIZE as ClickHouse does it, and what SYSTEM STOP keeps from running."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from chdb.session import Session

from engine.tables.services import MergeOrder
from parts.common.errors import CancelledError, PandoError
from parts.merge import MergeProgress
from tests.engine.conftest import Local
from tests.portions import one_in

_CREATE = (
    "CREATE TABLE t (a Int32, b Int32, c String, ab Int32, d Int32 DEFAULT 3, m Int32 MATERIALIZED ab % 2)"
    " ENGINE = MergeTree PARTITION BY b ORDER BY a"
)
_ROWS = "INSERT INTO t (a, b, c, ab) VALUES (1,1,'x',1), (1,1,'y',2), (2,1,'z',3), (1,1,'y',4), (9,2,'x',1)"
_CONTENT = "SELECT concat(toString(a), ' ', toString(b), ' ', c, ' ', toString(ab)) AS x FROM t ORDER BY x"
_BY = [
    "",
    "BY *",
    "BY * EXCEPT ab",
    "BY * EXCEPT (ab, c)",
    "BY * EXCEPT (nope)",
    "BY COLUMNS('^[ab]$')",
    "BY COLUMNS('a|b|c') EXCEPT (ab, c)",
    "BY COLUMNS(a, b, c)",
    "BY a, b, m",
    "BY a",
    "BY a, b, a",
    "BY COLUMNS('zzz')",
    "BY nope",
    "BY (a, b)",
    "BY a AS x, b",
    "BY * EXCEPT a",
]


@pytest.fixture(scope="module")
def clickhouse() -> Session:
    return Session()


def of_clickhouse(clickhouse: Session, *statements: str) -> tuple[list[str], int]:
    """What is in the table, and the code of the last statement."""
    for statement in ("DROP DATABASE IF EXISTS o", "CREATE DATABASE o", "USE o", _CREATE, _ROWS, _ROWS):
        clickhouse.query(statement)
    code = 0
    try:
        for statement in statements:
            clickhouse.query(statement)
    except Exception as error:
        code = int(str(error).partition("Code: ")[2].partition(".")[0])
    return str(clickhouse.query(_CONTENT, "TSV")).splitlines(), code


def of_pando(local: Local, *statements: str) -> tuple[list[object], int]:
    for statement in ("DROP TABLE IF EXISTS t", _CREATE, _ROWS, _ROWS):
        local.run(statement)
    code = 0
    try:
        for statement in statements:
            local.run(statement)
    except PandoError as error:
        code = error.code
    return [row[0] for row in local.run(_CONTENT)], code


@pytest.mark.parametrize("by", one_in(4, _BY))
def test_deduplicate_by(local: Local, clickhouse: Session, by: str) -> None:
    statement = f"OPTIMIZE TABLE t FINAL DEDUPLICATE {by}"
    assert of_pando(local, statement) == of_clickhouse(clickhouse, statement)


def test_one_partition_alone(local: Local, clickhouse: Session) -> None:
    for which in ("PARTITION 2 FINAL", "PARTITION ID '2'"):
        statement = f"OPTIMIZE TABLE t {which} DEDUPLICATE"
        assert of_pando(local, statement) == of_clickhouse(clickhouse, statement)
    local.run("OPTIMIZE TABLE t PARTITION 2 FINAL")
    assert local.run("SELECT partition, count() FROM system.parts WHERE active GROUP BY 1 ORDER BY 1") == [
        ("1", 2),
        ("2", 1),
    ]


def test_final_writes_a_single_part_anew(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    local.run("INSERT INTO t VALUES (1)")
    names = "SELECT name FROM system.parts WHERE active"
    strict = "SETTINGS optimize_throw_if_noop = 1"
    local.run(f"OPTIMIZE TABLE t FINAL {strict}")
    assert local.value(names) == "all_1_1_1"
    local.run(f"OPTIMIZE TABLE t FINAL {strict}")
    assert local.value(names) == "all_1_1_2"
    local.run("OPTIMIZE TABLE t FINAL SETTINGS optimize_skip_merged_partitions = 1")
    assert local.value(names) == "all_1_1_2"
    for statement in ("OPTIMIZE TABLE t", "OPTIMIZE TABLE t PARTITION ID 'no' FINAL", "OPTIMIZE TABLE t FINAL CLEANUP"):
        with pytest.raises(PandoError) as refused:
            local.run(f"{statement} {strict}")
        assert refused.value.code == 388


def test_stopped_merges(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    for statement in ("SYSTEM STOP MERGES t", "SYSTEM STOP MERGES"):
        for _ in range(2):
            local.run("INSERT INTO t VALUES (1)")
        local.run(statement)
        with pytest.raises(PandoError, match="Cancelled merging parts") as refused:
            local.run("OPTIMIZE TABLE t FINAL")
        assert refused.value.code == 236
        local.run(statement.replace("STOP", "START"))
        local.run("OPTIMIZE TABLE t FINAL")
    assert local.value("SELECT count() FROM system.parts WHERE active AND table = 't'") == 1


def test_a_running_merge_is_cancelled(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    for _ in range(2):
        local.run("INSERT INTO t VALUES (1)")

    def merge(
        order: MergeOrder, is_cancelled: Callable[[], bool], on_progress: Callable[[MergeProgress], None]
    ) -> None:
        assert not is_cancelled()
        local.run("SYSTEM STOP MERGES t")
        assert is_cancelled()
        raise CancelledError

    local.engine.services.run_in_merge_process = merge
    with pytest.raises(PandoError, match="Cancelled merging parts"):
        local.run("OPTIMIZE TABLE t FINAL")
    assert local.run("SELECT name FROM system.parts WHERE active ORDER BY 1") == [("all_1_1_0",), ("all_2_2_0",)]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SYSTEM STOP TTL MERGES t", 0),
        ("SYSTEM START MOVES", 0),
        ("SYSTEM STOP CLEANUP t", 0),
        ("SYSTEM WAIT LOADING PARTS t", 0),
        ("SYSTEM FLUSH LOGS part_log", 0),
        ("SYSTEM FLUSH LOGS nope", 36),
        ("SYSTEM SYNC REPLICA t", 36),
        ("SYSTEM SYNC REPLICA nope", 60),
        ("SYSTEM SYNC REPLICA nope IF EXISTS", 0),
        ("SYSTEM RESTART REPLICA t", 36),
        ("SYSTEM RESTORE REPLICA t", 36),
        ("SYSTEM STOP VIEWS t", 48),
        ("SYSTEM STOP MERGES ON VOLUME v", 48),
    ],
)
def test_other_commands(local: Local, statement: str, code: int) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a")
    try:
        local.run(statement)
        found = 0
    except PandoError as error:
        found = error.code
    assert found == code


def test_nothing_is_cleaned_up_while_that_is_stopped(local: Local) -> None:
    local.run("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a SETTINGS old_parts_lifetime = 0")
    for _ in range(2):
        local.run("INSERT INTO t VALUES (1)")
    local.run("SYSTEM STOP CLEANUP t")
    local.run("OPTIMIZE TABLE t FINAL")
    table = local.engine.catalog.table("default", "t")
    table.clean_up_step()
    assert local.value("SELECT count() FROM system.parts WHERE NOT active") == 2
    local.run("SYSTEM START CLEANUP t")
    table.clean_up_step()
    assert local.value("SELECT count() FROM system.parts WHERE NOT active") == 0
