"""Plans of queries that may be short: they find few rows and compute the result from these.

Stored values are sorted or added in Arrow (``sql.run.stored_row_results``, ``sql.run.simple_aggregates``). DuckDB
computes anything else from an array of the rows, with a prepared statement (``sql.run.duckdb.statement_pool``), in half
a millisecond. The statement does not contain the literals that choose the rows, so it serves all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parts.read.batch_plan import get_row_ranges
from parts.types import DataType
from sql.aggregates.combinators import is_aggregate_call
from sql.compile.names.scope import VIRTUAL_COLUMNS
from sql.compile.passes.pipeline import run_passes
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.query_limits import QueryGuard
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import ParsedStatement, SelectQuery
from sql.grammar.syntax_tree import NamedTable, Select, walk
from sql.pruning.pruned_parts import PrunedPart
from sql.relations import PartsRelation, RelationCatalog, is_parts_relation
from sql.run.duckdb import database
from sql.run.duckdb.statement_pool import STATEMENT_POOL
from sql.run.query_engine import QueryEngine
from sql.run.query_plans import Plan, depends_on_text_alone
from sql.run.scans.read_limits import NO_LIMITS, ReadLimits
from sql.run.scans.scan_streams import BufferedScan, ReadStatistics
from sql.run.short_queries.bound_literals import BoundLiterals, find_slot, split_query
from sql.run.short_queries.statement_shapes import StatementShape, make_marker_literals
from sql.run.simple_aggregates import compute_aggregate_row, list_read_columns
from sql.run.stored_row_results import StoredRowResult, count_rows, find_rows, read_few_rows
from sql.settings.supported_settings import (
    Settings,
)
from sql.typing.duckdb.storage_arrays import storage_batch, storage_schema

MAX_RESULT_COLUMNS = 64
MAX_RESULT_ROWS = 4_096
MAX_RESULT_BYTES = 256 << 10
_MOST_PARTS = 64
_MOST_MARKS_OF_PARTS = 1 << 15
"""Marks of all parts that may be tested one by one, without bisection."""
_MOST_PIECES = 32
_MOST_ROWS_READ = 65_536


@dataclass(frozen=True, slots=True)
class ShortQueryLimits:
    """Limits of the marks and rows to test until the rows are known, and of the bytes to decode."""

    marks: int
    rows: int
    undecoded_bytes: int


EVENT_LOOP_LIMITS = ShortQueryLimits(32, 1 << 18, 8 << 20)
"""Limits on the event loop, where all connections wait: about 50 ms."""
THREAD_LIMITS = ShortQueryLimits(128, 1 << 19, 48 << 20)
"""Limits on a thread of its own. With more to do, DuckDB's threads are faster."""


@dataclass(frozen=True, slots=True)
class ShortResult:
    """The result of a short query; ``format`` is the statement's FORMAT."""

    columns: tuple[tuple[str, DataType], ...]
    batches: Sequence[pa.RecordBatch]
    statistics: ReadStatistics
    format: str | None = None


