"""The literals of a plan that are parameters: those that only say which rows are read.

``k = 5 AND day < '2020-01-01' AND name IN ('a', 'b')``: terms of WHERE that compare a stored column with literals are
taken out of the query, and what is left of it is planned once. Other literals make other conditions of the same form;
the plan gets only rows that pass them. The conditions are made as ``sql.pruning.builder`` makes them; that they are the
same is checked with the literals the plan was compiled with, as far as the primary index knows of them.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parts.schema import TableSchema
from parts.types import DataType, Date32Type, DateType, FloatType, IntegerType, LowCardinalityType, StringType
from sql.grammar.shapes import value_of
from sql.grammar.syntax_tree import Alias, Function, Identifier, Literal, Node, Select, conjuncts, walk
from sql.pruning.analysis import Analysis
from sql.pruning.builder import FLIPPED, RANGES, range_condition
from sql.pruning.condition import Both, Condition, InSet

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_BOUND_TYPES = (IntegerType, FloatType, StringType, DateType, Date32Type)
_EXACT_BITS = {32: 24, 64: 53}
"""Integers of so many bits are floats exactly."""


@dataclass(frozen=True, slots=True)
class Term:
    """``column name literals``; the literals have the numbers ``slots`` in their statement."""

    column: str
    name: str
    slots: tuple[int, ...]
    type: DataType

    def values(self, literals: Sequence[str]) -> tuple[pa.Scalar, ...] | None:
        """Its literals as values of the column's type; ``None``: one of them is none."""
        type_ = self.type.inner if isinstance(self.type, LowCardinalityType) else self.type
        values = [_value(literals[slot], type_) for slot in self.slots]
        known = tuple(value for value in values if value is not None)
        return known if len(known) == len(values) else None

    def condition(self, key: int, values: tuple[pa.Scalar, ...]) -> Condition:
        """Where the column is key number ``key``."""
        if self.name == "in":
            return Both((InSet(key, values, exact=True),))
        return Both((range_condition(key, self.name, values[0]),))


@dataclass(frozen=True, slots=True)
class Split:
    """A query in two: the terms that are bound, and what is left to be computed of the rows that pass them."""

    terms: tuple[Term, ...]
    finding: Select
    """The query with these terms alone."""
    rest: Select
    """The query without them."""

    @property
    def is_all(self) -> bool:
        """Whether nothing of WHERE is left."""
        return self.rest.prewhere is None and self.rest.where is None


@dataclass(frozen=True, slots=True)
class BoundLiterals:
    """How a plan's analysis depends on the literals. ``limit`` and ``offset`` have numbers too, if they are bound."""

    terms: tuple[Term, ...]
    analysis: Analysis
    limit: int | None = None
    offset: int | None = None

    @property
    def slots(self) -> frozenset[int]:
        others = {slot for slot in (self.limit, self.offset) if slot is not None}
        return frozenset(others.union(*(term.slots for term in self.terms)))

    def analysis_of(self, literals: Sequence[str]) -> Analysis | None:
        """The analysis with these literals; ``None``: one of them is no value of its column's type."""
        keys, extremes = self.analysis.primary_keys, self.analysis.minmax_keys
        others = dict.fromkeys(term.column for term in self.terms if term.column not in keys)
        names = [*keys, "", *others]  # no other column gets number 0, that of the first key
        columns: dict[int, tuple[str, DataType]] = {}
        by_extremes: list[Condition] = []
        by_index: list[Condition] = []
        by_row: list[Condition] = []
        for term in self.terms:
            values = term.values(literals)
            if values is None:
                return None
            number = names.index(term.column)
            columns[number] = (term.column, term.type)
            (by_index if term.column in keys else by_row).append(term.condition(number, values))
            if term.column in extremes:
                by_extremes.append(term.condition(extremes.index(term.column), values))
        return self.analysis.with_rows(by_extremes, by_index, by_row, dict(sorted(columns.items())))

    def agrees(self, literals: Sequence[str]) -> bool:
        """Whether its conditions with the literals of the plan are the plan's."""
        made = self.analysis_of(literals)
        return made is not None and made.primary == self.analysis.primary


