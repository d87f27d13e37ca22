"""Decides a condition for rows without a query: comparisons of columns with constants, and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parts.table.table_description import TableSchema
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope, table_source
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Identifier, Node, walk
from sql.pruning.condition_builder import ConditionBuilder, KeyExpression
from sql.pruning.conditions import Combination, Condition, Constant, InRange, InSet, Negated
from sql.pruning.evaluator import Evaluator
from sql.pruning.key_ranges import make_point_ranges


@dataclass(frozen=True, slots=True)
class RowDecision:
    """A condition on columns, which it knows by their numbers."""

    condition: Condition
    columns: Sequence[str]

    def decide_rows(self, arrays: Mapping[str, pa.Array], rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns two masks: where the condition can be true, and where it can be false or NULL.

        Where it can be both, it is not decided: NULL and NaN are unknown. ``arrays`` have the columns' storage types.
        """
        known = {number: make_point_ranges(arrays[name]) for number, name in enumerate(self.columns)}
        return self.condition.evaluate(known, rows)


def build_row_decision(node: Node, schema: TableSchema, zone: str, evaluation: Evaluator) -> RowDecision | None:
    """Builds the decision of a condition over the columns of ``schema``; ``None`` if it needs a query."""
    names = {each.parts for each in walk(node) if isinstance(each, Identifier)}
    columns = [parts[0] for parts in sorted(names) if len(parts) == 1 and parts[0] in schema]
    if len(columns) < len(names) or not all(schema.column(name).is_stored for name in columns):
        return None
    environment, source = Environment(zone), table_source(schema)
    keys = [KeyExpression(Identifier((name,)), schema.column(name).type) for name in columns]
    builder = ConditionBuilder(source, schema, keys, environment, evaluation)
    condition, _ = builder.build([(node, ExpressionCompiler(Scope([source]), environment))])
    is_plain = all(_is_plain(schema.column(name).type.arrow) for name in columns)
    return RowDecision(condition, columns) if columns and is_plain and _is_decidable(condition) else None


def _is_plain(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_string)
    return any(is_kind(type_) for is_kind in kinds)


def _is_decidable(condition: Condition) -> bool:
    """Tells whether comparisons of the columns' own values are all of it. Without a term nothing was understood."""
    match condition:
        case Combination(terms):
            return all(map(_is_decidable, terms))
        case Negated(term):
            return _is_decidable(term)
        case InRange(change=change, exact=exact) | InSet(change=change, exact=exact):
            return change is None and exact
    return isinstance(condition, Constant) and not condition.value
