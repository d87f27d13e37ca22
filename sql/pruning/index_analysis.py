"""Finds the parts and granules that can have matching rows, from a query's filters.

Three steps, as in ClickHouse: the extremes of the partition key's columns (MinMax), the values of the partition key
(Partition), the sparse primary index (PrimaryKey). Each only ever drops what cannot match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from parts.read.key_mapping import map_primary_index
from parts.read.part_reader import Part
from parts.table.block_number_column import BLOCK_NUMBER, make_block_number_column
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.table_description import Key, SkipIndex, TableDescription, TableSchema
from parts.types import DataType, StringType
from sql.compile.compiled_query import Scan
from sql.compile.names.column_names import canonical_text
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Identifier
from sql.pruning.condition_builder import ConditionBuilder, parse_key_expressions
from sql.pruning.conditions import Combination, Condition, Constant, IndexHint
from sql.pruning.evaluator import Evaluator
from sql.pruning.key_intervals import KeyInterval, find_key_interval
from sql.pruning.key_ranges import make_closed_ranges, split_into_boxes
from sql.pruning.part_bounds import PartBounds
from sql.pruning.pruned_parts import KeyRowFilter, PrunedPart, ranges_of_mask
from sql.pruning.row_prefilter import RowPrefilter, build_row_prefilter
from sql.pruning.skip_index_tests import SkipIndexTest, build_skip_index_tests
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)

_MANY_PARTS = 16


@dataclass(slots=True)
class IndexUse:
    """The effect of one index, for EXPLAIN: (after, before) counts of parts and granules."""

    kind: str
    keys: list[str]
    test: Condition
    parts: tuple[int, int] = (0, 0)
    granules: tuple[int, int] = (0, 0)
    index: SkipIndex | None = None

    @property
    def condition(self) -> str:
        """The condition as EXPLAIN shows it."""
        return self.test.describe(self.keys)


@dataclass
class IndexAnalysis:
    """The conditions of one scan on the table's indexes."""

    minmax: Condition
    minmax_keys: list[str]
    partition: Condition
    partition_keys: list[str]
    primary: Condition
    sorting: Key
    whole: frozenset[str] = frozenset()
    """The indexes whose condition is all of the filters, not a part of them."""
    row_filter: KeyRowFilter | None = None
    interval: KeyInterval | None = None
    """``primary`` as an interval of the first key, if it is one."""
    row_test: RowPrefilter | None = None
    needs_rows: bool = False
    """The primary index never proves that a row matches; its values must be tested."""
    skip_tests: tuple[SkipIndexTest, ...] = ()
    uses: list[IndexUse] = field(default_factory=list)
    _certain: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    """For each part with rows: whether its partition shows that every row matches."""

    def copy_unused(self) -> IndexAnalysis:
        """Returns the same conditions, not used yet: an analysis prunes for one query."""
        return replace(self, uses=[])

    def with_rows(
        self,
        by_extremes: Sequence[Condition],
        by_index: Sequence[Condition],
        by_row: Sequence[Condition],
        columns: Mapping[int, tuple[str, DataType]],
        skip_tests: tuple[SkipIndexTest, ...] = (),
    ) -> IndexAnalysis:
        """Returns an unused analysis for other conditions, which compare ``columns`` with values.

        ``by_index`` and ``by_row`` together are the whole filter. The index decides ``by_index``; only the rows decide
        ``by_row``.
        """
        primary = Combination(tuple(by_index)) if by_index else Constant(True)
        rows = Combination((*by_index, *by_row))
        interval = find_key_interval(primary)
        of_rows = find_key_interval(rows) if by_row else interval
        row_filter = KeyRowFilter(rows, columns, is_whole=True, interval=of_rows, is_of_values=True)
        return IndexAnalysis(
            Combination(tuple(by_extremes)), self.minmax_keys, Constant(True), self.partition_keys, primary,
            self.sorting, frozenset({"PrimaryKey"}), row_filter, interval, needs_rows=bool(by_row),
            skip_tests=skip_tests,
        )  # fmt: skip

    def prune(self, parts: Sequence[Part]) -> list[PrunedPart]:
        """Returns the parts and granules that can match, and notes in ``uses`` what each index did."""
        known = PartBounds.of(parts)
        kept = np.arange(len(known.parts))
        self._certain = np.zeros(len(kept), bool)
        kept = self._prune_parts("MinMax", self.minmax, self.minmax_keys, known, kept)
        kept = self._prune_parts("Partition", self.partition, self.partition_keys, known, kept)
        left = self._prune_each_part(known, kept)
        for test in self.skip_tests:
            left = self._apply_skip_index(test, left)
        return left

    def _prune_parts(
        self, kind: str, condition: Condition, keys: list[str], known: PartBounds, chosen: np.ndarray
    ) -> np.ndarray:
        if not keys:
            return chosen
        marks = int(known.marks[chosen].sum())
        use = IndexUse(kind, keys, condition, (len(chosen), len(chosen)), (marks, marks))
        self.uses.append(use)
        if not len(chosen) or (isinstance(condition, Constant) and condition.value):
            return chosen
        bounds = {}
        for number in condition.key_numbers:
            of_name = kind == "MinMax"
            found = known.extremes(keys[number], chosen) if of_name else known.partition_value(number, chosen)
            if found is not None:
                bounds[number] = found
        mask, doubt = condition.evaluate(bounds, len(chosen))
        kept = chosen[mask]
        if kind in self.whole:
            self._certain[chosen[~doubt]] = True
        use.parts, use.granules = (len(kept), len(chosen)), (int(known.marks[kept].sum()), marks)
        return kept

    def _prune_each_part(self, known: PartBounds, chosen: np.ndarray) -> list[PrunedPart]:
        use = IndexUse("PrimaryKey", list(self.sorting.expressions), self.primary)
        if self.sorting:
            self.uses.append(use)
        kept = []
        for position in self._prune_by_first_key(known, chosen):
            pruned = prune_granules(known.parts[position], self.sorting, self.primary, self.interval)
            if pruned is not None:
                kept.append(self._attach_row_filter(pruned, is_certain=bool(self._certain[position])))
        use.parts = (len(kept), len(chosen))
        use.granules = (sum(item.marks for item in kept), int(known.marks[chosen].sum()))
        return kept

    def _prune_by_first_key(self, known: PartBounds, chosen: np.ndarray) -> np.ndarray:
        """Drops parts by the range of their first key.

        With many parts that is faster than a look into the index of each.
        """
        if 0 not in self.primary.key_numbers or len(chosen) < _MANY_PARTS:
            return chosen
        bounds = known.first_key(self.sorting, chosen)
        return chosen if bounds is None else chosen[self.primary.evaluate({0: bounds}, len(chosen))[0]]

    def _apply_skip_index(self, test: SkipIndexTest, pruned: Sequence[PrunedPart]) -> list[PrunedPart]:
        left = [found for item in pruned if (found := test.prune(item)) is not None]
        before, after = (sum(item.marks for item in items) for items in (pruned, left))
        keys = list(test.index.key.expressions)
        self.uses.append(IndexUse("Skip", keys, test.condition, (len(left), len(pruned)), (after, before), test.index))
        return left

    def _attach_row_filter(self, pruned: PrunedPart, *, is_certain: bool) -> PrunedPart:
        if pruned.part.has_deleted_rows:  # the reader also leaves out deleted rows
            return PrunedPart(pruned.part, pruned.ranges, pruned.uncertain, False, self.row_filter, self.row_test)
        if is_certain:
            return PrunedPart(pruned.part, pruned.ranges, uncertain=(), is_whole=True)
        is_whole = "PrimaryKey" in self.whole
        uncertain = None if self.needs_rows else pruned.uncertain
        return PrunedPart(pruned.part, pruned.ranges, uncertain, is_whole, self.row_filter, self.row_test)


