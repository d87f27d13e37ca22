"""Whatever of a job is killed while it overwrites a table: readers see the old rows, or the new ones, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.spark.conftest import Pando, rows
from tests.spark.job import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

OLD = (3, 3)
NEW = (ROWS, ROWS)
_SECONDS = 120.0


@contextmanager
def job(pando: Pando, table: str, moment: str, directory: Path, master: str = "local[2, 4]") -> Iterator[Job]:
    """A driver in a process group of its own; what is left of it ends with the block."""
    module = ["tests.spark.job", master, moment, str(directory / "reached")]
    with driver(module, pando.options(table, batch_rows="1000"), directory) as running:
        yield running


@contextmanager
def driver(module: list[str], given: dict[str, str], directory: Path) -> Iterator[Job]:
    """Runs a module with its arguments, and the options as the last one."""
    file = directory / "reached"
    command = [sys.executable, "-m", *module]
    options = json.dumps(given)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")])),
    }
    with open(directory / "log", "w") as log:
        process = subprocess.Popen([*command, options], env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Job(process, file, directory / "log")
        finally:
            kill_group(process)
            process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Job:
    def __init__(self, process: subprocess.Popen[bytes], file: Path, log: Path) -> None:
        self.process = process
        self.file = file
        self._log = log

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < deadline, self._log.read_text()[-5000:]
            assert self.process.poll() is None, self._log.read_text()[-5000:]
            time.sleep(0.02)

    def reach(self) -> None:
        self.wait_for(self.file.exists)

    def go_on(self) -> None:
        self.file.unlink(missing_ok=True)

    def end(self) -> int:
        return self.process.wait(_SECONDS)


def new_table(pando: Pando) -> str:
    table = pando.new_table("k Int64", "k", partition="k % 3")
    pando["r1"].execute(f"INSERT INTO {table} VALUES (-1), (-2), (-3)")
    pando.sync(table)
    return table


def seen(pando: Pando, table: str) -> set[tuple[object, ...]]:
    pando.sync(table)
    return {rows(client, f"SELECT count(), uniqExact(k) FROM {table}")[0] for client in pando.clients.values()}


@pytest.mark.parametrize(("moment", "expected"), [("task", OLD), ("before", OLD), ("after", NEW)])
def test_a_driver_that_is_killed(pando: Pando, tmp_path: Path, moment: str, expected: tuple[int, int]) -> None:
    table = new_table(pando)
    with job(pando, table, moment, tmp_path) as running:
        running.reach()
        assert seen(pando, table) == {expected}
        kill_group(running.process)
        running.end()
    assert seen(pando, table) == {expected}
    with job(pando, table, "never", tmp_path) as again:
        assert again.end() == 0
    assert seen(pando, table) == {NEW}


def children(pid: int) -> dict[int, str]:
    """All below a process, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found |= children(child)
    return found


@pytest.mark.parametrize(
    ("master", "name"),
    [("local[2, 4]", "pyspark.daemon"), ("local-cluster[2,1,1024]", "CoarseGrainedExecutorBackend")],
    ids=["python worker", "executor"],
)
def test_what_runs_tasks_is_killed(pando: Pando, tmp_path: Path, master: str, name: str) -> None:
    """In the middle of a task that has staged some of its rows; Spark runs it again."""
    table = new_table(pando)
    with job(pando, table, "task", tmp_path, master) as running:
        running.reach()
        assert seen(pando, table) == {OLD}
        victims = [pid for pid, command in children(running.process.pid).items() if name in command]
        assert victims
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        running.go_on()
        assert running.end() == 0, (tmp_path / "log").read_text()[-5000:]
    assert seen(pando, table) == {NEW}


@pytest.mark.parametrize("victim", ["r1", "r2", "zookeeper"])
def test_a_server_that_is_killed_under_a_job(pando: Pando, tmp_path: Path, victim: str) -> None:
    table = new_table(pando)
    with job(pando, table, "task", tmp_path) as running:
        running.reach()
        pando.cluster.kill(victim)
        pando.cluster.restart(victim)
        pando.wait_writable(table)
        running.go_on()
        assert running.end() == 0, (tmp_path / "log").read_text()[-5000:]
    assert seen(pando, table) == {NEW}
