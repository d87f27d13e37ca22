"""The tour of ``examples/`` runs as its README says, on a cluster of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("spark")]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def colony(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "colony")
    cluster.start(2)
    yield cluster
    cluster.stop(grace_seconds=5)


def test_the_whole_tour(colony: Cluster, tmp_path: Path) -> None:
    replicas = [status for status in colony.status() if status.name.startswith("r")]
    root = str(EXAMPLES.parent)
    environment = {
        **os.environ,
        "PANDO_URL": ",".join(f"http://127.0.0.1:{replica.port}" for replica in replicas),
        "PANDO_COLONY": str(tmp_path / "colony"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")])),
    }
    tour = subprocess.run(
        [sys.executable, "-m", "examples"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert tour.returncode == 0, tour.stdout + tour.stderr[-5000:]
    for told in (
        "|2026-11-01|10000|", "/page2| 1000|", "visits: 100000",
        "|   0| 1000|1498500.0|", "|   1| 1000| 749750.0|", "|   2| 1010|1500510.0|",
        "after run 1: 200 rows", "after run 2: 400 rows",
        "without r2: True", "written: 1000", "r2 has caught up: True", "exported: True", "loaded: True",
    ):  # fmt: skip
        assert told in tour.stdout, f"{told} is not in {tour.stdout}"


def test_the_readme_names_every_script() -> None:
    text = (EXAMPLES / "README.md").read_text()
    scripts = {file.name for file in EXAMPLES.glob("*.py") if not file.name.startswith("_")}
    assert all(f"`{name}`" in text for name in scripts)
    assert all(f'"{name.removesuffix(".py")}"' in (EXAMPLES / "__main__.py").read_text() for name in scripts)
