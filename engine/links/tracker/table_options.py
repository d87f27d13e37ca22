"""``ALTER TABLE … MODIFY SETTING`` of the tracker, ``enable_replicated_table_tracker`` and others.

They are no part of a replica's definition: they stand in the table's gate, for all its replicas.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordination.links.tracker.tracker_nodes import list_table_ops
from coordination.links.tracker.tracker_options import change_options, read_tracker_options, with_tracker_options
from coordination.nodes.gate import Gate
from coordination.nodes.replica_activation import FEATURE_SYNC_LINKS
from coordination.nodes.table_gate import move_gate
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError


def change_tracker_options(table: OwnedTable, changed: Mapping[str, str | None]) -> None:
    """Changes settings of the table's tracker, given as text; ``None`` resets one.

    Raises 36 (BAD_ARGUMENTS) for a table that is not replicated, 36, 72 or 467 for a value that is not allowed, 48 if a
    replica does not know synchronous links.
    """
    replica = table.replication
    if replica is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Settings {', '.join(changed)} are of Replicated tables, and {table.definition.full_name} is none",
        )
    keeper, paths = replica.require_keeper(), replica.paths

    def change(gate: Gate) -> Gate:
        return with_tracker_options(gate, change_options(read_tracker_options(gate), changed))

    move_gate(
        keeper,
        paths,
        change,
        along=lambda gate: list_table_ops(keeper, paths, read_tracker_options(gate)),
        feature=FEATURE_SYNC_LINKS,
        what="The tracker",
    )
