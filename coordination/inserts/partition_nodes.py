"""A partition's node below ``block_numbers``: where its block numbers are counted.

It is called as the partition, or ``<partition>_<first>`` when it was made after another one was forgotten
(``forgotten``): then the numbers are counted from ``first``. ``block_numbers`` itself holds the ``first`` of the next
partition to come, or nothing for 0. So numbers of a partition that is forgotten are never used again, and whatever
still knows them (mutations, ranges of drops, parts on disks, positions of streams) is behind all that comes.

Invariants:
- A partition has at most one node: who makes one expects the version of ``block_numbers`` of before he looked, which
  every node that comes or goes moves.
- A name never comes back, for ``first`` grows with every node that goes. So a name that somebody remembers is right, or
  there is nothing under it; and what expects the node, or a lock below it, fails once it is gone.
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
"""Each is lost to somebody who has made another partition."""


@dataclass(frozen=True, slots=True)
class PartitionNode:
    table: TablePaths
    partition_id: str
    first: int = 0
    """The number of its first lock."""

    @property
    def path(self) -> str:
        return self.table.partition(self.partition_id, self.first)

    @property
    def lock_prefix(self) -> str:
        """What a sequential create of a block lock takes."""
        return f"{self.path}/block-"

    def lock(self, number: int) -> str:
        return f"{self.lock_prefix}{number - self.first:010d}"

    def number(self, lock: str) -> int:
        """The block number of a lock, from its name or path."""
        return self.first + parse_sequence_number(lock)


def read_partition_nodes(keeper: Keeper, table: TablePaths) -> dict[str, PartitionNode]:
    """By partition id: every partition that ever had an insert and is not forgotten."""
    found = (_parse(table, name) for name in keeper.children(table.block_numbers))
    return {node.partition_id: node for node in found}


def find_partition_node(keeper: Keeper, table: TablePaths, partition_id: str) -> tuple[PartitionNode, Stat] | None:
    return find_partitions(keeper, table, [partition_id]).get(partition_id)


def find_partitions(
    keeper: Keeper, table: TablePaths, partition_ids: Sequence[str]
) -> dict[str, tuple[PartitionNode, Stat]]:
    """Those that are there, by their ids. All are listed only if some are not called as their partitions."""
    found = _look(keeper, [PartitionNode(table, partition_id) for partition_id in partition_ids])
    if len(found) < len(partition_ids):
        nodes = read_partition_nodes(keeper, table)
        found |= _look(keeper, [nodes[id_] for id_ in partition_ids if id_ in nodes and id_ not in found])
    return found


def _look(keeper: Keeper, nodes: Sequence[PartitionNode]) -> dict[str, tuple[PartitionNode, Stat]]:
    stats = keeper.exists_many([node.path for node in nodes])
    return {node.partition_id: (node, stat) for node, stat in zip(nodes, stats, strict=True) if stat is not None}


def create_partition_node(keeper: Keeper, table: TablePaths, partition_id: str) -> PartitionNode:
    """Its node, if need be a new one. The version of ``block_numbers`` tells whoever lists the partitions that his
    list is old."""
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
    """The first number of the next partition to come."""
    data, stat = keeper.get(table.block_numbers)
    return int(data or 0), stat


def next_numbers(keeper: Keeper, table: TablePaths, partition_ids: Iterable[str]) -> dict[str, int]:
    """The block number that each of these partitions gives next. Lower ones were given, or never will be.

    ZooKeeper names a sequential node by the creates that its parent has seen. A node's ``cversion`` counts creates and
    deletes, so together with the children that are left it tells how many creates there were.
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
    first, _ = read_next_first_number(
        keeper, table
    )  # after the nodes: a partition that was forgotten meanwhile has moved it
    return {partition_id: counted.get(partition_id, first) for partition_id in wanted}


def raise_next_first(keeper: Keeper, table: TablePaths, first: int) -> None:
    """The next partition to come counts from ``first`` or above."""
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
    """Moves it, and tells whoever lists the partitions that one went."""
    return SetData(table.block_numbers, _content(first), version)


def partition_node_of_lock(table: TablePaths, lock: str) -> PartitionNode:
    return _parse(table, lock.split("/")[-2])


def _parse(table: TablePaths, name: str) -> PartitionNode:
    partition_id, _, first = name.partition("_")  # which is in no partition id
    return PartitionNode(table, partition_id, int(first or 0))


def _content(first: int) -> bytes:
    return str(first).encode() if first else b""


def _dropped(table: TablePaths) -> UnavailableError:
    return UnavailableError("TABLE_IS_DROPPED", f"The table is not in ZooKeeper: {table.root}")
