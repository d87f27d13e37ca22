"""Whatever is killed, or tried twice, of a job that overwrites a table: old rows are seen, or the new ones, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.conftest import Pando
from tests.spark.drivers import NEW, OLD, children, job, kill_group, new_table, seen, standalone
from tests.spark.test_jvm_read import Between

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture(params=["python", "jvm"])
def side(request: pytest.FixtureRequest) -> str:
    """Who writes the rows."""
    return str(request.param)


@pytest.mark.parametrize("moment", ["task", "before", "after"])
def test_a_driver_that_is_killed(pando: Pando, tmp_path: Path, side: str, moment: str) -> None:
    """In the middle of a task; when it sends its commit, which never comes; when the commit's answer is on its way."""
    table = new_table(pando)
    with Between(pando.urls["r1"]) as between, job(pando, table, side, tmp_path, url=between.url) as running:
        running.reach()
        assert seen(pando, table) == {OLD}

        def kill() -> None:
            kill_group(running.process)

        if moment == "task":
            kill()
        else:
            if moment == "before":
                between.interrupts, between.interrupt = "COMMIT TRANSACTION", kill
                between.drops = "COMMIT TRANSACTION"
            else:
                between.loses, between.lose = "COMMIT TRANSACTION", kill
            running.go_on()
        running.process.wait(120)
    expected = NEW if moment == "after" else OLD
    assert seen(pando, table) == {expected}
    with job(pando, table, side, tmp_path, waits=False) as again:
        again.end_well()
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize(
    ("master", "name"),
    [("local[2, 4]", "pyspark.daemon"), ("local-cluster[2,1,1024]", "CoarseGrainedExecutorBackend")],
    ids=["python worker", "executor"],
)
def test_what_runs_tasks_is_killed(pando: Pando, tmp_path: Path, side: str, master: str, name: str) -> None:
    """In the middle of a task that has staged some of its rows; Spark runs it again."""
    table = new_table(pando)
    with job(pando, table, side, tmp_path, master=master) as running:
        running.reach()
        assert seen(pando, table) == {OLD}
        running.kill_below(name)
        running.go_on()
        running.end_well()
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize("victim", ["r1", "r2", "zookeeper"])
def test_a_server_that_is_killed_under_a_job(pando: Pando, tmp_path: Path, side: str, victim: str) -> None:
    table = new_table(pando)
    with job(pando, table, side, tmp_path) as running:
        running.reach()
        pando.cluster.kill(victim)
        pando.cluster.restart(victim)
        pando.wait_writable(table)
        running.go_on()
        running.end_well()
    assert seen(pando, table) == {NEW}


def test_a_worker_of_a_standalone_cluster_is_killed(pando: Pando, tmp_path: Path, side: str) -> None:
    table = new_table(pando)
    with standalone(tmp_path) as (address, workers), job(pando, table, side, tmp_path, master=address) as running:
        running.reach()
        task = int(running.file.read_text())
        (victim,) = [worker for worker in workers if task in children(worker.pid)]
        kill_group(victim)
        running.go_on()
        running.end_well()
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize("slow", ["for ever", "until there is another"])
def test_a_task_that_spark_tries_twice_at_once(pando: Pando, tmp_path: Path, side: str, slow: str) -> None:
    """Spark speculates on another host. Either the slow attempt never ends, or both end at about the same time."""
    table, events = new_table(pando), tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    hosts = ("127.0.0.1", "127.0.0.2")
    with (
        standalone(tmp_path, *hosts) as (address, _),
        job(pando, table, side, tmp_path, master=address, conf=conf) as running,
    ):
        running.reach()
        running.wait_for(running.file.with_name("reached.again").exists)
        if slow != "for ever":
            running.go_on()
        running.end_well()
    assert seen(pando, table) == {NEW}
    logs = [file for file in events.rglob("*") if file.is_file() and not file.name.startswith(".")]
    found = [json.loads(line) for file in logs for line in file.open()]
    tasks = [event["Task Info"] for event in found if event["Event"] == "SparkListenerTaskStart"]
    again = [task for task in tasks if task["Speculative"]]
    first = [task for task in tasks if not task["Speculative"]]
    assert len(first) == 4
    assert again
    for task in again:
        assert {task["Host"], *(other["Host"] for other in first if other["Index"] == task["Index"])} == set(hosts)
