"""A table's gate in ZooKeeper, whose version every commit checks.

So the closing of the gate is a moment in the order of commits.

A gate is made with its table. A table of an older version gets it when all its replicas know gates
(:func:`make_gate_if_known`); until then every commit checks that there is none. So a commit that looked at the gate
before it moved fails, looks again, and is repeated or refused.

Invariants:
- Whoever moves the gate (:func:`move_gate`) sets it with the version that was read.
- A commit is planned with the checks of a gate that has no bar against it (:meth:`TableGate.checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordination.keeper.interface import (
    BadVersion,
    Check,
    Create,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    SetData,
    Watch,
    check_not_exists,
)
from coordination.nodes.gate import CommitKind, Gate, GateBarred
from coordination.nodes.gate_commands import CommandSource
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_GATE, feature_checks, require_feature
from coordination.nodes.sync_targets import SyncTargets, SyncTargetsMoved
from parts.common.errors import ConflictError, UnavailableError, UserError

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class _Known:
    """The gate as it was read last; ``gate`` is ``None`` if the table has none."""

    gate: Gate | None
    version: int = -1
    modified_zxid: int = 0


class TableGate:
    """A table's gate as one server knows it. Thread-safe."""

    def __init__(self, table: TablePaths) -> None:
        self._table = table
        self._known: _Known | None = None

    @property
    def gate(self) -> Gate | None:
        """The gate as it was read last; ``None`` if the table has none or it was not read yet."""
        return self._known.gate if self._known is not None else None

    @property
    def own_origin(self) -> str:
        """The origin that new parts keep for their rows, by the gate as it was read last; "" for none."""
        return self.gate.own_origin if self.gate is not None else ""

    def forget(self) -> None:
        """Forgets the gate, so that it is read before the next commit."""
        self._known = None

    def load(self, keeper: Keeper, watch: Watch | None = None) -> Gate | None:
        """Reads the gate, and returns it. ``watch`` is called when it moves."""
        return self._load(keeper, watch).gate

    def load_versioned(self, keeper: Keeper) -> tuple[Gate | None, int]:
        """Reads the gate, and returns it with the version of its node."""
        known = self._load(keeper)
        return known.gate, known.version

    def _load(self, keeper: Keeper, watch: Watch | None = None) -> _Known:
        try:
            data, stat = keeper.get(self._table.gate, watch)
            found = _Known(Gate.parse(data), stat.version, stat.modified_zxid)
        except NoNode:
            found = _Known(None)
        known = self._known
        if known is not None and known.modified_zxid > found.modified_zxid:
            return known  # another thread has read a later one
        self._known = found
        return found

    def checks(
        self, keeper: Keeper, kind: CommitKind, *, unlinked_for: str = "", staged_at: SyncTargets | None = None
    ) -> tuple[Op, ...]:
        """Returns operations that fail the multi of a commit if the gate has moved.

        ``unlinked_for`` names a command that links cannot carry. ``staged_at``: of an INSERT; ``None`` for rows that no
        target of a synchronous link gets with the commit. Asks ZooKeeper only if the gate is not known, or known to
        keep the commit out. Raises ``GateBarred``, and ``UserError`` 48 (NOT_IMPLEMENTED) for such a command at a table
        with links, and the errors of ``SyncTargets.require_same``.
        """
        known = self._known or self._reload(keeper)
        if known.gate is not None and (known.gate.find_bar(kind) is not None or (unlinked_for and known.gate.links)):
            known = self._reload(keeper)
        if known.gate is not None and unlinked_for and known.gate.links:
            raise _make_linked_error(self._table, unlinked_for, [link.name for link in known.gate.links])
        if known.gate is None:
            return check_not_exists(self._table.links)
        bar = known.gate.find_bar(kind)
        if bar is not None:
            raise GateBarred(self._table.root, bar)
        if staged_at is not None:
            known = self._require_same(keeper, known, staged_at)
        return (Check(self._table.gate, known.version),)

    def _require_same(self, keeper: Keeper, known: _Known, staged_at: SyncTargets) -> _Known:
        try:
            staged_at.require_same(self._table.root, known.gate)
        except (SyncTargetsMoved, UnavailableError):  # the watch may be late
            known = self._reload(keeper)
            if known.gate is None or (bar := known.gate.find_bar(CommitKind.ROWS)) is None:
                staged_at.require_same(self._table.root, known.gate)
            else:
                raise GateBarred(self._table.root, bar) from None
        return known

    def require_open(self, keeper: Keeper, kind: CommitKind) -> None:
        """Raises ``GateBarred`` if a bar keeps out commits of this kind.

        Asks ZooKeeper as :meth:`checks` does.
        """
        self.checks(keeper, kind)

    def has_moved(self, keeper: Keeper, error: MultiFailed) -> bool:
        """Tells whether the commit failed because the gate has moved, and reads it anew if so."""
        if error.op.path not in (self._table.gate, self._table.links):
            return False
        self._reload(keeper)
        return True

    def _reload(self, keeper: Keeper) -> _Known:
        keeper.sync(self._table.root)
        return self._load(keeper)


