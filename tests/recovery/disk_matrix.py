"""Each file operation of each statement of a replicated table fails: with EIO once, with ENOSPC once, or because the
disk is read-only from then on. ``python -m tests.recovery disk`` runs the whole matrix."""

from __future__ import annotations

from engine.simulator.disk_operations import hide_operations
from engine.simulator.simulated_servers import SimulatedServer
from tests.alter.fault_matrix import OPERATIONS, ROWS, Operation

_NEW = (1, 8, "new")


def _flip(server: SimulatedServer) -> None:
    """A bit of the data of a part."""
    with hide_operations():
        server.rot("1_0_0_0")


def _reattach(server: SimulatedServer) -> None:
    if server.has_table:
        server.sql("DETACH TABLE t")
    server.sql("ATTACH TABLE t")


def _restart(server: SimulatedServer) -> None:
    if server.is_up:
        server.crash()
    server.start()


_BOTH_HAVE_ALL = ("SYSTEM SYNC REPLICA t",)
"""A part that cannot be read at a start moves to ``detached/``: the other replica has it too."""


DISK_OPERATIONS = {
    "insert": Operation("INSERT INTO t VALUES (1, 8, 'new')", sorted([*ROWS, _NEW])),
    "select": Operation("SELECT p, sum(k), max(v) FROM t WHERE k > 1 GROUP BY p", ROWS),
    "check": Operation("CHECK TABLE t", ROWS),
    "optimize": Operation("OPTIMIZE TABLE t FINAL SETTINGS alter_sync = 2", ROWS),
    "system sync": Operation("SYSTEM SYNC REPLICA t", ROWS),
    "restart replica": Operation("SYSTEM RESTART REPLICA t", ROWS),
    "repair": Operation("CHECK TABLE t", ROWS, hurt=_flip),
    "reattach": Operation("", ROWS, prepare=_BOTH_HAVE_ALL, action=_reattach, is_repeated=True),
    "restart": Operation("", ROWS, prepare=_BOTH_HAVE_ALL, action=_restart, is_repeated=True),
    **OPERATIONS,
}
