"""``make hogs``: statements made to hurt, each run over HTTP against one real server with its default settings, while
another connection asks for ``/ping`` every 10 ms.

For each: the code it ended with (0: well), its seconds, the slowest ``/ping`` meanwhile and the memory the server took
beyond what it holds when idle. To add one, add a :class:`Hog` to ``HOGS``.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import zstandard
from rich.console import Console
from rich.table import Table

from engine.cluster.processes import family

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
    encoding: str = ""
    """The body's compression; the statement goes into the URL then."""
    is_unread: bool = False
    """The client reads nothing of the answer for a second, and leaves."""


def _doubling(first: str, count: int) -> str:
    return f"SELECT {first} AS a0" + "".join(f", a{n} + a{n} AS a{n + 1}" for n in range(count))


_WIDE = {"max_query_size": "100000000"}
_MILLION = ",".join(map(str, range(1_000_000)))

COMPILE_TIME = [
    Hog("a scale of -10^9", "SELECT round(toDecimal32(1, 2), -1000000000)", 69),
    Hog("a scale of 10^6", "SELECT round(1.5, 1000000)", 69),
    Hog("25 aliases that double", _doubling("1", 25), None),
    Hog("12 aliases that double, over rows", _doubling("number", 12) + " FROM numbers(10)", 0),
    Hog("5,000 brackets", "SELECT " + "(" * 5000 + "1" + ")" * 5000, 306),
    Hog("5,000 calls", "SELECT " + "abs(" * 5000 + "1" + ")" * 5000, 167),
    Hog("490 calls", "SELECT " + "abs(" * 490 + "number" + ")" * 490 + " FROM numbers(10)", 0),
    Hog("5,000 arrays in arrays", "SELECT " + "[" * 5000 + "1" + "]" * 5000, 306),
    Hog("5,000 sums", "SELECT 1" + " + 1" * 5000, 167),
    Hog("5,000 NOT", "SELECT " + "NOT " * 5000 + "1", 167),
    Hog("5,000 subqueries", "SELECT " + "(SELECT " * 5000 + "1" + ")" * 5000, 306),
    Hog("20,000 ANDs", "SELECT count() FROM numbers(10) WHERE " + " AND ".join(["number < 3"] * 20_000), 168, _WIDE),
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

_TWO_SECONDS = {"max_execution_time": "2"}
_GIGABYTE = 1 << 30


def _zeros(encoding: str, around: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """A gigabyte of zeros, compressed."""
    compressor = zlib.compressobj(wbits=31) if encoding == "gzip" else zstandard.ZstdCompressor().compressobj()
    piece = b"0" * (1 << 20)
    data = [compressor.compress(around[0]), *(compressor.compress(piece) for _ in range(_GIGABYTE >> 20))]
    return b"".join([*data, compressor.compress(around[1]), compressor.flush()])


def _bomb(name: str, format: str, encoding: str, before: bytes = b"", behind: bytes = b"") -> Hog:
    statement = f"INSERT INTO hog_texts FORMAT {format}"
    return Hog(name, statement, 117, body=_zeros(encoding, (before, behind)), encoding=encoding)


def _nested(levels: int) -> str:
    return f"SELECT length(c) FROM {'(SELECT concat(c, c) AS c FROM ' * levels}(SELECT 'ab' AS c){')' * levels}"


def run_time() -> list[Hog]:
    """What takes time or memory while it runs."""
    many = "FROM numbers(1000000000)"
    return [
        Hog("a range of 10^8", "SELECT length(range(100000000))", 241),
        Hog("a range of 6 * 10^8", "SELECT length(range(600000000))", 69),
        Hog("a long range in many rows", "SELECT sum(length(range(100000 + number))) FROM numbers(10000)", 241),
        Hog("a long constant in many rows", "SELECT range(100000) FROM numbers(100000)", 241),
        Hog("a long row joined with many",
            "SELECT r, number FROM (SELECT range(10000000) AS r) AS a CROSS JOIN numbers(100000) AS b", 241),
        Hog("repeat of repeat", "SELECT length(repeat(repeat('a', 1000000), 10000))", 241),
        Hog("a long repeat in many rows", "SELECT sum(length(repeat('a', 999999 - number))) FROM numbers(9999)", None),
        Hog("padding to 10^9", "SELECT length(leftPad('a', 1000000000))", 131),
        Hog("an array resized to 10^9", "SELECT length(arrayResize([1], 1000000000))", None),
        Hog("replaceAll that grows", "SELECT length(replaceAll(repeat('a', 1000000), 'a', repeat('b', 100000)))", 241),
        Hog("30 concatenations with itself", _nested(30), None),
        Hog("groupArray of 10^8", "SELECT length(groupArray(number)) FROM numbers(100000000)", 241),
        Hog("groupArray of 10^8 texts", "SELECT length(groupArray(toString(number))) FROM numbers(100000000)", 241,),
        Hog("quantileExact of 10^9", f"SELECT quantileExact(number) {many}", 241),
        Hog("arrays in an array", "SELECT length(arrayMap(x -> range(10000), range(1000000)))", 241),
        Hog("lambdas in a lambda", "SELECT length(arrayMap(x -> arrayMap(y -> x + y, range(10000)), range(100000)))",
            159, _TWO_SECONDS),
        Hog("a lambda over 10^7", "SELECT length(arrayMap(x -> length(toString(x)), range(10000000)))",
            None, _TWO_SECONDS),
        Hog("text of a long array", "SELECT length(toString(range(10000000)))", None, _TWO_SECONDS),
        Hog("a long array as JSON", "SELECT range(5000000) FORMAT JSON", None, _TWO_SECONDS),
        Hog("sorting 10^9", f"SELECT number {many} ORDER BY number % 1000, number DESC FORMAT Null", 159, _TWO_SECONDS),
        Hog("10^9 groups", f"SELECT count() FROM (SELECT number {many} GROUP BY number)", 159, _TWO_SECONDS),
        Hog("10^9 distinct", f"SELECT uniqExact(number) {many}", None, _TWO_SECONDS),
        Hog("a window over 10^9", f"SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY number) AS r {many})",
            None, _TWO_SECONDS),
        Hog("IN of 10^9", f"SELECT count() FROM numbers(10) WHERE number IN (SELECT number {many})", 159, _TWO_SECONDS),
        Hog("a join of 10^9", f"SELECT count() {many} AS a JOIN numbers(1000000000) AS b USING (number)",
            159, _TWO_SECONDS),
        Hog("a cross join", "SELECT sum(a.number * b.number) FROM numbers(999999) AS a CROSS JOIN numbers(999999) AS b",
            159, _TWO_SECONDS),
        Hog("a regular expression over 10^9", f"SELECT count() {many} WHERE match(toString(number), '^(1|2)*3.*4$')",
            159, _TWO_SECONDS),
        Hog("LIKE over 10^9", f"SELECT count() {many} WHERE toString(number) LIKE '%1%2%3%4%'", 159, _TWO_SECONDS),
        Hog("arrays of 10^6 joined", "SELECT sum(arrayJoin(range(1000000 + number % 2))) FROM numbers(100000)",
            None, _TWO_SECONDS),
        Hog("system tables squared", "SELECT count() FROM system.functions AS a CROSS JOIN system.functions AS b "
            "CROSS JOIN system.functions AS c WHERE a.name < b.name", 159, _TWO_SECONDS),
        Hog("INSERT of 10^9", f"INSERT INTO hogs SELECT number {many}", 159, _TWO_SECONDS),
        Hog("an answer held back", f"SELECT number {many}", 159, {"wait_end_of_query": "1", **_TWO_SECONDS}),
        Hog("an answer that nobody reads", f"SELECT number, toString(number) {many}", None, is_unread=True),
        Hog("an answer as JSON", f"SELECT * {many} FORMAT JSON", None, _TWO_SECONDS),
        Hog("an answer as Parquet", f"SELECT * {many} FORMAT Parquet", None, _TWO_SECONDS),
        _bomb("zstd: a field of a gigabyte", "CSV", "zstd"),
        _bomb("gzip: a field of a gigabyte", "TabSeparated", "gzip"),
        _bomb("zstd: a quoted field of a gigabyte", "CSV", "zstd", b'"', b'"'),
        _bomb("zstd: a text in JSON of a gigabyte", "JSONEachRow", "zstd", b'{"a":"', b'"}'),
        _bomb("zstd: a text in VALUES of a gigabyte", "Values", "zstd", b"('", b"')"),
        Hog("zstd: a statement of a gigabyte", "", 62, body=_zeros("zstd", (b"SELECT ", b"")), encoding="zstd"),
        Hog("a time limit of 10^11 seconds", "SELECT 1", 0, {"max_execution_time": "1e11"}),
    ]  # fmt: skip


RUN_TIME = run_time()

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
        self._idle_bytes: dict[int, int] = {}
        self.url = f"http://127.0.0.1:{ready.split('http_port=')[1].split()[0]}"

    def note_idle(self) -> None:
        self._idle_bytes = {pid: _memory_bytes(pid, "VmRSS") for pid in family(self._process.pid)}

    def peak_bytes(self) -> int:
        """Over what the processes hold when idle, since :meth:`forget_peak`."""
        peaks = {pid: _memory_bytes(pid, "VmHWM") for pid in family(self._process.pid)}
        return sum(max(0, peak - self._idle_bytes.get(pid, 0)) for pid, peak in peaks.items())

    def forget_peak(self) -> None:
        for pid in family(self._process.pid):
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

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


def _memory_bytes(pid: int, field_name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{field_name}:"):
                return int(line.split()[1]) * 1024
    return 0


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
            httpx.post(
                server.url, content="CREATE TABLE hog_texts (a String) ENGINE = MergeTree ORDER BY tuple()"
            ).raise_for_status()
            httpx.post(server.url, content="SELECT 1").raise_for_status()
            server.note_idle()
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
    pinger.reset()
    started = time.perf_counter()
    try:
        code = ask(hog, server.url)
    except httpx.TimeoutException:
        code = -2
    except httpx.HTTPError:
        code = -1
    seconds = time.perf_counter() - started
    return Ending(code, seconds, pinger.slowest_seconds, server.peak_bytes())


def ask(hog: Hog, url: str) -> int:
    """The code of the answer, also of one that breaks off."""
    headers = {"Content-Encoding": hog.encoding} if hog.encoding else {}
    in_url = {"query": hog.statement} if hog.encoding else {}
    content = hog.body if hog.encoding else hog.statement.encode() + hog.body
    with httpx.stream(
        "POST", url, params={**hog.settings, **in_url}, headers=headers, content=content, timeout=_LONGEST_SECONDS
    ) as answer:
        code = int(answer.headers.get("x-clickhouse-exception-code", "0"))
        if hog.is_unread:
            time.sleep(1)
            return code
        last = b""
        with contextlib.suppress(httpx.RemoteProtocolError):
            for chunk in answer.iter_raw():
                last = (last + chunk)[-4096:]
        told = re.search(rb"Code: (\d+)\. DB::Exception", last)
        return int(told[1]) if told else code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="hogs whose name contains this")
    parser.add_argument("--run-time", action="store_true", help="only what takes time or memory while it runs")
    options = parser.parse_args()
    table = Table(title="Hostile statements", title_justify="left")
    table.add_column("statement")
    for column in ("code", "ClickHouse's", "seconds", "slowest ping, ms", "memory, MiB"):
        table.add_column(column, justify="right")
    with serving() as (server, pinger):
        for hog in RUN_TIME if options.run_time else HOGS:
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