def _make_linked_error(table: TablePaths, what: str, links: Sequence[str]) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"{what} is not possible while table {table.root} has replication links ({', '.join(links)}): it has no place "
        "in the order of changes that links carry. DROP REPLICATION LINK first",
    )


def read_command_source(keeper: Keeper, table: TablePaths) -> CommandSource:
    """Returns what a table's gate says of commands; an empty source if it says nothing."""
    (found,) = keeper.get_many([table.gate])
    commands = Gate.parse(found[0]).commands if found is not None else None
    return commands or CommandSource("", "")


def gate_ops(table: TablePaths, epoch: str) -> list[Op]:
    """Returns the operations that make an open gate."""
    return [Create(table.links), Create(table.gate, Gate(epoch).to_bytes())]


def make_gate_if_known(keeper: Keeper, table: TablePaths, epoch: str) -> bool:
    """Makes the gate of a table of an older version, if all its replicas know gates.

    Returns whether the gate exists.

    No replica of an older version can join meanwhile: the multi expects the list of replicas, and that none of them was
    activated since its version was read.
    """
    gate, links = keeper.exists_many([table.gate, table.links])
    if gate is not None:
        return True
    try:
        checks = feature_checks(keeper, table, FEATURE_GATE, "A gate")
    except UserError:
        return False
    try:
        keeper.multi([*checks, *gate_ops(table, epoch)[links is not None :]])
    except (MultiFailed, KeeperConnectionLoss) as error:
        if isinstance(error, MultiFailed) and not isinstance(error.cause, NodeExists | NoNode | BadVersion):
            raise error.cause from error
        return keeper.exists(table.gate) is not None
    return True


def move_gate(
    keeper: Keeper,
    table: TablePaths,
    change: Callable[[Gate], Gate],
    *,
    along: Callable[[Gate], Sequence[Op]] = lambda gate: (),
    feature: str = FEATURE_GATE,
    what: str = "Closing a table",
) -> Gate:
    """Sets the gate to what ``change`` makes of it, and returns it. Does nothing if it is so already.

    ``along`` returns operations for the same multi, from the new gate; if one of them meets a node that came, went or
    changed, everything is read anew. ``change`` and ``along`` may be called several times.

    Raises 48 if a replica lacks ``feature``, which ``what`` needs. No replica that lacks it becomes active meanwhile.
    """
    return move_gates(keeper, [(table, change)], along=lambda gates: along(gates[0]), feature=feature, what=what)[0]


def move_gates(
    keeper: Keeper,
    tables: Sequence[tuple[TablePaths, Callable[[Gate], Gate]]],
    *,
    along: Callable[[Sequence[Gate]], Sequence[Op]] = lambda gates: (),
    feature: str = FEATURE_GATE,
    what: str = "Closing a table",
) -> list[Gate]:
    """Sets the gates of several tables in one multi: all of them, or none.

    Arguments and errors are those of :func:`move_gate`.
    """
    for _ in range(_ATTEMPTS):
        gates, ops = list[Gate](), list[Op]()
        for table, change in tables:
            gate, version = _read_gate(keeper, table, feature, what)
            new = change(gate)
            gates.append(new)
            if new != gate:
                ops += [SetData(table.gate, new.to_bytes(), version), *feature_checks(keeper, table, feature, what)]
        if not ops:
            return gates
        try:
            keeper.multi([*ops, *along(gates)])
            return gates
        except KeeperConnectionLoss:
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode | NodeExists):
                raise error.cause from error
    roots = ", ".join(table.root for table, _ in tables)
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep moving the gate of {roots}; repeat the statement")


def _read_gate(keeper: Keeper, table: TablePaths, feature: str, what: str) -> tuple[Gate, int]:
    keeper.sync(table.root)
    try:
        data, stat = keeper.get(table.gate)
    except NoNode:
        require_feature(keeper, table, feature, what)
        raise UserError(
            "NOT_IMPLEMENTED", f"Table {table.root} has no gate yet: its replicas make it when they start"
        ) from None
    return Gate.parse(data), stat.version
