"""``make hogs``: statements made to hurt, each run over HTTP against one real server with its default settings, while
another connection asks for ``/ping`` every 10 ms.

For each: the code it ended with (0: well), its seconds, the slowest ``/ping`` meanwhile and the memory the server took
beyond what it holds when idle. To add one, add a :class:`Hog` to ``HOGS``.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

_PING_EVERY_SECONDS = 0.01
_LONGEST_SECONDS = 60.0


@dataclass(frozen=True)
class Hog:
    """``settings`` go into the URL; ``expected`` is the code ClickHouse gives, ``None`` where it does not matter."""

    name: str
    statement: str
    expected: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def _doubling(first: str, count: int) -> str:
    return f"SELECT {first} AS a0" + "".join(f", a{n} + a{n} AS a{n + 1}" for n in range(count))


_WIDE = {"max_query_size": "100000000"}
_MILLION = ",".join(map(str, range(1_000_000)))

COMPILE_TIME = [
    Hog("a scale of -10^9", "SELECT round(toDecimal32(1, 2), -1000000000)", 69),
    Hog("a scale of 10^6", "SELECT round(1.5, 1000000)", 69),
    Hog("25 aliases that double", _doubling("1", 25), 36),
    Hog("14 aliases that double, over rows", _doubling("number", 14) + " FROM numbers(10)", 0),
    Hog("5,000 brackets", "SELECT " + "(" * 5000 + "1" + ")" * 5000, 306),
    Hog("5,000 calls", "SELECT " + "abs(" * 5000 + "1" + ")" * 5000, 167),
    Hog("490 calls", "SELECT " + "abs(" * 490 + "number" + ")" * 490 + " FROM numbers(10)", 0),
    Hog("5,000 arrays in arrays", "SELECT " + "[" * 5000 + "1" + "]" * 5000, 306),
    Hog("5,000 sums", "SELECT 1" + " + 1" * 5000, 167),
    Hog("5,000 NOT", "SELECT " + "NOT " * 5000 + "1", 167),
    Hog("5,000 subqueries", "SELECT " + "(SELECT " * 5000 + "1" + ")" * 5000, 306),
    Hog("20,000 ANDs", "SELECT count() FROM numbers(10) WHERE " + " AND ".join(["number < 3"] * 20_000), 168),
    Hog("12,000 ANDs", "SELECT count() FROM numbers(10) WHERE " + " AND ".join(["number < 3"] * 12_000), 0),
    Hog("a million in IN", f"SELECT count() FROM numbers(10) WHERE number IN ({_MILLION})", 0, _WIDE),
    Hog("a million in IN, default size", f"SELECT count() FROM numbers(10) WHERE number IN ({_MILLION})", 62),
    Hog("30,000 columns", "SELECT " + ", ".join(["number"] * 30_000) + " FROM numbers(1)", None),
    Hog("an array of 60,000", "SELECT length([" + ",".join(["1"] * 60_000) + "])", 0),
    Hog("a number of 100,000 digits", "SELECT " + "1" * 100_000, 62),
    Hog("a type 5,000 deep", "SELECT CAST([], '" + "Array(" * 5000 + "Int8" + ")" * 5000 + "')", 306),
    Hog("CREATE of a type 5,000 deep", f"CREATE TABLE x (a {'Array(' * 5000}Int8{')' * 5000}) ENGINE = MergeTree", 306),
    Hog(
        "CREATE of 100,000 columns",
        "CREATE TABLE x (" + ",".join(f"c{n} Int8" for n in range(100_000)) + ") ENGINE = MergeTree ORDER BY tuple()",
        168,
        _WIDE,
    ),
    Hog("1,000 UNION ALL", " UNION ALL ".join(["SELECT 1"] * 1000), 0),
    Hog("5 MB of comments", "SELECT 1 /*" + "a " * 2_500_000 + "*/", 0, _WIDE),
    Hog("5 MB of text", "SELECT length('" + "a" * 5_000_000 + "')", 0, _WIDE),
    Hog("5 MB of escapes", "SELECT length('" + "\\n" * 2_500_000 + "')", 0, _WIDE),
    Hog("5 MB of open brackets", "SELECT " + "(" * 5_000_000, 306, _WIDE),
    Hog("5 MB of quotes", "SELECT '" + "''" * 2_500_000, 62, _WIDE),
    Hog("INSERT of a deep value", "INSERT INTO hogs VALUES (" + "(" * 5000 + "1" + ")" * 5000 + ")", None),
    Hog("a huge repeat", "SELECT repeat('a', 1000000000000)", 131),
    Hog("a huge range", "SELECT range(1000000000000)", 69),
    Hog("a huge power", "SELECT pow(10, 1000000000), bitShiftLeft(1, 1000000000)", 0),
]
"""What must end before anything is read."""

RUN_TIME: list[Hog] = []
"""What takes time or memory while it runs."""

HOGS = [*COMPILE_TIME, *RUN_TIME]


@dataclass(frozen=True)
class Ending:
    code: int
    seconds: float
    ping_seconds: float
    memory_bytes: int


class Server:
    """A server process of its own. ``url`` takes statements."""

    def __init__(self, directory: Path, **config: object) -> None:
        lines = {"path": str(directory / "data"), "http_port": 0, "interserver_http_port": 0, **config}
        file = directory / "config.yaml"
        file.write_text("".join(f"{name}: {value}\n" for name, value in lines.items()))
        self._log = (directory / "log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.cli", "server", "--config", str(file)],
            stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready.startswith("ready"):
            raise RuntimeError(f"the server did not start: {(directory / 'log').read_text()[-2000:]}")
        self.url = f"http://127.0.0.1:{ready.split('http_port=')[1].split()[0]}"

    def memory_bytes(self, field_name: str = "VmRSS") -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field_name}:"):
                return int(line.split()[1]) * 1024
        return 0

    def forget_peak(self) -> None:
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
        self._log.close()


class Pinger:
    """Asks every 10 ms; ``slowest`` counts from ``reset`` on, an answer that is still due too."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._slowest = 0.0
        self._asked = time.perf_counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(timeout=_LONGEST_SECONDS) as client:
            while not self._stop.wait(_PING_EVERY_SECONDS):
                self._asked = time.perf_counter()
                with contextlib.suppress(httpx.HTTPError):
                    client.get(f"{self._url}/ping")
                self._slowest = max(self._slowest, time.perf_counter() - self._asked)

    def reset(self) -> None:
        self._slowest = 0.0

    @property
    def slowest_seconds(self) -> float:
        return self._slowest

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def serving(**config: object) -> Iterator[tuple[Server, Pinger]]:
    with tempfile.TemporaryDirectory(prefix="pando-hogs-") as name:
        server = Server(Path(name), **config)
        try:
            httpx.post(
                server.url, content="CREATE TABLE hogs (a UInt64) ENGINE = MergeTree ORDER BY a"
            ).raise_for_status()
            httpx.post(server.url, content="SELECT 1").raise_for_status()
            pinger = Pinger(server.url)
            try:
                yield server, pinger
            finally:
                pinger.stop()
        finally:
            server.stop()


