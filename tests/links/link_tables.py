"""The nodes of a table that can be linked, without a replica behind them."""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.link_definition import LinkDefinition
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURES, ReplicaAddress
from coordination.nodes.table_gate import gate_ops

EPOCH = "1-00c0ffee00c0ffee"
WEST = "11111111-1111-4111-8111-111111111111"
NORTH = "22222222-2222-4222-8222-222222222222"


def make_ensemble() -> MemoryEnsemble:
    return MemoryEnsemble(clock=lambda: 100.0)


def make_table(keeper: Keeper, root: str = "/t/orders", features: tuple[str, ...] = FEATURES) -> TablePaths:
    table = TablePaths(root)
    keeper.create_parents(table.replica("r1").root)
    keeper.create(table.replica("r1").host, ReplicaAddress("127.0.0.1", 9009, features=features).to_bytes())
    keeper.multi(gate_ops(table, EPOCH))
    return table


def make_definition(name: str = "orders", uuid: str = "u1", **changed: object) -> LinkDefinition:
    fields = {
        "source_cluster": "west",
        "source_database": "db",
        "source_table": "orders",
        "target_database": "db",
        "target_table": "orders",
        **changed,
    }
    return LinkDefinition(name, uuid, **fields)  # type: ignore[arg-type]


def read_gate(keeper: Keeper, table: TablePaths) -> Gate:
    return Gate.parse(keeper.get(table.gate)[0])
