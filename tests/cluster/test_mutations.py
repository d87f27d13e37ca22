"""Mutations with real processes, workers and a real ZooKeeper; one of the servers is killed in the middle."""

from __future__ import annotations

import pytest

from parts.common.errors import PandoError
from tests.cluster.conftest import Replicas

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("replicas")]


def test_all_servers_change_the_same_rows(replicas: Replicas) -> None:
    table = replicas.new_table()
    replicas["r1"].execute(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers(1000)")
    replicas.wait_rows(table, 1000)
    replicas["r2"].execute(
        f"ALTER TABLE {table} UPDATE v = concat(v, '!') WHERE k % 2 = 0", settings={"mutations_sync": 2}
    )
    replicas["r3"].execute(f"DELETE FROM {table} WHERE k >= 900")
    for name in ("r1", "r2", "r3"):
        assert replicas[name].rows(f"SELECT count(), countIf(v LIKE '%!') FROM {table}") == [[900, 450]]
    replicas.wait_equal(table)
    with pytest.raises(PandoError) as caught:
        replicas["r1"].execute(f"ALTER TABLE {table} UPDATE v = toString(rand()) WHERE 1")
    assert caught.value.code == 36


@pytest.mark.long
def test_a_server_is_killed_in_the_middle(replicas: Replicas) -> None:
    """What it has not done it does when it is back; KILL MUTATION ends what fails."""
    table = replicas.new_table()
    for start in range(0, 500, 100):
        replicas["r1"].execute(f"INSERT INTO {table} SELECT number + {start}, '' FROM numbers(100)")
    replicas.wait_rows(table, 500)
    replicas.cluster.kill("r3")
    for mark in "abc":
        statement = f"ALTER TABLE {table} UPDATE v = concat(v, '{mark}') WHERE k % 2 = 0"
        replicas["r1"].execute(statement, settings={"mutations_sync": 0})
    replicas.cluster.kill("r1")
    replicas.restart("r1")
    replicas.restart("r3")
    count = f"SELECT countIf(v = 'abc'), countIf(v = '') FROM {table}"
    for name in ("r1", "r2", "r3"):
        replicas.wait(lambda name=name: replicas[name].rows(count) == [[250, 250]], f"{name} to be done")  # type: ignore[misc]
    replicas.wait_equal(table)
    replicas["r2"].execute(
        f"ALTER TABLE {table} UPDATE v = toString(toUInt8(v)) WHERE 1", settings={"mutations_sync": 0}
    )
    failed = f"SELECT count() FROM system.mutations WHERE table = '{table}' AND latest_fail_reason != ''"
    replicas.wait(lambda: replicas["r2"].value(failed) == 1, "it to fail")
    replicas["r1"].execute(f"KILL MUTATION WHERE table = '{table}'")
    replicas.wait(
        lambda: (
            replicas["r2"].value(f"SELECT count() FROM system.mutations WHERE table = '{table}' AND NOT is_done") == 0
        ),
        "it to be gone",
    )
    replicas["r3"].execute(f"OPTIMIZE TABLE {table} FINAL")
    replicas.wait_equal(table)
    assert replicas["r1"].rows(count) == [[250, 250]]
