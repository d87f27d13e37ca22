"""A Python of its own for every client, and a server process for every test.

An environment is made once, in ``.venv/clients/<name>`` beside the project's own, and again when its packages change.
With ``PANDO_TEST_CLIENTS=newest`` (``make test-clients``) it has the newest versions of the registry, is in a temporary
folder and made by every run; a client that cannot be installed is skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.worker_count import WORKERS

ROOT = Path(__file__).parents[2]
CONSTRAINTS = Path(__file__).parent / "constraints.txt"
PACKAGES = {
    "clickhouse-connect": ("clickhouse-connect", "pandas", "pyarrow", "SQLAlchemy"),
    "ibis": ("ibis-framework[clickhouse]", "packaging", "pandas", "pyarrow"),
    "dbt": ("dbt-core", "dbt-clickhouse"),
    "clickhouse-sqlalchemy": ("clickhouse-sqlalchemy",),
}
BOUNDS = {"ibis": ("sqlglot<29",), "dbt": ("dbt-core<1.12",)}
"""Of the newest versions: under sqlglot 30 ibis 12 writes DROP TABLE without a name, whatever the server is; dbt-core
1.12 fetches a part of itself from outside the registry."""
IS_NEWEST = os.environ.get("PANDO_TEST_CLIENTS") == "newest"
INSTALL = "-m pip install --quiet --disable-pip-version-check --no-compile --prefer-binary".split()  # noqa: SIM905


def _install(directory: Path, packages: Sequence[str]) -> None:
    stamp = directory / "installed"
    wanted = hashlib.sha256(CONSTRAINTS.read_bytes() + repr(packages).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    venv.create(directory, with_pip=True, clear=True)
    subprocess.run([directory / "bin" / "python", *INSTALL, "-c", CONSTRAINTS, *packages], check=True)
    stamp.write_text(wanted)


def _install_newest(directory: Path, packages: Sequence[str]) -> None:
    """Skips the test where there is no registry, or where a package cannot be built without another host."""
    venv.create(directory, with_pip=True)
    command = [directory / "bin" / "python", *INSTALL, *packages]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{', '.join(packages)} cannot be installed: {_reason(done.stdout)}")


def _reason(output: str) -> str:
    problems = [line.strip() for line in output.splitlines() if re.search(r"error|Error", line)]
    return next((line for line in problems if re.search(r"\w+Error: |ERROR: ", line)), output[-500:])


@pytest.fixture(scope="session")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The interpreter that has a client's packages."""

    def python(name: str) -> Path:
        if IS_NEWEST:
            directory = tmp_path_factory.mktemp(name)
            _install_newest(directory, (*PACKAGES[name], *BOUNDS.get(name, ())))
            return directory / "bin" / "python"
        directory = ROOT / ".venv" / "clients" / name
        directory.parent.mkdir(parents=True, exist_ok=True)
        with open(directory.parent / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _install(directory, PACKAGES[name])
        return directory / "bin" / "python"

    return python


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server's HTTP port."""
    config = tmp_path / "server.yaml"
    config.write_text(f"path: {tmp_path / 'data'}\nhttp_port: 0\ninterserver_http_port: null\nworkers: {WORKERS}\n")
    command = [sys.executable, "-m", "engine.cli", "server", "--config", str(config)]
    with open(tmp_path / "log", "w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as server:
        try:
            assert server.stdout is not None
            ready = server.stdout.readline().decode()
            found = re.search(r"http_port=(\d+)", ready)
            assert found, (ready, (tmp_path / "log").read_text())
            yield int(found[1])
        finally:
            server.terminate()
