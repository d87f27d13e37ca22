"""The position behind the newest commit of a table, as text.

The text is ``<cluster UUID>.<table>.<epoch>:<zxid>``.
``table`` is the zxid that created the table's root node. The zxid after the colon is that of the newest log entry,
mutation or change of the definition. ZooKeeper gives zxids in the order of commits.
"""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import missing_metadata_error
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 20


def read_current_position(keeper: Keeper, table: TablePaths, cluster_uuid: str) -> str:
    """Returns the text of the position behind everything that was committed before the call.

    Commits of any replica count.

    Raises 225 (NO_ZOOKEEPER) for a table that is not in ZooKeeper, 48 (NOT_IMPLEMENTED) for one without a gate.
    """
    for _ in range(_ATTEMPTS):
        keeper.sync(table.root)
        root, gate, columns, metadata = keeper.get_many([table.root, table.gate, table.columns, table.metadata])
        if root is None or columns is None or metadata is None:
            raise missing_metadata_error(table)
        if gate is None:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Table {table.root} has no positions yet: some replica runs a version that does not know them",
            )
        zxids = [root[1].created_zxid, columns[1].modified_zxid, metadata[1].modified_zxid]
        newest = [
            f"{parent}/{names[-1]}"
            for parent, names in zip(
                (table.log, table.mutations), keeper.children_many([table.log, table.mutations]), strict=True
            )
            if names
        ]
        stats = keeper.exists_many(newest)
        if None not in stats:
            zxids += [stat.created_zxid for stat in stats if stat is not None]
            return f"{cluster_uuid}.{root[1].created_zxid}.{Gate.parse(gate[0]).epoch}:{max(zxids)}"
    raise ConflictError("KEEPER_EXCEPTION", f"The log of {table.root} keeps being trimmed; ask again")
