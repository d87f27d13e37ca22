"""Queries that pass over granules by skip indexes: the same answers without the indexes and in ClickHouse, whatever the
condition, and granules without a match are indeed passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parts.common.errors import PandoError
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle

COLUMNS = """
    id UInt64, g Int32, s String, l LowCardinality(String), a Array(String), b Array(Int64), m Map(String, String),
    n Nullable(Int32), q Nullable(String), f Float64, r Float64, d Date, x Decimal(10, 2), u UUID,
    e Enum8('a' = 1, 'b' = 2, 'c' = 3)
"""
ROWS = """
    SELECT number, number % 17 - 8,
    concat(['red fox', 'Green tea', 'blue-sky 7', '', 'ärger über'][number % 5 + 1], ' ', toString(intDiv(number, 9))),
    toString(intDiv(number, 13)),
    arrayMap(i -> concat('w', toString(i + intDiv(number, 6))), range(number % 3)),
    if(number % 4 = 0, [], [toInt64(number), toInt64(intDiv(number, 5))]),
    map('k', toString(intDiv(number, 7)), concat('key', toString(number % 11)), 'v'),
    if(number % 3 = 0, NULL, number % 50), if(intDiv(number, 8) % 3 = 0, NULL, toString(number)),
    number / 4 - 20, if(number % 23 = 0, nan, number / 4),
    toDate('2020-01-01') + intDiv(number, 3), intDiv(number, 2) / 4,
    toUUID(concat('00000000-0000-0000-0000-', leftPad(toString(number), 12, '0'))),
    ['a', 'b', 'c'][intDiv(number, 30) % 3 + 1] FROM numbers({}, {})
