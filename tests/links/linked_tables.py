"""Two tables of simulated servers, and batches of the changes of one for the other.

``source`` is on the first server. ``costs`` is the target, on all servers (``statement_costs``). Changes are read from
the source's log as it is; its parts are the files of the blocks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Block, Change, Definition
from coordination.links.stream.change_stream import DefinitionRecord, LogRecord, MutationRecord, build_changes
from coordination.links.stream.gap_check import admit_changes
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.paths import TablePaths
from engine.remote.cluster_membership import ClusterMembership
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable, counted_table
from engine.tables.capabilities.table_links import AppliedBatch, IncomingBatch, SourceTable, TargetState
from engine.tables.replicated.links.batch_schema import compute_fingerprint
from engine.tables.replicated.links.link_target import ReplicaLinkTarget
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

COLUMNS = "p UInt16, k UInt64, v UInt64"
PARTITIONED = "PARTITION BY p ORDER BY k"
SOURCE = TablePaths("/tables/source")


class LinkedTables:
    """The two tables. ``fetched`` counts how often each block was asked for."""

    def __init__(self, target: CountedTable, settings: Mapping[str, object]) -> None:
        self.table = target
        self.first: SimulatedServer = target.first
        self.servers = target.servers.servers
        self.link = LinkDefinition("l", "u1", "west", "default", "source", "default", "costs", dict(settings))
        self.keeper = target.servers.ensemble.connect()
        self.fetched: dict[PartName, int] = {}
        self.definitions: list[tuple[int, Definition]] = []

    @property
    def source(self) -> ReplicatedTable:
        found = self.first.engine.catalog.table("default", "source")
        assert isinstance(found, ReplicatedTable)
        return found

    def target(self, replica: int = 0) -> ReplicaLinkTarget:
        return self.table.of(self.servers[replica]).links.target

    def create_source(
        self, columns: str = COLUMNS, rest: str = PARTITIONED, engine: str = "ReplicatedMergeTree"
    ) -> None:
        self.first.sql(f"CREATE TABLE source ({columns}) ENGINE = {engine}('{SOURCE.root}', '{{replica}}') {rest}")
        self.source.merge_steps.is_enabled = False

    def name_cluster(self) -> None:
        """Gives every server the cluster's name, as its configuration does."""
        for server in self.servers:
            server.engine.cluster_membership = ClusterMembership("east", server.engine.services.new_uuid)

    def heal(self) -> None:
        """Ends all faults, starts what crashed, and waits until the replicas are active again."""
        self.table.servers.calm()
        self.name_cluster()
        self.table.select_merges(False)
        self.table.work_until(lambda: all(map(self._is_active, self.servers)))

    def _is_active(self, server: SimulatedServer) -> bool:
        table = self.table.of(server)
        activation = table.state.activation
        is_current = activation is not None and activation.session_id == server.keeper.session_id
        return is_current and not table.session.restart_requested.is_set()

    def keep_definition(self) -> None:
        """Makes the node of the link's definition, as CREATE REPLICATION LINK does."""
        paths = self.table.table.replication.paths
        if self.keeper.exists(paths.linked.incoming) is None:
            self.keeper.create(paths.linked.incoming)
        self.keeper.create(paths.linked.incoming_link(self.link.name), self.link.to_bytes())

    def alter_source(self, command: str) -> None:
        """Changes the source's definition, which is a change of its own."""
        self.first.sql(f"ALTER TABLE source {command}")
        self.note_definition()

    # -- what the source tells ----------------------------------------------------------------------------------------

    def origin(self) -> Origin:
        with self.first.acting():
            return self.source.links.target.read_target().own

    def note_definition(self) -> None:
        """Keeps the present definition as the change of an ALTER."""
        data, stat = self.keeper.get(SOURCE.columns)
        metadata = self.keeper.get(SOURCE.metadata)[0].decode()
        version = self.source.description.metadata_version
        self.definitions.append((stat.modified_zxid, Definition(version, metadata, data.decode())))

    def changes(self) -> list[Change]:
        keeper, records = self.keeper, []
        for name in keeper.children(SOURCE.log):
            data, stat = keeper.get(f"{SOURCE.log}/{name}")
            records.append(LogRecord(stat.created_zxid, stat.created_ms, LogEntry.parse(data)))
        for name in keeper.children(SOURCE.mutations):
            data, stat = keeper.get(f"{SOURCE.mutations}/{name}")
            mutation = MutationEntry.parse(name.removeprefix("mutation-"), data)
            records.append(MutationRecord(stat.created_zxid, stat.created_ms, mutation))
        for zxid, definition in self.definitions:
            records.append(DefinitionRecord(zxid, 1, definition))
        return build_changes(records, self.origin())

    def source_table(self) -> SourceTable:
        changes = self.changes()
        (create,) = self.first.sql("SHOW CREATE TABLE source")[1][0]
        description = self.source.description
        return SourceTable(
            "default",
            "source",
            self.origin(),
            changes[-1].place if changes else 0,
            str(create),
            description.metadata_version,
            compute_fingerprint(description),
            columns=self.keeper.get(SOURCE.columns)[0].decode(),
        )

    def fetch(self, change: Change, block: Block, directory: Path) -> None:
        self.fetched[block.part] = self.fetched.get(block.part, 0) + 1
        snapshot, path = self.source.served_parts.pin_part(block.part)
        with snapshot:
            shutil.copytree(path, directory, dirs_exist_ok=True)
        server = next(server for server in self.servers if directory.is_relative_to(server.path))
        for file in (*sorted(directory.iterdir()), directory):
            self.table.servers.disks[server.path].sync(file)

    # -- what the link does -------------------------------------------------------------------------------------------

    def state(self, replica: int = 0) -> TargetState:
        with self.servers[replica].acting():
            return self.target(replica).read_target()

    def begin(self, vector: VersionVector | None = None) -> bool:
        with self.first.acting():
            return self.target().begin_link(self.link, vector or VersionVector())

    def batch(self, state: TargetState | None = None, replica: int = 0) -> IncomingBatch:
        state = state or self.state(replica)
        admission = admit_changes(state.vector, state.own, self.changes())
        assert admission.stop is None, str(admission.stop)
        source = self.source_table()
        end = Position(source.origin, source.newest)
        return IncomingBatch(self.link, state, source, admission.changes, admission.vector, end, self.fetch)

    def apply(self, batch: IncomingBatch | None = None, replica: int = 0) -> AppliedBatch:
        batch = batch or self.batch(replica=replica)
        with self.servers[replica].acting():
            return self.target(replica).apply_batch(batch, QueryStatus())

    def with_settings(self, **settings: object) -> None:
        self.link = replace(self.link, settings={**self.link.settings, **settings})

    # -- what is shown ------------------------------------------------------------------------------------------------

    def rows(self, table: str = "costs", replica: int = 0, columns: str = "*") -> list[tuple[object, ...]]:
        return sorted(self.servers[replica].sql(f"SELECT {columns} FROM {table}")[1])

    def settle(self) -> None:
        self.table.settle()

    def must_be_equal(self, columns: str = "*") -> None:
        """Both replicas of the target show what the source shows."""
        self.settle()
        self.table.work_until(lambda: self._mutations_are_done())
        wanted = self.rows("source", columns=columns)
        for replica in range(len(self.servers)):
            assert self.rows(replica=replica, columns=columns) == wanted

    def _mutations_are_done(self) -> bool:
        tables = [self.source, *map(self.table.of, self.servers)]
        return all(mutation.is_done for table in tables for mutation in table.mutations.shown())


@contextmanager
def linked_tables(
    root: Path, columns: str = COLUMNS, rest: str = PARTITIONED, *, replicas: int = 2, **settings: object
) -> Iterator[LinkedTables]:
    """Makes the target; the test makes the source."""
    with counted_table(root, columns, rest, replicas=replicas) as target:
        made = LinkedTables(target, settings)
        made.name_cluster()
        yield made
        made.keeper.close()
