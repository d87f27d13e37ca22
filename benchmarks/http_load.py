"""Many small queries over HTTP: Pando's server beside Debian's ClickHouse 18.16, both under the same load.

Each load runs against one server, then against the other, with 1, 8 and 32 connections that are kept. What counts is
queries a second; the table tells the latencies and the processor time that the server's processes took for a query
too, which other work on the machine disturbs least. The load comes from ``wrk``, or from several processes
where there is none; without ``clickhouse-server`` nothing is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks import load_client
from benchmarks.clickhouse_server import end_process, start_clickhouse
from benchmarks.measure import Figure
from coordination.keeper.embedded_zookeeper import find_free_port
from engine.cluster.os_processes import list_process_tree

PEER = "ClickHouse 18.16"
CONNECTIONS = (1, 8, 32)
ROWS = 1_000_000
LOAD_SECONDS = 3
WARM_UP_SECONDS = 1
_START_SECONDS = 60.0
_SCRIPT = Path(__file__).with_suffix(".lua")
_COLUMNS = "(k UInt64, d Date, v Float64, s String)"
_FILL = "SELECT number, toDate('2020-01-01') + intDiv(number, 4000), number / 2, concat('value ', toString(number))"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    name: str
    sql: str
    """With {k}, a random key, and {h} and {t}, 99 and 999 keys further on. Of an INSERT: what comes before the rows."""
    rows: int = 0
    """Of an INSERT."""


LOADS = (
    Load("SELECT 1", "SELECT 1"),
    Load("point query by key", "SELECT v, s FROM load WHERE k = {k}"),
    Load("range of 100 rows", "SELECT k, v, s FROM load WHERE k BETWEEN {k} AND {h} ORDER BY k"),
    Load("count()", "SELECT count() FROM load"),
    Load("sum over 1,000 rows", "SELECT sum(v) FROM load WHERE k BETWEEN {k} AND {t}"),
    Load("INSERT of 1 row", "INSERT INTO load_target FORMAT TabSeparated", rows=1),
    Load("INSERT of 1,000 rows", "INSERT INTO load_target FORMAT TabSeparated", rows=1000),
)


@dataclass(frozen=True)
class Outcome:
    """The result of one load against one server. Latencies are in milliseconds."""

    per_second: float
    p50: float
    p99: float
    cpu_ms: float
    """Processor time of the server's processes for a query."""
    errors: int


