"""CREATE TABLE … AS another table: what it takes over, and RENAME with IF EXISTS."""

from __future__ import annotations

import pytest

from tests.definitions.conftest import Both
from tests.portions import one_in

_SOURCE = (
    "CREATE TABLE a (p UInt8, k UInt32, v String COMMENT 'x' CODEC(NONE), d Date, e UInt8 TTL d, "
    "INDEX i v TYPE minmax, CONSTRAINT c CHECK k > 0) ENGINE = MergeTree PARTITION BY p PRIMARY KEY k ORDER BY (k, v) "
    "SAMPLE BY k TTL d SETTINGS index_granularity = 100 COMMENT 'whose'"
)


@pytest.mark.parametrize(
    "rest",
    one_in(
        3,
        [
            "",
            "COMMENT 'mine'",
            "SETTINGS index_granularity = 7",
            "ENGINE = MergeTree",
            "ENGINE = MergeTree ORDER BY (k, d)",
            "ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY k SETTINGS index_granularity = 7",
            "ENGINE = MergeTree TTL d + INTERVAL 1 DAY",
            "ENGINE = SummingMergeTree(e)",
            "ENGINE = Memory",
            "ENGINE = Log",
            "ENGINE = Null",
            "ENGINE = Merge(currentDatabase(), '^a$')",
        ],
    ),
)
def test_a_table_like_another(both: Both, rest: str) -> None:
    both.compare(f"{_SOURCE}; CREATE TABLE b AS a {rest}; SHOW CREATE TABLE b; INSERT INTO b (k) VALUES (0)")


def test_a_key_that_contradicts_the_other_tables(both: Both) -> None:
    both.compare(f"{_SOURCE}; CREATE TABLE b AS a ENGINE = MergeTree ORDER BY v; EXISTS TABLE b")


def test_of_a_table_that_is_no_merge_tree(both: Both) -> None:
    both.compare(
        f"{_SOURCE}; CREATE TABLE m AS a ENGINE = Memory; CREATE TABLE b AS m ENGINE = MergeTree ORDER BY k; "
        "SHOW CREATE TABLE b; CREATE VIEW v AS SELECT p, k FROM a; CREATE TABLE w AS v ENGINE = MergeTree ORDER BY p; "
        "SHOW CREATE TABLE w; CREATE TABLE x AS v"
    )


def test_a_temporary_table_like_another(both: Both) -> None:
    both.compare(f"{_SOURCE}; CREATE TEMPORARY TABLE b AS a; SHOW CREATE TEMPORARY TABLE b; DROP TEMPORARY TABLE b")


def test_rename_if_exists(both: Both) -> None:
    both.compare(
        "CREATE TABLE a (k UInt8) ENGINE = Memory; RENAME TABLE IF EXISTS nope TO b, a TO c; SELECT * FROM c; "
        "RENAME TABLE IF EXISTS nope TO c; RENAME TABLE IF EXISTS c TO d, nope TO e; SELECT * FROM d; "
        "RENAME TABLE nope TO b, IF EXISTS nope TO c"
    )
