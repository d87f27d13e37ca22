"""What a link costs its source whose target is dead, and how the target comes back.

A cluster of one server takes INSERTs of one row from several clients into three tables: one whose link's target is
dead, one whose outbox may have few bytes besides, and one without a link. Then the target comes back. All are real
processes with a real ZooKeeper each. ``python -m benchmarks.growth_links [SIZE …]`` prints the costs;
``benchmarks.growth`` takes :func:`cases` from here.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx

from coordination.keeper.embedded_zookeeper import send_four_letter_word
from engine.cluster.cluster import Cluster
from engine.cluster.linked_directories import link_directories

Cost = dict[str, float]
SIZES = (1_000, 10_000)
_BOUND_BYTES = 70
"""The bound of the second table's outbox, for each one of the size: half of what its INSERTs bring."""
_CLIENTS = 8
_CHUNKS = 20
"""The INSERTs are made in so many runs, in each of which every table has its turn."""
_SHARES = {"kept": 1.0, "bounded": 0.1, "plain": 0.1}
"""INSERTs into each table, for each one of the size."""
_SETTINGS = (
    "replicated_deduplication_window = 100, cleanup_delay_period = 2, min_replicated_logs_to_keep = 10, "
    "old_parts_lifetime = 5, link_log_min_seconds_to_retain = 1"
)
_WAIT_SECONDS = 1800.0
_POLL_SECONDS = 0.2


def cases() -> Iterator[tuple[str, Sequence[int], Callable[[int], Cost]]]:
    """(name, sizes, what a size costs): names of costs say their unit."""
    yield "INSERTs while the target of a link is dead", SIZES, dead_target


class _Site:
    """A cluster of one server."""

    def __init__(self, directory: Path, name: str, stack: ExitStack, client: httpx.Client) -> None:
        self.name, self._client, self._cluster = name, client, Cluster(directory)
        stack.callback(self._cluster.stop)
        replica, zookeeper = self._cluster.start(1, name=name, overrides={"workers": 0})
        self._replica, self._url = replica.name, f"http://127.0.0.1:{replica.port}/"
        self._zookeeper_port, self.directory = zookeeper.port, directory

    def run(self, sql: str, data: bytes = b"") -> str:
        answer = self._client.post(self._url, params={"query": sql}, content=data)
        if answer.status_code != 200:
            raise RuntimeError(f"{self.name}: {answer.text[:500]}")
        return answer.text.strip()

    def kill(self) -> None:
        self._cluster.kill(self._replica)

    def restart(self) -> float:
        """Starts the server again; returns the seconds until its tables take INSERTs."""
        began = time.monotonic()
        self._cluster.restart(self._replica)
        wait(lambda: self.run("SELECT count() FROM system.replicas WHERE is_readonly") == "0")
        return time.monotonic() - began

    def terminate(self) -> None:
        self._cluster.terminate(self._replica)

    def count_nodes(self) -> int:
        lines = (send_four_letter_word(self._zookeeper_port, "mntr") or "").splitlines()
        return int(float(next(line for line in lines if line.startswith("zk_znode_count")).split()[1]))

    def create(self, table: str, more: str = "") -> None:
        self.run(
            f"CREATE TABLE {table} (k UInt64) ENGINE = ReplicatedMergeTree('/bench/{table}', 'r') ORDER BY k "
            f"SETTINGS {_SETTINGS}{more}"
        )


