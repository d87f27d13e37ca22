"""MergeTree: every row stays (:class:`parts.merge_mode.Ordinary`). Source: ClickHouse documentation, "MergeTree"."""

from __future__ import annotations

from collections.abc import Sequence

from parts.merge_mode import ORDINARY, MergeKeys, MergeMode
from parts.schema import TableSchema


def of_engine(_arguments: Sequence[str], _schema: TableSchema, _keys: MergeKeys) -> MergeMode:
    return ORDINARY
