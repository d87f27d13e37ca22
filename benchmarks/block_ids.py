"""``python -m benchmarks.block_ids``: does the deduplication window hold while INSERTs and merges stream in?

A real server process and a real ZooKeeper. Single-row INSERTs at a fixed rate, and OPTIMIZE for merges, for some
minutes; each second the block ids in ZooKeeper are counted. Fails when there were ever more than 1.5 windows of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx

from coordination.keeper.kazoo_keeper import KazooKeeper
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.paths import TablePaths, parse_sequence_number
from engine.cluster.cluster import Cluster

ALLOWED_WINDOWS = 1.5
_TABLE = TablePaths("/bench/block_ids")
_CLIENTS = 8


@dataclass(frozen=True)
class Sample:
    seconds: float
    ids: int
    inserts: int
    """Since the start, as the log has them; so are the merges."""
    merges: int


class Observer:
    """Counts from ZooKeeper itself what the server did."""

    def __init__(self, hosts: str) -> None:
        self.keeper = KazooKeeper(hosts)
        self._next_index = self._inserts = self._merges = 0

    def sample(self, at: float) -> Sample:
        names = [name for name in self.keeper.children(_TABLE.log) if parse_sequence_number(name) >= self._next_index]
        for answer in self.keeper.get_many([f"{_TABLE.log}/{name}" for name in names]):
            kind = LogEntry.parse(answer[0]).type if answer is not None else None
            self._inserts += kind is EntryType.GET_PART
            self._merges += kind is EntryType.MERGE_PARTS
        self._next_index = parse_sequence_number(names[-1]) + 1 if names else self._next_index
        return Sample(at, len(self.keeper.children(_TABLE.blocks)), self._inserts, self._merges)


class Load:
    """Runs an action at a fixed rate, several at a time if it must be, until it is stopped."""

    def __init__(self, action: Callable[[int], None], per_second: float, clients: int) -> None:
        self.failures: list[BaseException] = []
        self._action, self._interval = action, 1 / per_second
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        self._places = threading.Semaphore(clients)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due, number = due + self._interval, number + 1
            self._places.acquire()
            self._pool.submit(self._act, number)

    def _act(self, number: int) -> None:
        try:
            self._action(number)
        except Exception as failure:
            self.failures.append(failure)
        finally:
            self._places.release()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._pool.shutdown()


def measure(directory: Path, *, seconds: float, window: int, inserts: float, merges: float) -> list[Sample]:
    cluster = Cluster(directory)
    try:
        ports = {status.name: status.port for status in cluster.start(1)}
        zookeeper = ports.pop("zookeeper")
        (port,) = ports.values()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False) as client:
            return _measure(client, Observer(f"127.0.0.1:{zookeeper}"), seconds, window, inserts, merges)
    finally:
        cluster.stop()


def _measure(
    client: httpx.Client, observer: Observer, seconds: float, window: int, inserts: float, merges: float
) -> list[Sample]:
    def run(sql: str) -> None:
        answer = client.post("/", params={"query": sql})
        if answer.status_code != 200 and "Code: 388" not in answer.text:
            raise RuntimeError(answer.text[:300])

    run(
        f"CREATE TABLE t (k UInt64) ENGINE = ReplicatedMergeTree('{_TABLE.root}', 'r1') ORDER BY k "
        f"SETTINGS replicated_deduplication_window = {window}"
    )
    loads = [
        Load(lambda number: run(f"INSERT INTO t VALUES ({number})"), inserts, _CLIENTS),
        Load(lambda number: run("OPTIMIZE TABLE t"), merges, _CLIENTS),
    ]
    samples, started = [], time.monotonic()
    try:
        while (at := time.monotonic() - started) < seconds:
            samples.append(observer.sample(at))
            if len(samples) % 10 == 1:
                print(samples[-1], file=sys.stderr)
            time.sleep(max(0.0, started + len(samples) - time.monotonic()))
    finally:
        for load in loads:
            load.stop()
        observer.keeper.close()
    for failure in [failure for load in loads for failure in load.failures][:5]:
        print(f"failed: {failure}", file=sys.stderr)
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--window", type=int, default=1000, help="replicated_deduplication_window")
    parser.add_argument("--inserts", type=float, default=37, help="a second")
    parser.add_argument("--merges", type=float, default=2, help="OPTIMIZE a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pando-bench-") as name:
        samples = measure(
            Path(name),
            seconds=options.seconds,
            window=options.window,
            inserts=options.inserts,
            merges=options.merges,
        )
    last, most = samples[-1], max(sample.ids for sample in samples)
    print(
        f"{last.inserts / last.seconds:.1f} INSERTs and {last.merges / last.seconds:.1f} merges a second for "
        f"{last.seconds:.0f} s: at most {most} block ids, {most / options.window:.2f} windows"
    )
    return 0 if most <= ALLOWED_WINDOWS * options.window else 1


if __name__ == "__main__":
    sys.exit(main())
