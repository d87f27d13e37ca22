"""One cluster of real processes for the modules of the group ``replicas``: three replicas and a ZooKeeper."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.worker_count import WORKERS

WAIT_SECONDS = 60.0
_numbers = itertools.count(1)


class Replicas:
    """The cluster with a client for each replica."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster(directory)
        overrides = {
            "zookeeper": {"session_timeout_ms": 4000}, "logger": {"level": "information"}, "workers": WORKERS,
            "users": {"default": {}, "reader": {"readonly": 1}},
        }  # fmt: skip
        self.clients: dict[str, HttpClient] = {}
        for status in self.cluster.start(3, overrides=overrides):
            if status.name.startswith("r"):
                self.clients[status.name] = HttpClient(port=status.port, timeout_seconds=60)

    def __getitem__(self, name: str) -> HttpClient:
        return self.clients[name]

    def end_test(self) -> None:
        """Everybody alive and no table left: work of an earlier test must not meet a failpoint of the next."""
        for status in self.cluster.status():
            if not status.is_alive:
                self.restart(status.name)
        for client in self.clients.values():
            for (table,) in client.rows("SELECT name FROM system.tables WHERE database = 'default'"):
                client.execute(f"DROP TABLE {table} SYNC")

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self.cluster.stop(grace_seconds=5)

    def new_table(self, columns: str = "k UInt64, v String", settings: str = "") -> str:
        """A replicated table with a name of its own on every replica, ordered by its first column."""
        name = f"t{next(_numbers)}"
        key = columns.split()[0]
        for client in self.clients.values():
            client.execute(
                f"CREATE TABLE {name} ({columns}) ENGINE = ReplicatedMergeTree('/tables/{name}', '{{replica}}') "
                f"ORDER BY {key}{f' SETTINGS {settings}' if settings else ''}"
            )
        return name

    def restart(self, name: str, failpoints: str = "") -> None:
        self.cluster.restart(name, environment={"PANDO_FAILPOINTS": failpoints})

    def wait_dead(self, name: str) -> None:
        self.wait(lambda: not self.status(name).is_alive, f"the end of {name}")

    def status(self, name: str) -> object:
        return next(status for status in self.cluster.status() if status.name == name)

    def wait_rows(self, table: str, rows: int, names: list[str] | None = None) -> None:
        """Until every replica (or those named) has exactly this many rows."""
        for name in names or list(self.clients):
            self.wait(
                lambda name=name: self.try_value(name, f"SELECT count() FROM {table}") == rows,
                lambda name=name: (
                    f"{rows} rows on {name}; it has {self.try_value(name, f'SELECT count() FROM {table}')}"
                    f" and {self.explain(name, table)}"
                ),
            )

    def try_value(self, name: str, sql: str) -> object:
        """``None`` while the replica does not answer."""
        try:
            return self.clients[name].value(sql)
        except PandoError:
            return None

    def explain(self, name: str, table: str) -> object:
        try:
            return self.clients[name].rows(
                "SELECT type, new_part_name, last_exception, postpone_reason FROM system.replication_queue "
                f"WHERE table = '{table}'"
            ) + self.clients[name].rows(
                f"SELECT is_readonly, last_queue_update_exception FROM system.replicas WHERE table = '{table}'"
            )
        except PandoError as error:
            return str(error)

    def wait(self, condition: Callable[[], bool], what: str | Callable[[], str]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what if isinstance(what, str) else what()}")
            time.sleep(0.05)

    def content(self, name: str, table: str) -> list[list[object]]:
        """Names and content hashes of the active parts."""
        return self.clients[name].rows(
            "SELECT name, hash_of_uncompressed_files FROM system.parts "
            f"WHERE active AND table = '{table}' ORDER BY name"
        )

    def wait_equal(self, table: str) -> None:
        """Until all replicas have the same parts with the same content."""
        self.wait(
            lambda: len({str(self.content(name, table)) for name in self.clients}) == 1,
            lambda: f"equal parts of {table}: { {name: self.content(name, table) for name in self.clients} }",
        )


@pytest.fixture(scope="session")
def running_replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    running = Replicas(tmp_path_factory.mktemp("cluster"))
    yield running
    running.close()


@pytest.fixture
def replicas(running_replicas: Replicas) -> Iterator[Replicas]:
    yield running_replicas
    running_replicas.end_test()
