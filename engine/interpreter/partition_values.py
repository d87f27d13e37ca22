"""Evaluates the value of a ``PARTITION`` clause to a partition id."""

from __future__ import annotations

import pyarrow as pa

from engine.interpreter.select import run_query
from engine.queries.context import Context
from engine.tables.table import Table
from parts.blocks import partition_ids
from parts.common.errors import UserError
from parts.types import DataType, strip_nullable
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Literal, LiteralList, Parameter, walk
from sql.grammar.tokens import quote_string


def evaluate_partition_id(table: Table, text: str, context: Context) -> str:
    """Returns the id of the partition with this value, such as ``202001``, ``'2020-01-01'``, ``(1, 'a')``.

    Raises 62 (SYNTAX_ERROR) for anything but a literal or a tuple of literals. Raises 248 (INVALID_PARTITION_VALUE) for
    another number of values than the key has, 53 (TYPE_MISMATCH) and 69 (ARGUMENT_OUT_OF_BOUND) for values of another
    type.
    """
    key = table.description.partition_key
    _require_literal(text)
    column = _evaluate(text, context)
    values = column.flatten() if pa.types.is_struct(column.type) else [column]
    if len(values) != len(key.types):
        raise UserError(
            "INVALID_PARTITION_VALUE",
            f"Partition {text} has {len(values)} values, the partition key {len(key.types)}: {key.expressions}",
        )
    scalars = [_convert_value(value, type_, text, context) for value, type_ in zip(values, key.types, strict=True)]
    return partition_ids.compute_partition_id(scalars, key.types)


def _convert_value(value: pa.Array, type_: DataType, text: str, context: Context) -> pa.Scalar:
    is_text, bare = pa.types.is_string(value.type), strip_nullable(type_)
    try:
        if is_text and value[0].is_valid:
            value = _evaluate(f"CAST({quote_string(value[0].as_py())}, {quote_string(bare.name)})", context)
        scalar = value.cast(bare.arrow)[0]
    except (pa.ArrowException, UserError) as error:
        code = "TYPE_MISMATCH" if is_text else "ARGUMENT_OUT_OF_BOUND"
        if isinstance(error, UserError) and error.name.startswith("CANNOT_PARSE_DATE"):
            code = error.name
        raise UserError(code, f"A value of partition {text} is no {type_.name}: {error}") from None
    if not scalar.is_valid and not type_.is_nullable:
        raise UserError("TYPE_MISMATCH", f"A value of partition {text} is NULL, and the key's a {type_.name}")
    return scalar


def _evaluate(expression: str, context: Context) -> pa.Array:
    """Returns the expression's value as an array of one row."""
    (batch,) = (batch for batch in run_query(f"SELECT {expression}", context).batches if batch.num_rows)
    return batch.column(0)


def _require_literal(text: str) -> None:
    """Raises 62 (SYNTAX_ERROR) for anything but literals.

    Expressions are not allowed, because they would run in the process that owns the tables.
    """
    for node in walk(parse_expression(text)):
        is_part_of_literal = isinstance(node, Function) and node.name in ("tuple", "negate")
        if not isinstance(node, Literal | LiteralList | Parameter) and not is_part_of_literal:
            raise UserError("SYNTAX_ERROR", f"A partition is named by a literal, or a tuple of literals, got {text}")