def wait(condition: Callable[[], bool]) -> None:
    """Waits for a condition; errors of a server that starts do not count."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError, RuntimeError):
            if condition():
                return
        time.sleep(_POLL_SECONDS)
    raise TimeoutError("waited in vain")


def dead_target(size: int) -> Cost:
    """Measures INSERTs beside a dead target, what they leave, and the way back."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-growth-")))
        client = stack.enter_context(httpx.Client(timeout=_WAIT_SECONDS, trust_env=False))
        source, target = (_Site(directory / name, name, stack, client) for name in ("west", "east"))
        link_directories([source.directory, target.directory])
        for table in _SHARES:
            source.create(
                table, f", link_log_max_bytes_to_retain = {_BOUND_BYTES * size}" if table == "bounded" else ""
            )
            if table != "plain":
                target.create(table)
                target.run(f"CREATE REPLICATION LINK {table} ON {table} FROM CLUSTER west")
                target.run(f"SYSTEM WAIT REPLICATION LINK {table}")
        _insert(source, dict.fromkeys(_SHARES, 200), first=10**9)  # ids of blocks up to their window
        nodes = _count_settled(source)
        target.kill()
        taken = _insert_in_turns(source, size)
        costs = {
            "INSERTs/s": 1 / statistics.median(taken["kept"]),
            "INSERTs/s of no link": 1 / statistics.median(taken["plain"]),
            "INSERTs/s, last runs": 1 / statistics.median(taken["kept"][-3:]),
            "znodes added": float(_count_settled(source) - nodes),
            "s of a restart of the source": _restart(source),
        }
        for table in ("kept", "bounded"):
            status = f"FROM system.link_outbox WHERE table = '{table}'"
            costs[f"blocks in the outbox, {table}"] = float(source.run(f"SELECT blocks {status}"))
            costs[f"bytes of the outbox, {table}"] = float(source.run(f"SELECT bytes {status}"))
        began = time.monotonic()
        target.restart()
        wanted = source.run("SELECT count(), sum(k) FROM kept")
        wait(lambda: target.run("SELECT count(), sum(k) FROM kept") == wanted)
        costs["s until it has caught up"] = time.monotonic() - began
        state = "SELECT upstream_status, message FROM system.replication_links WHERE name = 'bounded'"
        kept = source.run("SELECT count() FROM bounded")
        wait(lambda: "stopped" in target.run(state) or target.run("SELECT count() FROM bounded") == kept)
        print(target.run(state), file=sys.stderr, flush=True)
        return costs


def _restart(source: _Site) -> float:
    source.terminate()
    return source.restart()


def _insert_in_turns(source: _Site, size: int) -> dict[str, list[float]]:
    """Inserts into all tables; returns the seconds of an INSERT in each run."""
    taken: dict[str, list[float]] = {table: [] for table in _SHARES}
    for chunk in range(_CHUNKS):
        for table, share in _SHARES.items():
            count = max(1, int(size * share / _CHUNKS))
            taken[table].append(_insert(source, {table: count}, first=chunk * size))
    return taken


def _insert(source: _Site, counts: dict[str, int], first: int) -> float:
    """Inserts rows one by one, of several clients; returns the seconds of one INSERT."""
    jobs = [(table, first + number) for table, count in counts.items() for number in range(count)]

    def insert(job: tuple[str, int]) -> None:
        statement, row = f"INSERT INTO {job[0]} FORMAT TabSeparated", f"{job[1]}\n".encode()
        wait(lambda: source.run(statement, row) == "")  # the repeat of one that was stored is a duplicate

    began = time.monotonic()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(insert, jobs))
    return (time.monotonic() - began) / len(jobs)


def _count_settled(source: _Site) -> int:
    """Returns the nodes of the source when merges and cleanups have ended, but for those of active parts."""
    wait(lambda: source.run("SELECT count() FROM system.parts WHERE NOT active") == "0")
    return _count_least(source) - int(source.run("SELECT count() FROM system.parts WHERE active"))


def _count_least(source: _Site) -> int:
    least, seen_at = source.count_nodes(), time.monotonic()
    while time.monotonic() - seen_at < 10:
        time.sleep(_POLL_SECONDS)
        if (found := source.count_nodes()) < least:
            least, seen_at = found, time.monotonic()
    return least


if __name__ == "__main__":
    for asked in list(map(int, sys.argv[1:])) or SIZES:
        print(asked, dead_target(asked))
