"""ALTER TABLE … PARTITION and PART: answers and error codes of ClickHouse, and what lasts over a restart."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError, UnavailableError
from tests.engine.conftest import Local

SCRIPT = """
CREATE TABLE t (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p ORDER BY k
SYSTEM STOP MERGES t
INSERT INTO t VALUES (0, 0)
INSERT INTO t VALUES (1, 1)
INSERT INTO t VALUES (0, 2)
INSERT INTO t VALUES (1, 3)
ALTER TABLE t DROP PARTITION 77
ALTER TABLE t DROP PARTITION ID '77'
ALTER TABLE t DROP PARTITION 'abc'
ALTER TABLE t DROP PARTITION (1, 2)
ALTER TABLE t DROP PARTITION -1
ALTER TABLE t DROP PARTITION 1.5
ALTER TABLE t DROP PARTITION NULL
ALTER TABLE t DROP PARTITION 0 + 1
ALTER TABLE t DROP PARTITION (SELECT 1)
ALTER TABLE t DROP PARTITION
ALTER TABLE t DROP PARTITION ID '../x'
ALTER TABLE t DROP PARTITION ID ''
ALTER TABLE t DROP PART 'x'
ALTER TABLE t DROP PART '../detached'
ALTER TABLE t DROP PART '0_99_99_0'
ALTER TABLE t DETACH PART '0_99_99_0'
ALTER TABLE t DROP PART 1
ALTER TABLE nope DROP PARTITION 1
ALTER TABLE t FORGET PARTITION 1
ALTER TABLE t FORGET PARTITION 77
ALTER TABLE t FORGET PARTITION ALL
SELECT * FROM t ORDER BY k
ALTER TABLE t DETACH PART '0_1_1_0'
ALTER TABLE t DROP PART '0_1_1_0'
SELECT * FROM t ORDER BY k
ALTER TABLE t DROP PARTITION tuple(1)
SELECT * FROM t ORDER BY k
INSERT INTO t VALUES (1, 4)
ALTER TABLE t DETACH PARTITION 0, DROP PARTITION '1'
SELECT name, partition_id, reason, min_block_number, level FROM system.detached_parts WHERE table = 't' ORDER BY name
SELECT * FROM t ORDER BY k
INSERT INTO t VALUES (0, 5), (1, 6)
ALTER TABLE t DETACH PARTITION ALL
SELECT count() FROM t
SELECT count() FROM system.detached_parts WHERE table = 't'
ALTER TABLE t ATTACH PART '../x'
ALTER TABLE t ATTACH PART 'x'
ALTER TABLE t ATTACH PART '0_77_77_0'
ALTER TABLE t ATTACH PARTITION 77
ALTER TABLE t ATTACH PARTITION 'x'
ALTER TABLE t ATTACH PARTITION ID '../x'
SELECT count() FROM t
ALTER TABLE t ATTACH PART '0_1_1_0', ATTACH PARTITION 77
SELECT * FROM t ORDER BY k
ALTER TABLE t ATTACH PART '0_1_1_0'
ALTER TABLE t ATTACH PARTITION 0
SELECT * FROM t ORDER BY k
SELECT count() FROM system.detached_parts WHERE table = 't'
ALTER TABLE t DROP DETACHED PART '0_1_1_0'
ALTER TABLE t DROP DETACHED PARTITION ALL
ALTER TABLE t DROP DETACHED PART '../x' SETTINGS allow_drop_detached = 1
ALTER TABLE t DROP DETACHED PART '' SETTINGS allow_drop_detached = 1
ALTER TABLE t DROP DETACHED PART '0_9_9_0' SETTINGS allow_drop_detached = 1
ALTER TABLE t DROP DETACHED PARTITION 55 SETTINGS allow_drop_detached = 1
ALTER TABLE t DETACH PARTITION 0
SELECT count() > 0 FROM system.detached_parts WHERE table = 't' AND partition_id = '0'
ALTER TABLE t DROP DETACHED PARTITION 0 SETTINGS allow_drop_detached = 1
SELECT count() FROM system.detached_parts WHERE table = 't' AND partition_id = '0'
ALTER TABLE t ATTACH PARTITION ALL
SELECT * FROM t ORDER BY k
INSERT INTO t VALUES (0, 7)
CREATE TABLE t2 (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p ORDER BY k
CREATE TABLE t3 (p UInt32, k Int64, x Int8) ENGINE = MergeTree PARTITION BY p ORDER BY k
CREATE TABLE t4 (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p + 1 ORDER BY k
CREATE TABLE t5 (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p ORDER BY (k, p)
CREATE TABLE t6 (p UInt32, k Int32) ENGINE = MergeTree PARTITION BY p ORDER BY k
CREATE TABLE t7 (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p ORDER BY k PRIMARY KEY tuple()
INSERT INTO t2 VALUES (0, 100), (1, 101)
ALTER TABLE t3 ATTACH PARTITION 0 FROM t
ALTER TABLE t4 ATTACH PARTITION 0 FROM t
ALTER TABLE t5 REPLACE PARTITION 0 FROM t
ALTER TABLE t6 REPLACE PARTITION 0 FROM t
ALTER TABLE t7 ATTACH PARTITION 0 FROM t
ALTER TABLE t2 ATTACH PARTITION 0 FROM nope
ALTER TABLE t2 ATTACH PARTITION 77 FROM t
ALTER TABLE t2 REPLACE PARTITION 77 FROM t
ALTER TABLE t2 REPLACE PARTITION ALL FROM t
ALTER TABLE t2 ATTACH PARTITION 0 FROM t
SELECT * FROM t2 ORDER BY k
ALTER TABLE t2 REPLACE PARTITION 1 FROM t
SELECT * FROM t2 ORDER BY k
ALTER TABLE t2 ATTACH PARTITION ALL FROM t
SELECT * FROM t2 ORDER BY k
ALTER TABLE t MOVE PARTITION 0 TO TABLE t3
ALTER TABLE t MOVE PARTITION 0 TO TABLE t4
ALTER TABLE t MOVE PARTITION 0 TO TABLE t5
ALTER TABLE t MOVE PARTITION 0 TO TABLE nope
CREATE TABLE m (p UInt32, k Int64) ENGINE = Memory
CREATE VIEW vv AS SELECT * FROM t
CREATE MATERIALIZED VIEW mv ENGINE = MergeTree PARTITION BY p ORDER BY k AS SELECT * FROM t
ALTER TABLE t MOVE PARTITION 0 TO TABLE m
ALTER TABLE t MOVE PARTITION 0 TO TABLE vv
ALTER TABLE t MOVE PARTITION 0 TO TABLE mv
ALTER TABLE t ATTACH PARTITION 0 FROM m
ALTER TABLE t REPLACE PARTITION 0 FROM mv
ALTER TABLE m MOVE PARTITION 0 TO TABLE t
DROP TABLE mv
ALTER TABLE t MOVE PARTITION ALL TO TABLE t2
ALTER TABLE t MOVE PARTITION 77 TO TABLE t2
INSERT INTO t VALUES (5, 50)
INSERT INTO t VALUES (5, 51)
ALTER TABLE t MOVE PARTITION 5 TO TABLE t2
ALTER TABLE t MOVE PARTITION 0 TO TABLE t
SELECT * FROM t ORDER BY k
SELECT * FROM t2 ORDER BY k
ALTER TABLE t ATTACH PARTITION 0 FROM t
ALTER TABLE t REPLACE PARTITION 1 FROM t
SELECT * FROM t ORDER BY k
ALTER TABLE t FREEZE
ALTER TABLE t FREEZE PARTITION 0
ALTER TABLE t FREEZE PARTITION 77
ALTER TABLE t FREEZE WITH NAME 'x'
ALTER TABLE t FREEZE PARTITION 0 WITH NAME 'x'
ALTER TABLE t FREEZE WITH NAME '../x'
ALTER TABLE t UNFREEZE
ALTER TABLE t UNFREEZE PARTITION 0 WITH NAME 'x'
ALTER TABLE t FREEZE PARTITION 0 WITH NAME 'x'
ALTER TABLE t UNFREEZE WITH NAME 'x'
ALTER TABLE t UNFREEZE WITH NAME 'nope'
ALTER TABLE t UNFREEZE WITH NAME '../x'
ALTER TABLE t FREEZE PART '0_1_1_0'
SELECT * FROM t ORDER BY k
CREATE TABLE v (a LowCardinality(String), d Date, k Int64) ENGINE = MergeTree PARTITION BY (a, toYYYYMM(d)) ORDER BY k
INSERT INTO v VALUES ('x', '2020-01-02', 1), ('y', '2020-01-02', 2)
ALTER TABLE v DROP PARTITION 'x'
ALTER TABLE v DROP PARTITION ('x', 'y')
ALTER TABLE v DROP PARTITION ('x', NULL)
ALTER TABLE v DROP PARTITION ('x', 202001)
SELECT k FROM v
CREATE TABLE u (k Int64) ENGINE = MergeTree ORDER BY k
INSERT INTO u VALUES (1)
ALTER TABLE u DROP PARTITION 1
ALTER TABLE u DROP PARTITION tuple()
SELECT count() FROM u
CREATE TABLE w (u UUID, e Enum8('a' = 1), t DateTime('UTC')) ENGINE = MergeTree PARTITION BY (u, e, t) ORDER BY t
INSERT INTO w VALUES ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'a', '2020-01-02 03:04:05')
ALTER TABLE w DROP PARTITION ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'nothing', '2020-01-02 03:04:05')
ALTER TABLE w DROP PARTITION ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'a', '2020-01-02 03:04:05')
SELECT count() FROM w
"""
OTHERWISE = {
    "ALTER TABLE w DROP PARTITION ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', 'nothing', '2020-01-02 03:04:05')": 53,
}
"""Where ClickHouse names the inner error."""


@pytest.fixture
def clickhouse() -> Iterator[object]:
    from chdb import session

    running = session.Session()
    for statement in ("DROP DATABASE IF EXISTS partition_commands", "CREATE DATABASE partition_commands"):
        running.query(statement)
    running.query("USE partition_commands")
    yield running
    running.query("DROP DATABASE partition_commands")  # its tables would be counted by others of this process
    running.close()


@pytest.mark.long
def test_answers_are_those_of_clickhouse(local: Local, clickhouse: object) -> None:
    for sql in filter(None, SCRIPT.splitlines()):
        expected = OTHERWISE.get(sql, answer_of_clickhouse(clickhouse, sql))
        assert answer(local, sql) == expected, sql


def answer(local: Local, sql: str) -> object:
    """The rows as text, or the code of the error."""
    try:
        return [tuple(map(str, row)) for row in local.run(sql)]
    except PandoError as error:
        return error.code


def answer_of_clickhouse(clickhouse: object, sql: str) -> object:
    try:
        text = str(clickhouse.query(sql, "TSV"))  # type: ignore[attr-defined]
    except RuntimeError as error:
        return int(re.findall(r"Code: (\d+)", str(error))[0])
    return [tuple(line.split("\t")) for line in text.splitlines()]


CREATE = "CREATE TABLE t (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k"


def keys(local: Local) -> list[object]:
    return [key for (key,) in local.run("SELECT k FROM t ORDER BY k")]


@pytest.mark.parametrize("target", ["PARTITION 1", "PART '1_1_2_1'"])
@pytest.mark.parametrize("verb", ["DROP", "DETACH"])
def test_what_went_does_not_return(local: Local, verb: str, target: str) -> None:
    """Nor do the sources of a merged part, which are on disk still."""
    local.run(CREATE)
    for key in (1, 2):
        local.run(f"INSERT INTO t VALUES (1, {key})")
    local.run("OPTIMIZE TABLE t FINAL")
    local.run("INSERT INTO t VALUES (2, 3)")
    local.run(f"ALTER TABLE t {verb} {target}")
    for _ in range(2):
        assert keys(local) == [3]
        local.restart()
    local.run("INSERT INTO t VALUES (1, 4)")
    assert local.value("SELECT min(min_block_number) FROM system.parts WHERE active AND partition_id = '1'") == 4


@pytest.mark.parametrize("target", ["PARTITION 1", "PART '1_1_1_0'"])
def test_rows_that_went_are_no_duplicates_and_those_that_stay_are(local: Local, target: str) -> None:
    local.run(f"{CREATE} SETTINGS non_replicated_deduplication_window = 10")
    for partition in (1, 2):
        local.run(f"INSERT INTO t VALUES ({partition}, {partition})")
    local.run(f"ALTER TABLE t DROP {target}")
    for partition in (1, 2):
        local.run(f"INSERT INTO t VALUES ({partition}, {partition})")
    assert keys(local) == [1, 2]


def test_refusals(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t VALUES (1, 1)")
    assert answer(local, "ALTER TABLE t DROP PARTITION 1, ADD COLUMN k Int8") == 15  # and nothing was done
    assert answer(local, "ALTER TABLE t DROP PARTITION 1, DROP PART 'nonsense'") == 233  # and nothing was done
    assert answer(local, "ALTER TABLE system.parts DROP PARTITION 1") == 164
    session = Session()
    session.settings["readonly"] = 1
    with pytest.raises(PandoError) as refused:
        local.engine.execute("ALTER TABLE t DROP PARTITION 1", session)
    assert refused.value.code == 164
    assert keys(local) == [1]


ATTACHING = ["attach.after_begin", "stage.after_move", "attach.after_stage", "transaction.before_exchange", "end"]


@pytest.mark.parametrize("point", ATTACHING)
def test_a_crash_leaves_what_is_attached_in_one_place(local: Local, tmp_path: Path, point: str) -> None:
    local.run(CREATE)
    for key in (1, 2):
        local.run(f"INSERT INTO t VALUES (1, {key})")
    local.run("INSERT INTO t VALUES (2, 3)")
    local.run("ALTER TABLE t DETACH PARTITION 1")
    table = local.engine.catalog.table("default", "t")
    crashed = tmp_path / "crashed"

    def on_failpoint(name: str) -> None:
        if name == point:
            shutil.copytree(local.path, crashed)

    table.services = replace(table.services, failpoint=on_failpoint)
    local.run("ALTER TABLE t ATTACH PARTITION ALL")
    on_failpoint("end")
    assert keys(local) == [1, 2, 3]
    after = Local(crashed)
    try:
        is_attached = point == "end"
        assert keys(after) == ([1, 2, 3] if is_attached else [3])
        names = after.run("SELECT name FROM system.detached_parts ORDER BY name")
        assert names == ([] if is_attached else [("1_1_1_0",), ("1_2_2_0",)])
        after.run("ALTER TABLE t ATTACH PARTITION 1")
        assert keys(after) == [1, 2, 3]
    finally:
        after.engine.stop()


def test_what_a_cover_holds_is_not_attached_beside_it(local: Local) -> None:
    local.run(CREATE)
    for key in (1, 2):
        local.run(f"INSERT INTO t VALUES (1, {key})")
    detached = local.engine.catalog.table("default", "t").store.path / "detached"
    local.run("ALTER TABLE t DETACH PART '1_1_1_0'")
    shutil.copytree(detached / "1_1_1_0", detached / "1_1_4_3")
    for _ in range(2):
        local.run("ALTER TABLE t ATTACH PARTITION 1")
        assert keys(local) == [1, 2]
    assert local.run("SELECT name, reason FROM system.detached_parts") == [("inactive_1_1_1_0", "inactive")]


def test_rows_that_are_attached_have_new_block_numbers(local: Local) -> None:
    local.run(f"{CREATE} SETTINGS enable_block_number_column = 1")
    for key in (1, 2):
        local.run(f"INSERT INTO t VALUES (1, {key})")
    local.run("OPTIMIZE TABLE t FINAL")
    local.run("ALTER TABLE t DETACH PARTITION 1")
    local.run("ALTER TABLE t ATTACH PARTITION 1")
    assert local.run("SELECT k, _block_number FROM t ORDER BY k") == [(1, 3), (2, 3)]


def test_a_part_of_another_table_is_refused(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t VALUES (1, 1)")
    others = {
        "a": ("p UInt8, k UInt64", "p", "k", 122),
        "b": ("p UInt8, k UInt32", "p", "(k, p)", 36),
        "c": ("p UInt8, k UInt32", "k % 2", "k", 36),
    }
    source = local.engine.catalog.table("default", "t").store.path / "1_1_1_0"
    for name, (columns, partition, order, error) in others.items():
        local.run(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree PARTITION BY {partition} ORDER BY {order}")
        detached = local.engine.catalog.table("default", name).store.path / "detached"
        shutil.copytree(source, detached / "1_1_1_0")
        assert answer(local, f"ALTER TABLE {name} ATTACH PART '1_1_1_0'") == error
        assert [place.name for place in detached.iterdir()] == ["1_1_1_0"]


def test_parts_of_tables_with_other_histories(local: Local) -> None:
    """A column that came again has nothing of the old one's, and a renamed one is found."""
    local.run("CREATE TABLE a (k UInt32, x UInt32, y String) ENGINE = MergeTree ORDER BY k")
    local.run("CREATE TABLE b (k UInt32, x UInt32, y String) ENGINE = MergeTree ORDER BY k")
    local.run("INSERT INTO a VALUES (1, 10, 'one')")
    local.run("INSERT INTO b VALUES (2, 20, 'two')")
    local.run("ALTER TABLE b DROP COLUMN x")
    local.run("ALTER TABLE b ADD COLUMN x UInt32 AFTER k")
    local.run("ALTER TABLE a RENAME COLUMN y TO z")
    local.run("ALTER TABLE b RENAME COLUMN y TO z")
    local.run("ALTER TABLE b ATTACH PARTITION tuple() FROM a")
    expected = [(1, 10, "one"), (2, 0, "two")]
    assert local.run("SELECT k, x, z FROM b ORDER BY k") == expected
    local.run("ALTER TABLE a REPLACE PARTITION tuple() FROM b")
    assert local.run("SELECT k, x, z FROM a ORDER BY k") == expected
    local.run("ALTER TABLE a DETACH PARTITION ALL")
    local.run("ALTER TABLE a MODIFY COLUMN x UInt64")
    local.run("ALTER TABLE a ATTACH PARTITION ALL")
    for statement in ("SELECT 1", "OPTIMIZE TABLE a FINAL"):
        local.run(statement)
        assert local.run("SELECT k, x, z FROM a ORDER BY k") == expected


def test_what_is_frozen_stays_as_it_was(local: Local) -> None:
    local.run(CREATE)
    local.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    local.run("ALTER TABLE t FREEZE WITH NAME '../x'")
    local.run("ALTER TABLE t FREEZE PARTITION 1")
    local.run("ALTER TABLE t DROP PARTITION ALL")
    local.run("OPTIMIZE TABLE t FINAL")
    shadow = local.path / "shadow"
    relative = local.engine.catalog.table("default", "t").store.path.relative_to(local.path)
    assert not (local.path / "x").exists()
    assert sorted(place.name for place in (shadow / "%2E%2E%2Fx" / relative).iterdir()) == ["1_1_1_0", "2_2_2_0"]
    assert [place.name for place in (shadow / "1" / relative).iterdir()] == ["1_1_1_0"]
    for part in (shadow / "%2E%2E%2Fx" / relative).iterdir():
        shutil.copytree(part, local.path / relative / "detached" / part.name)
    local.run("ALTER TABLE t ATTACH PARTITION ALL")
    assert keys(local) == [1, 2]
    local.run("ALTER TABLE t UNFREEZE PARTITION 2 WITH NAME '../x'")
    assert [place.name for place in (shadow / "%2E%2E%2Fx" / relative).iterdir()] == ["1_1_1_0"]
    local.run("ALTER TABLE t UNFREEZE WITH NAME '../x', UNFREEZE WITH NAME '1'")
    assert [place.name for place in shadow.iterdir()] == ["increment.txt"]
    local.run("ALTER TABLE t FREEZE WITH NAME '../x'")
    local.run("DROP TABLE t")
    local.run("SYSTEM UNFREEZE WITH NAME '../x'")
    local.run("SYSTEM UNFREEZE WITH NAME '../x'")
    with pytest.raises(PandoError, match="must not be empty"):
        local.run("SYSTEM UNFREEZE WITH NAME ''")
    assert [place.name for place in shadow.iterdir()] == ["increment.txt"]


def test_rows_that_come_during_a_move_stay(local: Local) -> None:
    local.run(CREATE)
    local.run(CREATE.replace("TABLE t", "TABLE t2"))
    for key in (1, 2):
        local.run(f"INSERT INTO t VALUES (1, {key})")
    target = local.engine.catalog.table("default", "t2")
    services, failures = target.services, [UnavailableError("ABORTED", "a failure")]

    def on_failpoint(name: str) -> None:
        if name == "attach.after_stage":
            local.run(f"INSERT INTO t VALUES (1, {5 + len(failures)})")
            if failures:
                raise failures.pop()

    target.services = replace(services, failpoint=on_failpoint)
    assert answer(local, "ALTER TABLE t MOVE PARTITION 1 TO TABLE t2") == 236
    assert keys(local) == [1, 2, 6]
    assert local.run("SELECT k FROM t2") == []
    local.run("ALTER TABLE t MOVE PARTITION 1 TO TABLE t2")
    for _ in range(2):
        assert keys(local) == [5]
        assert local.run("SELECT k FROM t2 ORDER BY k") == [(1,), (2,), (6,)]
        local.restart()


def test_rows_that_are_marked_as_deleted_are_not_counted_where_others_are_attached(local: Local) -> None:
    """The part is written anew for a table of another history, without them."""
    local.run("CREATE TABLE t (k UInt32, v String) ENGINE = MergeTree ORDER BY k")
    local.run("ALTER TABLE t RENAME COLUMN v TO w")
    local.run("CREATE TABLE other AS t")
    local.run("INSERT INTO t SELECT number, toString(number) FROM numbers(5)")
    local.run("DELETE FROM t WHERE k = 3")
    local.run("ALTER TABLE t MOVE PARTITION tuple() TO TABLE other")
    assert local.run("SELECT * FROM other ORDER BY k") == [(0, "0"), (1, "1"), (2, "2"), (4, "4")]
    assert local.run("SELECT * FROM t") == []
