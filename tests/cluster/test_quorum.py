"""insert_quorum with real processes: what it promises, and what it says when it cannot keep it."""

from __future__ import annotations

import shutil

import pytest

from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas
from tests.cluster.sequential_reads import read_after_inserts

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]


@pytest.mark.long
def test_rows_survive_the_loss_of_the_acknowledging_replica(replicas: Replicas) -> None:
    table = replicas.new_table()
    replicas["r1"].execute(f"INSERT INTO {table} SETTINGS insert_quorum = 2 VALUES (1, 'kept')")
    replicas.cluster.kill("r1")
    shutil.rmtree(replicas.cluster.replica_directory("r1") / "data" / "data" / "default" / table, ignore_errors=True)
    rows = [replicas.try_value(name, f"SELECT count() FROM {table}") for name in ("r2", "r3")]
    assert 1 in rows
    replicas.wait_rows(table, 1, ["r2", "r3"])
    replicas.restart("r1")
    replicas.wait_rows(table, 1)


@pytest.mark.long
def test_too_few_live_replicas(replicas: Replicas) -> None:
    table = replicas.new_table()
    replicas.cluster.kill("r2")
    replicas.cluster.kill("r3")
    replicas.wait(
        lambda: replicas["r1"].value(f"SELECT active_replicas FROM system.replicas WHERE table = '{table}'") == 1,
        "ZooKeeper to notice",
    )
    with pytest.raises(PandoError) as raised:
        replicas["r1"].execute(f"INSERT INTO {table} SETTINGS insert_quorum = 2 VALUES (1, 'x')")
    assert raised.value.code == 285
    replicas.restart("r2")
    replicas.restart("r3")
    replicas.wait_rows(table, 0)


@pytest.mark.parametrize("parallel", [0, 1])
def test_time_out_is_unknown_and_the_repeat_stores_once(replicas: Replicas, parallel: int) -> None:
    table = replicas.new_table()
    for name in ("r2", "r3"):
        replicas[name].execute(f"SYSTEM STOP FETCHES {table}")
    statement = (
        f"INSERT INTO {table} SETTINGS insert_quorum = 2, insert_quorum_parallel = {parallel}, "
        "insert_quorum_timeout = {} VALUES (7, 'seven')"
    )
    with pytest.raises(PandoError) as raised:
        replicas["r1"].execute(statement.format(1000))
    assert raised.value.code == 319
    sequential = {"select_sequential_consistency": 1}
    assert replicas["r1"].rows(f"SELECT count() FROM {table}", settings=sequential) == [[0]]
    for name in ("r2", "r3"):
        replicas[name].execute(f"SYSTEM START FETCHES {table}")
    replicas["r1"].execute(statement.format(30000))
    replicas.wait_rows(table, 1)
    assert replicas["r1"].rows(f"SELECT count() FROM {table}", settings=sequential) == [[1]]


@pytest.mark.long
def test_sequential_reads_at_once_after_the_acknowledgement(replicas: Replicas) -> None:
    """A long run of it: ``python -m tests.cluster.sequential_reads``."""
    counts = read_after_inserts(list(replicas.clients.values()), replicas.new_table("k UInt64"), reads=100, seed=1)
    assert counts["stale"] == 0, counts
    assert counts["shown"] > 0
