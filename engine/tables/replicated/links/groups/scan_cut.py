"""One cut of a transactional group for all scans of an execution.

They may read any of its tables, on any replicas. The server that takes the cut holds the parts of all its tables as
long as the first table's lease lasts.
"""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.nodes.paths import TablePaths
from coordination.reads.cut_records import decode_cut, name_cut_record, record_cut
from coordination.reads.scan_records import KeeperScanRecords
from engine.tables.owned_table import OwnedTable
from engine.tables.replicated.links.groups.held_view import HeldView
from engine.tables.shown_groups.shown_group import ShownGroup
from parts.common.errors import ConflictError, UserError
from parts.store.part_states import Snapshot
from sql.relations import PartsSnapshot


def take_cut_of_scan(table: OwnedTable, group: ShownGroup, keeper: Keeper, scan: str) -> PartsSnapshot:
    """Returns the table at the cut that the execution reads.

    That is the one that this server shows, if none was taken yet. Raises 232 (NO_SUCH_DATA_PART) if this server does
    not have the parts of the cut that was taken elsewhere, 369 (ALL_REPLICAS_ARE_STALE) if it shows none, and
    ZooKeeper's errors.
    """
    assert table.replication is not None, "only replicated tables are in groups"
    records = KeeperScanRecords(keeper, TablePaths(table.replication.paths.root))
    found = records.find(name_cut_record(scan))
    if found is None:
        with HeldView(group, group.take(table.definition.full_name)) as view:
            own = view.snapshot(table)
            parts = {root: [part.name for part in each.parts] for root, each in view.snapshots.items()}
            if record_cut(keeper, scan, parts):
                return _hold_together(own, view.hold_again())
            own.release()
        found = records.find(name_cut_record(scan))
    if found is None:
        raise ConflictError(
            "NO_SUCH_DATA_PART",
            f"Table {table.definition.full_name} came to the group {group.name} of links after the query had begun to "
            "read the others; run it again",
        )
    try:
        return table.pin(decode_cut(found))
    except UserError as error:
        raise UserError(
            error.name,
            f"This server does not have {table.definition.full_name} as of the cut of group {group.name} at which the "
            f"query began: {error.message}. It is behind, or the parts were merged since; run the query again",
        ) from None


def _hold_together(own: Snapshot, others: HeldView) -> Snapshot:
    """Returns the parts of a table, which hold those of the other tables too."""

    def release(_: object) -> None:
        own.release()
        others.release()

    return Snapshot(own.parts, release)
