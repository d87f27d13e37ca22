"""What takes a clock in the coordination room, with the machine's; nobody waits for another server here."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from coordination.drops import drop_partition as drop_range
from coordination.inserts import insert_commit
from coordination.keeper.interface import Keeper
from coordination.nodes import replica_activation
from coordination.nodes.gate import format_epoch
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_gate import TableGate
from coordination.replicas import clone, part_commit, table_nodes

activate = partial(replica_activation.activate, clock=time.monotonic, wait=lambda event, seconds: None)
clone_replica = clone.clone_replica
commit_insert = partial(insert_commit.commit_insert, clock=time.monotonic, sleep=time.sleep)
commit_produced_part = partial(part_commit.commit_produced_part, clock=time.monotonic, sleep=time.sleep)
create_table_or_replica = partial(
    table_nodes.create_table_or_replica, epoch=format_epoch(1, 7), wait=lambda event, seconds: None
)
resolve_insert = partial(insert_commit.settle_insert, clock=time.monotonic, sleep=time.sleep)


def drop_partition(keeper: Keeper, table: TablePaths, *arguments: Any, **options: Any) -> int | None:
    """Drops a partition, with the gate as it is now."""
    options = {"gate": TableGate(table), "clock": time.time, **options}
    return drop_range.drop_partition(keeper, table, *arguments, **options)


def drop_all_partitions(keeper: Keeper, table: TablePaths, *arguments: Any, **options: Any) -> list[int]:
    """Drops all partitions, with the gate as it is now."""
    options = {"gate": TableGate(table), "clock": time.time, **options}
    return drop_range.drop_all_partitions(keeper, table, *arguments, **options)
