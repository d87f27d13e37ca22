"""ALTER TABLE … PARTITION and PART: answers and error codes of ClickHouse, and what lasts over a restart."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from engine.session import Session
from parts.errors import PandoError
from tests.engine.conftest import Local

SCRIPT = """
CREATE TABLE t (p UInt32, k Int64) ENGINE = MergeTree PARTITION BY p ORDER BY k
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
    running.query("CREATE DATABASE d")
    running.query("USE d")
    yield running
    running.close()


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
    assert answer(local, "ALTER TABLE t DROP PARTITION 1, ADD COLUMN x Int8") == 48
    assert answer(local, "ALTER TABLE t DROP PARTITION 1, DROP PART 'nonsense'") == 233  # and nothing was done
    assert answer(local, "ALTER TABLE system.parts DROP PARTITION 1") == 164
    session = Session()
    session.settings["readonly"] = 1
    with pytest.raises(PandoError) as refused:
        local.engine.execute("ALTER TABLE t DROP PARTITION 1", session)
    assert refused.value.code == 164
    assert keys(local) == [1]