@dataclass(frozen=True, slots=True)
class ShortPlan:
    """A plan that finds at most ``most_rows`` rows; with ``bound`` the query's literals choose them."""

    plan: Plan
    format: str | None
    most_rows: int
    schema: pa.Schema
    limits: ReadLimits = NO_LIMITS
    bound: BoundLiterals | None = None

    def run(
        self, literals: Sequence[str], catalog: RelationCatalog, limits: ShortQueryLimits = EVENT_LOOP_LIMITS
    ) -> ShortResult | None:
        """Runs the query; returns ``None`` if it is not short.

        Raises what the catalog and the parts raise.
        """
        (planned,) = self.plan.scans
        relation = self.relation(catalog)
        if relation is None:
            return None
        assert planned.analysis is not None
        analysis = planned.analysis.copy_unused() if self.bound is None else self.bound.bind_analysis(literals)
        if analysis is None:
            return None
        stored = self._bind_limit(literals)
        names = self._names
        self.limits.check_columns(len(names))
        read: list[list[pa.Array]] = []
        snapshot = relation.snapshot()
        try:
            parts = snapshot.parts
            if len(parts) > _MOST_PARTS:
                return None
            if analysis.interval is None and sum(part.marks for part in parts) > _MOST_MARKS_OF_PARTS:
                return None
            pruned = analysis.prune(parts)
            if not _is_short(pruned, names, limits):
                return None
            self.limits.check_partitions(relation.description, pruned)
            statistics = ReadStatistics(parts=len(pruned), marks=sum(item.marks for item in pruned))
            is_counted = bool(self.plan.simple_aggregates) and not names
            most_rows = sys.maxsize if is_counted else self.most_rows
            found = find_rows(pruned, None if stored is None else stored.first_rows, statistics, most_rows)
            if found is None:
                return None
            undecoded = 0
            for part, pieces in found if names else ():
                undecoded += sum(part.count_undecoded_bytes(names, piece.rows) for piece in pieces[:_MOST_PIECES])
                few = (
                    read_few_rows(part, names, pieces, _MOST_ROWS_READ) if undecoded <= limits.undecoded_bytes else None
                )
                if few is None:
                    return None
                read += (arrays for arrays, _ in few)
        finally:
            snapshot.release()
        rows = count_rows(found)
        statistics.read_rows += rows
        statistics.read_bytes += sum(array.nbytes for arrays in read for array in arrays)
        if self.limits.is_passed(statistics.read_rows, statistics.read_bytes):
            return None
        batches = self._compute_batches(stored, read, rows)
        if (
            sum(batch.nbytes for batch in batches) > MAX_RESULT_BYTES
            or sum(batch.num_rows for batch in batches) > MAX_RESULT_ROWS
        ):
            return None
        return ShortResult(self.plan.columns, batches, statistics, self.format)

    def relation(self, catalog: RelationCatalog) -> PartsRelation | None:
        """Returns the table that it reads; ``None`` if another one has its name now.

        Raises what the catalog raises.
        """
        (planned,) = self.plan.scans
        relation = catalog.relation(planned.scan.source.database, planned.scan.source.table)
        return relation if is_parts_relation(relation) and relation.description is planned.description else None

    @property
    def _names(self) -> Sequence[str]:
        """The columns to read."""
        if self.plan.stored_row_result is not None:
            return self.plan.stored_row_result.names
        return (
            list_read_columns(self.plan.simple_aggregates)
            if self.plan.simple_aggregates
            else tuple(self.plan.scans[0].scan.source.used)
        )

    def _bind_limit(self, literals: Sequence[str]) -> StoredRowResult | None:
        stored, bound = self.plan.stored_row_result, self.bound
        if stored is not None and bound is not None and (bound.limit is not None or bound.offset is not None):
            limit = stored.limit if bound.limit is None else int(literals[bound.limit])
            offset = stored.offset if bound.offset is None else int(literals[bound.offset])
            return replace(stored, limit=limit, offset=offset)
        return stored

    def _compute_batches(
        self, stored: StoredRowResult | None, read: list[list[pa.Array]], rows: int
    ) -> list[pa.RecordBatch]:
        plan = self.plan
        if stored is not None:
            return [pa.RecordBatch.from_arrays(arrays, schema=self.schema) for arrays in stored.arrange(read)]
        if plan.simple_aggregates:
            return [compute_aggregate_row(plan.simple_aggregates, rows, read, self.schema)]
        scan = plan.scans[0].scan
        lease = None
        try:
            lease = STATEMENT_POOL.lease(plan.sql, {f"s{scan.source.number}": BufferedScan(scan, read, rows)})
            return [storage_batch(batch, plan.columns) for batch in lease.batches(_MOST_ROWS_READ) if batch.num_rows]
        except Exception as error:
            raise database.translate_error(error) from error
        finally:
            if lease is not None:
                lease.close()


