"""What a statement's kind decides for ON CLUSTER: by how many replicas it is carried out, and what after a crash."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.distributed_ddl.output_modes import OutputMode
from engine.distributed_ddl.statement_kinds import (
    AfterCrash,
    is_for_one_replica,
    judge_after_crash,
    make_repeatable,
    may_be_retried,
)
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import (
    Statement,
)


@dataclass
class Tables:
    """The names of those that are there, and of those that were there at the start."""

    now: str = ""
    at_start: str = ""

    def exists(self, table: TableRef) -> bool:
        return table.table in self.now

    def has_database(self, database: str) -> bool:
        return database in self.now

    def is_from_start(self, table: TableRef) -> bool:
        return table.table in self.now and table.table in self.at_start

    def are_all_from_start(self, database: str) -> bool:
        return database in self.at_start


def _parsed(text: str) -> Statement:
    return parse_statement(text).statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE a ADD COLUMN c UInt8", True),
        ("ALTER TABLE a DROP PARTITION 1", True),
        ("ALTER TABLE a UPDATE v = 1 WHERE 1", True),
        ("CREATE INDEX i ON a (v) TYPE minmax", True),
        ("DELETE FROM a WHERE 1", True),
        ("TRUNCATE TABLE a", True),
        ("OPTIMIZE TABLE a", True),
        ("ALTER TABLE a MODIFY SETTING index_granularity = 1", False),
        ("ALTER TABLE a MODIFY COMMENT 'x'", False),
        ("ALTER TABLE a FREEZE", False),
        ("ALTER TABLE a DROP DETACHED PARTITION 1", False),
        ("DROP TABLE a", False),
        ("RENAME TABLE a TO b", False),
        ("SYSTEM STOP MERGES a", False),
    ],
)
def test_who_carries_it_out(text: str, expected: bool) -> None:
    assert is_for_one_replica(_parsed(text)) == expected


@pytest.mark.parametrize(
    ("text", "now", "at_start", "expected"),
    [
        ("CREATE TABLE a (k Int8) ENGINE = Memory", "", "", AfterCrash.REPEAT),
        ("CREATE TABLE a (k Int8) ENGINE = Memory", "a", "a", AfterCrash.DONE),
        ("CREATE OR REPLACE TABLE a (k Int8) ENGINE = Memory", "a", "a", AfterCrash.UNKNOWN),
        ("CREATE DATABASE a", "", "", AfterCrash.REPEAT),
        ("CREATE DATABASE a", "a", "a", AfterCrash.DONE),
        ("ATTACH TABLE a", "", "", AfterCrash.REPEAT),
        ("DROP TABLE a", "", "", AfterCrash.DONE),
        ("DROP TABLE a", "a", "a", AfterCrash.REPEAT),
        ("DROP TABLE a", "a", "", AfterCrash.UNKNOWN),  # it was made since
        ("DROP TABLE a, b", "b", "b", AfterCrash.REPEAT),
        ("DROP TABLE a, b", "ab", "b", AfterCrash.UNKNOWN),
        ("DROP DATABASE a", "a", "a", AfterCrash.REPEAT),
        ("DROP DATABASE a", "a", "", AfterCrash.UNKNOWN),
        ("RENAME TABLE a TO b", "b", "b", AfterCrash.DONE),
        ("RENAME TABLE a TO b", "a", "a", AfterCrash.REPEAT),
        ("RENAME TABLE a TO b", "ab", "ab", AfterCrash.UNKNOWN),
        ("RENAME TABLE a TO b", "", "", AfterCrash.UNKNOWN),
        ("RENAME TABLE a TO b, c TO d", "bc", "bc", AfterCrash.UNKNOWN),
        ("EXCHANGE TABLES a AND b", "ab", "ab", AfterCrash.UNKNOWN),
        ("TRUNCATE TABLE a", "a", "a", AfterCrash.UNKNOWN),
        ("DELETE FROM a WHERE 1", "a", "a", AfterCrash.UNKNOWN),
        ("ALTER TABLE a ADD COLUMN c UInt8, MODIFY COLUMN k Int16", "a", "a", AfterCrash.REPEAT),
        ("ALTER TABLE a ADD COLUMN c UInt8, DROP COLUMN k", "a", "a", AfterCrash.UNKNOWN),
        ("ALTER TABLE a RENAME COLUMN k TO l", "a", "a", AfterCrash.UNKNOWN),
        ("ALTER TABLE a UPDATE v = v + 1 WHERE 1", "a", "a", AfterCrash.UNKNOWN),
        ("ALTER TABLE a DROP PARTITION 1", "a", "a", AfterCrash.UNKNOWN),
        ("OPTIMIZE TABLE a FINAL", "a", "a", AfterCrash.REPEAT),
        ("SYSTEM RESTART REPLICA a", "a", "a", AfterCrash.REPEAT),
        ("ATTACH TABLE a AS REPLICATED", "a", "a", AfterCrash.UNKNOWN),
        ("ATTACH TABLE a AS NOT REPLICATED", "", "", AfterCrash.UNKNOWN),
    ],
)
def test_after_a_crash(text: str, now: str, at_start: str, expected: AfterCrash) -> None:
    assert judge_after_crash(_parsed(text), Tables(now, at_start)) is expected


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("DROP TABLE a, b", "DROP TABLE IF EXISTS a, b"),
        ("CREATE DATABASE a", "CREATE DATABASE IF NOT EXISTS a"),
        ("ALTER TABLE a ADD COLUMN c UInt8", "ALTER TABLE a ADD COLUMN IF NOT EXISTS c UInt8"),
        ("OPTIMIZE TABLE a", "OPTIMIZE TABLE a"),
    ],
)
def test_what_is_repeated(text: str, repeated: str) -> None:
    assert make_repeatable(_parsed(text)) == _parsed(repeated)


@pytest.mark.parametrize(
    ("text", "error", "expected"),
    [
        ("DROP TABLE a", UnavailableError("TABLE_IS_READ_ONLY", ""), True),
        ("ALTER TABLE a ADD COLUMN c UInt8", UnavailableError("KEEPER_EXCEPTION", ""), True),
        ("ALTER TABLE a ADD COLUMN c UInt8, DROP COLUMN k", UnavailableError("KEEPER_EXCEPTION", ""), False),
        ("DROP TABLE a, b", UnavailableError("TABLE_IS_READ_ONLY", ""), False),
        ("RENAME TABLE a TO b, c TO d", UnavailableError("TABLE_IS_READ_ONLY", ""), False),
        ("ALTER TABLE a UPDATE v = 1 WHERE 1", UnavailableError("UNFINISHED", ""), False),
        ("DROP TABLE a", UnknownOutcomeError("KEEPER_EXCEPTION", ""), False),
    ],
)
def test_what_is_tried_again(text: str, error: PandoError, expected: bool) -> None:
    assert may_be_retried(_parsed(text), error) == expected


def test_output_modes() -> None:
    assert OutputMode.parse("throw") == OutputMode(True, True, True, False)
    assert OutputMode.parse("none_only_active") == OutputMode(False, True, True, True)
    assert OutputMode.parse("null_status_on_timeout") == OutputMode(True, True, False, False)
    assert OutputMode.parse("never_throw") == OutputMode(True, False, False, False)
