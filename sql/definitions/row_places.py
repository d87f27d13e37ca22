"""Whether the rows of a table can keep the places of their commits.

Commands on tables of several origins go by them. ``parts.table.row_version`` says what a place is. A row that a merge
makes of several has none.
"""

from __future__ import annotations

from parts.common.errors import UserError
from parts.table.row_version import ROW_PLACE_NAMES
from parts.table.table_description import TableDescription
from parts.table.ttl_rules import RuleKind
from sql.settings.merge_tree_settings import COMMANDS_FROM

_PLAIN = "Ordinary"
"""The merge mode that keeps all rows."""


def require_row_places(description: TableDescription, table: str) -> None:
    """Raises ``UserError`` for a table whose rows cannot keep their places. ``table`` is its name.

    That is 36 (BAD_ARGUMENTS) for an engine or a TTL that combines rows, 44 (ILLEGAL_COLUMN) for a hidden column's
    name.
    """
    mode = description.merge_mode.name
    if mode != _PLAIN:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Setting {COMMANDS_FROM} is for ReplicatedMergeTree, which keeps every row as it was inserted. Table "
            f"{table} is of another engine ({mode}), whose merges make one row of several",
        )
    if description.ttl.list_rules(RuleKind.GROUP_BY):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Setting {COMMANDS_FROM} and TTL … GROUP BY of table {table} exclude each other: the TTL makes one row of "
            "several",
        )
    for name in ROW_PLACE_NAMES:
        if name in description.schema:
            raise UserError(
                "ILLEGAL_COLUMN", f"Column {name!r} is reserved: a table with {COMMANDS_FROM} has a hidden one"
            )
