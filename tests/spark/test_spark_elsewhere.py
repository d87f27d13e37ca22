"""Spark in processes of its own: a Spark Connect server and its client, a standalone cluster with its workers."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import Pando
from tests.spark.test_spark_kills import NEW, children, job, kill_group, new_table, seen

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]

_BIN = Path(pyspark.__file__).parent / "bin"
_SECONDS = 120.0
_DEPLOY = "org.apache.spark.deploy"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_DAEMON_MEMORY": "512m",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")])),
    }


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
    deadline = time.monotonic() + _SECONDS
    while word not in (text := log.read_text()):
        assert process.poll() is None, text[-5000:]
        assert time.monotonic() < deadline, text[-5000:]
        time.sleep(0.05)


def run_client(directory: Path, address: str, options: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tests.spark.client", address, json.dumps(options)]
    done = subprocess.run(
        command, env=environment(directory), capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]


_MISSING = [name for name in ("grpc", "grpc_status", "google.rpc") if not (
    importlib.util.find_spec(name.partition(".")[0]) and importlib.util.find_spec(name)
)]  # fmt: skip


@pytest.mark.skipif(bool(_MISSING), reason=f"the extra 'connect' is not installed: {_MISSING} are missing")
def test_spark_connect(pando: Pando, tmp_path: Path) -> None:
    port = free_port()
    options = {
        "master": "local[2]",
        "class": "org.apache.spark.sql.connect.service.SparkConnectServer",
        "conf": f"spark.connect.grpc.binding.port={port}",
    }
    named = [word for name, value in options.items() for word in (f"--{name}", value)]
    with running(tmp_path / "server", str(_BIN / "spark-submit"), *named) as server:
        wait_for(server, tmp_path / "server" / "log", "Spark Connect server started")
        run_client(tmp_path, f"sc://127.0.0.1:{port}", pando.options("by_connect"))


@contextmanager
def standalone(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and two workers: its address, and their processes."""
    address = f"spark://127.0.0.1:{free_port()}"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        directory = tmp_path / "master"
        command = (str(_BIN / "spark-class"), f"{_DEPLOY}.master.Master", *here, "--port", address.rpartition(":")[2])
        master = stack.enter_context(running(directory, *command))
        wait_for(master, directory / "log", "I have been elected leader")
        workers = []
        for number in range(2):
            directory = tmp_path / f"worker{number}"
            command = (str(_BIN / "spark-class"), f"{_DEPLOY}.worker.Worker", *here, "--cores", "1", "--memory", "1g")
            workers.append(stack.enter_context(running(directory, *command, "--work-dir", str(directory), address)))
            wait_for(workers[-1], directory / "log", "Successfully registered with master")
        yield address, workers


def test_a_standalone_cluster_with_a_worker_that_is_killed(pando: Pando, tmp_path: Path) -> None:
    """First the job of a whole cluster, then one whose first task is in the middle when its worker dies."""
    with standalone(tmp_path) as (address, workers):
        run_client(tmp_path, address, pando.options("by_standalone"))
        table = new_table(pando)
        with job(pando, table, "task", tmp_path, address) as writing:
            writing.reach()
            task = int(writing.file.read_text())
            (victim,) = [worker for worker in workers if task in children(worker.pid)]
            kill_group(victim)
            writing.go_on()
            assert writing.end() == 0, (tmp_path / "log").read_text()[-5000:]
    assert seen(pando, table) == {NEW}
