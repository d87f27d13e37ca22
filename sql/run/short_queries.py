"""Queries that are surely short, answered at once by the thread that asks: no compiling, no DuckDB, no waiting.

A text that comes again is looked at once (:meth:`ShortQueries.consider`): may it be short? A query without tables is
computed then, if its text alone decides it. A query whose rows the key finds keeps its plan by the *shape* of the text,
so that another key compiles nothing (``sql.run.bound_literals``). Whether it *is* short the pruned parts tell, every
time anew: few granules, little to decode, few rows. What is not, or what fails in any way, is left to those who may
take their time, and who tell what is wrong.

Invariants
- An answer is what ``QueryEngine.select`` would give for the same text, settings and tables.
- Nothing is kept of a query but its plan; a table is looked up anew every time, and its snapshot released at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from parts.errors import PandoError
from parts.read_plan import rows_of
from parts.types import DataType
from sql.compile.passes.pipeline import rewrite
from sql.grammar.limits import Guard
from sql.grammar.parser import parse_statement
from sql.grammar.queries import parse_query
from sql.grammar.shapes import LONGEST_TEXT, Shape, marked_literals, shape_of
from sql.grammar.statements import ParsedStatement, SelectQuery
from sql.grammar.syntax_tree import Select
from sql.pruning.analysis import Analysis
from sql.pruning.pruned_part import PrunedPart
from sql.relation import PartsRelation, RelationCatalog, is_parts_relation
from sql.run.bound_literals import BoundLiterals, bound_literals
from sql.run.executor import QueryEngine
from sql.run.plans import Plan, depends_on_text_alone, is_plain
from sql.run.scans import ReadStatistics
from sql.run.stored_rows import count_rows, few_rows, find_rows
from sql.run.totals import read_columns, total_row
from sql.settings.session import Settings
from sql.typing.storage_arrays import storage_schema

_MOST_TEXTS = 512
_MOST_PLANS_OF_SHAPE = 64
_MOST_PARTS = 64
_MOST_MARKS_OF_PARTS = 1 << 15
"""Unless they are bisected."""
_MOST_MARKS = 16
_MOST_ROWS_LOOKED_AT = 1 << 18
_MOST_UNDECODED_BYTES = 8 << 20
_MOST_COLUMNS = 64
_MOST_ROWS = 4_096
_MOST_SUMMED_ROWS = 65_536
_MOST_BYTES = 256 << 10
_Columns = tuple[tuple[str, DataType], ...]


@dataclass(frozen=True, slots=True)
class ShortResult:
    """``format`` is what the statement's FORMAT clause said."""

    columns: _Columns
    batches: Sequence[pa.RecordBatch]
    statistics: ReadStatistics
    format: str | None = None


@dataclass(slots=True)
class _Known:
    """A text or a shape that may be short. ``settings`` is held, because it is known by its identity."""

    settings: Settings
    format: str | None
    plan: Plan
    schema: pa.Schema
    bound: BoundLiterals | None = None
    answer: ShortResult | None = None


@dataclass(slots=True)
class _KnownShape:
    """The plans of a shape by those of its literals that are no parameters."""

    fixed: tuple[int, ...]
    plans: _Recent[_Known | None] = field(default_factory=lambda: _Recent(_MOST_PLANS_OF_SHAPE))


Value = TypeVar("Value")
_Key = tuple[object, ...]


