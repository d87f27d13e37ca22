"""Histories of a plain table on two replicas, against ClickHouse: both are asked as if they were one server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from parts.common.thread_pool import run_jobs_inline
from tests.alter.following import Answering, Follower, answer
from tests.sql.oracle import Oracle

_PLAIN = "ENGINE = MergeTree"
_REPLICATED = "ENGINE = ReplicatedMergeTree('/tables/{table}', '{replica}')"
_SHOWN = _REPLICATED.replace("'", r"\'").encode()
_DEFINITION = re.compile(r"(CREATE|DROP|DETACH|ATTACH) TABLE")
_SETTINGS = {
    "alter_sync": 2,
    "mutations_sync": 2,
    "lightweight_deletes_sync": 2,
    "allow_nondeterministic_mutations": 1,
}


class _Passing(SimulatedDisk):
    """Makes nothing durable, and so holds no files open."""

    def sync(self, path: Path) -> None:
        pass


class Replicas:
    """Every server makes and drops its replica; all else goes to one of them, which its text decides. What they hold
    after it is the same, and so are their answers."""

    def __init__(self, path: Path, disks: dict[Path, SimulatedDisk]) -> None:
        self._all = SimulatedServers(path, 2, 0, Trace(None), disks)
        for server in self._all.servers:
            server.drop()
            disks.pop(server.path).close()
            disks[server.path] = _Passing(server.path)

    def stop(self) -> None:
        self._all.end()

    def query(self, sql: str) -> bytes:
        if sql.startswith(("SELECT", "SHOW")):
            first, *others = (self._ask(server, sql) for server in self._all.servers)
            assert others == [first], f"{sql}: the replicas answer {first!r} and {others}"
            return first.replace(_SHOWN, _PLAIN.encode())
        if _DEFINITION.match(sql):
            for server in self._all.servers:
                self._ask(server, sql.replace(_PLAIN, _REPLICATED))
        else:
            self._ask(self._all.servers[crc32(sql.encode()) % 2], sql)
            self._all.settle()
            self._all.check_equal()
        return b""

    def one(self, number: int) -> Answering:
        """A replica alone."""
        return _One(self._all.servers[number])

    @staticmethod
    def _ask(server: SimulatedServer, sql: str) -> bytes:
        with server.acting():
            return answer(server.engine, sql, **_SETTINGS)


@dataclass
class _One:
    server: SimulatedServer

    def query(self, sql: str) -> bytes:
        return Replicas._ask(self.server, sql)


@contextmanager
def asked_replicas(path: Path) -> Iterator[Replicas]:
    disks = dict[Path, SimulatedDisk]()
    with record_syncs(disks), run_jobs_inline():
        replicas = Replicas(path, disks)
        try:
            yield replicas
        finally:
            replicas.stop()


@contextmanager
def following_replicas(path: Path) -> Iterator[Follower]:
    oracle = Oracle()
    try:
        with asked_replicas(path) as replicas:
            yield Follower(oracle, replicas)
    finally:
        oracle.close()
