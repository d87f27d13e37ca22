"""A Distributed table whose cluster the configuration has no more: it is there, is shown, and can be dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.server.remote_servers_config import ShardConfig
from parts.common.errors import PandoError
from tests.engine.conftest import Local
from tests.engine.distributed.conftest import SHARDS


@pytest.fixture
def forgotten(tmp_path: Path) -> Iterator[Local]:
    """``d`` was made when there was the cluster ``two``."""
    local = Local(tmp_path / "data", remote_servers={"two": [ShardConfig.model_validate(shard) for shard in SHARDS]})
    for database in ("s1", "s2"):
        local.run(f"CREATE DATABASE {database}")
        local.run(f"CREATE TABLE {database}.t (k UInt64) ENGINE = MergeTree ORDER BY k")
    local.run("CREATE TABLE d AS s1.t ENGINE = Distributed(two, '', t, k)")
    local.run("INSERT INTO d SELECT number FROM numbers(9)")
    local.restart()  # with no cluster
    yield local
    local.engine.stop()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM d",
        "INSERT INTO d VALUES (1)",
        "SELECT * FROM cluster('two', s1.t)",
        "SELECT count() FROM (SELECT k FROM d)",
    ],
)
def test_it_is_not_read_or_written(forgotten: Local, statement: str) -> None:
    with pytest.raises(PandoError) as caught:
        forgotten.run(statement)
    assert caught.value.code == 701
    assert "two" in caught.value.message


def test_it_is_shown_moved_and_dropped(forgotten: Local) -> None:
    assert "ENGINE = Distributed('two', '', 't', k)" in str(forgotten.value("SHOW CREATE TABLE d"))
    assert forgotten.run("SELECT name, engine FROM system.tables WHERE name = 'd'") == [("d", "Distributed")]
    assert [row[:2] for row in forgotten.run("DESCRIBE TABLE d")] == [("k", "UInt64")]
    forgotten.run("RENAME TABLE d TO e")
    forgotten.run("DETACH TABLE e")
    forgotten.run("ATTACH TABLE e")
    forgotten.restart()
    assert forgotten.value("EXISTS TABLE e") == 1
    forgotten.run("DROP TABLE e")
    assert forgotten.value("EXISTS TABLE e") == 0
    assert forgotten.value("SELECT count() FROM s1.t") == 3


def test_its_cluster_may_come_back(forgotten: Local) -> None:
    forgotten.engine.stop()
    clusters = {"two": [ShardConfig.model_validate(shard) for shard in SHARDS]}
    forgotten.__init__(forgotten.path, remote_servers=clusters)  # type: ignore[misc]
    assert forgotten.value("SELECT sum(k) FROM d") == 36
