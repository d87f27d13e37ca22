"""``python -m benchmarks.replicated_hogs``: hostile statements on one replica while rows are inserted on another.

A row goes to r2 every 50 ms. Its lag is the time from the answer until ZooKeeper lists its part for r1, on which one
statement of ``benchmarks.hogs`` runs after the other. At the end both replicas must have every row once.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from benchmarks.hog_statements import HOGS
from benchmarks.hogs import ask
from engine.cluster.cluster import ZOOKEEPER, Cluster

_EVERY_SECONDS = 0.05
_IDLE_SECONDS = 10.0
_LONGEST_LAG_SECONDS = 60.0
_CREATE = (
    "CREATE TABLE lag (k UInt64) ENGINE = ReplicatedMergeTree('/lag', '{replica}') ORDER BY k "
    "SETTINGS parts_to_throw_insert = 100000"
)


class Writer:
    """Inserts and measures until it is stopped. ``lags`` in seconds, since the last :meth:`take`."""

    def __init__(self, url: str, zookeeper_port: int) -> None:
        self._url = url
        self._keeper = KazooClient(f"127.0.0.1:{zookeeper_port}")
        self._keeper.start()
        self._stop = threading.Event()
        self._lags: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rows = 0
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(timeout=_LONGEST_LAG_SECONDS) as client:
            while not self._stop.wait(_EVERY_SECONDS):
                known = self._listed()
                client.post(self._url, content=f"INSERT INTO lag VALUES ({self.rows})").raise_for_status()
                self.rows += 1
                answered = time.perf_counter()
                while self._listed() == known and time.perf_counter() - answered < _LONGEST_LAG_SECONDS:
                    time.sleep(0.001)
                self._lags.append(time.perf_counter() - answered)

    def _listed(self) -> int:
        """Of r1; merges are stopped, so that it only grows."""
        return len(self._keeper.get_children("/lag/replicas/r1/parts"))

    def take(self) -> list[float]:
        lags, self._lags = self._lags, []
        return lags

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._keeper.stop()
        self._keeper.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="hogs whose name contains this")
    options = parser.parse_args()
    table = Table(title="Replication lag beside hostile statements", title_justify="left")
    for column in ("statement", "code", "seconds", "rows", "lag, median ms", "lag, longest ms"):
        table.add_column(column, justify="left" if column == "statement" else "right")
    with tempfile.TemporaryDirectory(prefix="pando-hogs-") as name:
        cluster = Cluster(Path(name))
        try:
            statuses = {status.name: status for status in cluster.start(2)}
            urls = {name: f"http://127.0.0.1:{statuses[name].port}" for name in ("r1", "r2")}
            _prepare(urls)
            writer = Writer(urls["r2"], statuses[ZOOKEEPER].port)
            time.sleep(_IDLE_SECONDS)
            everything: list[float] = []
            _add(table, "nothing", "", _IDLE_SECONDS, writer.take())
            for hog in HOGS:
                if options.only not in hog.name:
                    continue
                started, code = time.perf_counter(), -1
                with contextlib.suppress(httpx.HTTPError):
                    code = ask(hog, urls["r1"])
                lags = writer.take()
                everything += lags
                _add(table, hog.name, str(code), time.perf_counter() - started, lags)
            writer.stop()
            _add(table, "all", "", 0.0, everything)
            counts = {name: _count(url) for name, url in urls.items()}
        finally:
            cluster.stop(grace_seconds=5)
    Console(width=120).print(table)
    print(f"{writer.rows} rows acknowledged; rows and distinct rows there: {counts}")
    return 0 if set(counts.values()) == {(writer.rows, writer.rows)} else 1


def _prepare(urls: dict[str, str]) -> None:
    for url in urls.values():
        for statement in (
            _CREATE,
            "SYSTEM STOP MERGES lag",
            "CREATE TABLE hogs (a UInt64) ENGINE = MergeTree ORDER BY a",
            "CREATE TABLE hog_texts (a String) ENGINE = MergeTree ORDER BY tuple()",
        ):
            httpx.post(url, content=statement, timeout=30).raise_for_status()


def _add(table: Table, name: str, code: str, seconds: float, lags: list[float]) -> None:
    median, longest = (statistics.median(lags) * 1000, max(lags) * 1000) if lags else (0.0, 0.0)
    table.add_row(name, code, f"{seconds:.2f}", str(len(lags)), f"{median:.1f}", f"{longest:.1f}")


def _count(url: str) -> tuple[int, int]:
    httpx.post(url, content="SYSTEM SYNC REPLICA lag", timeout=60).raise_for_status()
    answer = httpx.post(url, content="SELECT count(), uniqExact(k) FROM lag FORMAT TSV", timeout=60).text.split()
    return int(answer[0]), int(answer[1])


if __name__ == "__main__":
    sys.exit(main())
