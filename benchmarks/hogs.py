"""``make hogs``: statements made to hurt, each run over HTTP against one real server with its default settings, while
one connection asks for ``/ping`` every 10 ms, and others run a small query every 50 ms.

For each: the code it ended with (0: well), its seconds, the slowest ``/ping`` and the slowest other query meanwhile,
how many other queries failed, and the memory the server took beyond what it holds when idle. A hog with a limit of time
must end within that and the server's grace, and no other query may fail: else the exit code is 1.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.hog_statements import DEAF, HOGS, LONGEST_SECONDS, RUN_TIME, Hog
from engine.cluster.os_processes import list_process_tree

_PING_EVERY_SECONDS = 0.01
_OTHERS_EVERY_SECONDS = 0.05


@dataclass(frozen=True)
class Ending:
    code: int
    seconds: float
    ping_seconds: float
    memory_bytes: int
    other_seconds: float = 0.0
    """The slowest of the other queries."""
    others_failed: int = 0

    def is_bounded(self, hog: Hog) -> bool:
        return self.seconds <= hog.longest_seconds and not self.others_failed


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
        self._idle_bytes = {pid: _memory_bytes(pid, "VmRSS") for pid in list_process_tree(self._process.pid)}

    def peak_bytes(self) -> int:
        """Over what the processes hold when idle, since :meth:`forget_peak`."""
        peaks = {pid: _memory_bytes(pid, "VmHWM") for pid in list_process_tree(self._process.pid)}
        return sum(max(0, peak - self._idle_bytes.get(pid, 0)) for pid, peak in peaks.items())

    def forget_peak(self) -> None:
        for pid in list_process_tree(self._process.pid):
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
        with httpx.Client(timeout=LONGEST_SECONDS) as client:
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


class Others:
    """Runs a small query every 50 ms, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self.reset()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        self.slowest_seconds = 0.0
        self.failed = 0

    def _run(self) -> None:
        query = "SELECT count(), sum(a * 2) FROM hogs WHERE a % 3 < 2 SETTINGS max_threads = 1"
        while not self._stop.wait(_OTHERS_EVERY_SECONDS):
            asked = time.perf_counter()
            try:
                answer = httpx.post(self._url, content=query, timeout=LONGEST_SECONDS)
                self.failed += answer.status_code != 200
            except httpx.HTTPError:
                self.failed += 1
            self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - asked)

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


def run(hog: Hog, server: Server, pinger: Pinger, others: Others | None = None) -> Ending:
    """Code -1 is a connection that broke, -2 no answer in a minute."""
    server.forget_peak()
    pinger.reset()
    if others is not None:
        others.reset()
    started = time.perf_counter()
    try:
        code = ask(hog, server.url)
    except httpx.TimeoutException:
        code = -2
    except httpx.HTTPError:
        code = -1
    seconds = time.perf_counter() - started
    other_seconds, others_failed = (others.slowest_seconds, others.failed) if others is not None else (0.0, 0)
    return Ending(code, seconds, pinger.slowest_seconds, server.peak_bytes(), other_seconds, others_failed)


def ask(hog: Hog, url: str) -> int:
    """The code of the answer, also of one that breaks off."""
    headers = {"Content-Encoding": hog.encoding} if hog.encoding else {}
    in_url = {"query": hog.statement} if hog.encoding else {}
    content = hog.body if hog.encoding else hog.statement.encode() + hog.body
    with httpx.stream(
        "POST", url, params={**hog.settings, **in_url}, headers=headers, content=content, timeout=LONGEST_SECONDS
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
    parser.add_argument("--deaf", action="store_true", help="only what does not look at its limits")
    options = parser.parse_args()
    table = Table(title="Hostile statements", title_justify="left")
    table.add_column("statement")
    for column in ("code", "ClickHouse's", "seconds", "at most", "ping, ms", "other query, s", "failed", "MiB"):
        table.add_column(column, justify="right")
    unbounded = 0
    with serving() as (server, pinger):
        others = Others(server.url)
        for hog in DEAF if options.deaf else RUN_TIME if options.run_time else HOGS:
            if options.only not in hog.name:
                continue
            ending = run(hog, server, pinger, others)
            expected = "" if hog.expected is None else str(hog.expected)
            colour = "green" if hog.expected in (None, ending.code) else "red"
            bound = "green" if ending.is_bounded(hog) else "red"
            unbounded += bound == "red"
            table.add_row(
                hog.name, f"[{colour}]{ending.code}[/]", expected, f"[{bound}]{ending.seconds:.2f}[/]",
                f"{hog.longest_seconds:g}", f"{ending.ping_seconds * 1000:.0f}", f"{ending.other_seconds:.2f}",
                str(ending.others_failed), f"{ending.memory_bytes / (1 << 20):.0f}",
            )  # fmt: skip
            print(f"{hog.name}: {ending}", file=sys.stderr, flush=True)
            if not server.is_alive:
                table.add_row("[red]the server died[/]")
                unbounded += 1
                break
        others.stop()
    Console(width=140).print(table)
    return 1 if unbounded else 0


if __name__ == "__main__":
    sys.exit(main())