class Server:
    def __init__(self, port: int, pid: int, client: httpx.Client) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._pid = pid
        self._client = client

    def run(self, sql: str) -> str:
        answer = self._client.post(self._url, content=sql)
        if answer.status_code != 200:
            raise RuntimeError(f"{self._url}: {answer.text[:500]}")
        return answer.text

    def wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.run("SELECT 1")
                return
            except (httpx.TransportError, RuntimeError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def fill(self) -> None:
        self.run(f"CREATE TABLE load {_COLUMNS} ENGINE = MergeTree ORDER BY k")
        self.run(f"INSERT INTO load {_FILL} FROM numbers({ROWS})")
        self.run("OPTIMIZE TABLE load FINAL")

    def measure(self, load: Load, connections: int) -> Outcome:
        if load.rows:  # every run into a table of its own
            self.run("DROP TABLE IF EXISTS load_target")
            self.run(f"CREATE TABLE load_target {_COLUMNS} ENGINE = MergeTree ORDER BY k")
        self.load(load, connections, WARM_UP_SECONDS)
        before = _processor_seconds(self._pid)
        result = self.load(load, connections, LOAD_SECONDS)
        spent = _processor_seconds(self._pid) - before
        requests = max(result["requests"], 1)
        return Outcome(
            per_second=requests / (result["micros"] / 1e6),
            p50=result["p50"] / 1000,
            p99=result["p99"] / 1000,
            cpu_ms=spent * 1000 / requests,
            errors=result["errors"],
        )

    def load(self, load: Load, connections: int, seconds: int) -> dict[str, int]:
        # Braces stay as they are, for the script.
        path = "/?query=" + urllib.parse.quote(load.sql, safe="{}")
        method = "POST" if load.rows else "GET"
        if shutil.which("wrk") is None:
            return load_client.run(self._url, method, path, load.rows, connections, seconds)
        script = ["-s", str(_SCRIPT), self._url, "--", method, path, str(load.rows)]
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", *script]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return json.loads(output.strip().splitlines()[-1])


def compare(directory: Path, out: Path | None = None) -> Iterator[Figure]:
    """A figure for each load and number of connections; all that was measured goes to ``out`` as JSON."""
    if shutil.which("clickhouse-server") is None:
        print("clickhouse-server is not installed: the comparison under load is left out")
        return
    if shutil.which("wrk") is None:
        print(
            "wrk is not installed (apt-get install wrk): Python processes make the load, and take more for themselves"
        )
    directory.mkdir(parents=True)
    outcomes: list[tuple[Load, int, Outcome, Outcome]] = []
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=120, trust_env=False))
        pando = Server(*start_pando(directory / "pando", stack), client)
        clickhouse = Server(*start_clickhouse(directory / "clickhouse", stack), client)
        for server in (pando, clickhouse):
            server.wait_until_it_answers()
            server.fill()
        _check(pando, clickhouse)
        for load in LOADS:
            for connections in CONNECTIONS:
                ours, theirs = (server.measure(load, connections) for server in (pando, clickhouse))
                outcomes.append((load, connections, ours, theirs))
                name = f"{load.name}, {connections} connection{'s' * (connections > 1)}"
                yield Figure(name, PEER, 1 / ours.per_second, 1 / theirs.per_second)
    _report(outcomes)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"load": load.name, "connections": connections, "pando": asdict(ours), "peer": asdict(theirs)}
            for load, connections, ours, theirs in outcomes
        ]
        out.write_text(json.dumps(rows, indent=2) + "\n")


def _check(pando: Server, clickhouse: Server) -> None:
    """Both are asked the same and answer the same."""
    for load in LOADS:
        if not load.rows:
            sql = load.sql.format(k=123_456, h=123_555, t=124_455)
            if pando.run(sql) != clickhouse.run(sql):
                raise RuntimeError(f"The servers answer differently: {sql}")


def _report(outcomes: list[tuple[Load, int, Outcome, Outcome]]) -> None:
    table = Table(title=f"HTTP under load: Pando | {PEER}", title_justify="left")
    table.add_column("load")
    for column in ("conn.", "per second", "p50, ms", "p99, ms", "CPU, ms a query", "errors"):
        table.add_column(column, justify="right")
    for load, connections, ours, theirs in outcomes:
        table.add_row(
            load.name,
            str(connections),
            f"{ours.per_second:,.0f} | {theirs.per_second:,.0f}",
            f"{ours.p50:.2f} | {theirs.p50:.2f}",
            f"{ours.p99:.2f} | {theirs.p99:.2f}",
            f"{ours.cpu_ms:.2f} | {theirs.cpu_ms:.2f}",
            f"{ours.errors} | {theirs.errors}",
        )
    Console(width=110).print(table)


# -- processes --------------------------------------------------------------------------------------------------------


def start_pando(path: Path, stack: ExitStack) -> tuple[int, int]:
    """Port and pid."""
    path.mkdir()
    port = find_free_port()
    config = {
        "path": str(path / "data"), "http_port": port, "interserver_http_port": None, "workers": "auto",
        "logger": {"level": "warning"},
    }  # fmt: skip
    file = path / "config.yaml"
    file.write_text(json.dumps(config))
    with (path / "log").open("wb") as log:
        command = [sys.executable, "-m", "engine.cli", "server", "--config", str(file)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    stack.callback(end_process, process)
    return port, process.pid


def _processor_seconds(root: int) -> float:
    """User and system time of a process and all that stem from it, ended children included."""
    ticks = 0
    for pid in list_process_tree(root):
        with suppress(OSError):  # ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS
