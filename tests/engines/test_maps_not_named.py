"""SummingMergeTree(v): a Nested structure that is a map is summed too, as in ClickHouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alter.following import Pando
from tests.sql.oracle import Oracle


@pytest.mark.parametrize("arguments", ["", "(v)", "(aMap)", "((v, aMap))"])
@pytest.mark.parametrize("key", ["k", "tuple()"])
def test_maps_are_summed(tmp_path: Path, arguments: str, key: str) -> None:
    pando, oracle = Pando(tmp_path), Oracle()
    try:
        answers = []
        for one in (pando, oracle):
            one.query("DROP TABLE IF EXISTS maps")
            one.query(
                "CREATE TABLE maps (k Int8, v UInt8, w UInt8, `aMap.k` Array(UInt8), `aMap.n` Array(Int8)) "
                f"ENGINE = SummingMergeTree{arguments} ORDER BY {key}"
            )
            one.query(
                "INSERT INTO maps VALUES (1, 1, 1, [1, 1], [2, 3]), (2, 2, 2, [1], [2]), (2, 2, 3, [1, 2], [2, 3])"
            )
            one.query("INSERT INTO maps VALUES (1, 1, 1, [1, 3], [2, 3])")
            one.query("OPTIMIZE TABLE maps FINAL")
            answers.append(one.query("SELECT * FROM maps ORDER BY ALL"))
        assert answers[0] == answers[1]
    finally:
        pando.stop()
        oracle.close()
