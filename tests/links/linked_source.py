"""A linked table on simulated servers, and a target of its link that only asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector
from engine.simulator.simulated_disk import Tree
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable, counted_table
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, OutgoingLink, SourceTable
from engine.tables.replicated.links.source.link_source import ReplicaLinkSource
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.query_status import QueryStatus

CLUSTER = "11111111-0000-4000-8000-000000000000"
TARGET = "22222222-0000-4000-8000-000000000000"
INSERT = "INSERT INTO costs (p, k, v) VALUES ({}, {}, 0)"
LINK = OutgoingLink("west/l", "uuid of l", TARGET, "west")


@dataclass
class Asker:
    """A target that takes everything: it keeps the vector and the changes."""

    table: CountedTable
    link: OutgoingLink = LINK
    vector: VersionVector = field(default_factory=VersionVector)
    changes: list[Change] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    trim: int = 0

    def source(self, number: int = 0) -> ReplicaLinkSource:
        return self.table.of(self.table.servers.servers[number]).links.source

    def begin(self, number: int = 0) -> SourceTable:
        with self.table.servers.servers[number].acting():
            found = self.source(number).register(self.link)
        self.vector = self.vector.begin_at(Position(found.origin, found.newest))
        return found

    def ask(
        self, number: int = 0, *, max_rows: int = 1000, max_bytes: int = 1 << 30, wait: float = 0.0
    ) -> ChangesAnswer:
        request = ChangesRequest(self.link.name, self.link.uuid, self.vector, self.trim, max_rows, max_bytes, wait)
        with self.table.servers.servers[number].acting():
            return self.source(number).read_changes(request, QueryStatus())

    def take(self, number: int = 0, **limits: int) -> ChangesAnswer:
        """Asks once, and takes what comes up to the last cut."""
        answer = self.ask(number, **limits)
        for change in answer.changes:
            assert change.position.origin != answer.source.origin or change.previous <= self.applied(
                answer.source.origin
            )
            self.vector = self.vector.advance(change.position)
        self.changes += answer.changes
        self.cuts += answer.cuts
        if answer.cuts:
            self.vector = self.vector.advance(Position(answer.source.origin, answer.cuts[-1]))
        return answer

    def applied(self, origin: Origin) -> int:
        return self.vector.applied(origin)

    def take_all(self, number: int = 0, **limits: int) -> Sequence[Change]:
        """Asks until nothing comes; returns what came."""
        before = len(self.changes)
        while self.take(number, **limits).cuts:
            pass
        return self.changes[before:]

    def blocks(self, number: int = 0) -> list[str]:
        return [str(block.part) for change in self.changes for block in change.blocks]


@contextmanager
def linked_table(
    tmp_path: Path, replicas: int = 2, engine: str = "ReplicatedMergeTree", more: str = ""
) -> Iterator[Asker]:
    rest = f"PARTITION BY p ORDER BY k {more}"
    with counted_table(tmp_path, "p UInt16, k UInt64, v UInt64", rest, replicas=replicas, engine=engine) as table:
        for server in table.servers.servers:
            name_cluster(server)
        table.settle()
        yield Asker(table)


@contextmanager
def table_with_a_row(tmp_path: Path) -> Iterator[Asker]:
    """The table, with a row from before the link."""
    with linked_table(tmp_path) as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        yield asker


def name_cluster(server: SimulatedServer) -> None:
    """Gives the server's cluster an identity, as ``cluster_name`` does."""
    server.replication.get_cluster_uuid = lambda: CLUSTER


def work(table: CountedTable, condition: Callable[[], bool]) -> None:
    table.work_until(condition)


def restart(asker: Asker, server: SimulatedServer, before: Callable[[], None] = lambda: None) -> None:
    """Starts a server again, after a crash or a stop."""
    asker.table.servers.end_zombies()
    before()
    server.start()
    name_cluster(server)
    asker.table.of(server).merge_steps.is_enabled = False


def tables(asker: Asker) -> list[ReplicatedTable]:
    return [asker.table.of(server) for server in asker.table.servers.servers]


def kept(table: ReplicatedTable) -> list[str]:
    return [str(block.part) for block in table.links.blocks.outbox.list_blocks()]


def keep_all(asker: Asker, blocks: int) -> None:
    asker.table.work_until(lambda: all(len(kept(table)) >= blocks for table in tables(asker)))


def find_folder(tree: Tree | None, name: str) -> Tree:
    """Returns the folder that has an entry of this name, the only one."""
    waiting = [tree]
    while waiting:
        folder = waiting.pop()
        if isinstance(folder, dict):
            if name in folder:
                return folder
            waiting += folder.values()  # type: ignore[arg-type]
    raise AssertionError(name)
