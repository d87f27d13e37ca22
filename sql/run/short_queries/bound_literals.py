"""Binds the literals of a cached plan that only choose which rows are read.

Take ``k = 5 AND day < '2020-01-01' AND name IN ('a', 'b')``. Terms of WHERE that compare a stored column with literals
are taken out of the query, and the rest is planned once. Other literals make other conditions of the same form; the
plan gets only rows that pass them. The conditions are made as ``sql.pruning.condition_builder`` makes them. That they
are the same is checked with the literals the plan was compiled with, as far as the primary index knows of them.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parts.table.table_description import SkipIndex, TableDescription
from parts.types import (
    DataType,
    Date32Type,
    DateTimeType,
    DateType,
    EnumType,
    FloatType,
    IntegerType,
    StringType,
    strip_nullable,
)
from sql.grammar.syntax_tree import Alias, Function, Identifier, Literal, NamedTable, Node, Select, conjuncts, walk
from sql.pruning.condition_builder import MIRRORED_COMPARISONS, RANGE_COMPARISONS, build_range_condition
from sql.pruning.conditions import Combination, Condition, InSet
from sql.pruning.filter_index_conditions import build_membership_condition
from sql.pruning.index_analysis import IndexAnalysis
from sql.pruning.skip_index_tests import SkipIndexTest
from sql.run.short_queries.statement_shapes import parse_literal

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII)
_FIRST_DAY, _LAST_DAY = datetime.date(1970, 1, 1), datetime.date(2149, 6, 6)
_LAST_SECONDS = datetime.date(2106, 2, 7)
"""DateTime ends within this day, so it is left out."""
_CONVERSIONS: dict[type[DataType], str] = {DateType: "toDate", DateTimeType: "toDateTime"}
_BOUND_TYPES = (IntegerType, StringType, DateType, Date32Type)
_OF_PARAMETER: dict[str, tuple[type[DataType], ...]] = {
    "String": (DataType,), "Float64": (FloatType,), "Date": (DateType, Date32Type), "DateTime": (DateTimeType,)
}  # fmt: skip
"""Types of columns with which a parameter compares as a literal does. Parameters not listed are integers."""
_MOST_DIGITS = 18
_EXACT_BITS = {32: 24, 64: 53}
"""Bits of integers that a float of this size holds exactly."""


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """A term ``column name literals``; ``slots`` are the literals' numbers in the statement."""

    column: str
    name: str
    slots: tuple[int, ...]
    type: DataType

    def values(self, literals: Sequence[str]) -> tuple[pa.Scalar, ...] | None:
        """Returns its literals as values of the column's type; ``None`` if one of them is not."""
        type_ = strip_nullable(self.type)
        values = [_convert_literal(literals[slot], type_) for slot in self.slots]
        known = tuple(value for value in values if value is not None)
        return known if len(known) == len(values) else None

    def condition(self, key: int, values: tuple[pa.Scalar, ...]) -> Condition:
        """Builds the condition, where the column is key number ``key``."""
        if self.name == "in":
            return Combination((InSet(key, values, exact=True),))
        return Combination((build_range_condition(key, self.name, values[0]),))


@dataclass(frozen=True, slots=True)
class SplitQuery:
    """A query in two: the bound terms, and the rest that is computed from the rows that pass them."""

    terms: tuple[BoundTerm, ...]
    finding: Select
    """The query with only these terms in WHERE."""
    rest: Select
    """The query without these terms."""

    @property
    def is_all(self) -> bool:
        """Returns whether nothing of WHERE is left."""
        return self.rest.prewhere is None and self.rest.where is None


