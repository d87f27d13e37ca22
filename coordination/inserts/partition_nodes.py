"""A partition's node below ``block_numbers``, which counts its block numbers.

The node has the partition's name, or ``<partition>_<first>`` if another partition was forgotten before
(``forget_partition``): then numbers are counted from ``first``. ``block_numbers`` itself holds the ``first`` of the
next new partition, empty for 0. So the numbers of a forgotten partition are never used again. Mutations, ranges of
drops, parts on disks and positions of streams that still contain such numbers are below all later ones.

Invariants:

- A partition has at most one node: creating one expects the version of ``block_numbers`` from before the lookup, and
  every node that is created or removed changes it.
- A name never comes back, because ``first`` grows with every node that is removed. So a remembered name is right, or
  nothing is under it. An operation on the node, or on a lock below it, fails once the node is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordination.keeper.interface import (
    BadVersion,
    Create,
    Keeper,
    MultiFailed,
    NodeExists,
    NoNode,
    SetData,
    Stat,
)
from coordination.nodes.paths import TablePaths, parse_sequence_number
from parts.common.errors import ConflictError, UnavailableError

_ATTEMPTS = 200
"""An attempt fails when somebody else has created a partition meanwhile."""


@dataclass(frozen=True, slots=True)
class PartitionNode:
    """The node of one partition."""

    table: TablePaths
    partition_id: str
    first: int = 0
    """The block number of its first lock."""

    @property
    def path(self) -> str:
        """The path of the node."""
        return self.table.partition(self.partition_id, self.first)

    @property
    def lock_prefix(self) -> str:
        """The path for a sequential create of a block lock."""
        return f"{self.path}/block-"

    def lock(self, number: int) -> str:
        """Returns the path of the lock of a block number."""
        return f"{self.lock_prefix}{number - self.first:010d}"

    def number(self, lock: str) -> int:
        """Returns the block number of a lock, from its name or path."""
        return self.first + parse_sequence_number(lock)


def read_partition_nodes(keeper: Keeper, table: TablePaths) -> dict[str, PartitionNode]:
    """Returns by partition id the node of every partition that had an insert and is not forgotten."""
    found = (_parse(table, name) for name in keeper.children(table.block_numbers))
    return {node.partition_id: node for node in found}


def find_partition_node(keeper: Keeper, table: TablePaths, partition_id: str) -> tuple[PartitionNode, Stat] | None:
    """Returns the partition's node and stat, or ``None``."""
    return find_partitions(keeper, table, [partition_id]).get(partition_id)


def find_partitions(
    keeper: Keeper, table: TablePaths, partition_ids: Sequence[str]
) -> dict[str, tuple[PartitionNode, Stat]]:
    """Returns the nodes of the given partitions that exist, by partition id.

    Lists all nodes only if some have another name than their partition.
    """
    found = _read_stats(keeper, [PartitionNode(table, partition_id) for partition_id in partition_ids])
    if len(found) < len(partition_ids):
        nodes = read_partition_nodes(keeper, table)
        found |= _read_stats(keeper, [nodes[id_] for id_ in partition_ids if id_ in nodes and id_ not in found])
    return found


def _read_stats(keeper: Keeper, nodes: Sequence[PartitionNode]) -> dict[str, tuple[PartitionNode, Stat]]:
    stats = keeper.exists_many([node.path for node in nodes])
    return {node.partition_id: (node, stat) for node, stat in zip(nodes, stats, strict=True) if stat is not None}


def create_partition_node(keeper: Keeper, table: TablePaths, partition_id: str) -> PartitionNode:
    """Returns the partition's node, and creates it if it does not exist.

    This changes the version of ``block_numbers``, so a caller that listed the partitions learns that the list is old.
    """
    for _ in range(_ATTEMPTS):
        try:
            first, stat = read_next_first_number(keeper, table)
            if first and (found := read_partition_nodes(keeper, table).get(partition_id)) is not None:
                return found
            node = PartitionNode(table, partition_id, first)
            keeper.multi([Create(node.path), SetData(table.block_numbers, _content(first), stat.version)])
            return node
        except NoNode as error:
            raise _dropped(table) from error
        except MultiFailed as error:
            if isinstance(error.cause, NoNode):
                raise _dropped(table) from error
            if isinstance(error.cause, NodeExists):
                return node
            if not isinstance(error.cause, BadVersion):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep making partitions of {table.root}; try again")


def read_next_first_number(keeper: Keeper, table: TablePaths) -> tuple[int, Stat]:
    """Returns the first block number of the next new partition, and the stat of ``block_numbers``."""
    data, stat = keeper.get(table.block_numbers)
    return int(data or 0), stat


def next_numbers(keeper: Keeper, table: TablePaths, partition_ids: Iterable[str]) -> dict[str, int]:
    """Returns the next block number of each partition. Lower ones were given, or never will be.

    ZooKeeper names a sequential node by the number of creates below its parent. A node's ``cversion`` counts creates
    and deletes, so together with the number of children it yields the number of creates.
    """
    nodes = read_partition_nodes(keeper, table)
    wanted = sorted(set(partition_ids))
    known = [nodes[partition_id] for partition_id in wanted if partition_id in nodes]
    stats = keeper.exists_many([node.path for node in known])
    counted = {
        node.partition_id: node.first + (stat.children_version + stat.children_count) // 2
        for node, stat in zip(known, stats, strict=True)
        if stat is not None
    }
    first, _ = read_next_first_number(keeper, table)  # read after the nodes: forgetting a partition raises it
    return {partition_id: counted.get(partition_id, first) for partition_id in wanted}


def raise_next_first_number(keeper: Keeper, table: TablePaths, first: int) -> None:
    """Raises the first number of the next new partition to at least ``first``."""
    for _ in range(_ATTEMPTS):
        now, stat = read_next_first_number(keeper, table)
        if now >= first:
            return
        try:
            keeper.set(table.block_numbers, _content(first), stat.version)
            return
        except BadVersion:
            continue
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep making partitions of {table.root}; try again")


def set_next_first_number_op(table: TablePaths, first: int, version: int) -> SetData:
    """Returns the operation that sets the first number of future partitions.

    It changes the version of ``block_numbers``, so a caller that listed the partitions learns that one was removed.
    """
    return SetData(table.block_numbers, _content(first), version)


def partition_node_of_lock(table: TablePaths, lock: str) -> PartitionNode:
    """Returns the partition node of a lock's path."""
    return _parse(table, lock.split("/")[-2])


def _parse(table: TablePaths, name: str) -> PartitionNode:
    partition_id, _, first = name.partition("_")  # partition ids contain no underscore
    return PartitionNode(table, partition_id, int(first or 0))


def _content(first: int) -> bytes:
    return str(first).encode() if first else b""


def _dropped(table: TablePaths) -> UnavailableError:
    return UnavailableError("TABLE_IS_DROPPED", f"The table is not in ZooKeeper: {table.root}")
