"""Runs queries: compiles, prunes, feeds the scans to DuckDB, streams the result in storage types.

Many threads may use a :class:`QueryEngine`; every query has its own cursor, snapshot and statistics. Nothing is read
before the first batch is asked for, and closing early stops the readers.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from parts.common.errors import CancelledError, ConflictError, PandoError
from parts.common.query_status import QueryStatus
from parts.types import DataType, StringType
from sql.compile.compiled_query import CompiledQuery
from sql.compile.passes.pipeline import run_passes
from sql.compile.passes.view_expansion import expand_views
from sql.compile.query_compiler import QueryCompiler
from sql.functions import memory_guards
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.query_limits import MAX_LEVELS, QueryGuard, QueryLimits, too_deep_recursion
from sql.grammar.syntax_tree import Query, Select
from sql.pruning.pruned_parts import PrunedPart
from sql.relations import ArrowRelation, PartsSnapshot, RelationCatalog, is_parts_relation
from sql.run.duckdb import database
from sql.run.duckdb.constant_folding import fold_constant
from sql.run.duckdb.statement_pool import STATEMENT_POOL, LeasedStatement
from sql.run.explain import write_explain_lines
from sql.run.query_plans import Plan, PlanCache, ScanPlan, make_plan, make_plan_key
from sql.run.scans.read_limits import ReadLimits
from sql.run.scans.scan_streams import ReadStatistics, ScanState, ScanStream
from sql.run.simple_aggregates import MAX_AGGREGATED_ROWS, compute_aggregate_row, list_read_columns
from sql.run.stored_row_results import MAX_SORTED_ROWS, FoundRows, count_rows, find_rows, read_rows
from sql.run.table_lookups import TableLookups
from sql.run.trivial_count import add_to_count, split_off_certain_rows
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from sql.typing.duckdb.storage_arrays import storage_batch, storage_schema

_BATCH_ROWS = 65536
_BATCH_BYTES = 32 << 20
_VECTOR_ROWS = 2048


@dataclass
class SelectResult:
    """A running query. Iterate ``batches`` once; ``close`` when done (twice is fine)."""

    columns: tuple[tuple[str, DataType], ...]
    batches: Iterator[pa.RecordBatch]
    statistics: ReadStatistics
    _cancel: Callable[[], None] = field(default=lambda: None, repr=False)
    _close: Callable[[], None] = field(default=lambda: None, repr=False)

    def cancel(self) -> None:
        """Stops the query, from any thread."""
        self._cancel()

    def close(self) -> None:
        """Stops the readers and releases the snapshots."""
        self._close()

    def read_all(self) -> pa.Table:
        """Returns the whole result as a block, and closes it."""
        try:
            return pa.Table.from_batches(list(self.batches), storage_schema(self.columns))
        finally:
            self.close()


class QueryEngine:
    """Executes ClickHouse queries over relations."""

    def __init__(self) -> None:
        self._plans = PlanCache()

    def select(
        self,
        query: str,
        *,
        catalog: RelationCatalog,
        settings: Settings = DEFAULT_SETTINGS,
        database: str = "default",
        parameters: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        status: QueryStatus | None = None,
    ) -> SelectResult:
        """Starts a query.

        Errors of the text are raised here, errors of the data while the batches are read. ``status`` can end the query
        at any point (394, 159, 241).
        """
        key = make_plan_key(query, database, (constants or {}).get("timezone", "UTC"), settings, parameters)

        def new_plan(with_codes: bool, with_groups: bool) -> Plan:
            lookups = TableLookups(catalog)
            tree, compiler, compiled = self._compile(
                query, lookups, settings, database, parameters, constants, status, with_codes, with_groups
            )
            tree = compiler.tree or tree
            plan = make_plan(tree, compiler.scans, compiled, settings)
            self._plans.keep(key, tree, plan, lookups)
            return plan

        plan = self._plans.find(key, catalog) or new_plan(True, True)
        run = _QueryRun(plan, settings, new_plan, status or QueryStatus())
        return SelectResult(plan.columns, run.batches(), run.state.statistics, run.cancel, run.close)

    def plan(self, tree: Query, catalog: RelationCatalog, settings: Settings, database: str) -> Plan:
        """Plans a rewritten query without constants of a session."""
        guard = QueryGuard(QueryLimits.of(settings))
        constants = {"timezone": settings.timezone}
        compiler, compiled = _compile_tree(tree, TableLookups(catalog), settings, database, constants, guard)
        return make_plan(tree, compiler.scans, compiled, settings)

    def describe(
        self,
        query: str,
        *,
        catalog: RelationCatalog,
        settings: Settings = DEFAULT_SETTINGS,
        database: str = "default",
        parameters: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        status: QueryStatus | None = None,
    ) -> tuple[tuple[str, DataType], ...]:
        """Returns names and types of the result's columns."""
        return self._compile(query, TableLookups(catalog), settings, database, parameters, constants, status)[2].columns

    def list_columns_read(
        self,
        query: str,
        relation: ArrowRelation,
        *,
        catalog: RelationCatalog,
        settings: Settings = DEFAULT_SETTINGS,
        database: str = "default",
        parameters: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        status: QueryStatus | None = None,
    ) -> set[str]:
        """Returns the columns of a relation that a query reads."""
        scans = self._compile(query, TableLookups(catalog), settings, database, parameters, constants, status)[1].scans
        return {name for scan in scans if scan.source.relation is relation for name in scan.source.used}

    def explain(
        self,
        query: str,
        kind: str,
        options: Mapping[str, object],
        *,
        catalog: RelationCatalog,
        settings: Settings = DEFAULT_SETTINGS,
        database: str = "default",
        parameters: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        status: QueryStatus | None = None,
    ) -> SelectResult:
        """Runs EXPLAIN: lines of text in a column ``explain``."""
        _, compiler, compiled = self._compile(
            query, TableLookups(catalog), settings, database, parameters, constants, status
        )
        lines = write_explain_lines(query, kind, options, compiler, compiled)
        columns: tuple[tuple[str, DataType], ...] = (("explain", StringType()),)
        batch = pa.RecordBatch.from_arrays(
            [pa.array(lines, pa.string())], schema=pa.schema([pa.field("explain", pa.string(), nullable=False)])
        )
        return SelectResult(columns, iter([batch]), ReadStatistics())

    def _compile(
        self,
        query: str,
        catalog: TableLookups,
        settings: Settings,
        database: str,
        parameters: Mapping[str, str] | None,
        constants: Mapping[str, str] | None,
        status: QueryStatus | None,
        with_codes: bool = False,
        with_groups: bool = False,
    ) -> tuple[Query, QueryCompiler, CompiledQuery]:
        guard = QueryGuard(QueryLimits.of(settings), status, query)
        try:
            tree = run_passes(expand_views(parse_query(query, guard), catalog, guard), parameters or {})
            return tree, *_compile_tree(
                tree, catalog, settings, database, dict(constants or {}), guard, with_codes, with_groups
            )
        except RecursionError:
            raise too_deep_recursion(MAX_LEVELS) from None


