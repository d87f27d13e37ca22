"""``PARTITION`` clauses: from the value that a statement's text names to the id of the partition."""

from __future__ import annotations

import pyarrow as pa

from engine.context import Context
from engine.interpreter.queries import run_query
from engine.tables.table import Table
from parts import partition
from parts.errors import UserError


def partition_id(table: Table, text: str, context: Context) -> str:
    """The id of the partition whose value the SQL text names: ``202001``, ``'2020-01-01'``, ``(1, 'a')``.

    Raises 248 (INVALID_PARTITION_VALUE).
    """
    key = table.description.partition_key
    result = run_query(f"SELECT {text}", context)
    batches = [batch for batch in result.batches if batch.num_rows]
    if sum(batch.num_rows for batch in batches) != 1:
        raise UserError("INVALID_PARTITION_VALUE", f"Partition {text} is not one value")
    column = batches[0].column(0)
    values = column.flatten() if pa.types.is_struct(column.type) else [column]
    if len(values) != len(key.types):
        raise UserError(
            "INVALID_PARTITION_VALUE",
            f"Partition {text} has {len(values)} values, the partition key {len(key.types)}: {key.expressions}",
        )
    try:
        scalars = [value.cast(type_.arrow)[0] for value, type_ in zip(values, key.types, strict=True)]
    except pa.ArrowException as error:
        raise UserError("INVALID_PARTITION_VALUE", f"Partition {text} is not of {key.types}: {error}") from None
    return partition.partition_id(scalars, key.types)
