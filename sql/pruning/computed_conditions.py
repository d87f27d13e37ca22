"""Conditions that are computed from exact key values, not from ranges.

They apply where each place has one value of every key: a part's partition key, or an entry of a set index. There every
expression over keys alone can be computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import PandoError
from parts.table.table_description import Column, TableSchema
from parts.types import BoolType, DataType, FloatType, IntegerType, strip_low_cardinality, strip_nullable
from sql.compile.names.column_names import canonical_text
from sql.functions.registry import find_rule
from sql.grammar.syntax_tree import Function, Identifier, Lambda, Node, transform, walk
from sql.pruning.conditions import Condition, KeyFacts, Unknown
from sql.pruning.evaluator import BlockExpression, Evaluator
from sql.pruning.key_ranges import KeyRanges, Mask

_ROW_DEPENDENT_FUNCTIONS = frozenset(
    {
        "arrayJoin", "throwIf", "sleep", "sleepEachRow", "indexHint", "rowNumberInBlock", "rowNumberInAllBlocks",
        "blockSize", "blockNumber", "rand", "rand64", "randCanonical", "generateUUIDv4",
    }
)  # fmt: skip
"""Functions whose value differs between rows, or that have side effects."""


@dataclass(frozen=True)
class ComputedCondition(Condition):
    """A condition that is computed as an expression over the keys."""

    keys: tuple[int, ...]
    names: tuple[str, ...]
    """Their names in the expression."""
    expression: BlockExpression
    label: str

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        arrays = {number: keys.get(number) for number in self.keys}
        if not all(isinstance(known, KeyRanges) and known.is_point for known in arrays.values()):
            return np.ones(size, bool), np.ones(size, bool)
        columns = [known.low for known in arrays.values() if isinstance(known, KeyRanges)]
        block = pa.Table.from_arrays(columns, list(self.names))
        try:
            values = self.expression.evaluate(block).combine_chunks()
        except PandoError:  # it may fail for a row that the query would not have read
            return np.ones(size, bool), np.ones(size, bool)
        is_true = values if pa.types.is_boolean(values.type) else pc.not_equal(values, pa.scalar(0, values.type))
        true, false = (one.fill_null(False).to_numpy(zero_copy_only=False) for one in (is_true, pc.invert(is_true)))
        return true, false

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset(self.keys)

    def describe(self, names: Sequence[str]) -> str:
        return self.label


def build_computed_condition(
    node: Node, keys: Sequence[tuple[Node, DataType]], columns: Collection[str], zone: str, evaluation: Evaluator
) -> Condition:
    """Builds a condition as an expression over the keys of a table with these ``columns``.

    Returns ``Unknown`` where the expression reads anything else.
    """
    prefix = "k"
    while any(name.startswith(prefix) for name in columns):
        prefix += "k"
    numbers = {tree: number for number, (tree, _) in enumerate(keys)}

    def change(part: Node) -> Node:
        number = numbers.get(part) if isinstance(part, (Function, Identifier)) else None
        return part if number is None else Identifier((f"{prefix}{number}",))

    if any(isinstance(part, Lambda) or _depends_on_row(part) for part in walk(node)):
        return Unknown()
    tree = transform(node, change)
    named = {part.parts[0] for part in walk(tree) if isinstance(part, Identifier)}
    used = tuple(number for number in numbers.values() if f"{prefix}{number}" in named)
    names = tuple(f"{prefix}{number}" for number in used)
    if not used or named.difference(names):
        return Unknown()
    schema = TableSchema(
        tuple(Column(name, strip_low_cardinality(keys[number][1])) for number, name in zip(used, names, strict=True))
    )
    expression = evaluation.expression(tree, schema, zone)
    if not isinstance(strip_nullable(expression.type), (BoolType, IntegerType, FloatType)):
        return Unknown()
    return ComputedCondition(used, names, expression, canonical_text(node))


def _depends_on_row(node: Node) -> bool:
    if not isinstance(node, Function):
        return False
    rule = find_rule(node.name)
    return (rule.name if rule is not None else node.name) in _ROW_DEPENDENT_FUNCTIONS
