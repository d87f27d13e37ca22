"""SIGKILL between the commit of a table and those of its views: the repeated INSERT completes it, exactly once."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas
from tests.worker_count import WORKERS

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]


@pytest.mark.long
@pytest.mark.parametrize("repeats_at", ["r1", "r2"])
def test_kill_between_a_table_and_its_views(replicas: Replicas, repeats_at: str) -> None:
    table = replicas.new_table()
    targets = [replicas.new_table("n UInt64, k UInt64") for _ in range(2)]
    for client in replicas.clients.values():
        for target in targets:
            client.execute(
                f"CREATE MATERIALIZED VIEW view_{target} TO {target} AS SELECT count() AS n, max(k) AS k FROM {table}"
            )
    replicas["r1"].execute(f"INSERT INTO {table} VALUES (1, 'before')")
    for name in (table, *targets):
        replicas.wait_rows(name, 1)
    replicas.restart("r1", "insert.before_views=kill")
    statement = f"INSERT INTO {table} VALUES (2, 'two'), (3, 'three')"
    with pytest.raises(PandoError):
        replicas["r1"].execute(statement)
    if WORKERS:
        replicas.cluster.kill("r1")  # it was a worker that ended
    replicas.wait_dead("r1")
    if repeats_at == "r1":
        replicas.restart("r1")
        replicas.wait_rows(table, 3)
        assert [replicas["r1"].value(f"SELECT count() FROM {target}") for target in targets] == [1, 1]
    for _ in range(2):
        replicas[repeats_at].execute(statement)
    replicas.restart("r1")
    replicas["r1"].execute(statement)
    replicas["r3"].execute(f"INSERT INTO {table} VALUES (4, 'two'), (5, 'three')")
    replicas.wait_rows(table, 5)
    for target in targets:
        replicas.wait_rows(target, 3)
        for name in replicas.clients:
            rows = replicas[name].rows(f"SELECT n, k FROM {target} ORDER BY k")
            assert rows == [[1, 1], [2, 3], [2, 5]], name