def prune_granules(
    part: Part, key: Key, condition: Condition, interval: KeyInterval | None = None
) -> PrunedPart | None:
    """Returns a part's granules that can match, and which of them surely do; ``None`` if none can.

    ``key`` is the table's sorting key. ``interval`` is the condition as an interval of the first key, if it is one.
    """
    if interval is not None:
        index = map_primary_index(part, key)
        numbers = index.first_key_integers
        if numbers is not None and index.keys[0].type == interval.type:
            run = interval.granules(numbers)
            return None if run is None else PrunedPart(part, [run[0]], run[1])
    used = condition.key_numbers
    if not used:
        true, false = condition.evaluate({}, 1)
        return PrunedPart(part, uncertain=None if false[0] else ()) if true[0] else None
    keys = map_primary_index(part, key).keys[: max(used) + 1]
    if len(keys) <= max(used):
        return PrunedPart(part)
    # The first column alone leaves few granules out of many; only those are looked at with all columns.
    first = make_closed_ranges(keys[0].slice(0, part.marks), keys[0].slice(1, part.marks))
    chosen = np.flatnonzero(condition.evaluate({0: first}, part.marks)[0])
    if not len(chosen):
        return None
    boxes, owners = split_into_boxes(keys, chosen)
    true, false = condition.evaluate({number: boxes[number] for number in used}, len(owners))
    found, doubtful = np.zeros(len(chosen), bool), np.zeros(len(chosen), bool)
    found[owners[true]] = True
    doubtful[owners[false]] = True
    mask = np.zeros(part.marks, bool)
    mask[chosen[found]] = True
    uncertain = np.zeros(part.marks, bool)
    uncertain[chosen[found & doubtful]] = True
    if not mask.any():
        return None
    return PrunedPart(part, None if mask.all() else ranges_of_mask(mask), ranges_of_mask(uncertain))


