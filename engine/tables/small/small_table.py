"""``Log``, ``TinyLog`` and ``StripeLog``, and what the other small tables share with them.

A small table keeps its rows as a MergeTree without keys does: an INSERT becomes immutable parts, whose block numbers
say in which order they are read, and merges put neighbours together. What its kind does not have is refused as
ClickHouse does.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.tables.merge_tree.merge_tree_table import MergeTreeTable
from engine.tables.statement_options import OptimizeOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import CorruptionError, UserError
from parts.common.query_status import QueryStatus
from parts.store.detached_parts import DETACHED
from sql.relations import PartsSnapshot

_REFUSALS: Mapping[str, str] = {
    "partitioning": "Table engine {} doesn't support partitioning",
    "mutations": "Table engine {} doesn't support mutations",
    "optimize": "Method optimize is not supported by storage {}",
    "truncate": "Truncate is not supported by storage {}",
    "check": "Check query is not supported for {} storage",
}


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


class SmallTable(MergeTreeTable):
    lacks: frozenset[str] = frozenset({"partitioning", "mutations", "optimize"})

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        require_whole(self.definition)
        return super().snapshot(sequential_consistency=sequential_consistency)

    def require(self, ability: str) -> None:
        if ability in self.lacks:
            raise UserError("NOT_IMPLEMENTED", _REFUSALS[ability].format(self.definition.engine_name))

    def optimize(self, options: OptimizeOptions) -> None:
        self.require("optimize")

    def truncate(self, status: QueryStatus | None = None) -> None:
        self.require("truncate")
        super().truncate(status)
        for broken in (self.definition.data_path / DETACHED).glob(f"{_BROKEN}_*"):
            self.store.move_to_detached(broken, "truncated")  # its rows too are not wanted any more