def split_query(
    marked: Select, marks: Sequence[str], tree: Select, schema: TableSchema, keys: Sequence[str]
) -> Split | None:
    """``marked`` is ``tree`` with each literal replaced by one of ``marks``."""
    named = [node for filter in (marked.prewhere, marked.where) if filter is not None for node in walk(filter)]
    if any(isinstance(node, Alias) for node in named):
        return None
    counts = Counter(node.value for node in walk(marked) if isinstance(node, Literal))
    slots = {value_of(mark): slot for slot, mark in enumerate(marks) if counts[value_of(mark)] == 1}
    shadowed = {node.name for node in walk(marked) if isinstance(node, Alias)}
    terms: list[Term] = []
    bound: list[Node] = []
    left: dict[str, Node | None] = {}
    for clause in ("prewhere", "where"):
        known, given = conjuncts(getattr(marked, clause)), conjuncts(getattr(tree, clause))
        if len(known) != len(given):
            return None
        others = []
        for node, conjunct in zip(known, given, strict=True):
            term = _term(node, slots, schema)
            if term is None or term.column in shadowed or keys.count(term.column) > 1:
                others.append(conjunct)
            else:
                terms.append(term)
                bound.append(conjunct)
        left[clause] = _conjunction(others)
    if not terms:
        return None
    finding = replace(tree, prewhere=None, where=_conjunction(bound))
    return Split(tuple(terms), finding, replace(tree, prewhere=left["prewhere"], where=left["where"]))


def slot_of(node: Node | None, marks: Sequence[str]) -> int | None:
    """The number of the literal that the node is."""
    values = [value_of(mark) for mark in marks]
    return values.index(node.value) if isinstance(node, Literal) and node.value in values else None


def _conjunction(terms: Sequence[Node]) -> Node | None:
    return Function("and", tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


def _term(node: Node, slots: dict[int | str, int], schema: TableSchema) -> Term | None:
    literals: tuple[Node, ...]
    match node:
        case Function("in", (Identifier((column,)), Function("tuple", literals))):
            name = "in"
        case Function("in", (Identifier((column,)), Literal() as literal)):
            name, literals = "in", (literal,)
        case Function(name, (Identifier((column,)), Literal() as literal)) if name in RANGES:
            literals = (literal,)
        case Function(name, (Literal() as literal, Identifier((column,)))) if name in RANGES:
            name, literals = FLIPPED.get(name, name), (literal,)
        case _:
            return None
    values = [literal.value for literal in literals if isinstance(literal, Literal)]
    found = tuple(slots[value] for value in values if isinstance(value, (int, str)) and value in slots)
    if not found or len(found) < len(literals) or column not in schema:
        return None
    type_ = schema.column(column).type
    if name == "in" and isinstance(type_, FloatType):
        return None
    is_bound = isinstance(type_, _BOUND_TYPES) or type_ == LowCardinalityType(StringType())
    return Term(column, name, found, type_) if is_bound else None


def _value(literal: str, type_: DataType) -> pa.Scalar | None:
    """As ``sql.pruning.constants`` has it, of the types that need no computing."""
    value = value_of(literal)
    if isinstance(value, int):
        if isinstance(type_, IntegerType) and type_.minimum <= value <= type_.maximum:
            return pa.scalar(value, type_.arrow)
        if isinstance(type_, FloatType) and value.bit_length() <= _EXACT_BITS[type_.bits]:
            return pa.scalar(float(value), type_.arrow)
    elif isinstance(type_, StringType):
        return pa.scalar(value, pa.string())
    elif isinstance(type_, (DateType, Date32Type)) and _ISO_DATE.fullmatch(value):
        try:
            return pa.scalar(datetime.date.fromisoformat(value), type_.arrow)
        except ValueError:
            return None
    return None
