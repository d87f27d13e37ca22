"""The links of a server as metrics: one for each figure of ``system.replication_links``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from engine.tables.capabilities.link_status import LinkProgress, LinkStatus, UpstreamStatus

_LABELS = ("link", "direction", "peer")
_WELL = (UpstreamStatus.FOLLOW, UpstreamStatus.SYNC, UpstreamStatus.BOOTSTRAP)
_GAUGES: tuple[tuple[str, str, Callable[[LinkProgress], float]], ...] = (
    ("lag_seconds", "Age of the last applied change while something is missing", lambda each: each.lag),
    ("idle_seconds", "Time since the other side was last heard", lambda each: each.idle),
    ("rows_behind", "Rows that the target lacks", lambda each: each.rows_behind),
    ("bytes_behind", "Bytes that the target lacks", lambda each: each.bytes_behind),
    ("problem", "1 if the link is paused, disconnected or stopped", lambda each: each.upstream_status not in _WELL),
)
_COUNTERS: tuple[tuple[str, str, Callable[[LinkProgress], float]], ...] = (
    ("applied_rows", "Rows that the link brought", lambda each: each.rows_applied),
    ("applied_bytes", "Bytes that the link brought", lambda each: each.bytes_applied),
    ("applied_blocks", "Blocks that the link brought", lambda each: each.blocks_applied),
    ("lost_rows", "Rows that the source had lost before they were brought", lambda each: each.lost_rows),
    ("errors", "Attempts of the link that failed", lambda each: each.errors),
    ("conflicts", "Versions that lost to another origin's", lambda each: each.conflicts),
)


def collect_link_metrics(links: Sequence[LinkStatus]) -> Iterator[Metric]:
    """Yields the metrics of these links.

    A link that is disabled has no problem.
    """
    for name, what, value in _GAUGES:
        gauge = GaugeMetricFamily(f"pando_link_{name}", what, labels=_LABELS)
        for link in links:
            found = float(value(link.progress))
            gauge.add_metric(_label(link), 0.0 if name == "problem" and link.state == "disabled" else found)
        yield gauge
    for name, what, value in _COUNTERS:
        counter = CounterMetricFamily(f"pando_link_{name}", what, labels=_LABELS)
        for link in links:
            counter.add_metric(_label(link), float(value(link.progress)))
        yield counter


def _label(link: LinkStatus) -> Sequence[str]:
    return (link.name, link.direction.value, link.peer)
