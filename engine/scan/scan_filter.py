"""Selects the granules and rows that a scan's condition keeps, as a query's WHERE does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.scan.row_draws import PART, find_draw
from engine.scan.slot_planning import add_hidden_columns, select_stored_columns
from parts.blocks.dictionary_strings import DICTIONARY_STRING
from parts.common.errors import UserError
from parts.format.primary_index import MarkRange
from parts.read.part_reader import Part
from parts.read.row_filters import AllOf, ReadValues, RowFilter
from parts.table.row_exists_column import PART_OFFSET
from parts.table.table_description import TableDescription, TableSchema
from parts.types import IntegerType, StringType, strip_nullable
from sql.functions.determinism import is_changing
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, LiteralList, Node, conjuncts, walk
from sql.pruning.row_decision import RowDecision, build_row_decision
from sql.run.block_expressions import DUCKDB_EVALUATOR, compile_expression
from sql.run.condition_analysis import analyse_condition

_MOST_NEW_TEXTS = 256
"""Of one dictionary; with more, its rows are tested."""
_MOST_KNOWN_TEXTS = 65_536


def select_granules(
    parts: Sequence[Part], description: TableDescription, condition: str, timezone: str
) -> list[tuple[Part, list[MarkRange]]]:
    """Returns the parts and granules that may hold rows matching the condition.

    The index may select too much, never too little. Raises the condition's errors: 62, 47, 46, 43.
    """
    where = condition.strip()
    _compile_terms(where, description.schema, timezone)
    chosen = []
    for pruned in analyse_condition(where, description, timezone).prune(parts):
        ranges = [MarkRange(0, pruned.part.marks)] if pruned.ranges is None else list(pruned.ranges)
        if ranges:
            chosen.append((pruned.part, ranges))
    return chosen


@dataclass(frozen=True)
class FilterTerm:
    """A condition on rows, and the columns that it reads, with their types. Implements ``RowFilter``."""

    types: Mapping[str, pa.DataType]
    evaluate: Callable[[pa.Table], pa.ChunkedArray]
    is_of_values: bool = False
    """Whether equal values of its one column have the same result."""
    is_exact: bool = True
    _known: dict[str, bool] = field(default_factory=dict, compare=False)
    """The results for texts: the dictionaries of a column's frames mostly have the same ones."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        return frozenset(self.types)

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns the mask of the rows for which it is true (NULL is not). Columns may be compact."""
        arrays = {name: read(name) for name in self.types}
        if self.is_of_values:
            (array,) = arrays.values()
            if array.type == DICTIONARY_STRING and not array.null_count and self._may_know(array):
                with contextlib.suppress(UserError):  # perhaps of a text that none of the rows has
                    return self._evaluate_texts(array.dictionary)[array.indices.to_numpy()]
        return self._evaluate(arrays, rows)

    def _may_know(self, array: pa.Array) -> bool:
        return len(array.dictionary) <= _MOST_NEW_TEXTS and len(self._known) <= _MOST_KNOWN_TEXTS

    def _evaluate_texts(self, dictionary: pa.Array) -> np.ndarray:
        texts = dictionary.to_pylist()
        new = [text for text in texts if text not in self._known]
        if new:
            found = self._evaluate(dict.fromkeys(self.types, pa.array(new, dictionary.type)), len(new))
            self._known.update(zip(new, found.tolist(), strict=True))
        return np.array([self._known[text] for text in texts], bool)

    def _evaluate(self, arrays: Mapping[str, pa.Array], rows: int) -> np.ndarray:
        plain = {name: array.cast(self.types[name]) for name, array in arrays.items()}
        values = self.evaluate(pa.table(plain or {"": pa.nulls(rows)})).combine_chunks()
        mask = values if pa.types.is_boolean(values.type) else pc.not_equal(values, 0)
        return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class DecidedTerms:
    """Conditions that are decided without a query, but for NULL and NaN. Implements ``RowFilter``."""

    decisions: Sequence[RowDecision]
    whole: FilterTerm
    """All of the conditions."""
    is_exact: bool = True

    @property
    def columns(self) -> frozenset[str]:
        """The columns that they read."""
        return self.whole.columns

    def match_rows(self, read: ReadValues, rows: int) -> np.ndarray:
        """Returns the mask of the rows for which all are true (NULL is not). Columns may be compact."""
        arrays = {name: read(name).cast(type_) for name, type_ in self.whole.types.items()}
        can_be_true, can_be_false = np.ones(rows, bool), np.zeros(rows, bool)
        for decision in self.decisions:
            true, false = decision.decide_rows(arrays, rows)
            can_be_true &= true
            can_be_false |= false
        left = np.flatnonzero(can_be_true & can_be_false)
        if len(left):
            chosen = pa.array(left)
            can_be_true[left] = self.whole.match_rows(lambda name: arrays[name].take(chosen), len(left))
        return can_be_true


def compile_filter(condition: str, description: TableDescription, timezone: str) -> RowFilter | None:
    """Compiles a condition to an exact filter; returns ``None`` for an empty one.

    Raises 48 for an ALIAS column, which has no data.
    """
    terms = _compile_terms(condition.strip(), description.schema, timezone)
    if not terms:
        return None
    select_stored_columns(description.schema, [name for term in terms for name in term.columns])
    return AllOf(terms)


def _compile_terms(condition: str, own: TableSchema, timezone: str) -> list[RowFilter]:
    """Compiles the conjuncts, the cheapest ones first: DuckDB, which plans for every block, only sees what they leave.

    A condition on a text is evaluated once for each that a block has.
    """
    if not condition:
        return []
    schema = add_hidden_columns(own)
    has_draws = not {PART, PART_OFFSET}.intersection(own.names)
    quick: list[RowFilter] = []
    of_texts: dict[str, list[Node]] = {}
    of_numbers: dict[Node, RowDecision] = {}
    of_decimals: dict[Node, RowDecision] = {}
    rest = []
    for node in conjuncts(parse_expression(condition)):
        found = (find_draw(node) if has_draws else None) or _find_members(node, schema)
        if found is not None:
            quick.append(found)
        elif (text := _find_text(node, schema)) is not None:
            of_texts.setdefault(text, []).append(node)
        elif (decision := build_row_decision(node, schema, timezone, DUCKDB_EVALUATOR)) is not None:
            has_decimals = any(pa.types.is_decimal(schema.column(name).type.arrow) for name in decision.columns)
            (of_decimals if has_decimals else of_numbers)[node] = decision
        else:
            rest.append(node)

    def decide(decisions: Mapping[Node, RowDecision]) -> list[RowFilter]:
        whole = _compile_term([*decisions], schema, timezone) if decisions else None
        return [DecidedTerms([*decisions.values()], whole)] if whole is not None else []

    texts = [_compile_term(nodes, schema, timezone, is_of_values=True) for nodes in of_texts.values()]
    queried = [_compile_term(rest, schema, timezone)] if rest else []
    return [*quick, *decide(of_numbers), *texts, *decide(of_decimals), *queried]


def _compile_term(
    nodes: Sequence[Node], schema: TableSchema, timezone: str, *, is_of_values: bool = False
) -> FilterTerm:
    compiled = compile_expression(reduce(_join, nodes), schema, timezone)
    types = {name: schema.column(name).type.arrow for name in compiled.columns}
    return FilterTerm(types, compiled.evaluate, is_of_values)


def _find_text(node: Node, schema: TableSchema) -> str | None:
    """Returns the one column, of type String, on whose value the condition depends, if there is no more."""
    found = list(walk(node))
    names = {each.parts for each in found if isinstance(each, Identifier)}
    if len(names) != 1 or any(isinstance(each, Function) and is_changing(each.name) for each in found):
        return None
    (parts,) = names
    is_text = len(parts) == 1 and parts[0] in schema and isinstance(schema.column(parts[0]).type, StringType)
    return parts[0] if is_text and schema.column(parts[0]).is_stored else None


def _join(left: Node, right: Node) -> Node:
    return Function("and", (left, right))


def _find_members(node: Node, schema: TableSchema) -> FilterTerm | None:
    """Returns the term of ``column IN (1, 2, …)``, if it is one of many integers."""
    match node:
        case Function("in", (Identifier((str(name),)), LiteralList(values))) if name in schema and pa.types.is_integer(
            values.type
        ):
            column = schema.column(name)
            type_ = strip_nullable(column.type)
            if column.is_stored and isinstance(type_, IntegerType):
                members = _find_possible(values, type_)
                return FilterTerm(
                    {name: column.type.arrow},
                    lambda rows: pc.is_in(rows.column(name), value_set=members, skip_nulls=True),
                )
    return None


def _find_possible(values: pa.Array, type_: IntegerType) -> pa.Array:
    """Returns the members that values of the type can be, in its Arrow type."""
    low = -(1 << type_.bits - 1) if type_.signed else 0
    numbers = [value for value in values.to_pylist() if value is not None and low <= value < low + (1 << type_.bits)]
    return pa.array(numbers, type_.arrow)
