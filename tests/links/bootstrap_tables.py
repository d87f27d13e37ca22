"""Two tables of simulated servers, one of which is copied from the other.

``source`` is the giver's table, ``costs`` the taker's; both are on all servers. The first server gives, unless a test
says otherwise, and the second takes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.links.link_definition import LinkDefinition
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable, counted_table
from engine.tables.capabilities.table_bootstrap import BootstrapProgress, BootstrapReport
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.query_status import QueryStatus

COLUMNS = "p UInt16, k UInt64, v UInt64"
PARTITIONED = "PARTITION BY p ORDER BY k"
CLUSTER = "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10"
LINK = "east/l"
SOURCE = TablePaths("/tables/source")
TARGET = TablePaths("/tables/costs")


@dataclass
class DirectSource:
    """The giver, without a network. Hooks are called at each step."""

    tables: BootstrapTables
    giver: int = 0
    fetched: list[str] = field(default_factory=list)
    held: list[HeldTable] = field(default_factory=list)
    before_hold: Callable[[int], None] = lambda round_: None
    before_fetch: Callable[[HeldPart], None] = lambda part: None
    change: Callable[[HeldTable], HeldTable] = lambda held: held

    def hold(self, status: QueryStatus) -> HeldTable:
        self.before_hold(len(self.held))
        with self.tables.servers[self.giver].acting():
            held = self.tables.source(self.giver).links.bootstrap.giver.hold(LINK, status)
        self.held.append(held)
        return self.change(held)

    def fetch(self, held: HeldTable, part: HeldPart, directory: Path, status: QueryStatus) -> None:
        self.before_fetch(part)
        with self.tables.servers[self.giver].acting():
            snapshot, path = self.tables.source(self.giver).links.bootstrap.giver.open_held_part(
                LINK, held.lease, part.name
            )
        with snapshot:
            for file in sorted(path.iterdir()):
                shutil.copyfile(file, directory / file.name)
        self.fetched.append(str(part.name))

    def release(self) -> None:
        self.tables.source(self.giver).links.bootstrap.giver.release(LINK)


class BootstrapTables:
    """The two tables and the link."""

    def __init__(self, target: CountedTable, columns: str, rest: str) -> None:
        self.table = target
        self.servers: list[SimulatedServer] = target.servers.servers
        self.keeper = target.servers.ensemble.connect()
        self.link = LinkDefinition("l", "0c6a4b1e-link", "west", "default", "source", "default", "costs")
        self.progress: list[BootstrapProgress] = []
        target.servers.config_of = lambda name: {"cluster_name": "east"}  # of servers that start again
        for server in self.servers:
            server.replication.get_cluster_uuid = lambda: CLUSTER  # type: ignore[method-assign]
            server.sql(
                f"CREATE TABLE source ({columns}) ENGINE = ReplicatedMergeTree('{SOURCE.root}', '{{replica}}') {rest}"
            )
            self.source_of(server).merge_steps.is_enabled = False
        self.register()
        self.make_link()

    def register(self) -> None:
        self.keeper.create_parents(SOURCE.linked.outgoing_link("east", "l"))

    def make_link(self) -> None:
        path = TARGET.linked.incoming_link(self.link.name)
        self.keeper.create_parents(path)
        self.keeper.set(path, self.link.to_bytes())

    def change_link(self, **changes: object) -> None:
        """Changes the definition, as a statement does."""
        path = TARGET.linked.incoming_link(self.link.name)
        self.link = replace(self.read_link(), **changes)  # type: ignore[arg-type]
        self.keeper.set(path, self.link.to_bytes())

    def read_link(self) -> LinkDefinition:
        return LinkDefinition.parse(self.keeper.get(TARGET.linked.incoming_link(self.link.name))[0])

    def source_of(self, server: SimulatedServer) -> ReplicatedTable:
        found = server.engine.catalog.table("default", "source")
        assert isinstance(found, ReplicatedTable)
        return found

    def source(self, number: int = 0) -> ReplicatedTable:
        return self.source_of(self.servers[number])

    def target(self, number: int = 1) -> ReplicatedTable:
        return self.table.of(self.servers[number])

    def sql(self, statement: str, server: int = 0) -> list[tuple[object, ...]]:
        return self.servers[server].sql(statement)[1]

    def insert(self, *numbers: int, table: str = "source", server: int = 0, partition: int = 1) -> None:
        """Inserts one block with these keys."""
        values = ", ".join(f"({partition}, {number}, {number})" for number in numbers)
        self.sql(f"INSERT INTO {table} VALUES {values}", server)

    def insert_values(self, values: str, table: str = "source", server: int = 0) -> None:
        self.sql(f"INSERT INTO {table} VALUES {values}", server)

    def merge(self, server: int = 0, table: str = "source") -> None:
        self.sql(f"OPTIMIZE TABLE {table} FINAL", server)

    def run(self, source: DirectSource | None = None, *, taker: int = 1, replaces: bool = False) -> BootstrapReport:
        """Copies the table."""
        with self.servers[taker].acting():
            return self.target(taker).links.bootstrap.taker.bootstrap(
                self.link, source or DirectSource(self), QueryStatus(), replaces=replaces,
                note=lambda progress: self.progress.append(replace(progress)),
            )  # fmt: skip

    def clean_up(self, taker: int = 1) -> None:
        """What the next elected server does."""
        with self.servers[taker].acting():
            self.target(taker).links.bootstrap.taker.clean_up(self.link.uuid)

    # -- what is shown ------------------------------------------------------------------------------------------------

    def rows(self, table: str = "costs", server: int = 0) -> list[tuple[object, ...]]:
        return sorted(self.sql(f"SELECT * FROM {table}", server))

    def settle(self) -> None:
        self.table.settle()
        self.table.work_until(self._is_source_idle)

    def _is_source_idle(self) -> bool:
        tables = [self.source_of(server) for server in self.servers]
        parts = [{part.name for part in table.store.list_active()} for table in tables]
        return all(found == parts[0] for found in parts) and not any(
            table.replication.queue.list_entries() for table in tables
        )

    def must_be(self, rows: list[tuple[object, ...]]) -> None:
        """All replicas of the target show these rows."""
        self.settle()
        self.table.work_until(
            lambda: all(self.rows(server=number) == sorted(rows) for number in range(len(self.servers)))
        )

    def start(self, number: int) -> None:
        """Starts a server that has crashed."""
        self.table.servers.end_zombies()
        self.servers[number].start()
        self.servers[number].replication.get_cluster_uuid = lambda: CLUSTER  # type: ignore[method-assign]
        for table in (self.source(number), self.target(number)):
            table.merge_steps.is_enabled = False
        self.table.work_until(lambda: self.target(number).state.activation is not None)
        self.table.work_until(lambda: self.source(number).state.activation is not None)

    def must_be_equal(self) -> None:
        """All replicas of the target show what the source shows."""
        self.settle()
        self.must_be(self.rows("source"))

    def vector(self) -> VersionVector:
        answer = self.keeper.get_many([TARGET.linked.vector])[0]
        return VersionVector.parse(answer[0] if answer is not None else b"")

    def gate(self) -> Gate:
        return Gate.parse(self.keeper.get(TARGET.gate)[0])

    def staged(self, server: int = 1) -> list[str]:
        staged = self.target(server).store.staged
        return [place for name in staged.list_transactions() for place in staged.list_places(name)]


def late_target(tables: BootstrapTables) -> list[tuple[object, ...]]:
    """Gives the target the source's rows of now; then the source goes on. Returns the target's rows."""
    tables.insert(1, 2)
    tables.insert(3)
    tables.insert(9, partition=3)
    tables.settle()
    tables.run()
    tables.settle()
    former = tables.rows()
    tables.insert(5)
    tables.sql("ALTER TABLE source DROP PARTITION 3")
    tables.insert(6, partition=2)
    tables.settle()
    return former


def crash_once(tables: BootstrapTables, failpoint: str, times: int = 1) -> None:
    """Crashes the server that passes the failpoint for the given time."""
    left = [times]

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if name == f"bootstrap.{failpoint}":
            left[0] -= 1
            if left[0] == 0:
                node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint


@contextmanager
def bootstrap_tables(
    root: Path, columns: str = COLUMNS, rest: str = PARTITIONED, *, replicas: int = 2
) -> Iterator[BootstrapTables]:
    """Makes both tables, empty."""
    with counted_table(root, columns, rest, replicas=replicas) as target:
        made = BootstrapTables(target, columns, rest)
        yield made
        made.keeper.close()
