"""``system.replicas`` and ``replication_queue``: what operators of replicated tables look at."""

from __future__ import annotations

from collections.abc import Iterator

from coordination.keeper import KeeperError
from coordination.queue_io import log_position
from coordination.replica_activity import active_replicas
from engine.context import Server
from engine.system_tables.system_table import Row, system_table
from engine.tables.definition import TableDefinition
from engine.tables.replica import Replica


def _replicated(server: Server) -> Iterator[tuple[TableDefinition, Replica]]:
    for table in server.catalog.tables():
        if table.replication is not None:
            yield table.definition, table.replication


def _replicas(server: Server) -> Iterator[Row]:
    now = server.services.clock()
    for definition, replication in _replicated(server):
        counts = replication.queue.counts()
        keeper = _Questions(replication)
        problem = replication.problem()
        yield (
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
            "default",
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
            keeper.log_max_index,
            keeper.log_pointer,
            int(replication.queue.absolute_delay(now)),
            len(keeper.replicas),
            sum(keeper.replicas.values()),
            keeper.lost_part_count,
            problem or "",
            keeper.exception,
            [(name, int(active)) for name, active in keeper.replicas.items()],
            replication.warning,
        )


class _Questions:
    """What only ZooKeeper knows; zeros and the reason when it does not answer."""

    def __init__(self, replication: Replica) -> None:
        self.log_max_index = self.log_pointer = self.lost_part_count = 0
        self.replicas: dict[str, bool] = {}
        self.exception = ""
        keeper = replication.keeper
        try:
            if keeper is None or replication.is_session_expired:
                self.exception = "There is no connection to ZooKeeper"
                return
            self.replicas = active_replicas(keeper, replication.paths)
            self.log_pointer, self.log_max_index = log_position(keeper, replication.replica)
            self.lost_part_count = int(keeper.get(replication.paths.lost_part_count)[0] or b"0")
        except KeeperError as error:
            self.exception = error.message


def _queue(server: Server) -> Iterator[Row]:
    for definition, replication in _replicated(server):
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
    system_table(
        "replicas",
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
        log_max_index UInt64
        log_pointer UInt64
        absolute_delay UInt64
        total_replicas UInt32
        active_replicas UInt32
        lost_part_count UInt64
        last_queue_update_exception String
        zookeeper_exception String
        replica_is_active Map(String, UInt8)
        warning String
        """,
        _replicas,
    ),
    system_table(
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
