"""``/metrics`` for Prometheus: counters of this server's queries, and gauges read from the engine when asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from parts.errors import PandoError

if TYPE_CHECKING:
    from engine.engine import Engine

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60)


class Metrics:
    """The counters of one server, apart from any other in the process."""

    def __init__(self, engine: Engine) -> None:
        registry = self._registry = CollectorRegistry()
        self._queries = Counter("pando_queries", "Queries over HTTP", registry=registry)
        self._inserts = Counter("pando_inserts", "Queries that wrote rows or met duplicates", registry=registry)
        self._errors = Counter("pando_errors", "Failed queries by error", ["name"], registry=registry)
        self._running = Gauge("pando_queries_running", "Queries running now", registry=registry)
        self._seconds = Histogram("pando_query_seconds", "Time of queries", buckets=_SECONDS, registry=registry)
        self._read_rows = Counter("pando_read_rows", "Rows read by queries", registry=registry)
        self._written_rows = Counter("pando_written_rows", "Rows written by inserts", registry=registry)
        self._duplicates = Counter(
            "pando_deduplicated_blocks", "Inserted blocks dropped as duplicates", registry=registry
        )
        registry.register(_EngineGauges(engine))

    @contextmanager
    def running(self) -> Iterator[None]:
        self._queries.inc()
        with self._running.track_inprogress(), self._seconds.time():
            yield

    def failed(self, error: PandoError) -> None:
        self._errors.labels(error.name).inc()

    def finished(self, counts: dict[str, int]) -> None:
        self._read_rows.inc(counts["read_rows"])
        self._written_rows.inc(counts["written_rows"])
        self._duplicates.inc(counts["deduplicated_blocks"])
        if counts["written_rows"] or counts["deduplicated_blocks"]:
            self._inserts.inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _EngineGauges:
    """Collected at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        delay = GaugeMetricFamily("pando_replica_delay_seconds", "Replication lag of a table", labels=["table"])
        readonly = GaugeMetricFamily("pando_replica_problem", "1 if a replica cannot take part now", labels=["table"])
        for status in self._engine.replicas_status():
            delay.add_metric([status.table], status.delay_seconds)
            readonly.add_metric([status.table], float(status.problem is not None))
        yield delay
        yield readonly
