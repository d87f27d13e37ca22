"""The values of a DEFAULT expression as values of its column's type."""

from __future__ import annotations

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import DataType
from sql.formats.converters.array_casts import cast_array, check_range
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.tokens import quote_string
from sql.run.block_expressions import compile_expressions


def cast_default(values: pa.ChunkedArray, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    """Casts the values of a default from the storage of ``source`` to that of ``target``.

    Values that an INSERT would be refused for are cast as CAST does it: numbers wrap around or stop at the border, a
    text may become NULL. Raises ``BadValueError`` and ``UserError`` for what CAST refuses too.
    """
    try:
        return check_range(cast_array(values, source, target, options), target)
    except (BadValueError, UserError) as error:
        refused = error
    try:
        return _as_cast_does(values, source, target, options)
    except UserError:
        if refused.name == "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE":
            raise
        raise refused from None


def _as_cast_does(values: pa.ChunkedArray, source: DataType, target: DataType, options: FormatOptions) -> pa.Array:
    text = f"CAST(value, {quote_string(target.name)})"
    (cast,) = compile_expressions([text], TableSchema((Column("value", source),)), options.timezone)
    return cast_array(cast.evaluate(pa.table({"value": values})), cast.type, target, options)
