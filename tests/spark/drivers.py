"""Jobs in processes of their own (``job.py``), standalone clusters for them, and what they have written."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.spark.conftest import Pando, rows
from tests.spark.job import ROWS

OLD = (3, 3)
NEW = (ROWS, ROWS)
SECONDS = 120.0
BIN = Path(pyspark.__file__).parent / "bin"
_DEPLOY = "org.apache.spark.deploy"
_NO_CONF: Mapping[str, str] = {}


def environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_DAEMON_MEMORY": "512m",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")])),
    }


# -- a job ------------------------------------------------------------------------------------------------------------


class Job:
    """A driver that runs, and the file that it makes in the middle of its first task."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self.file = directory / "reached"
        self._log = directory / "log"

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, self._log.read_text()[-5000:]
            assert self.process.poll() is None, self._log.read_text()[-5000:]
            time.sleep(0.02)

    def reach(self) -> None:
        self.wait_for(self.file.exists)

    def go_on(self) -> None:
        self.file.unlink(missing_ok=True)

    def end_well(self) -> None:
        assert self.process.wait(SECONDS) == 0, self._log.read_text()[-5000:]

    def kill_below(self, name: str) -> None:
        """Kills all processes below the driver whose command has the name."""
        victims = [pid for pid, command in children(self.process.pid).items() if name in command]
        assert victims
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@contextmanager
def job(
    pando: Pando,
    table: str,
    side: str,
    directory: Path,
    *,
    master: str = "local[2, 4]",
    url: str = "",
    waits: bool = True,
    conf: Mapping[str, str] = _NO_CONF,
) -> Iterator[Job]:
    """A job in a process group of its own; what is left of it ends with the block."""
    options = pando.options(table, batch_rows="1000") | ({"url": url} if url else {})
    file = str(directory / "reached") if waits else ""
    command = [sys.executable, "-m", "tests.spark.job", side, master, file, json.dumps(options)]
    given = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    own = {**environment(directory), "PYSPARK_SUBMIT_ARGS": f"{given} pyspark-shell"}
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Job(process, directory)
        finally:
            kill_group(process)
            process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def children(pid: int) -> dict[int, str]:
    """All below a process, with their command lines."""
    found: dict[int, str] = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found |= children(child)
    return found


# -- its table --------------------------------------------------------------------------------------------------------


def new_table(pando: Pando) -> str:
    table = pando.new_table("k Int64", "k", partition="k % 3")
    pando["r1"].execute(f"INSERT INTO {table} VALUES (-1), (-2), (-3)")
    pando.sync(table)
    return table


def seen(pando: Pando, table: str) -> set[tuple[object, ...]]:
    pando.sync(table)
    return {rows(client, f"SELECT count(), uniqExact(k) FROM {table}")[0] for client in pando.clients.values()}


# -- a cluster of Spark -----------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def running(directory: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a process group of its own, which ends with the block."""
    directory.mkdir(exist_ok=True)
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(
            command, env=environment(directory), cwd=directory, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            kill_group(process)
            process.wait()


def wait_for(process: subprocess.Popen[bytes], log: Path, word: str) -> None:
    """Until its log says so."""
    deadline = time.monotonic() + SECONDS
    while word not in (text := log.read_text()):
        assert process.poll() is None, text[-5000:]
        assert time.monotonic() < deadline, text[-5000:]
        time.sleep(0.05)


@contextmanager
def standalone(tmp_path: Path, *hosts: str) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and a worker on each host (two on this one): its address, and the workers' processes."""
    address = f"spark://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        directory = tmp_path / "master"
        here = ("--host", "127.0.0.1", "--webui-port", "0", "--port", address.rpartition(":")[2])
        master = stack.enter_context(running(directory, str(BIN / "spark-class"), f"{_DEPLOY}.master.Master", *here))
        wait_for(master, directory / "log", "I have been elected leader")
        workers = []
        for number, host in enumerate(hosts or ("127.0.0.1", "127.0.0.1")):
            directory = tmp_path / f"worker{number}"
            there = ("--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g")
            command = (str(BIN / "spark-class"), f"{_DEPLOY}.worker.Worker", *there, "--work-dir", str(directory))
            workers.append(stack.enter_context(running(directory, *command, address)))
            wait_for(workers[-1], directory / "log", "Successfully registered with master")
        yield address, workers
