"""The settings ``last_writer_wins`` and ``conflict_order`` of ReplicatedReplacingMergeTree."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.merge.last_writer import make_last_writer
from parts.merge.modes.replacing import Replacing
from parts.table.merge_mode import MergeMode
from parts.table.row_version import COMMIT_TIME, ORIGIN, ROW_VERSION_NAMES, make_row_version_columns
from parts.table.table_description import Key, TableSchema
from parts.types import ArrayType, MapType, TupleType
from sql.functions.determinism import find_changing_function
from sql.run.block_expressions import compile_key
from sql.settings.merge_tree_settings import MergeTreeSettings

_ENGINE = "ReplicatedReplacingMergeTree"


def apply_last_writer_wins(engine: str, mode: MergeMode, settings: MergeTreeSettings, schema: TableSchema) -> MergeMode:
    """Returns the mode with the table's settings applied.

    Raises 36 for another engine and for an expression that does not order rows, 44 for a column that has a hidden
    column's name.
    """
    if not settings.last_writer_wins:
        if settings.conflict_order:
            raise UserError("BAD_ARGUMENTS", "conflict_order needs last_writer_wins = 1, which decides by it")
        return mode
    if engine != _ENGINE or not isinstance(mode, Replacing):
        raise UserError(
            "BAD_ARGUMENTS",
            f"last_writer_wins is a setting of {_ENGINE}, not of {engine}",
        )
    for name in ROW_VERSION_NAMES:
        if name in schema:
            raise UserError(
                "ILLEGAL_COLUMN", f"Column {name!r} is reserved: a table with last_writer_wins has a hidden one"
            )
    return make_last_writer(mode, _compile_order(settings.conflict_order, schema) if settings.conflict_order else None)


def _compile_order(text: str, schema: TableSchema) -> Key:
    hidden = [column for column in make_row_version_columns() if column.name in (COMMIT_TIME, ORIGIN)]
    try:
        changing = find_changing_function(text)
        order = compile_key(text, TableSchema((*schema.stored.columns, *hidden)))
    except UserError as error:
        raise UserError(error.name, f"{error.message} (in conflict_order = {text!r})") from error
    if changing:
        raise UserError(
            "BAD_ARGUMENTS",
            f"conflict_order = {text!r} cannot use {changing}: its value must be the same wherever rows meet",
        )
    if len(order.expressions) != 1:
        raise UserError("BAD_ARGUMENTS", f"conflict_order must be one expression, not {text!r}")
    if isinstance(order.types[0], ArrayType | MapType | TupleType):
        raise UserError(
            "BAD_ARGUMENTS", f"conflict_order = {text!r} is of type {order.types[0]}, whose values have no order here"
        )
    if not order.columns:
        raise UserError("BAD_ARGUMENTS", f"conflict_order = {text!r} reads no column, so it orders no rows")
    return order
