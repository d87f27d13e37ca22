"""``pando`` as a person or a script runs it: real processes, exit codes, what goes to which stream."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordination.keeper.embedded_zookeeper import is_serving
from engine.cluster.cluster_state import find_free_ports
from engine.http_client.http_client import HttpClient
from tests.engine.front.conftest import RunningServer

pytestmark = pytest.mark.long

PANDO = [sys.executable, "-m", "engine.cli"]


def _run(*arguments: str, stdin: str | bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        [*PANDO, *arguments],
        input=data,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def _local(*arguments: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return _run("local", *arguments, stdin=stdin)


# -- the command ----------------------------------------------------------------------------------------------------


def test_help_and_version() -> None:
    text = _run("--help").stdout.decode()
    positions = [
        text.index(f"\n  {name} ") for name in ("local", "server", "client", "cluster", "zookeeper", "recovery")
    ]
    assert positions == sorted(positions)
    assert _run("--version").stdout.startswith(b"pando ")
    for command in ("local", "client", "server", "cluster", "zookeeper"):
        assert _run(command, "--help").returncode == 0


def test_start_is_light() -> None:
    """The client must not load the engine, and help nothing at all."""
    code = "import sys, engine.cli; print([m for m in ('pyarrow', 'duckdb', 'httpx', 'pydantic') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
    code = code.replace("engine.cli", "engine.commands.client")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"


# -- pando local ----------------------------------------------------------------------------------------------------


def test_local_query() -> None:
    answer = _local("--query", "SELECT 1 + 1 AS two, 'x'")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"2\tx\n", b"")


def test_local_several_statements_and_format() -> None:
    answer = _local("--query", "SELECT 1 AS a; SELECT 2 AS a", "--format", "JSONEachRow")
    assert answer.stdout == b'{"a":1}\n{"a":2}\n'
    answer = _local(stdin="SELECT 1;\nSELECT 'a;b';\n")
    assert answer.stdout == b"1\na;b\n"


def test_local_keeps_a_path(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    script = "CREATE TABLE t (a UInt8, b String) ENGINE = MergeTree ORDER BY a; INSERT INTO t FORMAT CSV"
    made = _local("--path", path, "--query", script, stdin="2,two\n1,one\n")
    assert (made.returncode, made.stdout, made.stderr) == (0, b"", b"")
    piped = _local("--path", path, stdin="INSERT INTO t FORMAT CSV\n3,three\n")
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert _local("--path", path, "--query", "SELECT * FROM t ORDER BY a").stdout == b"1\tone\n2\ttwo\n3\tthree\n"


def test_local_error_goes_to_stderr_with_the_code() -> None:
    answer = _local("--query", "SELECT 1; SELECT * FROM no_such_table; SELECT 2")
    assert (answer.returncode, answer.stdout) == (60, b"1\n")
    assert answer.stderr.startswith(b"Code: 60. DB::Exception: ")
    answer = _local("--ignore-error", "--query", "SELECT * FROM no_such_table; SELECT 2; SELECT 'open")
    assert (answer.returncode, answer.stdout) == (60, b"2\n")
    assert answer.stderr.count(b"DB::Exception") == 2


def test_local_files_that_are_no_script(tmp_path: Path) -> None:
    file = tmp_path / "script.sql"
    file.write_bytes(b"SELECT 1\xff")
    answer = _local("--queries-file", str(file))
    assert (answer.returncode, b"Traceback" in answer.stderr) == (2, False)
    assert b"not valid UTF-8 at byte 8" in answer.stderr
    file.write_bytes(b"\xef\xbb\xbfSELECT 1;\n")
    assert _local("--queries-file", str(file)).stdout == b"1\n"
    assert _local(stdin=file.read_bytes()).stdout == b"1\n"


def test_local_path_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = _local("--path", str(tmp_path / "file" / "data"), "--query", "SELECT 1")
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1
    assert b"file" in answer.stderr


def test_local_settings_and_parameters() -> None:
    answer = _local("--query", "SELECT {n:UInt8} + 1", "--param_n=41", "--max_threads", "1")
    assert (answer.stdout, answer.stderr) == (b"42\n", b"")
    answer = _local("--query", "SELECT 1", "--max_thread=1")
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1
    assert b"max_threads" in answer.stderr


def test_local_vertical_and_outfile(tmp_path: Path) -> None:
    """A file that exists is never overwritten."""
    file = tmp_path / "out.csv"
    into = f"INTO OUTFILE '{file}'"
    answer = _local("--query", f"SELECT 1 AS a\\G SELECT 1 AS a, 'x' AS b {into}; SELECT 2 {into}")
    assert answer.stdout.startswith(b"Row 1:")
    assert answer.stdout.count(b"\n") == 3
    assert (answer.returncode, answer.stderr.count(b"\n")) == (76, 1)
    assert b"exists" in answer.stderr
    assert file.read_bytes() == b'"a","b"\n1,"x"\n'


def test_local_directory_in_use(tmp_path: Path, server: RunningServer) -> None:
    answer = _local("--path", str(server.engine.path), "--query", "SELECT 1")
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1
    assert b"in use" in answer.stderr


# -- pando client ---------------------------------------------------------------------------------------------------


def _client(server: RunningServer, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[bytes]:
    return _run("client", "--port", str(server.http.port), *arguments, stdin=stdin)


def test_client_query(server: RunningServer) -> None:
    answer = _client(server, "--query", "SELECT 1 AS a; SELECT 'b'")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"1\nb\n", b"")
    answer = _client(server, "--user", "bob", "--password", "secret", "--query", "SELECT currentUser()")
    assert answer.stdout == b"bob\n"
    answer = _client(server, "--query", "SELECT {n:String}", "--param_n=x", "--database=system")
    assert answer.stdout == b"x\n"


def test_client_use_and_set_last(server: RunningServer) -> None:
    answer = _client(server, "--query", "USE system; SET max_execution_time = 7; SELECT currentDatabase()")
    assert answer.stdout == b"system\n"


def test_client_insert_from_stdin(server: RunningServer, client: HttpClient) -> None:
    client.execute("CREATE TABLE cli_insert (a UInt8) ENGINE = MergeTree ORDER BY a")
    answer = _client(server, "--query", "INSERT INTO cli_insert FORMAT CSV", stdin="1\n2\n")
    assert (answer.returncode, answer.stderr) == (0, b"")
    answer = _client(server, "--query", "INSERT INTO cli_insert VALUES (3); SELECT sum(a) FROM cli_insert")
    assert answer.stdout == b"6\n"
    client.execute("DROP TABLE cli_insert")


def test_client_errors(server: RunningServer) -> None:
    answer = _client(server, "--query", "SELECT * FROM no_such_table")
    assert answer.returncode == 60
    assert answer.stderr.startswith(b"Code: 60.")
    answer = _client(server, "--user", "bob", "--query", "SELECT 1")
    assert answer.returncode == 516 % 256


def test_client_waits_longer_than_a_quorum_may_take() -> None:
    from engine.commands.client import _ANSWER_SECONDS
    from sql.settings.supported_settings import DEFAULT_SETTINGS

    assert DEFAULT_SETTINGS.insert_quorum_timeout / 1000 < _ANSWER_SECONDS


def test_client_without_a_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        answer = _run("client", "--port", str(unused.getsockname()[1]), "--query", "SELECT 1")
    assert answer.returncode != 0
    assert b"Cannot connect to 127.0.0.1:" in answer.stderr
    assert answer.stderr.count(b"\n") == 1


# -- pando server ---------------------------------------------------------------------------------------------------


def _config(tmp_path: Path, **values: object) -> Path:
    file = tmp_path / "config.yaml"
    defaults = {"path": "data", "http_port": 0, "interserver_http_port": 0, "logger": {"log": str(tmp_path / "log")}}
    file.write_text(json.dumps({**defaults, **values}))
    return file


def _start(file: Path) -> tuple[subprocess.Popen[bytes], int]:
    process = subprocess.Popen([*PANDO, "server", "--config", str(file)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.startswith("ready "), line
    port = int(dict(item.split("=") for item in line.split()[1:])["http_port"])
    return process, port


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_server_stops_gracefully(tmp_path: Path, number: signal.Signals) -> None:
    """Data is there at the next start, the port is free, and a running query does not hold the end up."""
    file = _config(tmp_path, shutdown_wait_unfinished=1)
    process, port = _start(file)
    try:
        with HttpClient(port=port) as client:
            client.execute("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a")
            client.execute("INSERT INTO t VALUES (1)")
            with client.stream("SELECT number FROM system.numbers") as stream:
                answer = iter(stream)  # kept: the connection ends with it
                next(answer)
                process.send_signal(number)
                assert process.wait(30) == 0
        process, port = _start(file)
        with HttpClient(port=port) as client:
            assert client.value("SELECT count() FROM t") == 1
    finally:
        process.terminate()
        process.wait(30)
    entries = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any(entry["message"].startswith("ready") for entry in entries)
    assert {"time", "level", "logger", "thread", "message"} <= set(entries[0])


@pytest.mark.long
@pytest.mark.cluster
def test_embedded_zookeeper(tmp_path: Path) -> None:
    """It comes and goes with its server, and is taken over when the server was killed."""
    zookeeper_port = find_free_ports(1)[0]
    file = _config(tmp_path, embedded_zookeeper={"port": zookeeper_port}, macros={"replica": "r1"})
    process, port = _start(file)
    try:
        with HttpClient(port=port) as client:
            assert client.get("/ready").status_code == 200
            client.execute("CREATE TABLE t (a UInt8) ENGINE = ReplicatedMergeTree('/t', '{replica}') ORDER BY a")
            client.execute("INSERT INTO t VALUES (1)")
        process.kill()
        process.wait(10)
        assert is_serving(zookeeper_port)
        process, port = _start(file)
        with HttpClient(port=port) as client:
            assert client.value("SELECT count() FROM t") == 1
    finally:
        process.terminate()
        process.wait(30)
    assert not is_serving(zookeeper_port)


def test_server_with_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        started = time.monotonic()
        answer = _run("server", "--config", str(_config(tmp_path, http_port=port)))
    assert answer.returncode == 1
    assert answer.stderr.decode() == f"pando: Cannot listen on 127.0.0.1:{port} (http_port): the port is in use\n"
    assert time.monotonic() - started < 20


def test_server_with_a_bad_configuration(tmp_path: Path) -> None:
    answer = _run("server", "--config", str(_config(tmp_path, http_prt=1)))
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1
    assert b"http_prt" in answer.stderr
    answer = _run("server", "--config", str(tmp_path / "none.yaml"))
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1


def test_zookeeper_without_java(tmp_path: Path) -> None:
    answer = _run("zookeeper", "--dir", str(tmp_path), "--port", "12181", PATH="/nowhere", JAVA_HOME="")
    assert answer.returncode == 1
    assert answer.stderr.count(b"\n") == 1
    assert b"Java" in answer.stderr
