"""SIGKILL at every step that matters; after the restart every acknowledged row is there exactly once, everywhere."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas
from tests.portions import one_in
from tests.worker_count import WORKERS

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]


@pytest.mark.parametrize(
    "failpoint",
    one_in(4, ["insert.after_rename", "insert.after_temporary_part", "insert.after_commit", "insert.before_commit"]),
)
def test_kill_during_insert(replicas: Replicas, failpoint: str) -> None:
    table = replicas.new_table()
    replicas["r1"].execute(f"INSERT INTO {table} VALUES (1, 'before')")
    replicas.restart("r1", f"{failpoint}=kill")
    statement = f"INSERT INTO {table} VALUES (2, 'two'), (3, 'three')"
    with pytest.raises(PandoError):
        replicas["r1"].execute(statement)
    if WORKERS and failpoint == "insert.after_temporary_part":
        replicas.cluster.kill("r1")  # it was a worker that ended
    replicas.wait_dead("r1")
    replicas["r2"].execute(statement)  # what a client does that got no answer
    replicas.restart("r1")
    replicas["r1"].execute(statement)
    replicas.wait_rows(table, 3)
    replicas.wait_equal(table)
    for name in replicas.clients:
        assert replicas[name].rows(f"SELECT k, v FROM {table} ORDER BY k") == [[1, "before"], [2, "two"], [3, "three"]]


@pytest.mark.long
@pytest.mark.parametrize(
    "failpoint",
    ["fetch.piece", "fetch.after_temporary_part", "produced.after_rename", "produced.after_commit"],
)
def test_kill_during_fetch(replicas: Replicas, failpoint: str) -> None:
    table = replicas.new_table()
    replicas.restart("r2", f"{failpoint}=kill")
    replicas["r1"].execute(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers(1000)")
    replicas.wait_dead("r2")
    replicas["r3"].execute(f"INSERT INTO {table} SELECT number + 1000, toString(number) FROM numbers(1000)")
    replicas.restart("r2")
    replicas.wait_rows(table, 2000)
    replicas.wait_equal(table)
    for name in replicas.clients:
        assert replicas[name].rows(f"SELECT sum(k), uniqExact(k) FROM {table}") == [[1999000, 2000]]


@pytest.mark.long
@pytest.mark.parametrize("failpoint", ["produced.after_rename", "merge.after_temporary_part", "produced.after_commit"])
def test_kill_during_merge(replicas: Replicas, failpoint: str) -> None:
    table = replicas.new_table(settings="max_bytes_to_merge_at_max_space_in_pool = 1")  # no merge but the asked one
    for start in range(0, 3000, 1000):
        replicas["r1"].execute(f"INSERT INTO {table} SELECT number + {start}, 'x' FROM numbers(1000)")
    replicas.wait_rows(table, 3000)
    replicas.restart("r1", f"{failpoint}=kill")
    with pytest.raises(PandoError):
        replicas["r1"].execute(f"OPTIMIZE TABLE {table} FINAL")
    replicas.wait_dead("r1")
    replicas.restart("r1")
    replicas.wait(lambda: len(replicas.content("r1", table)) == 1, "the merge on r1")
    replicas.wait_rows(table, 3000)
    replicas.wait_equal(table)
    assert replicas["r1"].rows(f"SELECT sum(k), uniqExact(k) FROM {table}") == [[4498500, 3000]]
