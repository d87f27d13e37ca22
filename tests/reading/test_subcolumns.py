"""Subcolumns by name: sizes, NULLs, keys and values, elements of nested types."""

from __future__ import annotations

import pytest

from tests.reading.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.run(
        "CREATE TABLE x (id UInt8, arr Array(UInt64), m Map(String, UInt32), n Nullable(String), s String, "
        "t Tuple(a UInt8, b Tuple(c String, d Array(Nullable(UInt8)))), aa Array(Array(Nullable(UInt8))), "
        "an Array(Nullable(String)), tt Array(Tuple(p UInt8, q String))) ENGINE = MergeTree ORDER BY id",
        "INSERT INTO x VALUES "
        "(1, [1, 2, 3], {'a': 1, 'b': 2}, NULL, 'xyz', (1, ('x', [1, NULL])), [[1], [NULL, 2]], ['q', NULL], "
        "[(1, 'z')]), "
        "(2, [], {}, 'q', '', (2, ('y', [])), [], [], [])",
    )
    return pair


@pytest.mark.parametrize(
    "columns",
    [
        "arr.size0",
        "m.keys, m.values, m.size0, m.key_a, m.key_c",
        "n.null, n.size, s.size",
        "t.a, t.b.c, t.b.d, t.b.d.size0, t.b.d.null",
        "aa.size0, aa.size1, aa.null",
        "an.null, an.size0",
        "tt.p, tt.q, tt.size0",
    ],
)
def test_values(filled: Pair, columns: str) -> None:
    assert filled.same_table(f"SELECT {columns} FROM x ORDER BY id")
    assert filled.same_table(f"SELECT {columns} FROM (SELECT * FROM x ORDER BY id)")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count() FROM x WHERE arr.size0 = 0",
        "SELECT count() FROM x WHERE n.null",
        "SELECT arr.size0 AS c, count() FROM x GROUP BY arr.size0 ORDER BY c",
        "SELECT id FROM x PREWHERE has(m.keys, 'a') ORDER BY id",
        "SELECT sum(m.size0), max(t.a) FROM x",
    ],
)
def test_conditions(filled: Pair, query: str) -> None:
    assert filled.same_table(query)


@pytest.mark.parametrize("column", ["arr.size1", "arr.null", "s.null", "n.keys"])
def test_there_is_none(filled: Pair, column: str) -> None:
    assert filled.code(f"SELECT {column} FROM x") == 43
    assert filled.oracle.error(f"SELECT {column} FROM x") == 47
