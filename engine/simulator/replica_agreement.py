"""Checks that replicas hold equal parts, that ZooKeeper lists them, and that nothing is left over."""

from __future__ import annotations

from collections.abc import Iterable

from coordination.keeper.interface import Keeper
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.part_name import PartName


def get_active_parts(table: ReplicatedTable) -> dict[str, str]:
    """Returns the content hashes of the active parts by name."""
    return {str(part.name): part.content_hash for part in table.store.list_active()}


def get_listed_parts(keeper: Keeper, table: ReplicatedTable) -> set[str]:
    """Returns the parts that ZooKeeper lists, without those that others cover."""
    names = [PartName.parse(name) for name in keeper.children(table.replication.replica.parts)]
    return {str(n) for n in names if not any(o != n and o.covers(n) for o in names)}


def check_replicas_agree(keeper: Keeper, tables: Iterable[ReplicatedTable]) -> None:
    """Checks all tables; those with one path in ZooKeeper are replicas of each other."""
    replicas: dict[str, list[ReplicatedTable]] = {}
    for table in tables:
        replicas.setdefault(table.replication.paths.root, []).append(table)
    for same in replicas.values():
        _check_replicas(keeper, same)


def _check_replicas(keeper: Keeper, replicas: list[ReplicatedTable]) -> None:
    contents = {table.replication.replica.name: get_active_parts(table) for table in replicas}
    first, paths = get_active_parts(replicas[0]), replicas[0].replication.paths
    assert all(content == first for content in contents.values()), contents
    for table in replicas:
        listed = get_listed_parts(keeper, table)
        assert listed == set(first), (table.replication.replica.name, listed, first)
        assert not table.store.list_preactive(), table.replication.replica.name
    locks = [
        f"{partition}/{name}"
        for partition in keeper.children(paths.block_numbers)
        for name in keeper.children(paths.partition(partition))
    ]
    assert not locks, locks
    assert not keeper.exists(paths.quorum_status)
    assert not keeper.children(paths.quorum_parallel)