class _Recent(Generic[Value]):
    """The longest unused is dropped first. Any thread may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, Value] = OrderedDict()

    def find(self, key: _Key) -> tuple[Value] | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return (self._values[key],)

    def keep(self, key: _Key, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)


class ShortQueries:
    """Those of one engine."""

    def __init__(self, engine: QueryEngine) -> None:
        self._engine = engine
        self._seen: _Recent[None] = _Recent(_MOST_TEXTS)
        self._texts: _Recent[_Known | None] = _Recent(_MOST_TEXTS)
        self._shapes: _Recent[_KnownShape] = _Recent(_MOST_TEXTS)

    def answer(self, text: str, settings: Settings, database: str, catalog: RelationCatalog) -> ShortResult | None:
        """The whole answer to a statement; ``None``: it is not known to be short, or it is not."""
        if len(text) > LONGEST_TEXT:
            return None
        found = self._texts.find((text, database, id(settings)))
        if found is not None:
            (known,) = found
            return None if known is None or known.settings is not settings else _answer(known, (), catalog)
        shape = shape_of(text)
        if shape is None:
            return None
        of_shape = self._shapes.find((shape.key, database, id(settings)))
        if of_shape is None:
            return None
        fixed = tuple(shape.literals[slot] for slot in of_shape[0].fixed)
        found = of_shape[0].plans.find(fixed)
        known = found[0] if found is not None else None
        return None if known is None or known.settings is not settings else _answer(known, shape.literals, catalog)

    def consider(
        self, text: str, parsed: ParsedStatement, settings: Settings, database: str, catalog: RelationCatalog
    ) -> None:
        """Told of a SELECT that ran, with nothing but these: the second of its text or shape is looked at. Takes as
        long as compiling it."""
        if len(text) > LONGEST_TEXT or self._texts.find((text, database, id(settings))) is not None:
            return
        shape = shape_of(text)
        key = (shape.key if shape else text, database, id(settings))
        if self._seen.find(key) is None:
            self._seen.keep(key, None)
            return
        try:
            self._look_at(text, shape, parsed, settings, database, catalog)
        except PandoError:
            self._texts.keep((text, database, id(settings)), None)

    def _look_at(
        self,
        text: str,
        shape: Shape | None,
        parsed: ParsedStatement,
        settings: Settings,
        database: str,
        catalog: RelationCatalog,
    ) -> None:
        key = (text, database, id(settings))
        statement = parsed.statement
        assert isinstance(statement, SelectQuery)
        select = rewrite(parse_query(statement.query, Guard(text=statement.query)), {})
        if not is_plain(select) or not isinstance(select, Select):
            self._texts.keep(key, None)
            return
        tree, plan = self._engine.plan(statement.query, catalog, settings, database)
        known = _Known(settings, parsed.format, plan, storage_schema(plan.columns))
        if select.source is None and not plan.scans:
            known.answer = self._computed(statement.query, known, database, catalog)
            self._texts.keep(key, known if known.answer is not None else None)
            return
        is_direct = (plan.stored or plan.totals) and len(plan.columns) <= _MOST_COLUMNS
        if not is_direct or not depends_on_text_alone(tree, plan):
            self._texts.keep(key, None)
            return
        known.plan = plan.kept()
        bound = None if shape is None else _bound(shape, parsed, plan)
        if bound is None or shape is None:
            self._texts.keep(key, known)
            return
        known.bound = bound
        fixed = tuple(slot for slot in range(len(shape.literals)) if slot not in bound.slots)
        shape_key = (shape.key, database, id(settings))
        of_shape = self._shapes.find(shape_key)
        if of_shape is None or of_shape[0].fixed != fixed:
            of_shape = (_KnownShape(fixed),)
            self._shapes.keep(shape_key, of_shape[0])
        of_shape[0].plans.keep(tuple(shape.literals[slot] for slot in fixed), known)

    def _computed(self, query: str, known: _Known, database: str, catalog: RelationCatalog) -> ShortResult | None:
        """What the text alone decides."""
        if len(known.plan.columns) > _MOST_COLUMNS:
            return None
        result = self._engine.select(query, catalog=catalog, settings=known.settings, database=database,
                                     constants={"timezone": known.settings.timezone})  # fmt: skip
        batches = []
        rows = size = 0
        try:
            for batch in result.batches:
                rows += batch.num_rows
                size += batch.nbytes
                if rows > _MOST_ROWS or size > _MOST_BYTES:
                    return None
                batches.append(batch)
        finally:
            result.close()
        return ShortResult(result.columns, tuple(batches), result.statistics, known.format)


def _bound(shape: Shape, parsed: ParsedStatement, plan: Plan) -> BoundLiterals | None:
    """Which literals of the shape are parameters of the plan's conditions."""
    marks = marked_literals(shape.literals)
    marked = parse_statement(shape.with_literals(marks))
    statement = marked.statement
    if not isinstance(statement, SelectQuery) or statement.settings or marked.format != parsed.format:
        return None
    tree = parse_query(statement.query, Guard(text=statement.query))
    (planned,) = plan.scans
    if not isinstance(tree, Select) or planned.analysis is None or planned.description is None:
        return None
    return bound_literals(tree, marks, shape.literals, planned.analysis, planned.description.schema)


