"""Keys with NULL (``allow_nullable_key``): order, pruning, partitions and merges beside ClickHouse's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parts.common.errors import PandoError
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle

COLUMNS = "k Nullable(Int32), s LowCardinality(Nullable(String)), f Nullable(Float64), d Nullable(Date), v Int32"
ROWS = """
    SELECT if(number % 5 = 0, NULL, number * 7 % 23 - 5), if(number % 4 = 1, NULL, toString(number % 9)),
    if(number % 3 = 0, NULL, if(number % 7 = 1, nan, number / 8)),
    if(number % 6 = 2, NULL, toDate('2020-01-25') + number), number FROM numbers({}, {})
"""
TABLES = (
    "ORDER BY k",
    "ORDER BY (k, s, v)",
    "ORDER BY (s, f, v) PARTITION BY k % 3",
    "ORDER BY (f, k, v) PARTITION BY toYYYYMM(d)",
    "ORDER BY (d, k + 1, v) PARTITION BY (s, v % 2)",
    "ORDER BY (toYYYYMM(d), k, v)",
)
SETTINGS = "SETTINGS allow_nullable_key = 1, index_granularity = 4"


class Both:
    """One table here and in ClickHouse."""

    def __init__(self, local: Local, oracle: Oracle, keys: str) -> None:
        self.local, self.oracle = local, oracle
        self.run(f"CREATE TABLE t ({COLUMNS}) ENGINE = MergeTree {keys} {SETTINGS}")
        for begin, rows in ((0, 40), (40, 1), (41, 39)):
            self.run(f"INSERT INTO t {ROWS.format(begin, rows)}")

    def run(self, sql: str) -> None:
        self.local.run(sql)
        self.oracle.run(sql)

    def same(self, columns: str, rest: str) -> None:
        query = f"SELECT toString(tuple({columns})) AS row {rest}"
        assert [row[0] for row in self.local.run(query)] == self.oracle.run(query).splitlines(), query


@pytest.fixture(scope="module", params=one_in(3, TABLES))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    local, oracle = Local(tmp_path_factory.mktemp("nullable") / "data"), Oracle()
    yield Both(local, oracle, request.param)
    local.engine.stop()
    oracle.end()


def conditions() -> st.SearchStrategy[str]:
    compare = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    atom = st.one_of(
        st.builds("k {} {}".format, compare, st.integers(-7, 20)),
        st.builds("k + 1 {} {}".format, compare, st.integers(-7, 20)),
        st.builds("s {} '{}'".format, compare, st.integers(0, 9)),
        st.builds("f {} {}".format, st.sampled_from(["=", "<", "<=", ">", ">="]), st.integers(0, 9)),
        st.builds("d {} '2020-0{}-10'".format, compare, st.integers(1, 4)),
        st.builds("toYYYYMM(d) {} 20200{}".format, compare, st.integers(1, 4)),
        st.builds("k IN ({}, {})".format, st.integers(-6, 20), st.integers(-6, 20)),
        st.builds("s NOT IN ('{}', '{}')".format, st.integers(0, 9), st.integers(0, 9)),
        st.builds("{} IS {}NULL".format, st.sampled_from("ksfd"), st.sampled_from(["", "NOT "])),
        st.builds("v < {}".format, st.integers(0, 80)),
    )
    return st.recursive(
        atom,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner), st.builds("({} OR {})".format, inner, inner)
        ),
        max_leaves=3,
    )


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=conditions(), is_negated=st.booleans())
def test_same_rows(both: Both, condition: str, is_negated: bool) -> None:
    where = f"NOT ({condition})" if is_negated and "f " not in condition else condition  # NOT meets NaN otherwise there
    both.same("count(), sum(v)", f"FROM t WHERE {where}")
    both.same("v, k", f"FROM t WHERE {where} ORDER BY v LIMIT 7")
    assert (
        str(both.local.value(f"SELECT count() FROM t WHERE {where}"))
        == both.oracle.run(f"SELECT count() FROM t WHERE {where}").strip()
    )


@pytest.mark.parametrize("keys", one_in(6, TABLES))
def test_order_and_partitions(local: Local, oracle: Oracle, keys: str) -> None:
    both = Both(local, oracle, keys)
    partitions = "SELECT DISTINCT partition_id FROM system.parts WHERE table = 't' AND active{} ORDER BY 1"
    found = [row[0] for row in local.run(partitions.format(""))]
    assert found == oracle.run(partitions.format(" AND database = currentDatabase()")).splitlines()
    both.run("OPTIMIZE TABLE t FINAL")
    ids = [row[0] for row in local.run("SELECT DISTINCT _partition_id FROM t ORDER BY 1")]
    for id_ in ids if keys != "ORDER BY k" else ():  # there rows of equal keys have no order of their own
        both.same("k, s, f, d", f"FROM t WHERE _partition_id = '{id_}'")
    both.run("ALTER TABLE t DELETE WHERE k IS NULL SETTINGS mutations_sync = 2")
    both.same("count(), sum(v)", "FROM t WHERE v > 3")


def test_partition_of_null(local: Local, oracle: Oracle) -> None:
    both = Both(local, oracle, "ORDER BY v PARTITION BY k")
    text = "SELECT DISTINCT partition FROM system.parts WHERE table = 't' AND active{} ORDER BY 1"
    assert [row[0] for row in local.run(text.format(""))] == oracle.run(
        text.format(" AND database = currentDatabase()")
    ).splitlines()
    both.run("ALTER TABLE t DROP PARTITION NULL")
    both.run("ALTER TABLE t DROP PARTITION 3")
    both.same("k, count()", "FROM t GROUP BY k ORDER BY k")
    local.restart()
    both.same("k, count()", "FROM t WHERE k > 2 GROUP BY k ORDER BY k")


@pytest.mark.parametrize(
    "clauses",
    [
        "ORDER BY k",
        "ORDER BY (v, k + 1)",
        "ORDER BY tuple(s)",
        "ORDER BY v PARTITION BY k",
        "ORDER BY k SETTINGS allow_nullable_key = 0",
        "ORDER BY k SAMPLE BY k SETTINGS allow_nullable_key = 1",
        "ORDER BY v PARTITION BY f SETTINGS allow_nullable_key = 1",
        "ORDER BY k SETTINGS allow_nullable_key = 1",
    ],
)
def test_is_refused_without_the_setting(local: Local, oracle: Oracle, clauses: str) -> None:
    sql = f"CREATE TABLE n ({COLUMNS}) ENGINE = MergeTree {clauses}"
    expected = oracle.error(sql)
    if not expected:
        local.run(sql)
        return
    with pytest.raises(PandoError) as refusal:
        local.run(sql)
    assert refusal.value.code == expected