def run(hog: Hog, server: Server, pinger: Pinger) -> Ending:
    """Code -1 is a connection that broke, -2 no answer in a minute."""
    server.forget_peak()
    idle = server.memory_bytes()
    pinger.reset()
    started = time.perf_counter()
    try:
        answer = httpx.post(
            server.url, params=hog.settings, content=hog.statement.encode() + hog.body, timeout=_LONGEST_SECONDS
        )
        code = int(answer.headers.get("x-clickhouse-exception-code", "0"))
    except httpx.TimeoutException:
        code = -2
    except httpx.HTTPError:
        code = -1
    seconds = time.perf_counter() - started
    return Ending(code, seconds, pinger.slowest_seconds, max(0, server.memory_bytes("VmHWM") - idle))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="hogs whose name contains this")
    options = parser.parse_args()
    table = Table(title="Hostile statements", title_justify="left")
    table.add_column("statement")
    for column in ("code", "ClickHouse's", "seconds", "slowest ping, ms", "memory, MiB"):
        table.add_column(column, justify="right")
    with serving() as (server, pinger):
        for hog in HOGS:
            if options.only not in hog.name:
                continue
            ending = run(hog, server, pinger)
            expected = "" if hog.expected is None else str(hog.expected)
            colour = "green" if hog.expected in (None, ending.code) else "red"
            table.add_row(
                hog.name, f"[{colour}]{ending.code}[/]", expected, f"{ending.seconds:.2f}",
                f"{ending.ping_seconds * 1000:.0f}", f"{ending.memory_bytes / (1 << 20):.0f}",
            )  # fmt: skip
            print(f"{hog.name}: {ending}", file=sys.stderr, flush=True)
            if not server.is_alive:
                table.add_row("[red]the server died[/]")
                break
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
