"""max_rows_to_read and its kin hold for numbers and its kin, beside ClickHouse."""

from __future__ import annotations

import pytest

from tests.alter.following import Pando
from tests.definitions.test_key_checks import refusal
from tests.sql.oracle import Oracle

_BREAK = "read_overflow_mode = 'break'"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT sum(number), count() FROM numbers(1000000) SETTINGS max_rows_to_read = 100, {_BREAK}",
        f"SELECT max(number) FROM numbers(7, 1000000, 3) SETTINGS max_rows_to_read = 100000, {_BREAK}",
        f"SELECT max(number) FROM numbers(1000000) SETTINGS max_rows_to_read = 5000, max_block_size = 1000, {_BREAK}",
        f"SELECT max(number) FROM numbers(1000000) SETTINGS max_rows_to_read = 5001, max_block_size = 1000, {_BREAK}",
        f"SELECT max(number) FROM numbers(1000000) SETTINGS max_bytes_to_read = 8000, max_block_size = 100, {_BREAK}",
        f"SELECT max(number), count() FROM system.numbers SETTINGS max_rows_to_read = 100000, {_BREAK}",
        f"SELECT count() FROM system.numbers SETTINGS max_rows_to_read = 100000, {_BREAK}",
        f"SELECT max(generate_series) FROM generate_series(1, 1000000) SETTINGS max_rows_to_read = 100000, {_BREAK}",
        f"SELECT count() FROM zeros(1000000) SETTINGS max_rows_to_read = 100000, {_BREAK}",
        f"SELECT number FROM system.numbers LIMIT 5 SETTINGS max_rows_to_read = 100, {_BREAK}",
        "SELECT number FROM system.numbers LIMIT 5 SETTINGS max_rows_to_read = 100",
        "SELECT max(number) FROM numbers(100) SETTINGS max_rows_to_read = 100",
    ],
)
def test_numbers_are_read_up_to_the_limit(oracle: Oracle, pando: Pando, query: str) -> None:
    query = query.replace("SETTINGS", "SETTINGS max_threads = 1,")
    assert pando.query(query) == oracle.query(query)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT max(number) FROM system.numbers SETTINGS max_rows_to_read = 100000", "158"),
        ("SELECT count() FROM system.numbers SETTINGS max_rows_to_read = 100000", "158"),
        ("SELECT count() FROM numbers(1000000) SETTINGS max_rows_to_read = 100000", "158"),
        ("SELECT max(number) FROM numbers(200) SETTINGS max_rows_to_read = 100, max_block_size = 50", "158"),
        ("SELECT max(number) FROM system.numbers SETTINGS max_bytes_to_read = 100000", "307"),
        ("SELECT count() FROM zeros(1000000) SETTINGS max_rows_to_read_leaf = 100000", "158"),
        (f"SELECT max(number) FROM system.numbers SETTINGS max_rows_to_read = 9, max_rows_to_read_leaf = 10, {_BREAK}",
         ""),
    ],
)  # fmt: skip
def test_endless_numbers_are_refused(oracle: Oracle, pando: Pando, query: str, code: str) -> None:
    assert refusal(pando, query) == refusal(oracle, query) == code
