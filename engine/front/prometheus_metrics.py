"""``/metrics`` for Prometheus: counters of the server's queries, and gauges read from the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from engine.front.link_metrics import collect_link_metrics
from engine.front.query_counts import QueryCounts, Row, get_bucket_column, get_column, get_error_column
from parts.common.errors import PandoError

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

_QUERIES, _INSERTS, _RUNNING, _SECONDS = map(get_column, ("queries", "inserts", "running", "seconds"))
_READ_ROWS, _WRITTEN_ROWS = get_column("read_rows"), get_column("written_rows")
_DUPLICATES = get_column("deduplicated_blocks")


class Metrics:
    """Writes one process's row of ``counts``, and renders the metrics of all processes.

    Without ``counts`` they are this process's alone.
    """

    def __init__(self, engine: StatementRunner, counts: QueryCounts | None = None, row: int = 0) -> None:
        self._counts = counts or QueryCounts()
        self._row = self._counts.get_row(row)
        engine.query_totals = self._counts.sum_rows
        self._row[_RUNNING] = 0  # resets what a former process left as running
        self._monotonic = engine.services.monotonic
        self._registry = CollectorRegistry()
        self._registry.register(_QueryCounters(self._counts))
        self._registry.register(_EngineGauges(engine))

    def track_running(self) -> _RunningQuery:
        """Returns a context manager that counts and times a query."""
        return _RunningQuery(self._row, self._monotonic)

    def count_answer(self, seconds: float, read_rows: int) -> None:
        """Counts a query that was answered at once."""
        row = self._row
        row[_QUERIES] += 1
        row[_SECONDS] += seconds
        row[get_bucket_column(seconds)] += 1
        row[_READ_ROWS] += read_rows

    def count_failure(self, error: PandoError) -> None:
        """Counts a failed query."""
        self._row[get_error_column(error.name)] += 1

    def count_finished(self, counts: dict[str, int]) -> None:
        """Adds the counts of a finished query."""
        row = self._row
        row[_READ_ROWS] += counts["read_rows"]
        row[_WRITTEN_ROWS] += counts["written_rows"]
        row[_DUPLICATES] += counts["deduplicated_blocks"]
        if counts["written_rows"] or counts["deduplicated_blocks"]:
            row[_INSERTS] += 1

    def render(self) -> bytes:
        """Returns the metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class _RunningQuery:
    def __init__(self, row: Row, monotonic: Callable[[], float]) -> None:
        self._row = row
        self._monotonic = monotonic

    def __enter__(self) -> None:
        self._started = self._monotonic()
        self._row[_QUERIES] += 1
        self._row[_RUNNING] += 1

    def __exit__(self, *_: object) -> None:
        seconds = self._monotonic() - self._started
        self._row[_RUNNING] -= 1
        self._row[_SECONDS] += seconds
        self._row[get_bucket_column(seconds)] += 1


class _QueryCounters:
    """The counters of queries, collected at each scrape."""

    def __init__(self, counts: QueryCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yields the counters."""
        totals = self._counts.sum_rows()
        yield CounterMetricFamily("pando_queries", "Queries over HTTP", totals["queries"])
        yield CounterMetricFamily("pando_inserts", "Queries that wrote rows or met duplicates", totals["inserts"])
        errors = CounterMetricFamily("pando_errors", "Failed queries by error", labels=["name"])
        for name, count in totals.errors.items():
            errors.add_metric([name], count)
        yield errors
        yield GaugeMetricFamily("pando_queries_running", "Queries running now", totals["running"])
        yield HistogramMetricFamily("pando_query_seconds", "Time of queries", totals.buckets, totals["seconds"])
        yield CounterMetricFamily("pando_read_rows", "Rows read by queries", totals["read_rows"])
        yield CounterMetricFamily("pando_written_rows", "Rows written by inserts", totals["written_rows"])
        yield CounterMetricFamily(
            "pando_deduplicated_blocks", "Inserted blocks dropped as duplicates", totals["deduplicated_blocks"]
        )


class _EngineGauges:
    """The gauges of the engine, collected at each scrape."""

    def __init__(self, engine: StatementRunner) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yields the gauges."""
        delay = GaugeMetricFamily("pando_replica_delay_seconds", "Replication lag of a table", labels=["table"])
        readonly = GaugeMetricFamily("pando_replica_problem", "1 if a replica cannot take part now", labels=["table"])
        for status in self._engine.replicas_status():
            delay.add_metric([status.table], status.delay_seconds)
            readonly.add_metric([status.table], float(status.problem is not None))
        yield delay
        yield readonly
        checks = self._engine.services.checks
        for name, what, count in (
            ("pando_checked_parts", "Parts that the background check has read", checks.parts),
            ("pando_checked_bytes", "Bytes that the background check has read", checks.read_bytes),
            ("pando_broken_parts_found", "Broken parts that the background check has found", checks.broken_parts),
        ):
            yield CounterMetricFamily(name, what, count)
        yield from collect_link_metrics(self._engine.link_statuses())