def _is_short(pruned: Sequence[PrunedPart], names: Sequence[str], limits: ShortQueryLimits) -> bool:
    """Returns whether few marks, rows and bytes must be tested until the rows are known."""
    marks = rows = undecoded = 0
    for item in pruned:
        if not item.is_whole:
            return False
        ranges = item.all_ranges if names else item.uncertain_ranges
        marks += sum(chosen.end - chosen.begin for chosen in ranges)
        rows += sum(chosen.rows for chosen in get_row_ranges(ranges, item.part.rows, item.part.granularity))
        if marks > limits.marks or rows > limits.rows:
            return False
        looked_at = item.row_filter.names if item.row_filter is not None else ()
        for chosen in get_row_ranges(item.uncertain_ranges, item.part.rows, item.part.granularity):
            undecoded += item.part.count_undecoded_bytes(looked_at, chosen)
    return undecoded <= limits.undecoded_bytes


# Planning -------------------------------------------------------------------------------------------------------------


def make_short_plan(
    tree: Select,
    parsed: ParsedStatement,
    shape: StatementShape | None,
    engine: QueryEngine,
    catalog: RelationCatalog,
    settings: Settings,
    database: str,
) -> ShortPlan | None:
    """Makes the plan of a plain, rewritten query; ``None`` if it cannot be short.

    Raises what compiling raises.
    """
    plan = engine.plan(tree, catalog, settings, database)
    if len(plan.columns) > MAX_RESULT_COLUMNS or len(plan.scans) != 1 or not depends_on_text_alone(tree, plan):
        return None
    is_direct = plan.stored_row_result is not None or bool(plan.simple_aggregates)
    most_rows = _MOST_ROWS_READ if _has_small_result(tree) else MAX_RESULT_ROWS
    schema = storage_schema(plan.columns)
    reading = ReadLimits.of(settings)
    direct = ShortPlan(plan.without_tables(), parsed.format, most_rows, schema, reading) if is_direct else None
    (planned,) = plan.scans
    marks = [] if shape is None else make_marker_literals(shape.literals)
    marked = None if shape is None else _parse_marked(shape, marks, parsed)
    if shape is None or marked is None or planned.description is None:
        return direct
    description = planned.description
    if not isinstance(tree.source, NamedTable) or planned.scan.final is not None:
        return direct
    split = split_query(marked, marks, tree, shape.literals, tree.source, description, settings.timezone)
    if split is None:
        return direct
    (finding,) = engine.plan(split.finding, catalog, settings, database).scans
    if finding.analysis is None or finding.description is not description:
        return direct
    bound = BoundLiterals(split.terms, finding.analysis)
    if not bound.agrees_with_plan(shape.literals):
        return direct
    if direct is not None and split.is_all:
        limits = (
            (find_slot(marked.limit, marks), find_slot(marked.offset, marks))
            if plan.stored_row_result
            else (None, None)
        )
        return replace(direct, bound=replace(bound, limit=limits[0], offset=limits[1]))
    rest = replace(engine.plan(split.rest, catalog, settings, database), stored_row_result=None, simple_aggregates=())
    (planned,) = rest.scans
    if rest.is_guarded or planned.description is not description or rest.columns != plan.columns:
        return direct
    if not set(VIRTUAL_COLUMNS).isdisjoint(planned.scan.source.used):
        return direct
    return ShortPlan(rest.without_tables(), parsed.format, most_rows, schema, reading, bound)


def _has_small_result(tree: Select) -> bool:
    """Returns whether the result is small however many rows are read."""
    return tree.limit is not None or bool(tree.group_by) or any(map(is_aggregate_call, walk(tree)))


def _parse_marked(shape: StatementShape, marks: list[str], parsed: ParsedStatement) -> Select | None:
    """Parses the query with the marks in place of its literals."""
    marked = parse_statement(shape.with_literals(marks))
    statement = marked.statement
    if not isinstance(statement, SelectQuery) or statement.settings or marked.format != parsed.format:
        return None
    tree = run_passes(parse_query(statement.query, QueryGuard(text=statement.query)), {})
    return tree if isinstance(tree, Select) else None
