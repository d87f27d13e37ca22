"""The literals of a plan that are parameters: those that only say which rows the key's conditions let through.

``k = 5 AND k2 < '2020-01-01'``: where every term of WHERE compares a column of the key with a literal, other literals
make other conditions of the same form, and nothing else of the plan differs. The conditions are made as
``sql.pruning.builder`` makes them; that they are the same is checked with the literals the plan was compiled with.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from parts.schema import TableSchema
from parts.types import DataType, Date32Type, DateType, IntegerType, StringType
from sql.grammar.shapes import value_of
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node, Select, conjuncts
from sql.pruning.analysis import Analysis
from sql.pruning.builder import FLIPPED, RANGES, range_condition
from sql.pruning.condition import Both, Condition, Constant

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Term:
    """``column name literal``; the literal has the number ``slot`` in its statement, the column is key ``key``."""

    key: int
    name: str
    slot: int
    type: DataType


@dataclass(frozen=True, slots=True)
class BoundLiterals:
    """How a plan's analysis depends on the literals."""

    terms: tuple[_Term, ...]
    analysis: Analysis

    @property
    def slots(self) -> frozenset[int]:
        return frozenset(term.slot for term in self.terms)

    def analysis_of(self, literals: Sequence[str]) -> Analysis | None:
        """The analysis with these literals; ``None``: one of them is no value of its column's type."""
        known: list[Condition] = []
        for term in self.terms:
            value = _value(literals[term.slot], term.type)
            if value is None:
                return None
            known.append(Both((range_condition(term.key, term.name, value),)))
        return self.analysis.with_primary(Both(tuple(known)))


def bound_literals(
    marked: Select, marks: Sequence[str], literals: Sequence[str], analysis: Analysis, schema: TableSchema
) -> BoundLiterals | None:
    """``marked`` is the query with each literal replaced by one of ``marks``, ``analysis`` that of the query itself."""
    slots = {value_of(mark): slot for slot, mark in enumerate(marks)}
    terms = []
    for node in (*conjuncts(marked.prewhere), *conjuncts(marked.where)):
        term = _term(node, slots, analysis.primary_keys, schema)
        if term is None:
            return None
        terms.append(term)
    if not terms or analysis.row_filter is None or "PrimaryKey" not in analysis.whole:
        return None
    if not analysis.row_filter.is_whole:
        return None
    if not all(_is_true(condition) for condition in (analysis.minmax, analysis.partition)):
        return None
    bound = BoundLiterals(tuple(terms), analysis)
    made = bound.analysis_of(literals)
    if made is None or made.primary != analysis.primary or made.row_filter != analysis.row_filter:
        return None
    return bound


def _is_true(condition: Condition) -> bool:
    return isinstance(condition, Constant) and condition.value


def _term(node: Node, slots: dict[int | str, int], keys: Sequence[str], schema: TableSchema) -> _Term | None:
    match node:
        case Function(name, (Identifier((column,)), Literal(value))) if name in RANGES:
            pass
        case Function(name, (Literal(value), Identifier((column,)))) if name in RANGES:
            name = FLIPPED.get(name, name)
        case _:
            return None
    slot = slots.get(value) if isinstance(value, (int, str)) else None
    if slot is None or keys.count(column) != 1 or column not in schema:
        return None
    return _Term(keys.index(column), name, slot, schema.column(column).type)


def _value(literal: str, type_: DataType) -> pa.Scalar | None:
    """As ``sql.pruning.constants`` has it, of the types that need no computing."""
    value = value_of(literal)
    if isinstance(value, int):
        if isinstance(type_, IntegerType) and type_.minimum <= value <= type_.maximum:
            return pa.scalar(value, type_.arrow)
    elif isinstance(type_, StringType):
        return pa.scalar(value, pa.string())
    elif isinstance(type_, (DateType, Date32Type)) and _ISO_DATE.fullmatch(value):
        try:
            return pa.scalar(datetime.date.fromisoformat(value), type_.arrow)
        except ValueError:
            return None
    return None
