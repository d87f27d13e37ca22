"""MergeTree: every row stays (:class:`parts.table.merge_mode.Ordinary`).

Source: ClickHouse documentation, "MergeTree".
"""

from __future__ import annotations

from collections.abc import Sequence

from parts.table.merge_mode import ORDINARY, KeyColumns, MergeMode
from parts.table.table_description import TableSchema


def make_ordinary_mode(_arguments: Sequence[str], _schema: TableSchema, _keys: KeyColumns) -> MergeMode:
    """Returns the mode of MergeTree."""
    return ORDINARY
