"""MergeTree: every row stays (:class:`parts.merge_mode.Ordinary`). Source: ClickHouse documentation, "MergeTree"."""

from __future__ import annotations

from collections.abc import Sequence

from parts.errors import UserError
from parts.merge_mode import ORDINARY, MergeMode
from parts.schema import TableSchema


def of_engine(arguments: Sequence[str], _: TableSchema) -> MergeMode:
    if arguments:
        message = f"Engine MergeTree is given {len(arguments)} arguments; it takes none"
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", message)
    return ORDINARY