"""
INDEXES = (
    "id TYPE minmax", "g * 2 TYPE minmax", "(n, f) TYPE minmax", "(s, d) TYPE minmax", "x TYPE minmax",
    "q TYPE minmax", "e TYPE set(0)", "(g % 5, l) TYPE set(12)", "n TYPE set(9)", "f TYPE set(0)", "r TYPE set(0)",
    "r TYPE minmax", "lower(s) TYPE set(3)", "s TYPE bloom_filter", "(id, l) TYPE bloom_filter(0.1)",
    "a TYPE bloom_filter", "b TYPE bloom_filter", "n TYPE bloom_filter", "mapKeys(m) TYPE bloom_filter",
    "mapValues(m) TYPE bloom_filter", "(d, f) TYPE bloom_filter", "u TYPE bloom_filter", "e TYPE bloom_filter",
    "s TYPE ngrambf_v1(3, 512, 2, 0)", "lower(s) TYPE ngrambf_v1(2, 256, 3, 5)", "s TYPE tokenbf_v1(256, 2, 1)",
    "a TYPE tokenbf_v1(256, 2, 1)", "l TYPE ngrambf_v1(1, 64, 1, 0)", "mapValues(m) TYPE ngrambf_v1(2, 128, 2, 0)",
)  # fmt: skip
TEXTS = ("red fox 3", "red", "tea 1", "blue-sky", "sky 7 2", "ärger", "über 4", "fox", " ", "zzz", "w3", "12", "7", "v")


class Both:
    """One table here and in ClickHouse.

    Of NaN the latter says another thing with NOT than without."""

    def __init__(self, local: Local, oracle: Oracle, number: int) -> None:
        self.local, self.oracle = local, oracle
        indexes = [f"INDEX i{at} {index} GRANULARITY {(at + number) % 4 + 1}" for at, index in enumerate(INDEXES)]
        kind = ("", ", min_bytes_for_wide_part = 0", ", min_bytes_for_full_part_storage = 0")[number % 3]
        order = ("tuple()", "g", "(l, id)")[number % 3]
        granularity = (3, 8, 1)[number % 3]
        both = f"CREATE TABLE t ({COLUMNS}, {', '.join(indexes)}) ENGINE = MergeTree ORDER BY {order} SETTINGS "
        self._run(f"{both} index_granularity = {granularity}", kind)
        for begin, rows in ((0, 120), (120, 1), (121, 90)):
            self._run(f"INSERT INTO t {ROWS.format(begin, rows)}")
        if number == 1:
            self._run("OPTIMIZE TABLE t FINAL")

    def _run(self, sql: str, own: str = "") -> None:
        self.local.run(sql + own)
        self.oracle.run(sql)

    def check(self, condition: str) -> None:
        query = f"SELECT count(), sum(id) FROM t WHERE {condition}"
        try:
            plain = self.local.run(f"{query} SETTINGS use_skip_indexes = 0")
        except PandoError:
            return  # not a condition
        assert self.local.run(query) == plain, condition
        assert self.local.run(query) == plain, f"the second time: {condition}"
        rows = self.local.run(f"SELECT id, s FROM t WHERE {condition} ORDER BY id LIMIT 5")
        assert rows == self.local.run(
            f"SELECT id, s FROM t WHERE {condition} ORDER BY id LIMIT 5 SETTINGS use_skip_indexes = 0"
        )
        exact = f"{query} SETTINGS use_skip_indexes = 0"  # ClickHouse has rows too few with them, now and then
        if not re.search(r"\br\b", condition) and not self.oracle.error(exact):
            assert self.oracle.run(exact).split() == [str(value) for value in plain[0]], condition


@pytest.fixture(scope="module", params=one_in(3, range(3)))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    path = tmp_path_factory.mktemp("pruning")
    local, oracle = Local(path / "data"), Oracle()
    yield Both(local, oracle, request.param)
    local.engine.stop()
    oracle.end()


def conditions() -> st.SearchStrategy[str]:
    number = st.integers(-3, 215).map(str)
    text = st.sampled_from(TEXTS).map(lambda value: f"'{value}'")
    compare = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    numeric = st.sampled_from(["id", "g", "n", "f", "g * 2", "n + 1", "g % 5", "x", "b[1]", "length(s)", "toInt64(id)"])
    textual = st.sampled_from(["s", "l", "lower(s)", "q", "m['k']", "m['key3']", "m['none']", "a[1]", "toString(n)"])
    arrays = st.sampled_from(["a", "mapKeys(m)", "mapValues(m)", "[s]"])
    shapes = st.sampled_from(["{}", "%{}%", "{}%", "%{}", "%{}\\\\_", "% {} %"])
    patterns = st.builds(
        lambda value, gap, shape: shape.format(value.replace(" ", gap)),
        st.sampled_from(TEXTS), st.sampled_from([" ", "%", "_"]), shapes,
    )  # fmt: skip
    atom = st.one_of(
        st.builds("{} {} {}".format, numeric, compare, number),
        st.builds("{} {} {}".format, textual, compare, text),
        st.builds("{} IN ({}, {}, {})".format, numeric, number, number, number),
        st.builds("{} NOT IN ({}, {})".format, textual, text, text),
        st.builds("{} IN ({}, {})".format, textual, text, text),
        st.builds("{} LIKE '{}'".format, textual, patterns),
        st.builds("{}({}, {})".format, st.sampled_from(["startsWith", "endsWith"]), textual, text),
        st.builds("hasToken(s, '{}')".format, st.sampled_from(["red", "fox", "sky", "3", "nope", "über"])),
        st.builds("multiSearchAny({}, [{}, {}])".format, textual, text, text),
        st.builds("{}({}, {})".format, st.just("has"), arrays, text),
        st.builds("{}({}, [{}, {}])".format, st.sampled_from(["hasAny", "hasAll"]), arrays, text, text),
        st.builds("has(b, {})".format, st.one_of(number, st.just("NULL"))),
        st.builds("mapContains(m, {})".format, st.sampled_from(["'k'", "'key3'", "'none'"])),
        st.builds("{} IS {}NULL".format, st.sampled_from(["n", "q"]), st.sampled_from(["", "NOT "])),
        st.builds("d {} toDate('2020-01-01') + {}".format, compare, number),
        st.builds("x {} {}.25".format, compare, number),
        st.builds("e {} '{}'".format, st.sampled_from(["=", "!="]), st.sampled_from("abc")),
        st.builds("u = '00000000-0000-0000-0000-000000000{:03}'".format, st.integers(0, 250)),
        st.builds("(id, l) IN (({}, {}), ({}, {}))".format, number, text, number, text),
        st.builds("a = ['w{}', 'w{}']".format, st.integers(0, 20), st.integers(0, 20)),
        st.sampled_from(["1", "0", "n", "isNaN(r)", "r < 5", "r > 30", "r = nan", "NOT r < 3", "s = l", "empty(a)"]),
    )  # fmt: skip
    return st.recursive(
        atom,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
        ),
        max_leaves=4,
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(condition=conditions())
def test_same_answers(both: Both, condition: str) -> None:
    both.check(condition)


CREATE = (
    "CREATE TABLE t (id UInt64, v UInt64, s String, a Array(String), n Nullable(UInt8), m Map(String, String), {}) "
)
ENGINE = "ENGINE = MergeTree ORDER BY tuple() SETTINGS index_granularity = 10"
FILL = """INSERT INTO t SELECT number, number % 10 * 100 + intDiv(number, 10),
    concat('row ', toString(number), ' of all'),
    [toString(number), 'x'], if(number < 50, NULL, number % 3), map('k', toString(number)) FROM numbers(100)"""


@pytest.mark.parametrize(
    ("index", "condition", "granules", "is_used"),
    [
        ("id TYPE minmax", "id = 34", 1, True),
        ("id TYPE minmax GRANULARITY 3", "id = 34", 3, True),
        ("id TYPE minmax GRANULARITY 1000", "id = 34", 10, True),
        ("id TYPE minmax", "id = 34 OR id > 85", 3, True),
        ("id TYPE minmax", "id = 34 OR v = 5", 10, False),
        ("id TYPE minmax", "NOT (id < 85)", 2, True),
        ("v TYPE set(10)", "v = 305", 1, True),
        ("v TYPE set(9)", "v = 305", 10, True),
        ("v TYPE set(0) GRANULARITY 2", "v % 100 = 5", 2, True),
        ("n TYPE set(5)", "n IS NOT NULL", 5, True),
        ("n TYPE set(5)", "n = 1 OR n = 2", 5, True),
        ("n TYPE minmax", "n >= 0", 10, True),
        ("id TYPE bloom_filter(0.0001)", "id IN (34, 77)", 2, True),
        ("s TYPE bloom_filter(0.0001)", "s = 'row 7 of all'", 1, True),
        ("a TYPE bloom_filter(0.0001)", "has(a, '34')", 1, True),
        ("a TYPE bloom_filter(0.0001)", "hasAll(a, ['34', '77'])", 0, True),
        ("a TYPE bloom_filter(0.0001)", "hasAny(a, ['34', '77'])", 2, True),
        ("mapValues(m) TYPE bloom_filter(0.0001)", "m['k'] = '34'", 1, True),
        ("mapKeys(m) TYPE bloom_filter(0.0001)", "m['z'] = '34'", 0, True),
        ("mapKeys(m) TYPE bloom_filter(0.0001)", "m['z'] = ''", 10, False),
        ("s TYPE ngrambf_v1(4, 4096, 3, 0)", "s LIKE '%w 34%'", 1, True),
        ("lower(s) TYPE ngrambf_v1(4, 4096, 3, 0)", "lower(s) LIKE '%w 34 %'", 1, True),
        ("s TYPE ngrambf_v1(4, 4096, 3, 0)", "s LIKE '%34%'", 10, False),
        ("s TYPE tokenbf_v1(4096, 3, 0)", "hasToken(s, '34')", 1, True),
        ("s TYPE tokenbf_v1(4096, 3, 0)", "s LIKE '% 34 %'", 1, True),
        ("s TYPE tokenbf_v1(4096, 3, 0)", "s LIKE '%34%'", 10, False),
        ("s TYPE tokenbf_v1(4096, 3, 0)", "startsWith(s, 'row 34 ')", 1, True),
        ("a TYPE tokenbf_v1(4096, 3, 0)", "has(a, '34')", 1, True),
    ],
)  # fmt: skip
def test_passes_over(local: Local, index: str, condition: str, granules: int, is_used: bool) -> None:
    local.run(f"{CREATE.format(f'INDEX i {index}')} {ENGINE}")
    local.run(FILL)
    lines = [str(line).strip() for (line,) in local.run(f"EXPLAIN indexes = 1 SELECT * FROM t WHERE {condition}")]
    used = [line for line in lines if line.startswith("Granules")]
    assert used == ([f"Granules: {granules}/10"] if is_used else [])


def test_is_explained(local: Local) -> None:
    local.run(f"{CREATE.format('INDEX i s TYPE bloom_filter, INDEX j v TYPE minmax GRANULARITY 2')} {ENGINE}")
    local.run(FILL)
    lines = [line for (line,) in local.run("EXPLAIN indexes = 1 SELECT * FROM t WHERE v < 3 AND s = 'row 0 of all'")]
    text = "\n".join(str(line).strip() for line in lines)
    assert text.endswith(
        "Skip\nName: j\nDescription: minmax GRANULARITY 2\nCondition: (v in (-Inf, 3))\nParts: 1/1\nGranules: 4/10\n"
        "Skip\nName: i\nDescription: bloom_filter GRANULARITY 1\nParts: 1/1\nGranules: 1/4"
    )


@pytest.mark.parametrize(
    ("query", "error"),
    one_in(3, [
        ("SELECT count() FROM t WHERE v = 3 SETTINGS force_data_skipping_indices = 'i'", 0),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS force_data_skipping_indices = '`i`,,'", 0),
        ("SELECT count() FROM t WHERE id = 3 SETTINGS force_data_skipping_indices = 'i'", 277),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS force_data_skipping_indices = 'i, j'", 277),
        ("SELECT count() FROM t SETTINGS force_data_skipping_indices = 'i'", 0),
        ("SELECT * FROM t SETTINGS force_data_skipping_indices = 'i'", 277),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS force_data_skipping_indices = 'i', use_skip_indexes = 0", 0),
        ("SELECT id FROM t WHERE v = 3 SETTINGS force_data_skipping_indices='i',ignore_data_skipping_indices='i'", 277),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS force_data_skipping_indices = ''", 6),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS ignore_data_skipping_indices = ''", 6),
        ("SELECT count() FROM t WHERE v = 3 SETTINGS ignore_data_skipping_indices = 'nope'", 0),
    ]),
)  # fmt: skip
def test_settings(local: Local, oracle: Oracle, query: str, error: int) -> None:
    create = f"{CREATE.format('INDEX i v TYPE minmax')} {ENGINE}"
    for run in (local.run, oracle.run):
        run(create)
        run(FILL)
    assert oracle.error(query) == error
    with pytest.raises(PandoError) if error else nullcontext() as refusal:
        local.run(query)
    assert refusal is None or refusal.value.code == error


_OF_TEXTS = "SELECT id FROM p WHERE {} ORDER BY id SETTINGS force_data_skipping_indices = '{}'"


@pytest.mark.parametrize(
    ("condition", "index", "rows"),
    [
        ("s LIKE 'K1'", "ng", None), ("s = 'K1'", "ng", None), ("s IN ('K1', 'longer')", "ng", None),
        ("s LIKE '%K1%'", "tk", None), ("f LIKE 'K1ZZ%'", "fn", 1), ("f LIKE 'ab cd%'", "fn", 1),
        ("f = 'K1ZZZZZZ'", "ft", 1), ("f = 'ab cd'", "fn", 1), ("f LIKE '%ZZZZ'", "fn", 1),
    ],
)  # fmt: skip
def test_pieces_of_fixed_strings_and_none(
    local: Local, oracle: Oracle, condition: str, index: str, rows: int | None
) -> None:
    """A text that is too short for a piece rules nothing out, and uses the index all the same."""
    kinds = {"ng": "s TYPE ngrambf_v1(4, 256, 2, 0)", "tk": "s TYPE tokenbf_v1(256, 2, 0)",
             "fn": "f TYPE ngrambf_v1(4, 256, 2, 0)", "ft": "f TYPE tokenbf_v1(256, 2, 0)"}  # fmt: skip
    query = _OF_TEXTS.format(condition, index) + (f", max_rows_to_read = {rows}" if rows else "")
    for run in (local.run, oracle.run):
        indexes = ", ".join(f"INDEX {name} {kind} GRANULARITY 1" for name, kind in kinds.items())
        run(f"CREATE TABLE p (id UInt8, s String, f FixedString(8), {indexes}) ENGINE = MergeTree ORDER BY id "
            "SETTINGS index_granularity = 1")  # fmt: skip
        run("INSERT INTO p VALUES (1, 'K1', 'K1ZZZZZZ'), (2, 'K2', 'ab cd')")
    found = [row[0] for row in local.run(query)]
    assert found == [int(line) for line in oracle.run(query).split()]
    assert found


def test_parts_without_the_index_are_read(local: Local) -> None:
    local.run(f"{CREATE.format('w UInt8')} {ENGINE}")
    local.run(FILL.replace("INTO t", "INTO t (id, v, s, a, n, m)"))
    local.run("ALTER TABLE t ADD INDEX i s TYPE bloom_filter(0.0001), ADD INDEX j w TYPE set(1)")
    explained = "EXPLAIN indexes = 1 SELECT * FROM t WHERE s = 'row 7 of all' AND w = 0"
    query = "SELECT id FROM t WHERE s = 'row 7 of all' AND w = 0"
    assert local.run(query) == [(7,)]
    assert local.run(explained)[-1] == ("        Granules: 10/10",)
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run(query) == [(7,)]
    assert local.run(explained)[-1] == ("        Granules: 1/1",)


def test_another_column_of_the_name(local: Local) -> None:
    """What an index says of a column that was dropped is not true of the one that came after."""
    local.run(f"{CREATE.format('INDEX i v TYPE minmax')} {ENGINE}")
    local.run(FILL)
    local.run("ALTER TABLE t DROP INDEX i, DROP COLUMN v")
    local.run("ALTER TABLE t ADD COLUMN v UInt64 DEFAULT 100000 + id, ADD INDEX i v TYPE minmax")
    assert local.run("SELECT count() FROM t WHERE v > 100089") == [(10,)]
    local.run("ALTER TABLE t RENAME COLUMN id TO v2")
    assert local.run("SELECT count() FROM t WHERE v > 100089") == [(10,)]
    local.run("ALTER TABLE t CLEAR COLUMN v")
    assert local.run("SELECT count() FROM t WHERE v > 100089") == [(10,)]
