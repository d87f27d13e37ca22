"""``system.transactions``: the insert transactions of all tables.

See ``engine.tables.capabilities.table_transactions``.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    define_owner_table,
)

_STATES = {"open": 1, "committed": 2, "aborted": 3}


def _transactions(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        for known in table.transactions.known() if table.transactions is not None else ():
            yield (
                table.definition.database,
                table.definition.name,
                known.id,
                _STATES[known.state.value],
                known.reason,
                known.rows,
                known.staged_parts,
                known.staged_bytes,
                list(known.replicas),
                int(known.created),
                int(known.changed),
            )


TABLES = (
    define_owner_table(
        "transactions",
        f"""
        database String
        table String
        id String
        state Enum8({", ".join(f"{name!r} = {code}" for name, code in _STATES.items())})
        reason String
        rows UInt64
        staged_parts UInt64
        staged_bytes UInt64
        replicas Array(String)
        create_time DateTime
        modification_time DateTime
        """,
        _transactions,
    ),
)
