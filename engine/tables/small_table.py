"""``Log``, ``TinyLog`` and ``StripeLog``, and what the other small tables share with them.

A small table keeps its rows as a MergeTree without keys does: an INSERT becomes immutable parts, whose block numbers
say in which order they are read, and merges put neighbours together. What its kind does not have is refused as
ClickHouse does.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.tables.merge_tree import MergeTreeTable
from engine.tables.options import OptimizeOptions
from parts.errors import UserError
from parts.query_status import QueryStatus

_REFUSALS: Mapping[str, str] = {
    "partitioning": "Table engine {} doesn't support partitioning",
    "mutations": "Table engine {} doesn't support mutations",
    "optimize": "Method optimize is not supported by storage {}",
    "truncate": "Truncate is not supported by storage {}",
    "check": "Check query is not supported for {} storage",
}


class SmallTable(MergeTreeTable):
    lacks: frozenset[str] = frozenset({"partitioning", "mutations", "optimize"})

    def require(self, ability: str) -> None:
        if ability in self.lacks:
            raise UserError("NOT_IMPLEMENTED", _REFUSALS[ability].format(self.definition.engine_name))

    def optimize(self, options: OptimizeOptions) -> None:
        self.require("optimize")

    def truncate(self, status: QueryStatus | None = None) -> None:
        self.require("truncate")
        super().truncate(status)
