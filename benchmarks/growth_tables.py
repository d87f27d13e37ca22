"""What many replicated tables, and many partitions, cost a server that has nothing to do, and its start.

One real ZooKeeper and one real server for each number of tables; CPU time is that of all processes of the server,
requests are those that ZooKeeper has received. ``python -m benchmarks.growth_tables [SIZE …]`` prints the costs;
``benchmarks.growth`` takes :func:`cases` from here.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import httpx

from benchmarks.measure import process_cpu_seconds
from coordination.keeper.embedded_zookeeper import send_four_letter_word
from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.cluster.os_processes import list_process_tree

Cost = dict[str, float]
SIZES = (100, 300, 1000)
PARTITIONS = (30, 100, 400)
_REPLICA = "r1"
_IDLE_SECONDS = 60.0
_REST_SECONDS = 20.0
"""After a start or many statements, before idleness is measured."""
_START_SECONDS = 300.0
_POLL_SECONDS = 0.02


def cases() -> Iterator[tuple[str, Sequence[int], Callable[[int], Cost]]]:
    """(name, sizes, what a size costs): names of costs say their unit."""
    yield "idle, replicated tables", SIZES, idle_tables
    yield "SELECT is_readonly FROM system.replicas, replicated tables", SIZES, replicas_table
    yield "start, replicated tables", SIZES, start
    yield "idle, partitions of which one has a pair that cannot be merged", PARTITIONS, idle_partitions


class _Server:
    """A ZooKeeper and a server of one replica on it, in a directory that goes with the benchmark."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pando-growth-")
        self._cluster = Cluster(Path(self._directory.name) / "cluster")
        self._client = httpx.Client(timeout=_START_SECONDS, trust_env=False)
        statuses = {status.name: status for status in self._cluster.start(1)}
        atexit.register(self.close)
        self._zookeeper_port = statuses[ZOOKEEPER].port
        self._port, self._pid = statuses[_REPLICA].port, statuses[_REPLICA].pid

    def close(self) -> None:
        self._client.close()
        self._cluster.stop()
        self._directory.cleanup()

    def run(self, sql: str) -> str:
        answer = self._client.post(f"http://127.0.0.1:{self._port}/", content=sql)
        if answer.status_code != 200:
            raise RuntimeError(answer.text[:500])
        return answer.text.strip()

    def requests(self) -> int:
        """Packets that ZooKeeper has received; its four letter words are no packets."""
        lines = (send_four_letter_word(self._zookeeper_port, "mntr") or "").splitlines()
        return int(float(next(line for line in lines if line.startswith("zk_packets_received")).split()[1]))

    def cpu_seconds(self) -> float:
        """User and system time of the server's processes that live now."""
        return sum(map(process_cpu_seconds, list_process_tree(self._pid)))

    def idle(self) -> Cost:
        time.sleep(_REST_SECONDS)
        began, cpu, requests = time.monotonic(), self.cpu_seconds(), self.requests()
        time.sleep(_IDLE_SECONDS)
        seconds = time.monotonic() - began
        return {
            "CPU ms/s": 1000 * (self.cpu_seconds() - cpu) / seconds,
            "requests/s": (self.requests() - requests) / seconds,
            "threads": float(sum(len(os.listdir(f"/proc/{pid}/task")) for pid in list_process_tree(self._pid))),
        }

    def asked(self, sql: str, count: int = 5) -> Cost:
        """The least of some, so that what else goes on in the server is left out."""
        costs = []
        for _ in range(count):
            began, requests = time.perf_counter(), self.requests()
            self.run(sql)
            costs.append((self.requests() - requests, time.perf_counter() - began))
        return {"s": min(seconds for _, seconds in costs), "requests": float(min(asked for asked, _ in costs))}

    def start_again(self) -> Cost:
        """From the start of the process: until it answers a query, until all tables take INSERTs."""
        self._cluster.terminate(_REPLICA)
        requests, began = self.requests(), time.monotonic()
        status = self._cluster.restart(_REPLICA, wait=False)
        self._pid = status.pid
        answers = self._until(lambda: self.run("SELECT 1") == "1", began)
        cpu = self.cpu_seconds()
        is_writable = "SELECT count() FROM system.replicas WHERE is_readonly"
        writable = self._until(lambda: self.run(is_writable) == "0", began)
        return {
            "s until it answers": answers,
            "CPU s until it answers": cpu,
            "s until all are writable": writable,
            "requests": float(self.requests() - requests),
            "CPU s": self.cpu_seconds(),
        }

    @staticmethod
    def _until(condition: Callable[[], bool], began: float) -> float:
        while time.monotonic() - began < _START_SECONDS:
            with suppress(httpx.TransportError, RuntimeError):
                if condition():
                    return time.monotonic() - began
            time.sleep(_POLL_SECONDS)
        raise TimeoutError(f"not after {_START_SECONDS:g} s")


@cache
def _with_tables(count: int) -> _Server:
    server = _Server()
    for number in range(count):
        server.run(
            f"CREATE TABLE t{number} (d Date, k UInt64, v String) "
            f"ENGINE = ReplicatedMergeTree('/growth/t{number}', '{{replica}}') ORDER BY k"
        )
        server.run(f"INSERT INTO t{number} VALUES ('2020-01-01', 1, 'a')")
    return server


@cache
def _with_partitions(count: int) -> _Server:
    """One partition has two parts, which are too large for any merge."""
    server = _Server()
    server.run(
        "CREATE TABLE t (p UInt32, k UInt64) ENGINE = ReplicatedMergeTree('/growth/t', '{replica}') "
        "PARTITION BY p ORDER BY k SETTINGS max_bytes_to_merge_at_max_space_in_pool = 1, "
        "max_bytes_to_merge_at_min_space_in_pool = 1"
    )
    server.run(
        f"INSERT INTO t SELECT number, number FROM numbers({count}) SETTINGS max_partitions_per_insert_block = 100000"
    )
    server.run("INSERT INTO t VALUES (0, 1)")
    return server


def idle_tables(count: int) -> Cost:
    return _with_tables(count).idle()


def replicas_table(count: int) -> Cost:
    return _with_tables(count).asked("SELECT table, is_readonly FROM system.replicas FORMAT Null")


def start(count: int) -> Cost:
    return _with_tables(count).start_again()


def idle_partitions(count: int) -> Cost:
    return _with_partitions(count).idle()


def main() -> None:
    wanted = [int(size) for size in sys.argv[1:]]
    for name, sizes, run in cases():
        for size in [size for size in sizes if not wanted or size in wanted]:
            costs = ", ".join(f"{amount:,.2f} {unit}" for unit, amount in run(size).items())
            print(f"{name}: {size}: {costs}", flush=True)


if __name__ == "__main__":
    main()
