"""Whether a table may take rows of several origins: whether the order of its blocks matters.

Blocks of several clusters arrive in another order in each. Where a merge keeps the first or the last row of a key, the
clusters would keep different rows for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from parts.common.errors import UserError
from parts.table.table_description import TableDescription

_ORDERLESS_FUNCTIONS = frozenset(
    {"sum", "sumWithOverflow", "min", "max", "groupBitAnd", "groupBitOr", "groupBitXor", "sumMap", "minMap", "maxMap"}
)
"""Functions of SimpleAggregateFunction that give the same for any order of rows."""
_ORDERED_MODES = {
    "Replacing": "of rows with equal keys the one inserted last stays",
    "Collapsing": "rows cancel each other in the order of insertion",
    "Graphite": "of rows with equal times the one inserted last stays",
}


def find_order_dependence(description: TableDescription) -> str:
    """Returns why the order of blocks matters in a table; ``""`` if it does not."""
    mode = description.merge_mode
    if mode.has_row_versions:
        return ""
    if mode.name in _ORDERED_MODES:
        return _ORDERED_MODES[mode.name]
    if mode.name not in ("Aggregating", "Summing") or not description.sorting_key:
        return ""
    functions: dict[str, str] = dict(getattr(mode, "functions", ()))
    for name, function in functions.items():
        if function not in _ORDERLESS_FUNCTIONS:
            return f"column {name} is aggregated by {function}, whose result depends on the order of rows"
    combined = {*functions, *getattr(mode, "sums", ()), *_flatten(getattr(mode, "maps", ()))}
    keys = {*description.sorting_key.columns, *description.partition_key.columns}
    for column in description.schema.stored.columns:
        if column.name not in combined and column.name not in keys:
            return f"column {column.name} is neither in a key nor aggregated, so it keeps the value inserted first"
    return ""


def refuse_several_origins(description: TableDescription, table: str) -> None:
    """Raises ``UserError`` 36 (BAD_ARGUMENTS) if the table cannot take rows of several origins.

    Call it for a two-way link, and for a second link or own writes beside one. ``table`` is its name.
    """
    reason = find_order_dependence(description)
    if reason:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Table {table} cannot take rows of several origins, which arrive in another order in each cluster: "
            f"{reason}. Use ReplicatedReplacingMergeTree with SETTINGS last_writer_wins = 1, or an engine that keeps "
            "or combines all rows",
        )


def _flatten(maps: Iterable[tuple[str, ...]]) -> Iterable[str]:
    return (name for columns in maps for name in columns)
