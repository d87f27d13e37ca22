"""A table for the tests of the gate, statements that commit something to it, and what its replicas show."""

from __future__ import annotations

from collections.abc import Callable

from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_gate import move_gate
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable

STATEMENTS = {
    "insert": "INSERT INTO costs VALUES (1, 7, 0)",
    "insert_of_several_partitions": "INSERT INTO costs VALUES (2, 7, 0)",
    "insert_with_a_quorum": "INSERT INTO costs SETTINGS insert_quorum = 2 VALUES (1, 7, 0)",
    "drop_partition": "ALTER TABLE costs DROP PARTITION 1",
    "detach_partition": "ALTER TABLE costs DETACH PARTITION 1",
    "drop_part": "ALTER TABLE costs DROP PART '1_0_0_0'",
    "detach_part": "ALTER TABLE costs DETACH PART '1_0_0_0'",
    "attach_partition": "ALTER TABLE costs ATTACH PARTITION 4",
    "attach_part": "ALTER TABLE costs ATTACH PART '4_0_0_0'",
    "replace_partition": "ALTER TABLE costs REPLACE PARTITION 1 FROM other",
    "attach_partition_from": "ALTER TABLE costs ATTACH PARTITION 1 FROM other",
    "move_partition": "ALTER TABLE costs MOVE PARTITION 1 TO TABLE other",
    "move_partition_here": "ALTER TABLE other MOVE PARTITION 1 TO TABLE costs",
    "truncate": "TRUNCATE TABLE costs",
    "update": "ALTER TABLE costs UPDATE v = 7 WHERE p = 1",
    "delete": "ALTER TABLE costs DELETE WHERE p = 1",
    "add_column": "ALTER TABLE costs ADD COLUMN w UInt8",
    "modify_column": "ALTER TABLE costs MODIFY COLUMN v Int64",
    "commit": "COMMIT TRANSACTION 'job' ON costs",
    "overwrite": "COMMIT TRANSACTION 'job' ON costs OVERWRITE TABLE",
    "kill_mutation": "KILL MUTATION WHERE table = 'costs'",
}
BRING_ROWS = [name for name in STATEMENTS if name.startswith(("insert", "attach", "replace", "commit", "overwrite"))]
BRING_ROWS.append("move_partition_here")


def at_the_commit(table: CountedTable, action: Callable[[], object]) -> list[str]:
    """Runs ``action`` before each request that would commit a change of the table."""
    paths, seen = table.table.replication.paths, []
    other = TablePaths("/tables/other")
    commits = {paths.log_prefix, paths.mutation_prefix, paths.columns, other.log_prefix, paths.mutation("0000000000")}

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        if kind == "multi" and path in commits:
            seen.append(path)
            action()

    table.servers.on_request = on_request
    return seen


def move(table: CountedTable, change: Callable[[Gate], Gate]) -> None:
    keeper = table.servers.ensemble.connect()
    move_gate(keeper, table.table.replication.paths, change)
    keeper.close()


def shown(server: SimulatedServer) -> object:
    """What a replica shows: rows, columns and mutations."""
    return (
        sorted(server.sql("SELECT * FROM costs")[1]),
        server.sql("SELECT name, type FROM system.columns WHERE table = 'costs'")[1],
        server.sql("SELECT mutation_id FROM system.mutations WHERE table = 'costs'")[1],
    )


def state(table: CountedTable) -> object:
    """What all replicas show in the end."""
    first, second = table.servers.servers
    table.settle()
    table.work_until(lambda: shown(first) == shown(second))
    return shown(first)


def prepare(table: CountedTable, name: str) -> None:
    if name == "kill_mutation":
        for server in table.servers.servers:
            server.sql("SYSTEM STOP MERGES costs")
        table.first.sql("ALTER TABLE costs UPDATE v = 9 WHERE p = 1 SETTINGS mutations_sync = 0")
        table.work_until(lambda: bool(table.table.mutations.shown()))
