"""Reads ahead what the start of a session asks of ZooKeeper, so that it costs few requests.

The lists follow the order of the steps. They only save requests (see :mod:`coordination.keeper.read_ahead`): a step may
ask for something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordination.keeper.interface import Children, Get
from coordination.keeper.read_ahead import ReadAhead
from coordination.nodes.paths import ReplicaPaths


@dataclass(frozen=True)
class SessionReads:
    """Names of the nodes of partitions, replicas and own parts, as they were before the activation."""

    replica: ReplicaPaths
    partitions: list[str]
    replicas: list[str]
    parts: list[str]

    @classmethod
    def before_activation(cls, ahead: ReadAhead, replica: ReplicaPaths, partition_ids: Iterable[str]) -> SessionReads:
        """Reads what the steps before the activation ask. ``partition_ids`` are those of the parts on disk."""
        table = replica.table
        lists = [table.block_numbers, table.replicas, replica.parts]
        ahead.fetch(
            [
                *map(Children, lists),
                *map(Get, [replica.host, replica.force_restore_data, replica.restoring]),
                Children(table.block_numbers),
                *(Get(table.partition(partition_id)) for partition_id in sorted(partition_ids)),
                Get(table.block_numbers),
                Children(replica.parts),
                *map(Get, [table.columns, table.metadata, table.columns, table.replicas]),
                Children(table.quorum_failed_parts),
            ]
        )
        return cls(replica, *(names or [] for names in ahead.children_many(lists)))

    def after_activation(self, ahead: ReadAhead) -> None:
        """Reads what the steps after the activation ask."""
        replica, table = self.replica, self.replica.table
        others = [table.replica(name).parts for name in self.replicas if name != replica.name]
        ahead.fetch(
            [
                *map(Get, [replica.identity, table.columns, replica.metadata_version, table.gate]),
                Children(table.block_numbers),
                *(Children(f"{table.block_numbers}/{name}") for name in self.partitions),
                Children(table.quorum_failed_parts),
                *map(Get, [replica.restoring, replica.is_lost, replica.log_pointer, replica.force_restore_data]),
                Children(replica.queue),
                Children(replica.parts),
                *(Get(replica.part(name)) for name in self.parts),
                Children(table.replicas),
                *map(Children, others),
                Children(table.transactions),
                Children(replica.queue),
                *map(Get, [replica.max_processed_insert_time, replica.min_unprocessed_insert_time]),
                *map(Get, [replica.max_processed_insert_time, replica.log_pointer]),
                Children(replica.queue),
                Children(table.log),
            ]
        )

    def after_pull(self, ahead: ReadAhead) -> None:
        """Reads the open quorums."""
        ahead.fetch([Children(self.replica.table.quorum_parallel), Get(self.replica.table.quorum_status)])
