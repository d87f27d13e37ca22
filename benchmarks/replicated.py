"""Two Pando replicas beside two replicas of Debian's ClickHouse 18.16, all on one ZooKeeper, spoken to over HTTP.

Without ``clickhouse-server`` on the machine there is nothing to compare with, and nothing is measured.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.clickhouse_server import start_clickhouse
from benchmarks.measure import Figure, seconds
from engine.cluster.cluster import Cluster

PEER = "ClickHouse 18.16, 2 replicas"
SERIAL_INSERTS = 200
CLIENTS = 8
INSERTS_PER_CLIENT = 50
BLOCK_ROWS = 1_000_000
_WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Pair:
    """Two replicas of one kind."""

    root: str
    """Where their tables lie in ZooKeeper."""
    urls: tuple[str, str]
    client: httpx.Client

    def run(self, replica: int, sql: str, data: bytes = b"") -> str:
        answer = self.client.post(self.urls[replica], params={"query": sql}, content=data)
        if answer.status_code != 200:
            raise RuntimeError(f"{self.urls[replica]}: {answer.text[:500]}")
        return answer.text.strip()

    def create(self, table: str) -> None:
        for replica in (0, 1):
            self.run(
                replica,
                f"CREATE TABLE {table} (d Date, k UInt64, v String) ENGINE = "
                f"ReplicatedMergeTree('/bench/{self.root}/{table}', '{{replica}}') ORDER BY k",
            )


def compare(directory: Path) -> Iterator[Figure]:
    if shutil.which("clickhouse-server") is None:
        print("clickhouse-server is not installed: the replicated comparison is left out")
        return
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        cluster = Cluster(directory / "pando")
        stack.callback(cluster.stop)
        statuses = cluster.start(2)
        zookeeper = next(status.port for status in statuses if status.name == "zookeeper")
        ports = [status.port for status in statuses if status.name != "zookeeper"]
        client = stack.enter_context(httpx.Client(timeout=120, trust_env=False))
        pando = Pair("pando", _urls(ports), client)
        clickhouse = Pair("clickhouse", _urls(_start_clickhouse(directory, zookeeper, stack)), client)
        for pair in (pando, clickhouse):
            _wait(lambda pair=pair: all(_answers(pair, replica) for replica in (0, 1)))  # type: ignore[misc]
        for name, measure in (
            ("single-row INSERT, serial", _serial),
            (f"single-row INSERT, {CLIENTS} clients", _concurrent),
            ("INSERT of 1 M rows", _one_block),
            ("until the second replica has it", _delay),
            ("UPDATE of 1 M rows, until both have it", _update),
        ):
            yield _medians(name, pando, clickhouse, measure)


def _medians(name: str, pando: Pair, clickhouse: Pair, measure: Callable[[Pair, str], float], runs: int = 3) -> Figure:
    ours, theirs = [], []
    for _ in range(runs):
        table = f"t{next(_numbers)}"
        for pair, times in ((pando, ours), (clickhouse, theirs)):
            pair.create(table)
            times.append(measure(pair, table))
    return Figure(name, PEER, sorted(ours)[runs // 2], sorted(theirs)[runs // 2])


_numbers = itertools.count(1)


def _row(key: int) -> bytes:
    return f"2020-01-01\t{key}\tvalue {key}\n".encode()


def _serial(pair: Pair, table: str) -> float:
    """Seconds an INSERT."""
    statement = f"INSERT INTO {table} FORMAT TabSeparated"

    def insert_all() -> None:
        for key in range(SERIAL_INSERTS):
            pair.run(0, statement, _row(key))

    return seconds(insert_all) / SERIAL_INSERTS


def _concurrent(pair: Pair, table: str) -> float:
    statement = f"INSERT INTO {table} FORMAT TabSeparated"

    def insert_some(number: int) -> None:
        for key in range(INSERTS_PER_CLIENT):
            pair.run(number % 2, statement, _row(number * 10_000 + key))

    def insert_all() -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(insert_some, range(CLIENTS)))

    return seconds(insert_all) / (CLIENTS * INSERTS_PER_CLIENT)


def _block() -> bytes:
    return b"".join(_row(key) for key in range(BLOCK_ROWS))


def _one_block(pair: Pair, table: str) -> float:
    data = _block()
    return seconds(lambda: pair.run(0, f"INSERT INTO {table} FORMAT TabSeparated", data))


def _delay(pair: Pair, table: str) -> float:
    """From the acknowledgement of a block until the other replica shows it."""
    pair.run(0, f"INSERT INTO {table} FORMAT TabSeparated", _block())
    return seconds(lambda: _wait(lambda: pair.run(1, f"SELECT count() FROM {table}") == str(BLOCK_ROWS)))


def _update(pair: Pair, table: str) -> float:
    """From the statement until both replicas show every tenth row changed."""
    pair.run(0, f"INSERT INTO {table} FORMAT TabSeparated", _block())
    _wait(lambda: pair.run(1, f"SELECT count() FROM {table}") == str(BLOCK_ROWS))

    def update() -> None:
        pair.run(0, f"ALTER TABLE {table} UPDATE v = concat('new ', v) WHERE k % 10 = 3")
        for replica in (0, 1):
            _wait(lambda r=replica: pair.run(r, f"SELECT v FROM {table} WHERE k = 3") == "new value 3")  # type: ignore[misc]

    return seconds(update)


def _urls(ports: list[int]) -> tuple[str, str]:
    return (f"http://127.0.0.1:{ports[0]}/", f"http://127.0.0.1:{ports[1]}/")


def _answers(pair: Pair, replica: int) -> bool:
    try:
        return pair.run(replica, "SELECT 1") == "1"
    except (httpx.TransportError, RuntimeError):
        return False


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited in vain")
        time.sleep(0.005)


def _start_clickhouse(directory: Path, zookeeper: int, stack: ExitStack) -> list[int]:
    ports = []
    for name in ("c1", "c2"):
        more = (
            f"<zookeeper><node><host>127.0.0.1</host><port>{zookeeper}</port></node></zookeeper>"
            f"<macros><replica>{name}</replica></macros>"
        )
        ports.append(start_clickhouse(directory / name, stack, more)[0])
    return ports
