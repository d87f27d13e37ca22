"""Check blocks of rows against the table's constraints."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.table.table_description import Constraint, TableDescription
from parts.types import BoolType, IntegerType, strip_nullable


def check_constraints(block: pa.Table, description: TableDescription, table: str) -> None:
    """Raises ``UserError`` 469 (VIOLATED_CONSTRAINT) for the first row that violates a constraint.

    Raises 1 for a constraint that is not a condition. ``table`` is the table's name.
    """
    for constraint in description.constraints:
        if not constraint.is_assumed and block.num_rows:
            _check(constraint, block, table)


def _check(constraint: Constraint, block: pa.Table, table: str) -> None:
    types = [strip_nullable(type_) for type_ in constraint.key.types]
    if len(types) != 1 or not (isinstance(types[0], BoolType) or types[0] == IntegerType(8, False)):
        raise UserError("UNSUPPORTED_METHOD", f"Constraint `{constraint.name}` does not return a value of type UInt8")
    values = constraint.key.evaluate(block)[0]
    violated = f"Constraint `{constraint.name}` for table {table} is violated"
    if values.null_count:
        raise UserError(
            "VIOLATED_CONSTRAINT",
            f"{violated}. Expression: ({constraint.expression}). Constraint expression returns nullable column that "
            "contains null value",
        )
    holds = values if pa.types.is_boolean(values.type) else pc.not_equal(values, 0)
    wrong = np.flatnonzero(~holds.to_numpy())
    if len(wrong):
        row = int(wrong[0])
        found = ", ".join(f"{name} = {block.column(name)[row].as_py()}" for name in constraint.key.columns)
        raise UserError(
            "VIOLATED_CONSTRAINT",
            f"{violated} at row {row + 1}. Expression: ({constraint.expression}). Column values: {found}",
        )
