"""What people connect with, unmodified: clickhouse-connect, ibis, clickhouse-sqlalchemy and dbt on a running server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.http_client.http_client import HttpClient

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
HERE = Path(__file__).parent

PythonOf = Callable[[str], Path]


def run(command: list[object], **options: object) -> str:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    output = str(done.stdout.decode())
    assert done.returncode == 0, output[-6000:]
    return output


def test_clickhouse_connect_and_its_sqlalchemy_dialect(client_python: PythonOf, port: int) -> None:
    output = run([client_python("clickhouse-connect"), HERE / "use_clickhouse_connect.py", port])
    assert output.split() == "queries ok inserts ok streams ok compression ok sqlalchemy ok".split()  # noqa: SIM905


def test_ibis(client_python: PythonOf, port: int) -> None:
    output = run([client_python("ibis"), HERE / "use_ibis.py", port])
    assert output.split()[-2:] == ["views", "ok"]


def test_clickhouse_sqlalchemy(client_python: PythonOf, port: int) -> None:
    output = run([client_python("clickhouse-sqlalchemy"), HERE / "use_clickhouse_sqlalchemy.py", port])
    assert output.split() == "tables ok queries ok reflection ok".split()  # noqa: SIM905


def test_dbt(client_python: PythonOf, port: int, tmp_path: Path) -> None:
    """Seeds, a table, a view, an incremental model by append that grows in the second build, and data tests."""
    project = tmp_path / "project"
    shutil.copytree(HERE / "dbt_project", project)
    dbt = client_python("dbt").parent / "dbt"
    environment = {
        **os.environ,
        "PANDO_PORT": str(port),
        "DBT_PROFILES_DIR": str(project),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }

    def build(until: str) -> set[str]:
        run([dbt, "build"], cwd=project, env={**environment, "UNTIL": until})
        results = json.loads((project / "target" / "run_results.json").read_text())["results"]
        assert len(results) == 11
        return {result["status"] for result in results}

    with HttpClient(port=port) as client:
        days = "SELECT day, flights FROM analytics.days ORDER BY day"
        assert build("2013-01-02") == {"success", "pass"}
        assert client.rows(days) == [["2013-01-01", 2], ["2013-01-02", 1]]
        carriers = "SELECT carrier, name, flights, latest FROM analytics.by_carrier ORDER BY carrier"
        assert client.rows(carriers)[0] == ["AA", "American", 1, None]
        assert build("2013-01-09") == {"success", "pass"}
        assert client.rows(days) == [["2013-01-01", 2], ["2013-01-02", 1], ["2013-01-03", 1]]
        assert client.rows("SELECT count() FROM system.tables WHERE database = 'analytics'") == [[5]]
        assert client.rows("SELECT * FROM analytics.busy_days") == [["2013-01-01", 2]]
