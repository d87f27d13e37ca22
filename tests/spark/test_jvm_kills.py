"""Whatever is killed of a job without Python writers that overwrites a table: old rows are seen, or new ones, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import Pando
from tests.spark.jvm_job import ROWS
from tests.spark.test_jvm_read import Between
from tests.spark.test_spark_elsewhere import standalone
from tests.spark.test_spark_kills import NEW, OLD, Job, children, driver, kill_group, new_table, seen

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

assert NEW == (ROWS, ROWS)


@contextmanager
def job(
    pando: Pando, table: str, directory: Path, *, url: str = "", waits: bool = True, master: str = "local[2, 4]"
) -> Iterator[Job]:
    options = pando.options(table, batch_rows="1000")
    arguments = ["tests.spark.jvm_job", master, str(directory / "reached") if waits else ""]
    with driver(arguments, {**options, "url": url or options["url"]}, directory) as running:
        yield running


def kill_below(running: Job, name: str) -> None:
    victims = [pid for pid, command in children(running.process.pid).items() if name in command]
    assert victims
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def end_well(running: Job, directory: Path) -> None:
    assert running.end() == 0, (directory / "log").read_text()[-5000:]


@pytest.mark.parametrize("moment", ["task", "before", "after"])
def test_a_driver_that_is_killed(pando: Pando, tmp_path: Path, moment: str) -> None:
    """In the middle of a task; when it sends its commit, which never comes; when the commit's answer is on its way."""
    table = new_table(pando)
    with Between(pando.urls["r1"]) as between, job(pando, table, tmp_path, url=between.url) as running:
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
    with job(pando, table, tmp_path, waits=False) as again:
        end_well(again, tmp_path)
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize(
    ("master", "name"),
    [("local[2, 4]", "pyspark.daemon"), ("local-cluster[2,1,1024]", "CoarseGrainedExecutorBackend")],
    ids=["python worker", "executor"],
)
def test_what_runs_tasks_is_killed(pando: Pando, tmp_path: Path, master: str, name: str) -> None:
    table = new_table(pando)
    with job(pando, table, tmp_path, master=master) as running:
        running.reach()
        assert seen(pando, table) == {OLD}
        kill_below(running, name)
        running.go_on()
        end_well(running, tmp_path)
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize("victim", ["r1", "r2", "zookeeper"])
def test_a_server_that_is_killed_under_a_job(pando: Pando, tmp_path: Path, victim: str) -> None:
    table = new_table(pando)
    with job(pando, table, tmp_path) as running:
        running.reach()
        pando.cluster.kill(victim)
        pando.cluster.restart(victim)
        pando.wait_writable(table)
        running.go_on()
        end_well(running, tmp_path)
    assert seen(pando, table) == {NEW}


def test_a_worker_of_a_standalone_cluster_is_killed(pando: Pando, tmp_path: Path) -> None:
    table = new_table(pando)
    with standalone(tmp_path) as (address, workers), job(pando, table, tmp_path, master=address) as running:
        running.reach()
        task = int(running.file.read_text())
        (victim,) = [worker for worker in workers if task in children(worker.pid)]
        kill_group(victim)
        running.go_on()
        end_well(running, tmp_path)
    assert seen(pando, table) == {NEW}
