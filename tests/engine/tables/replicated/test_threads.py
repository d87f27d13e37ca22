"""The same tables on real threads: clients, background pools and faults at the same time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from engine.interserver.part_client import InterserverClient
from engine.interserver.part_server import InterserverServer
from engine.interserver.replication import Replication
from engine.server.background_pool import BackgroundPool
from engine.simulator.simulated_table import SCHEMA
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError
from parts.table.table_description import TableDescription, make_column_key
from sql.grammar.clause_types import (
    ColumnClause,
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
    EngineClause,
)
from sql.settings.merge_tree_settings import MergeTreeSettings

WAIT_SECONDS = 60.0


class Server:
    """One replica with its own pools and its own interserver port."""

    def __init__(self, root: Path, ensemble: MemoryEnsemble, name: str) -> None:
        self.keeper = ensemble.connect()
        self.pools = [BackgroundPool("housekeeping", 2), BackgroundPool("worker", 3)]
        self.writers = ThreadPoolExecutor(2)
        services = TableServices(
            clock=time.time,
            monotonic=time.monotonic,
            wait=threading.Event.wait,
            wait_for=threading.Condition.wait_for,
            random=random.SystemRandom(),
            failpoint=lambda name: None,
            housekeeping=self.pools[0],
            workers=self.pools[1],
            writers=self.writers,
        )
        self.replication = Replication(self.keeper, InterserverClient(None), ReplicaAddress("127.0.0.1", 0), {})
        self.interserver = InterserverServer("127.0.0.1", 0, None, self.replication.pin_part)
        self.interserver.start()
        self.replication.address = ReplicaAddress("127.0.0.1", self.interserver.port)
        create = CreateTable(
            TableRef("db", "t"),
            tuple(ColumnClause(column.name, str(column.type)) for column in SCHEMA.columns),
            EngineClause("ReplicatedMergeTree", ("'/tables/t'", f"'{name}'")),
        )
        key = make_column_key(SCHEMA, ["k"])
        settings = MergeTreeSettings(
            fsync_after_insert=False, fsync_part_directory=False, merge_selecting_sleep_ms=50, cleanup_delay_period=1
        )
        description = TableDescription(
            SCHEMA, key, key, make_column_key(SCHEMA, ["p"]), make_column_key(SCHEMA, []), settings
        )
        self.table = ReplicatedTable(
            TableDefinition("db", "t", create, description, root / name), services, self.replication
        )
        self.table.create()
        self.table.start()

    def insert(self, partition: int, keys: list[int], **options: object) -> int:
        block = pa.table(
            {"p": [partition] * len(keys), "k": keys, "v": [f"value {key}" for key in keys]}, schema=SCHEMA.arrow
        )
        sink = self.table.begin_insert(InsertOptions(**options))  # type: ignore[arg-type]
        try:
            sink.write(block)
            return sink.commit().written_rows
        finally:
            sink.abort()

    def keys(self) -> list[int]:
        with self.table.snapshot() as snapshot:
            batches = [batch for part in snapshot.parts for batch in part.read(["k"])]
        return sorted(key for batch in batches for key in batch.column(0).to_pylist())

    def stop(self) -> None:
        self.table.stop()
        for pool in self.pools:
            pool.stop()
        self.writers.shutdown()
        self.interserver.stop()
        self.replication.stop()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Server]]:
    ensemble = MemoryEnsemble(time.time)
    started = [Server(tmp_path, ensemble, f"r{number}") for number in (1, 2, 3)]
    yield started
    ensemble.faults = None
    for server in started:
        server.stop()


def wait(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def insert_until_stored(servers: list[Server], choose: random.Random, block: int, quorum: int) -> None:
    """As a careful client: the same block again, through any replica, until it is acknowledged."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            choose.choice(servers).insert(
                block % 2, [block * 10, block * 10 + 1], quorum=quorum, quorum_timeout_seconds=5
            )
            return
        except PandoError:
            time.sleep(0.01)
    raise AssertionError(f"block {block} is never acknowledged")


@pytest.mark.long
def test_clients_merges_and_faults_at_once(servers: list[Server]) -> None:
    ensemble = servers[0].keeper._ensemble
    chance = random.Random(5)
    ensemble.faults = lambda session, kind, path: chance.choice(list(Fault)) if chance.random() < 0.001 else None
    is_over = threading.Event()

    def reconnect() -> None:
        while not is_over.wait(0.02):
            for server in servers:
                server.keeper.reconnect()

    def client(number: int) -> None:
        choose = random.Random(number)
        for block in range(number, 120, 6):
            insert_until_stored(servers, choose, block, quorum=choose.choice([0, 0, 2]))
            if choose.random() < 0.3:
                insert_until_stored(servers, choose, max(0, block - 6), quorum=0)

    helper = threading.Thread(target=reconnect)
    helper.start()
    try:
        with ThreadPoolExecutor(6) as clients:
            list(clients.map(client, range(6)))
        ensemble.faults = None
        expected = sorted(block * 10 + i for block in range(120) for i in range(2))
        wait(lambda: all(server.keys() == expected for server in servers), lambda: [len(s.keys()) for s in servers])
        servers[1].table.optimize(OptimizeOptions(final=True))
        contents = [{}] * 3

        def are_equal() -> bool:
            contents[:] = [{str(p.name): p.content_hash for p in s.table.store.list_active()} for s in servers]
            return contents[0] == contents[1] == contents[2] and len(contents[0]) == 2

        wait(are_equal, lambda: contents)
        assert all(server.keys() == expected for server in servers)
    finally:
        is_over.set()
        helper.join()
