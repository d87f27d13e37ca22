"""Counts of queries: one row a process, and what Prometheus is told of all of them."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from engine.front.prometheus_metrics import Metrics
from engine.front.query_counts import QueryCounts
from parts.common.errors import UserError


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _engine(clock: Clock) -> Any:
    status = SimpleNamespace(table="db.t", delay_seconds=3, problem=None)
    checks = SimpleNamespace(parts=0, read_bytes=0, broken_parts=0)
    services = SimpleNamespace(monotonic=clock, checks=checks)
    return SimpleNamespace(services=services, replicas_status=lambda: [status], link_statuses=list)


def _samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }  # fmt: skip


def test_the_rows_of_processes_add_up() -> None:
    counts, clock = QueryCounts(2), Clock()
    first = Metrics(_engine(clock), counts, 0)
    pid = os.fork()
    if pid == 0:
        second = Metrics(_engine(clock), counts, 1)
        with second.track_running():
            clock.now += 0.02
        second.count_failure(UserError("UNKNOWN_TABLE", "none"))
        second.count_finished({"read_rows": 5, "written_rows": 0, "deduplicated_blocks": 1})
        second.track_running().__enter__()  # and is killed
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    with first.track_running():
        clock.now += 100.0
    first.count_failure(UserError("UNKNOWN_TABLE", "none"))
    first.count_finished({"read_rows": 2, "written_rows": 3, "deduplicated_blocks": 0})
    samples = _samples(first)
    assert samples["pando_queries_total",] == 3
    assert samples["pando_queries_running",] == 1
    assert samples["pando_errors_total", "UNKNOWN_TABLE"] == 2
    assert samples["pando_read_rows_total",] == 7
    assert samples["pando_written_rows_total",] == 3
    assert samples["pando_deduplicated_blocks_total",] == 1
    assert samples["pando_inserts_total",] == 2
    assert samples["pando_replica_delay_seconds", "db.t"] == 3
    buckets = [value for name, value in samples.items() if name[0] == "pando_query_seconds_bucket"]
    assert buckets == [0, 0, 1, 1, 1, 1, 1, 1, 2]
    assert samples["pando_query_seconds_count",] == 2
    assert abs(samples["pando_query_seconds_sum",] - 100.02) < 1e-9

    Metrics(_engine(clock), counts, 1)  # takes the killed one's place
    assert _samples(first)["pando_queries_running",] == 0
    assert _samples(first)["pando_queries_total",] == 3