@dataclass(frozen=True, slots=True)
class BoundLiterals:
    """How a plan's index analysis depends on the literals.

    ``limit`` and ``offset`` are literals' numbers too, if they are bound.
    """

    terms: tuple[BoundTerm, ...]
    analysis: IndexAnalysis
    limit: int | None = None
    offset: int | None = None

    @property
    def slots(self) -> frozenset[int]:
        """The numbers of all bound literals."""
        others = {slot for slot in (self.limit, self.offset) if slot is not None}
        return frozenset(others.union(*(term.slots for term in self.terms)))

    def accepts(self, slot: int, type_: str) -> bool:
        """Returns whether a literal means the same as a parameter of this type would."""
        if slot in (self.limit, self.offset):
            return "Int" in type_
        allowed = _OF_PARAMETER.get(type_, (IntegerType, FloatType))
        return any(slot in term.slots and isinstance(strip_nullable(term.type), allowed) for term in self.terms)

    def bind_analysis(self, literals: Sequence[str]) -> IndexAnalysis | None:
        """Returns the analysis with these literals.

        ``None`` if one of them is no value of its column's type, or no number of rows.
        """
        counts = [literals[slot] for slot in (self.limit, self.offset) if slot is not None]
        if not all(count.isdecimal() and len(count) <= _MOST_DIGITS for count in counts):
            return None
        keys, extremes = self.analysis.sorting.expressions, self.analysis.minmax_keys
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
        skip_tests = tuple(self._skip_test(test.index, literals) for test in self.analysis.skip_tests)
        return self.analysis.with_rows(by_extremes, by_index, by_row, dict(sorted(columns.items())), skip_tests)

    def _skip_test(self, index: SkipIndex, literals: Sequence[str]) -> SkipIndexTest:
        conditions: list[Condition] = []
        for term in self.terms:
            values = term.values(literals)
            if term.column in index.key.expressions and values is not None:
                number = index.key.expressions.index(term.column)
                if index.kind in ("minmax", "set"):
                    conditions.append(term.condition(number, values))
                elif term.name in ("equals", "in"):
                    conditions.append(build_membership_condition(index, number, values))
        return SkipIndexTest(index, Combination(tuple(conditions)))

    def agrees_with_plan(self, literals: Sequence[str]) -> bool:
        """Returns whether its index conditions, made with the plan's literals, are among the plan's.

        The plan has other conditions where a key is computed from a column.
        """
        made = self.bind_analysis(literals)
        if made is None:
            return False
        known = self.analysis.primary.terms if isinstance(self.analysis.primary, Combination) else ()
        return all(term in known for term in (made.primary.terms if isinstance(made.primary, Combination) else ()))


def split_query(
    marked: Select,
    marks: Sequence[str],
    tree: Select,
    literals: Sequence[str],
    table: NamedTable,
    description: TableDescription,
    zone: str,
) -> SplitQuery | None:
    """Splits a query into bound terms and the rest; ``None`` if no term can be bound.

    ``marked`` is ``tree`` with each of ``literals`` replaced by one of ``marks``.
    """
    reading = _TermReader(marks, marked, table, description, zone)
    named = [node for filter in (marked.prewhere, marked.where) if filter is not None for node in walk(filter)]
    if any(isinstance(node, Alias) for node in named):
        return None
    shadowed = {node.name for node in walk(marked) if isinstance(node, Alias)}
    terms: list[BoundTerm] = []
    bound: list[Node] = []
    left: dict[str, Node | None] = {}
    for clause in ("prewhere", "where"):
        known, given = conjuncts(getattr(marked, clause)), conjuncts(getattr(tree, clause))
        if len(known) != len(given):
            return None
        others = []
        for node, conjunct in zip(known, given, strict=True):
            term = reading.term(node)
            if term is None or term.column in shadowed or term.values(literals) is None:
                others.append(conjunct)
            else:
                terms.append(term)
                bound.append(conjunct)
        left[clause] = _conjunction(others)
    if not terms:
        return None
    finding = replace(tree, prewhere=None, where=_conjunction(bound))
    return SplitQuery(tuple(terms), finding, replace(tree, prewhere=left["prewhere"], where=left["where"]))


def find_slot(node: Node | None, marks: Sequence[str]) -> int | None:
    """Returns the number of the literal that the node is."""
    values = [parse_literal(mark) for mark in marks]
    return values.index(node.value) if isinstance(node, Literal) and node.value in values else None


def _conjunction(terms: Sequence[Node]) -> Node | None:
    return Function("and", tuple(terms)) if len(terms) > 1 else next(iter(terms), None)


