"""Spark in processes of its own: a Spark Connect server and its client, a standalone cluster with its workers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import Pando
from tests.spark.drivers import BIN, SECONDS, environment, free_port, running, standalone, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("spark")]


def run_client(directory: Path, address: str, options: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tests.spark.client", address, json.dumps(options)]
    done = subprocess.run(
        command, env=environment(directory), capture_output=True, text=True, timeout=SECONDS, check=False
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
    with running(tmp_path / "server", str(BIN / "spark-submit"), *named) as server:
        wait_for(server, tmp_path / "server" / "log", "Spark Connect server started")
        run_client(tmp_path, f"sc://127.0.0.1:{port}", pando.options("by_connect"))


def test_a_standalone_cluster(pando: Pando, tmp_path: Path) -> None:
    with standalone(tmp_path) as (address, _):
        run_client(tmp_path, address, pando.options("by_standalone"))
