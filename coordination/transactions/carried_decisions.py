"""Decisions of transactions, and versions of applications, that a table brings along which was not replicated before.

With them the repeated COMMIT of a client whose answer was lost is told what became of it, as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coordination.keeper.interface import Check, Create, Keeper, Op, SetData
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.nodes.paths import TablePaths
from coordination.transactions.application_versions import ApplicationVersion
from coordination.transactions.transaction_nodes import Transaction, transaction_content


def write_decisions(
    keeper: Keeper, table: TablePaths, decided: Sequence[Transaction], applications: Mapping[str, tuple[int, int]]
) -> None:
    """Repeatable. ``applications``: the version committed last and its rows, by the names of their nodes."""
    wanted = {
        table.transaction(each.name): transaction_content(each.id, each.state, reason=each.reason, rows=each.rows)
        for each in decided
    }
    for name, (version, rows) in applications.items():
        wanted[table.application(name)] = ApplicationVersion(table.application(name), "").claim(version, rows).data
    parents = [table.transactions] * bool(decided) + [table.applications] * bool(applications)
    contents = [*((parent, b"") for parent in parents), *sorted(wanted.items())]
    stats = keeper.exists_many([path for path, _ in contents])
    ops: list[Op] = [
        Create(path, data) if stat is None else SetData(path, data)
        for (path, data), stat in zip(contents, stats, strict=True)
    ]
    for packet in split_into_multis(ops, operation_bytes):
        keeper.multi([Check(table.replicas), *packet])
