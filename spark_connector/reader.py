"""Reading: one scan is planned on one replica, its tasks read from the parts that the plan holds there.

Invariants:
- All tasks of a scan read one state of the table, the one that the chosen replica had when it planned.
- A task reads elsewhere, or after its lease has ended, only parts with the same names and content hashes; otherwise
  it fails. Equal hashes mean equal rows in equal order, so a task that breaks off goes on behind the last row it gave
  to Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from engine.client.http.errors import RefusedError
from parts.errors import CorruptionError, PandoError, UnavailableError, UnknownOutcomeError, UserError, error_from_code
from parts.types import parse_type
from spark_connector.options import Options
from spark_connector.schema import check_read_schema
from spark_connector.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class ScanPartition(InputPartition):
    """One task: granules of parts on ``urls[0]``; the other servers may have the same parts."""

    urls: tuple[str, ...]
    lease: str
    number: int
    rows: int
    parts: list[dict[str, Any]] = field(repr=False)


class PandoReader(DataSourceReader):
    """Made once for a loaded data frame: Spark keeps the planned tasks for every later use of the frame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    # -- planning, in the driver -------------------------------------------------------------------------------------

    def partitions(self) -> list[InputPartition]:
        """Asks one replica for a plan; another one when it cannot be asked or lags too much."""
        with Transport(self.options) as transport:
            request = self._plan_request()
            urls = _rotated(self.options.urls)
            url, plan = transport.try_servers(urls, lambda url: (url, self._plan(transport, url, request)))
        check_read_schema(self.schema, [(item["name"], parse_type(item["type"])) for item in plan["columns"]])
        others = tuple(other for other in urls if other != url)
        return [
            ScanPartition((url, *others), plan["lease"], number, task["rows"], task["parts"])
            for number, task in enumerate(plan["tasks"])
        ]

    def _plan_request(self) -> dict[str, Any]:
        options = self.options
        return {
            "database": options.database,
            "table": options.table,
            "columns": self.schema.fieldNames(),
            "filter": options.filter,
            "partitions": options.partitions,
            "max_rows_per_task": options.max_rows_per_task,
            "lease_seconds": options.lease_seconds,
            "sequential_consistency": options.select_sequential_consistency,
        }

    def _plan(self, transport: Transport, url: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            plan = transport.call(url, "/scan/plan", request)
        except UserError as error:
            # A replica that lacks what a quorum confirmed (289) is behind; another one may have it.
            raise RefusedError(error.name, error.message) if error.code == 289 else error from None
        delay, limit = plan["delay_seconds"], self.options.max_replica_delay_seconds
        if delay > limit:
            transport.call(url, "/scan/release", {"lease": plan["lease"]})
            raise RefusedError(
                "REPLICA_IS_NOT_IN_QUORUM",
                f"{url} is {delay:.0f} s behind with {self.options.full_name}, more than max_replica_delay_seconds "
                f"= {limit:g}",
            )
        return plan

    # -- reading, in the tasks ---------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task. A plan without tasks is read as one without rows."""
        if not isinstance(partition, ScanPartition):
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from spark_connector.arrow_read import to_spark_batch

        schema = to_arrow_schema(self.schema, timezone="UTC")
        for batch in self._batches(partition):
            if batch.num_rows:
                yield to_spark_batch(batch, schema)

    def _batches(self, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        given = 0
        failures: list[PandoError] = []
        with Transport(self.options) as transport:
            while True:
                url = partition.urls[len(failures) % len(partition.urls)]
                try:
                    for batch in _behind(self._scan(transport, url, partition), given):
                        given += batch.num_rows
                        yield batch
                    return
                except PandoError as error:
                    failures.append(error)
                if not self._may_go_on(failures, partition):
                    raise _final_error(failures, partition, self.options)

    def _may_go_on(self, failures: list[PandoError], partition: ScanPartition) -> bool:
        """Another server may have the same parts (232: it has not) unbroken; a broken connection may heal."""
        if len(failures) < len(partition.urls):
            elsewhere = (UnavailableError, UnknownOutcomeError, CorruptionError)
            return isinstance(failures[-1], elsewhere) or failures[-1].code == 232
        if len(failures) > self.options.retries + len(partition.urls):
            return False
        if not any(
            isinstance(error, (UnavailableError, UnknownOutcomeError)) for error in failures[-len(partition.urls) :]
        ):
            return False
        import time

        time.sleep(min(5.0, 0.2 * 2 ** (len(failures) - len(partition.urls))))
        return True

    def _scan(self, transport: Transport, url: str, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        request = {
            "lease": partition.lease,
            "task": partition.number,
            "database": self.options.database,
            "table": self.options.table,
            "columns": self.schema.fieldNames(),
            "filter": self.options.filter,
            "parts": partition.parts,
            "compression": self.options.compression,
        }
        with transport.stream(url, "/scan/read", request) as answer:
            try:
                with pa.ipc.open_stream(pa.PythonFile(answer, mode="r")) as stream:
                    yield from stream
            except (pa.ArrowException, OSError) as error:
                raise answer.failure(error) from None


def _rotated(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Scans of many jobs spread over the replicas."""
    start = random.randrange(len(urls))
    return urls[start:] + urls[:start]


def _behind(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """What follows the first ``rows`` rows."""
    for batch in batches:
        if rows >= batch.num_rows:
            rows -= batch.num_rows
            continue
        yield batch.slice(rows) if rows else batch
        rows = 0


def _final_error(failures: list[PandoError], partition: ScanPartition, options: Options) -> PandoError:
    """The first failure, unless it only says that the lease is gone: why the task could not go on, on every server."""
    tried = failures[-len(partition.urls) :]
    first = next((error for error in tried if error.code == 232), tried[0])
    reasons = "; ".join(error.message for error in tried)
    if first.code == 232:
        return error_from_code(
            232,
            f"The state of {options.full_name} that this data frame reads is gone: its parts were merged or dropped "
            "since. Spark keeps what it planned when the frame was first used, so running the query again does not "
            "help: load the frame (or make the view) again with spark.read.format('pando')…load(), and keep a result "
            "that is used for long with cache() or a checkpoint. The option 'lease_seconds' (now "
            f"{options.lease_seconds:g}) says how long the servers hold the parts between two reads. {reasons}",
        )
    return (
        tried[0]
        if len(tried) == 1
        else error_from_code(first.code, f"Task {partition.number} cannot be read on any server: {reasons}")
    )
