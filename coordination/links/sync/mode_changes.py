"""Moves the gates of several tables in one multi, so that their links change together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordination.keeper.interface import BadVersion, Keeper, KeeperConnectionLoss, MultiFailed, NoNode, Op, SetData
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_SYNC_LINKS, feature_checks
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class GateChange:
    """A change of one table's gate. ``change`` may be called several times."""

    table: TablePaths
    change: Callable[[Gate], Gate]


def move_gates(keeper: Keeper, changes: Sequence[GateChange]) -> list[Gate]:
    """Moves the gates, all in one multi, and returns them. Each table is named once.

    Raises what a change raises, 48 (NOT_IMPLEMENTED) if a replica does not know synchronous links, and 999.
    """
    for _ in range(_ATTEMPTS):
        keeper.sync("/")
        gates, ops = [], list[Op]()
        for each in changes:
            try:
                data, stat = keeper.get(each.table.gate)
            except NoNode:
                raise UserError(
                    "NOT_IMPLEMENTED", f"Table {each.table.root} has no gate yet: its replicas make it when they start"
                ) from None
            gate = Gate.parse(data)
            new = each.change(gate)
            gates.append(new)
            if new.to_bytes() != data:
                ops.append(SetData(each.table.gate, new.to_bytes(), stat.version))
                ops += feature_checks(keeper, each.table, FEATURE_SYNC_LINKS, "A synchronous link")
        if not ops:
            return gates
        try:
            keeper.multi(ops)
            return gates
        except KeeperConnectionLoss:
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", "Others keep moving the gates of the tables; repeat the statement")
