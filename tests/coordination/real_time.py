"""What takes a clock in the coordination room, with the machine's; nobody waits for another server here."""

from __future__ import annotations

import time
from functools import partial

from coordination.drops import drop_partition as drop_range
from coordination.inserts import insert_commit
from coordination.nodes import replica_activation
from coordination.replicas import clone, part_commit, table_nodes

activate = partial(replica_activation.activate, clock=time.monotonic, wait=lambda event, seconds: None)
clone_replica = clone.clone_replica
commit_insert = partial(insert_commit.commit_insert, clock=time.monotonic, sleep=time.sleep)
commit_produced_part = partial(part_commit.commit_produced_part, clock=time.monotonic, sleep=time.sleep)
create_table_or_replica = partial(table_nodes.create_table_or_replica, wait=lambda event, seconds: None)
drop_all_partitions = partial(drop_range.drop_all_partitions, clock=time.time)
drop_partition = partial(drop_range.drop_partition, clock=time.time)
resolve_insert = partial(insert_commit.settle_insert, clock=time.monotonic, sleep=time.sleep)
