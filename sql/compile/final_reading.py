"""SELECT … FINAL: which tables are read so, and which filters may drop rows early.

A filter may drop rows before rows replace each other only if it drops all rows of a key. Else rows that replace others
would be missing. That holds for filters on columns of the sorting key.
"""

from __future__ import annotations

from dataclasses import dataclass

from parts.common.errors import UserError
from parts.table.merge_mode import ORDINARY
from parts.table.table_description import Key, TableDescription
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Identifier
from sql.settings.supported_settings import (
    Settings,
)


@dataclass(frozen=True, slots=True)
class FinalReading:
    """How one table is read with FINAL.

    ``by_partition``: rows of different partitions do not replace each other, or cannot.
    """

    by_partition: bool
    tests_rows_before: bool
    """Whether all skip indexes are used, though they may drop rows that replace others."""
    key_columns: frozenset[str]
    """The columns whose values are equal in rows of equal keys."""

    def may_ask(self, key: Key) -> bool:
        """Tells whether a skip index over ``key`` may be used: it drops all rows of a key or none."""
        return self.tests_rows_before or self.key_columns.issuperset(key.columns)


def plan_final_reading(
    description: TableDescription, table: str, is_asked: bool, settings: Settings
) -> FinalReading | None:
    """Plans how a table is read with FINAL; ``None`` if it is read without.

    Raises 181 (ILLEGAL_FINAL) if the query asks for FINAL and the table does not support it.
    """
    if not is_asked and not settings.final:
        return None
    if not description.has_parts or description.merge_mode == ORDINARY:
        if is_asked:
            raise UserError(
                "ILLEGAL_FINAL",
                f"Table {table} doesn't support FINAL: its engine keeps every row, there is nothing to leave out",
            )
        return None
    if not description.merge_mode.has_final:
        if is_asked:
            raise UserError("ILLEGAL_FINAL", f"Storage {description.merge_mode.name}MergeTree doesn't support FINAL")
        return None
    columns = _plain_columns(description.sorting_key)
    is_known = columns.issuperset(description.partition_key.columns)
    return FinalReading(
        settings.do_not_merge_across_partitions_select_final
        or (is_known and settings.enable_automatic_decision_for_merging_across_partitions_for_final),
        settings.use_skip_indexes_if_final and not settings.use_skip_indexes_if_final_exact_mode,
        columns if settings.use_skip_indexes_if_final else frozenset(),
    )


def _plain_columns(key: Key) -> frozenset[str]:
    nodes = map(parse_expression, key.expressions)
    return frozenset(node.parts[0] for node in nodes if isinstance(node, Identifier) and len(node.parts) == 1)