# Building -------------------------------------------------------------------------------------------------------------


def build_index_analysis(
    scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluator
) -> IndexAnalysis:
    """Builds the conditions of a scan's filters on the table's indexes."""
    schema = description.schema
    columns = list(description.partition_key.columns)
    # Extremes leave NaN and NULL out, so only types without them can be pruned by them.
    columns = [name for name in columns if _has_extremes(schema.column(name).type)]
    types = [schema.column(name).type for name in columns]
    if BLOCK_NUMBER in scan.source.used and scan.final is None and BLOCK_NUMBER not in schema:
        columns.append(BLOCK_NUMBER)
        types.append(make_block_number_column().type)
    for name in NAME_COLUMNS:
        if name in scan.source.used and name not in schema:
            columns.append(name)
            types.append(StringType())
    texts = [canonical_column(name) for name in columns]

    whole = set() if scan.conditions else {"MinMax", "Partition", "PrimaryKey"}

    def build(kind: str, expressions: Sequence[str], types: Sequence[object]) -> Condition:
        if not expressions:
            return Constant(True)
        keys = parse_key_expressions(expressions, types)  # type: ignore[arg-type]
        builder = ConditionBuilder(scan.source, schema, keys, environment, evaluation, are_values=kind == "Partition")
        condition, is_whole = builder.build(scan.conditions)
        if is_whole:
            whole.add(kind)
        return condition

    partition, sorting = description.partition_key, description.sorting_key
    tests = build_skip_index_tests(scan, description, environment, evaluation)
    if scan.final is None or scan.final.by_partition:
        minmax = build("MinMax", texts, types)
        by_partition = build("Partition", partition.expressions, partition.types)
    else:
        minmax = by_partition = Constant(True)
    primary = build("PrimaryKey", sorting.expressions, sorting.types)
    return IndexAnalysis(
        minmax, columns, by_partition, list(partition.expressions), primary, sorting,
        frozenset(whole), _build_row_filter(primary, sorting, schema), find_key_interval(primary),
        build_row_prefilter(scan, description, environment, evaluation)
        if scan.conditions and scan.final is None
        else None,
        skip_tests=tuple(test for test in tests if scan.final is None or scan.final.may_ask(test.index.key)),
    )  # fmt: skip


def _build_row_filter(condition: Condition, key: Key, schema: TableSchema) -> KeyRowFilter | None:
    """Returns the part of the condition that can be tested on rows.

    That are the conjuncts on key expressions that are plain columns.
    """
    columns = {}
    for number, node in enumerate(parse_expression(text) for text in key.expressions):
        if isinstance(node, Identifier) and len(node.parts) == 1:
            columns[number] = (node.parts[0], schema.column(node.parts[0]).type)
    terms = condition.terms if isinstance(condition, Combination) and not condition.either else (condition,)
    testable = tuple(
        term
        for term in terms
        if term.key_numbers and term.key_numbers <= columns.keys() and not isinstance(term, IndexHint)
    )
    if not testable:
        return None
    used = frozenset().union(*(term.key_numbers for term in testable))
    by_number = {number: columns[number] for number in sorted(used)}
    tested = Combination(testable)
    return KeyRowFilter(tested, by_number, is_whole=len(testable) == len(terms), interval=find_key_interval(tested))


def _has_extremes(type_: object) -> bool:
    from parts.types import FloatType, strip_nullable

    return not isinstance(strip_nullable(type_), FloatType) and not type_.is_nullable  # type: ignore[arg-type,attr-defined]


def canonical_column(name: str) -> str:
    """Returns a column's name in canonical text."""
    return canonical_text(Identifier((name,)))


def analyse_scan(
    scan: Scan, description: TableDescription, evaluation: Evaluator, settings: Settings = DEFAULT_SETTINGS
) -> IndexAnalysis:
    """Builds the index analysis of a scan, with the settings of its query."""
    environment = scan.conditions[0][1].environment if scan.conditions else Environment(settings=settings)
    return build_index_analysis(scan, description, environment, evaluation)