class _TermReader:
    """Finds bound terms in one marked query over one table."""

    def __init__(
        self, marks: Sequence[str], marked: Select, table: NamedTable, description: TableDescription, zone: str
    ) -> None:
        counts = Counter(node.value for node in walk(marked) if isinstance(node, Literal))
        self._slots = {parse_literal(mark): slot for slot, mark in enumerate(marks) if counts[parse_literal(mark)] == 1}
        self._qualifier = table.alias or table.table
        self._schema = description.schema
        self._keys = description.sorting_key.expressions
        self._zone = zone

    def term(self, node: Node) -> BoundTerm | None:
        """Returns the bound term that the node is, if it is one."""
        match node:
            case Function("in", (column, Function("tuple", values))) if values:
                return self._of_column(column, "in", values)
            case Function("in", (column, value)):
                return self._of_column(column, "in", (value,))
            case Function(name, (Identifier() as column, value)) if name in RANGE_COMPARISONS:
                return self._of_column(column, name, (value,))
            case Function(name, (value, column)) if name in RANGE_COMPARISONS:
                return self._of_column(column, MIRRORED_COMPARISONS.get(name, name), (value,))
        return None

    def _of_column(self, node: Node, name: str, values: Sequence[Node]) -> BoundTerm | None:
        column = self._column(node)
        if column is None:
            return None
        type_ = self._schema.column(column).type
        bare = strip_nullable(type_)
        slots = tuple(slot for slot in (self._slot(value, bare) for value in values) if slot is not None)
        if len(slots) < len(values) or not self._is_bound(bare, name):
            return None
        if self._keys.count(column) > (0 if type_.is_nullable else 1):
            return None
        return BoundTerm(column, name, slots, type_)

    def _column(self, node: Node) -> str | None:
        match node:
            case Identifier((column,)) if column in self._schema:
                return column
            case Identifier((qualifier, column)) if qualifier == self._qualifier and qualifier not in self._schema:
                return column if column in self._schema else None
        return None

    def _is_bound(self, bare: DataType, name: str) -> bool:
        match bare:
            case DateTimeType(zone):
                return (zone or self._zone) == "UTC"
            case FloatType():
                return name != "in"
            case EnumType():
                return name in ("in", "equals")
        return isinstance(bare, _BOUND_TYPES)

    def _slot(self, node: Node, bare: DataType) -> int | None:
        """Returns the number of a literal, perhaps inside a conversion to the column's type."""
        if isinstance(node, Function) and node == Function(_CONVERSIONS.get(type(bare), ""), node.args):
            (node, *others) = node.args
            if others or not isinstance(node, Literal) or not isinstance(node.value, str):
                return None
        return self._slots.get(node.value) if isinstance(node, Literal) else None


def _convert_literal(literal: str, type_: DataType) -> pa.Scalar | None:
    """Converts a literal to a value of the type; ``None`` if it is not exactly one.

    It does the same as ``sql.pruning.key_constants``, for types that need no computing.
    """
    value = parse_literal(literal)
    try:
        match type_:
            case IntegerType() if isinstance(value, int) and type_.minimum <= value <= type_.maximum:
                return pa.scalar(value, type_.arrow)
            case FloatType(bits) if isinstance(value, int) and value.bit_length() <= _EXACT_BITS[bits]:
                return pa.scalar(float(value), type_.arrow)
            case FloatType(64) if isinstance(value, float):
                return pa.scalar(value, type_.arrow)
            case EnumType(_, names) if isinstance(value, str):
                return next((pa.scalar(number, type_.arrow) for name, number in names if name == value), None)
            case StringType() if isinstance(value, str):
                return pa.scalar(value, pa.string())
            case DateType() | Date32Type() if isinstance(value, str) and _ISO_DATE.fullmatch(value):
                day = datetime.date.fromisoformat(value)
                return pa.scalar(day, type_.arrow) if _FIRST_DAY <= day <= _LAST_DAY else None
            case DateTimeType() if isinstance(value, str) and _ISO_TIME.fullmatch(value):
                time = datetime.datetime.fromisoformat(value)
                return pa.scalar(time, type_.arrow) if _FIRST_DAY <= time.date() < _LAST_SECONDS else None
    except ValueError:
        pass
    return None
