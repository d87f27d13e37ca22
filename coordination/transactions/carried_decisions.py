"""Copy decisions of transactions and versions of applications into a table that becomes replicated.

So a client whose answer was lost, and who repeats its COMMIT, still learns the outcome.
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
    """Writes the decisions and versions. Repeatable.

    ``applications``: node name → the version committed last and its rows.
    """
    wanted = {
        table.transaction(each.name): transaction_content(each.id, each.state, reason=each.reason, rows=each.rows)
        for each in decided
    }
    for name, (version, rows) in applications.items():
        wanted[table.application(name)] = ApplicationVersion(table.application(name), "").commit_op(version, rows).data
    parents = [table.transactions] * bool(decided) + [table.applications] * bool(applications)
    contents = [*((parent, b"") for parent in parents), *sorted(wanted.items())]
    stats = keeper.exists_many([path for path, _ in contents])
    ops: list[Op] = [
        Create(path, data) if stat is None else SetData(path, data)
        for (path, data), stat in zip(contents, stats, strict=True)
    ]
    for packet in split_into_multis(ops, operation_bytes):
        keeper.multi([Check(table.replicas), *packet])
