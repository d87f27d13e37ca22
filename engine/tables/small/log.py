"""``Log``, ``TinyLog`` and ``StripeLog``.

They keep their rows as a MergeTree without keys does: an INSERT becomes immutable parts, whose block numbers say in
which order they are read, and merges put neighbours together.
"""

from __future__ import annotations

from engine.tables.merge_tree.local_table import LocalTable
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CorruptionError
from parts.common.query_status import QueryStatus
from parts.store.detached_parts import DETACHED
from sql.relations import PartsSnapshot

_LOGS = ("Log", "TinyLog", "StripeLog")
_BROKEN = "broken-on-start"


def require_whole(definition: TableDefinition) -> None:
    """Raises ``CorruptionError`` 246 (CORRUPTED_DATA) if a Log table lacks a part.

    A log is read whole or not at all, as in ClickHouse. A start moves a broken part to ``detached/``, and these tables
    have no command that would bring it back.
    """
    if definition.engine_name in _LOGS:
        try:
            found = sorted((definition.data_path / DETACHED).glob(f"{_BROKEN}_*"))
        except FileNotFoundError:  # the table is being dropped
            found = []
        if found:
            raise CorruptionError(
                f"A part of table {definition.full_name} was broken at the start of the server and lies in {found[0]}: "
                "put a good copy beside the other parts, or give its rows up; then move that directory away and "
                "DETACH and ATTACH the table",
                part=found[0].name.removeprefix(f"{_BROKEN}_"),
                name="CORRUPTED_DATA",
            )


class LogTable(LocalTable):
    """A table of the Log family."""

    def start(self) -> None:
        """Loads the parts and starts background work."""
        super().start()
        self.checked_store = self.store

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Returns the active parts. Raises 246 (CORRUPTED_DATA) if one is missing."""
        require_whole(self.definition)
        return super().snapshot(sequential_consistency=sequential_consistency)

    def truncate(self, status: QueryStatus | None = None) -> None:
        """Removes all rows, those of broken parts too."""
        super().truncate(status)
        for broken in (self.definition.data_path / DETACHED).glob(f"{_BROKEN}_*"):
            self.store.move_to_detached(broken, "truncated")
