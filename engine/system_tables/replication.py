"""``system.replicas`` and ``replication_queue``: the state of replicated tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

from coordination.keeper.interface import Keeper, KeeperError
from coordination.nodes.replica_activation import read_replica_activity
from coordination.replicas.log_pull import read_log_position
from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    ColumnGroup,
    define_grouped_table,
    define_owner_table,
)
from engine.tables.capabilities.replica import Replica
from engine.tables.table_definition import TableDefinition

_T = TypeVar("_T")


def _list_replicated(server: OwnerServer) -> Iterator[tuple[TableDefinition, Replica]]:
    for table in server.catalog.tables():
        if table.replication is not None:
            yield table.definition, table.replication


class _ReplicaFacts:
    """A row of ``system.replicas``.

    ZooKeeper is asked only if a selected column needs it, once for all columns. If it does not answer the columns are
    zero and ``zookeeper_exception`` has the reason.
    """

    def __init__(self, server: OwnerServer, definition: TableDefinition, replication: Replica) -> None:
        self._now = server.services.clock()
        self._definition = definition
        self._replication = replication
        self._exception = ""

    def known_here(self) -> Row:
        """Returns the columns that need no ZooKeeper."""
        definition, replication = self._definition, self._replication
        counts, problem = replication.queue.counts(), replication.problem()
        return (
            definition.database,
            definition.name,
            definition.engine_name,
            int(problem is None),
            1,
            int(problem is not None),
            int(replication.is_session_expired),
            counts.future_parts,
            replication.parts_to_check,
            replication.paths.root,
            replication.replica.name,
            replication.replica.root,
            replication.zookeeper_name,
            definition.description.metadata_version,
            counts.queue_size,
            counts.inserts_in_queue,
            counts.merges_in_queue,
            counts.part_mutations_in_queue,
            int(counts.queue_oldest_time),
            int(counts.inserts_oldest_time),
            int(counts.merges_oldest_time),
            int(counts.part_mutations_oldest_time),
            counts.oldest_part_to_get,
            counts.oldest_part_to_merge_to,
            counts.oldest_part_to_mutate_to,
        )

    def log(self) -> Row:
        """Returns the log's last index and this replica's position."""
        pointer, max_index = self._log_position
        return max_index, pointer

    def delay(self) -> Row:
        """Returns the replica's delay in seconds."""
        return (int(self._replication.queue.absolute_delay(self._now)),)

    def replicas(self) -> Row:
        """Returns the number of replicas, and of active ones."""
        return len(self._replicas), sum(self._replicas.values())

    def lost_parts(self) -> Row:
        """Returns the number of lost parts."""
        return (self._lost_part_count,)

    def problem(self) -> Row:
        """Returns why the replica is read-only; empty if it is not."""
        return (self._replication.problem() or "",)

    def exception(self) -> Row:
        """Returns ZooKeeper's error for any of the questions about this table."""
        _ = self._log_position, self._replicas, self._lost_part_count
        return (self._replication.refusal or self._exception,)

    def replica_is_active(self) -> Row:
        """Returns the replicas' names with their activity."""
        return ([(name, int(active)) for name, active in self._replicas.items()],)

    def warning(self) -> Row:
        """Returns the replica's warning."""
        return (self._replication.warning,)

    def _ask(self, question: Callable[[Keeper], _T], unknown: _T) -> _T:
        """Returns ZooKeeper's answer, or ``unknown`` after an error, which is kept."""
        keeper = self._replication.keeper
        if keeper is None or self._replication.is_session_expired:
            self._exception = "There is no connection to ZooKeeper"
        elif not self._exception:
            try:
                return question(keeper)
            except KeeperError as error:
                self._exception = error.message
        return unknown

    @cached_property
    def _replicas(self) -> dict[str, bool]:
        return self._ask(lambda keeper: read_replica_activity(keeper, self._replication.paths), {})

    @cached_property
    def _log_position(self) -> tuple[int, int]:
        return self._ask(lambda keeper: read_log_position(keeper, self._replication.replica), (0, 0))

    @cached_property
    def _lost_part_count(self) -> int:
        path = self._replication.paths.lost_part_count
        return self._ask(lambda keeper: int(keeper.get(path)[0] or b"0"), 0)


def _replicas(server: OwnerServer) -> Iterator[tuple[_ReplicaFacts]]:
    return ((_ReplicaFacts(server, *found),) for found in _list_replicated(server))


def _queue(server: OwnerServer) -> Iterator[Row]:
    for definition, replication in _list_replicated(server):
        for position, item in enumerate(replication.queue.entries()):
            entry = item.entry
            yield (
                definition.database,
                definition.name,
                replication.replica.name,
                position,
                item.name,
                entry.type.value,
                int(entry.create_time),
                entry.quorum,
                entry.source_replica,
                str(entry.new_part or ""),
                [str(part) for part in entry.source_parts],
                int(entry.detach),
                int(item.is_executing),
                item.num_tries,
                item.last_exception,
                int(item.last_exception_time),
                int(item.last_attempt_time),
                item.num_postponed,
                item.postpone_reason,
                int(item.last_postpone_time),
                entry.merge_type,
            )


TABLES = (
    define_grouped_table(
        "replicas",
        (
            ColumnGroup(
                """
                database String
                table String
                engine String
                is_leader UInt8
                can_become_leader UInt8
                is_readonly UInt8
                is_session_expired UInt8
                future_parts UInt32
                parts_to_check UInt32
                zookeeper_path String
                replica_name String
                replica_path String
                zookeeper_name String
                columns_version Int32
                queue_size UInt32
                inserts_in_queue UInt32
                merges_in_queue UInt32
                part_mutations_in_queue UInt32
                queue_oldest_time DateTime
                inserts_oldest_time DateTime
                merges_oldest_time DateTime
                part_mutations_oldest_time DateTime
                oldest_part_to_get String
                oldest_part_to_merge_to String
                oldest_part_to_mutate_to String
                """,
                _ReplicaFacts.known_here,
            ),
            ColumnGroup("log_max_index UInt64\nlog_pointer UInt64", _ReplicaFacts.log),
            ColumnGroup("absolute_delay UInt64", _ReplicaFacts.delay),
            ColumnGroup("total_replicas UInt32\nactive_replicas UInt32", _ReplicaFacts.replicas),
            ColumnGroup("lost_part_count UInt64", _ReplicaFacts.lost_parts),
            ColumnGroup("last_queue_update_exception String", _ReplicaFacts.problem),
            ColumnGroup("zookeeper_exception String", _ReplicaFacts.exception),
            ColumnGroup("replica_is_active Map(String, UInt8)", _ReplicaFacts.replica_is_active),
            ColumnGroup("warning String", _ReplicaFacts.warning),
        ),
        "",
        _replicas,
    ),
    define_owner_table(
        "replication_queue",
        """
        database String
        table String
        replica_name String
        position UInt32
        node_name String
        type String
        create_time DateTime
        required_quorum UInt32
        source_replica String
        new_part_name String
        parts_to_merge Array(String)
        is_detach UInt8
        is_currently_executing UInt8
        num_tries UInt32
        last_exception String
        last_exception_time DateTime
        last_attempt_time DateTime
        num_postponed UInt32
        postpone_reason String
        last_postpone_time DateTime
        merge_type String
        """,
        _queue,
    ),
)
