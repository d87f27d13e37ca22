"""Limits on how much a query may read: ``max_rows_to_read`` and its kin.

They are asked twice: before anything is read, of what pruning left of the tables, and while it is read, batch by batch.
``break`` in the place of ``throw`` lets everything begin, and ends the reading with the batch that passes a limit. What
is counted from metadata is not read. What ``system`` shows counts for none; of ``numbers`` and its kin
:mod:`sql.compile.generated_rows` takes care.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.compile.compiled_query import Scan
from sql.pruning.index_analysis import IndexAnalysis
from sql.pruning.pruned_parts import PrunedPart
from sql.settings.merge_tree_settings import MergeTreeSettings
from sql.settings.supported_settings import (
    Settings,
)


@dataclass(frozen=True, slots=True)
class _Limit:
    rows: int
    bytes: int
    throws: bool
    suffix: str
    """The suffix of the settings' names."""

    def error(self, what: str, most: int, found: int) -> UserError:
        """Returns 158 (TOO_MANY_ROWS) or 307 (TOO_MANY_BYTES)."""
        return UserError(
            "TOO_MANY_ROWS" if what == "rows" else "TOO_MANY_BYTES",
            f"Limit for {what} (controlled by 'max_{what}_to_read{self.suffix}' setting) exceeded, "
            f"max {what}: {most}, current {what}: {found}",
        )


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of one query. ``max_partitions`` is ``None`` where only the table may limit it."""

    limits: tuple[_Limit, ...] = ()
    max_partitions: int | None = None
    max_columns: int = 0

    @classmethod
    def of(cls, settings: Settings) -> ReadLimits:
        """Returns the limits that the settings ask for."""
        both = (
            _Limit(settings.max_rows_to_read, settings.max_bytes_to_read, settings.read_overflow_mode == "throw", ""),
            _Limit(
                settings.max_rows_to_read_leaf,
                settings.max_bytes_to_read_leaf,
                settings.read_overflow_mode_leaf == "throw",
                "_leaf",
            ),
        )
        limits = tuple(limit for limit in both if limit.rows or limit.bytes)
        is_given = "max_partitions_to_read" in settings.changes
        return cls(limits, settings.max_partitions_to_read if is_given else None, settings.max_columns_to_read)

    @property
    def may_break(self) -> bool:
        """Returns whether a limit ends the reading instead of raising an error."""
        return not all(limit.throws for limit in self.limits)

    def check_rows(self, rows: int) -> None:
        """Checks the rows of a table that are to be read. Raises 158 (TOO_MANY_ROWS)."""
        for limit in self.limits:
            if limit.throws and 0 < limit.rows < rows:
                raise limit.error("rows", limit.rows, rows)

    def check_partitions(self, description: TableDescription, parts: Sequence[PrunedPart]) -> None:
        """Checks the partitions that are to be read. Raises 565 (TOO_MANY_PARTITIONS)."""
        most = self.max_partitions
        if most is None:
            most = (
                description.settings.max_partitions_to_read
                if isinstance(description.settings, MergeTreeSettings)
                else 0
            )
        if most <= 0:
            return
        found = len({pruned.part.name.partition_id for pruned in parts})
        if found > most:
            raise UserError("TOO_MANY_PARTITIONS", f"Too many partitions to read. Current {found}, max {most}")

    def check_columns(self, columns: int) -> None:
        """Checks the number of columns to read of a table. Raises 161 (TOO_MANY_COLUMNS)."""
        if 0 < self.max_columns < columns:
            raise UserError(
                "TOO_MANY_COLUMNS",
                f"Limit for number of columns to read exceeded. Requested: {columns}, maximum: {self.max_columns}",
            )

    def is_passed(self, rows: int, size: int) -> bool:
        """Returns whether reading must end. Raises 158 (TOO_MANY_ROWS), 307 (TOO_MANY_BYTES)."""
        passed = False
        for limit in self.limits:
            for what, most, found in (("rows", limit.rows, rows), ("bytes", limit.bytes, size)):
                if 0 < most < found:
                    if limit.throws:
                        raise limit.error(what, most, found)
                    passed = True
        return passed


NO_LIMITS = ReadLimits()


def check_index_use(analysis: IndexAnalysis, scan: Scan, description: TableDescription, settings: Settings) -> None:
    """Raises 277 (INDEX_NOT_USED) where a setting forbids reading without an index."""
    if not (scan.conditions or scan.source.used):
        return  # count() without filters reads nothing
    if settings.force_primary_key and not analysis.primary.can_exclude():
        keys = ", ".join(description.primary_key.expressions)
        raise UserError("INDEX_NOT_USED", f"Primary key ({keys}) is not used and setting 'force_primary_key' is set")
    columns = description.partition_key.columns
    if (
        settings.force_index_by_date
        and columns
        and not (analysis.minmax.can_exclude() or analysis.partition.can_exclude())
    ):
        raise UserError(
            "INDEX_NOT_USED",
            f"Neither MinMax index by columns ({', '.join(columns)}) nor partition expr is used "
            "and setting 'force_index_by_date' is set",
        )
