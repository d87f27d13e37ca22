"""INSERT into a Distributed table: which row goes where, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.server.remote_servers_config import ShardConfig
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.engine.distributed.conftest import SHARDS


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Local]:
    clusters = {"two": [ShardConfig.model_validate(shard) for shard in SHARDS]}
    clusters["one"] = clusters["two"][:1]
    local = Local(tmp_path / "data", remote_servers=clusters)
    for database in ("s1", "s2"):
        local.run(f"CREATE DATABASE {database}")
        local.run(
            f"CREATE TABLE {database}.t (k Int64, v String DEFAULT 'none', w String MATERIALIZED concat(v, '!'))"
            " ENGINE = MergeTree ORDER BY k SETTINGS non_replicated_deduplication_window = 100"
        )
    yield local
    local.engine.stop()


def _refused(local: Local, sql: str) -> PandoError:
    with pytest.raises(PandoError) as caught:
        local.run(sql)
    return caught.value


def test_the_key_modulo_the_weights_says_where(shards: Local) -> None:
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    shards.run("INSERT INTO d (k) SELECT number - 3 FROM numbers(12)")
    # Weights 1 and 2: of the slots 0, 1 and 2 the first is the first shard's. A negative key counts by its 64 bits.
    first = [k for k in range(-3, 9) if k % 2**64 % 3 == 0]
    assert shards.run("SELECT k FROM s1.t ORDER BY k") == [(k,) for k in first]
    assert shards.value("SELECT count() FROM s2.t") == 12 - len(first)
    assert shards.run("SELECT v, w FROM d WHERE k = 1") == [("none", "none!")]
    shards.run("INSERT INTO d VALUES (100, 'x')")
    assert shards.run("SELECT k, v, w, _shard_num FROM d WHERE k = 100") == [(100, "x", "x!", 2)]


def test_a_materialized_column_may_be_given(shards: Local) -> None:
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    shards.run("INSERT INTO d (k, w) SETTINGS insert_allow_materialized_columns = 1 VALUES (3, 'own'), (4, 'other')")
    assert shards.run("SELECT k, w FROM d ORDER BY k") == [(3, "own"), (4, "other")]


def test_an_insert_that_is_repeated_doubles_nothing(shards: Local) -> None:
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, rand())")
    for _ in range(3):
        shards.run("INSERT INTO d (k) SELECT number FROM numbers(1000)")
    assert shards.run("SELECT count(), uniqExact(k) FROM d") == [(1000, 1000)]
    assert 250 < shards.value("SELECT count() FROM s1.t") < 420
    for _ in range(2):  # the token counts, not the rows
        shards.run("INSERT INTO d (k) SETTINGS insert_deduplication_token = 'a' SELECT number FROM numbers(1000)")
    assert shards.value("SELECT count() FROM d") == 2000


def test_equal_rows_of_another_insert_are_kept(shards: Local) -> None:
    """The INSERT is known, not what a shard gets of it."""
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    shards.run("INSERT INTO d (k) VALUES (3), (1)")
    shards.run("INSERT INTO d (k) VALUES (3), (2)")
    assert shards.run("SELECT k FROM d ORDER BY k") == [(1,), (2,), (3,), (3,)]
    shards.run("INSERT INTO d (k) VALUES (3), (2)")
    assert shards.value("SELECT count() FROM d") == 4


def test_one_shard_needs_no_key(shards: Local) -> None:
    shards.run("CREATE TABLE single AS s1.t ENGINE = Distributed(one, '', t)")
    shards.run("INSERT INTO single (k) VALUES (1), (2)")
    assert shards.value("SELECT count() FROM s1.t") == 2
    shards.run("CREATE TABLE keyless AS s1.t ENGINE = Distributed(two, '', t)")
    assert _refused(shards, "INSERT INTO keyless (k) VALUES (1)").code == 55


def test_a_failure_names_the_shard(shards: Local) -> None:
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    shards.run("DROP TABLE s2.t")
    error = _refused(shards, "INSERT INTO d (k) SELECT number FROM numbers(10)")
    assert error.code == 279
    assert "shard 2" in error.message
    assert shards.value("SELECT count() FROM s1.t") == 4  # what a shard has it keeps
    assert _refused(shards, "INSERT INTO d (k) SETTINGS insert_transaction = 'x' VALUES (1)").code == 48


def test_tables_behind_each_other(shards: Local) -> None:
    shards.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    shards.run("CREATE TABLE outer AS s1.t ENGINE = Distributed(two, default, d, k)")
    shards.run("INSERT INTO outer (k) SELECT number FROM numbers(9)")
    assert shards.value("SELECT count() FROM d") == 9
    shards.run("CREATE TABLE circle AS s1.t ENGINE = Distributed(two, default, circle, k)")
    assert _refused(shards, "INSERT INTO circle (k) VALUES (1)").code == 581