def _compile_tree(
    tree: Query,
    catalog: RelationCatalog,
    settings: Settings,
    database: str,
    constants: dict[str, str],
    guard: QueryGuard,
    with_codes: bool = False,
    with_groups: bool = False,
) -> tuple[QueryCompiler, CompiledQuery]:
    session = Environment(constants.get("timezone", "UTC"), constants, time.time(), settings, catalog.positions)
    compiler = QueryCompiler(catalog, session, database, settings, guard, constant=fold_constant)
    compiler.outermost = tree if with_codes and isinstance(tree, Select) else None
    compiler.grouped_in_scan = tree if with_groups and isinstance(tree, Select) else None
    compiler.tree = tree
    compiled = compiler.compile(tree)
    guard.check_size(compiled.sql.size)
    return compiler, compiled


class _QueryRun:
    """One execution: snapshots, statement, streams. ``close`` releases all; the last batch closes too."""

    def __init__(
        self, plan: Plan, settings: Settings, new_plan: Callable[[bool, bool], Plan], status: QueryStatus
    ) -> None:
        self.plan = plan
        self._new_plan = new_plan
        self._with_codes = self._with_groups = True
        self._status = status
        self.state = ScanState(status=status, limits=ReadLimits.of(settings))
        self._max_threads = settings.max_threads
        self._snapshots: list[PartsSnapshot] = []
        self._lock = threading.Lock()  # a returned statement must not be interrupted
        self._lease: LeasedStatement | None = None
        self._closed = False
        self._on_close = ExitStack()
        self._on_close.callback(status.register_interrupt(self._interrupt))

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._result_with_retries()
        except GeneratorExit:
            raise
        except Exception as error:
            raise self._translate_error(error) from (None if isinstance(error, PandoError) else error)
        finally:
            self.close()

    def _result_with_retries(self) -> Iterator[pa.RecordBatch]:
        """Yields the result; starts again without groups, or codes, if the rows do not fit them."""
        for may_begin_anew in (True, True, False):
            is_begun = False
            try:
                for batch in self._run_plan():
                    is_begun = True
                    yield batch
                return
            except Exception:
                if (
                    not (self.state.met_ungroupable_rows or self.state.met_long_string)
                    or is_begun
                    or not may_begin_anew
                ):
                    raise
            self._forget_run()

    def _forget_run(self) -> None:
        with self._lock:
            if self._closed:
                raise CancelledError()
            lease, self._lease = self._lease, None
        if lease is not None:
            lease.close()
        statistics = self.state.statistics
        statistics.read_rows = statistics.read_bytes = statistics.parts = statistics.marks = 0
        self._with_codes &= not self.state.met_long_string
        self._with_groups &= not self.state.met_ungroupable_rows
        self.state.met_ungroupable_rows = self.state.met_long_string = False
        columns, self.plan = self.plan.columns, self._new_plan(self._with_codes, self._with_groups)
        if self.plan.columns != columns:
            raise ConflictError("ABORTED", "The table was replaced while the query read it: try again")

    def _run_plan(self) -> Iterator[pa.RecordBatch]:
        if self.state.cancelled:
            raise CancelledError()
        columns = self.plan.columns
        parts = [self._prune(planned) for planned in self.plan.scans]
        if self.plan.stored_row_result is not None or (
            list_read_columns(self.plan.simple_aggregates) and not self.state.limits.may_break
        ):
            found = self._find_rows(parts[0] or [])
            if found is not None:
                yield from self._read_stored(found, self._batch_rows(parts))
                return
        if not self.plan.counts_rows:
            yield from (storage_batch(batch, columns) for batch in self._run_statement(parts) if batch.num_rows)
            return
        (only,) = parts
        certain, left = split_off_certain_rows(only or [])
        if left:
            batches = (storage_batch(batch, columns) for batch in self._run_statement([left]) if batch.num_rows)
            yield from (add_to_count(batch, certain) for batch in batches)
        else:
            yield pa.RecordBatch.from_arrays([pa.array([certain], pa.uint64())], schema=storage_schema(columns))

    def _find_rows(self, parts: Sequence[PrunedPart]) -> list[FoundRows] | None:
        stored = self.plan.stored_row_result
        most_rows = MAX_AGGREGATED_ROWS if stored is None else sys.maxsize if stored.is_as_read else MAX_SORTED_ROWS
        first_rows = None if stored is None else stored.first_rows
        return find_rows(parts, first_rows, self.state.statistics, most_rows)

    def _read_stored(self, found: Sequence[FoundRows], batch_rows: int) -> Iterator[pa.RecordBatch]:
        schema = storage_schema(self.plan.columns)
        stored, totals = self.plan.stored_row_result, self.plan.simple_aggregates
        names = list_read_columns(totals) if stored is None else stored.names
        self.state.limits.check_columns(len(names))
        read = read_rows(names, found, self.state, batch_rows, self._max_threads)
        if stored is None:
            yield compute_aggregate_row(totals, count_rows(found), read, schema)
        else:
            yield from (pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in stored.arrange(read))
        if self.state.cancelled:
            raise CancelledError()

    def _run_statement(self, parts: Sequence[Sequence[PrunedPart] | None]) -> Iterator[pa.RecordBatch]:
        """Yields the result in DuckDB's types; ``parts`` are those of every scan."""
        streams = {}
        for planned, chosen in zip(self.plan.scans, parts, strict=True):
            name = f"s{planned.scan.source.number}"
            streams[name] = ScanStream(planned.scan, chosen, self.state, self._max_threads, self.plan.first_rows)
            if planned.scan.coded or planned.scan.parts:
                streams[name].begin()
        self._status.check()
        text = self.plan.sql
        if self.plan.is_guarded:
            text = self._on_close.enter_context(memory_guards.bind_running_query(text, self._status))
        lease = STATEMENT_POOL.lease(text, streams, is_kept=not self.plan.is_guarded)
        with self._lock:
            if self._closed or self.state.cancelled:
                lease.close()
                raise CancelledError()
            self._lease = lease
        for batch in lease.batches(self._batch_rows(parts)):
            self._status.check()
            yield batch.select(range(len(self.plan.columns)))

    def _batch_rows(self, parts: Sequence[Sequence[PrunedPart] | None]) -> int:
        """Returns the rows of a result batch, fewer where the longest rows, read or made, are big."""
        if self.plan.is_guarded:
            return _VECTOR_ROWS
        stored = [item.part for chosen in parts for item in chosen or () if item.part.rows]
        row_bytes = max((part.data_uncompressed_bytes // part.rows for part in stored), default=0)
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(row_bytes, 1)))

    def _prune(self, planned: ScanPlan) -> list[PrunedPart] | None:
        relation = planned.scan.source.relation
        if planned.analysis is None:
            return None
        assert is_parts_relation(relation)
        snapshot = relation.snapshot()
        self._snapshots.append(snapshot)
        kept = planned.analysis.copy_unused().prune(snapshot.parts)
        self._status.check()
        statistics = self.state.statistics
        statistics.parts += len(kept)
        statistics.marks += sum(item.marks for item in kept)
        left = split_off_certain_rows(kept)[1] if self.plan.counts_rows else kept
        # The first rows may be enough. Then the limit is checked while reading.
        if not (self.plan.first_rows and sum(item.certain_rows for item in left) == sum(item.rows for item in left)):
            self.state.limits.check_rows(sum(item.rows for item in left))
        self.state.limits.check_partitions(relation.description, left)
        return kept

    def _translate_error(self, error: Exception) -> PandoError:
        if self.state.error is not None:
            return self.state.error
        return database.translate_error(error)

    def cancel(self) -> None:
        self.state.cancelled = True
        self._interrupt()

    def _interrupt(self) -> None:
        with self._lock:
            if self._lease is not None and not self._closed:
                self._lease.interrupt()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            lease = self._lease
        self.state.cancelled = True
        self._on_close.close()
        if lease is not None:
            lease.close()
        for snapshot in self._snapshots:
            snapshot.release()