def _answer(known: _Known, literals: Sequence[str], catalog: RelationCatalog) -> ShortResult | None:
    if known.answer is not None:
        return known.answer
    (planned,) = known.plan.scans
    try:
        relation = catalog.relation(planned.scan.source.database, planned.scan.source.table)
        if not is_parts_relation(relation) or relation.description is not planned.description:
            return None
        assert planned.analysis is not None
        analysis = planned.analysis.fresh() if known.bound is None else known.bound.analysis_of(literals)
        return None if analysis is None else _read(known, analysis, relation)
    except PandoError:
        return None  # whoever runs it again tells what is wrong


def _read(known: _Known, analysis: Analysis, relation: PartsRelation) -> ShortResult | None:
    plan = known.plan
    stored = plan.stored
    names = read_columns(plan.totals) if stored is None else stored.names
    most_rows = _MOST_ROWS if stored is not None and stored.limit is None else _MOST_SUMMED_ROWS
    snapshot = relation.snapshot()
    try:
        parts = snapshot.parts
        if len(parts) > _MOST_PARTS:
            return None
        if analysis.interval is None and sum(part.marks for part in parts) > _MOST_MARKS_OF_PARTS:
            return None
        pruned = analysis.prune(parts)
        if not _is_short(pruned, names):
            return None
        statistics = ReadStatistics(parts=len(pruned), marks=sum(item.marks for item in pruned))
        found = find_rows(pruned, None if stored is None else stored.first_rows, statistics, most_rows)
        if found is None:
            return None
        read: list[list[pa.Array]] = []
        for part, pieces in found if names else ():
            few = few_rows(part, names, pieces, _MOST_SUMMED_ROWS)
            if few is None:
                return None
            read += (arrays for arrays, _ in few)
    finally:
        snapshot.release()
    rows = count_rows(found)
    statistics.read_rows += rows
    statistics.read_bytes += sum(array.nbytes for arrays in read for array in arrays)
    if stored is None:
        return ShortResult(plan.columns, (total_row(plan.totals, rows, read, known.schema),), statistics, known.format)
    batches = tuple(pa.RecordBatch.from_arrays(arrays, schema=known.schema) for arrays in stored.arranged(read))
    if sum(batch.nbytes for batch in batches) > _MOST_BYTES or sum(batch.num_rows for batch in batches) > _MOST_ROWS:
        return None
    return ShortResult(plan.columns, batches, statistics, known.format)


def _is_short(pruned: Sequence[PrunedPart], names: Sequence[str]) -> bool:
    """Whether what may have to be looked at is little, whatever the rows are: nobody waits for it longer than 50 ms."""
    if sum(item.marks for item in pruned) > _MOST_MARKS or sum(item.rows for item in pruned) > _MOST_ROWS_LOOKED_AT:
        return False
    undecoded = 0
    for item in pruned:
        if not item.is_whole:
            return False
        looked_at = list({*names, *(item.row_filter.names if item.row_filter is not None else ())})
        for chosen in rows_of(item.all_ranges, item.part.rows, item.part.granularity):
            undecoded += item.part.undecoded_bytes(looked_at, chosen)
    return undecoded <= _MOST_UNDECODED_BYTES
