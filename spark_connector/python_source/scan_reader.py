"""Reads tables in scans, whose snapshot is taken when they run.

Spark plans a loaded frame once and keeps that plan for every later use. So planning only returns slots; the first task
of an execution makes a server open the snapshot that all of its tasks read.

Invariants:

- All tasks of an execution read one state of the table, on whichever replicas: the one that its first task met. The
  servers agree on it under the execution's name (``engine.scan.leases``).
- Another execution of the same frame takes a new snapshot.
- A table in shards (Distributed) is read from the servers of the shards, each shard as a table of its own: one state of
  each, not of all.
- Equal content hashes mean equal rows in equal order. So a task that breaks off continues, perhaps elsewhere, behind
  the last row it gave to Spark. Computed rows (``task_query``) have no such order: they are given only when complete.
"""

from __future__ import annotations

import copy
import itertools
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from parts.common.errors import (
    CorruptionError,
    PandoError,
    UnavailableError,
    UnknownOutcomeError,
    UserError,
    make_error_from_code,
)
from parts.types import parse_type
from spark_connector.python_source.error_lines import without_tracebacks
from spark_connector.shared.options import Options
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import TableColumn, check_read_schema, read_options_from_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_GONE = 232
_BEHIND = 289
_NO_COLUMN = 16
_ALTERED = 517
_NOT_HERE = (_GONE, _BEHIND, _ALTERED)
_MAY_HEAL = (UnavailableError, UnknownOutcomeError)


@dataclass(frozen=True)
class Shard:
    """A table that has some of the rows, and its servers."""

    number: int
    urls: tuple[str, ...]
    database: str
    table: str


@dataclass
class ScanPartition(InputPartition):
    """One task: slot ``number`` of ``slots``, of a shard or of the table itself."""

    number: int
    slots: int
    shard: Shard | None = None


@without_tracebacks
class ScanReader(DataSourceReader):
    """Reads the table of one loaded data frame."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.scan = options.scan_name or uuid.uuid4().hex
        self.shard: Shard | None = None

    # -- planning, in the driver -------------------------------------------------------------------------------------

    def partitions(self) -> list[InputPartition]:
        """Returns the slots that the first server that answers plans for the table as it is now.

        Slots of shards are interleaved.
        """
        plan = self._plan()
        shards = plan.get("shards")
        if shards is None:
            return self._slots(plan)
        least = -(-self.options.partitions // len(shards)) if self.options.partitions else None
        slots = [
            self._for_shard(
                Shard(number, tuple(found["urls"]), found["database"], found["table"]), least
            )._slots_of_shard()
            for number, found in enumerate(shards, 1)
        ]
        return [slot for turn in itertools.zip_longest(*slots) for slot in turn if slot is not None]

    def _plan(self) -> dict[str, Any]:
        options = self.options
        request = {**self._what_to_read(), "partitions": options.partitions}
        with Transport(options) as transport:
            try:
                return dict(transport.try_servers(options.urls, lambda url: transport.call(url, "/scan/plan", request)))
            except PandoError as error:
                raise (
                    _explain_catalog_column(error)
                    if error.code == _NO_COLUMN and read_options_from_schema(self.schema)
                    else error
                ) from None

    def _slots_of_shard(self) -> list[InputPartition]:
        assert self.shard is not None
        where = f"Shard {self.shard.number}, {self.options.full_name} on {', '.join(self.options.urls)}"
        try:
            plan = self._plan()
        except PandoError as error:
            raise make_error_from_code(error.code, f"{where}: {error.message}") from None
        if "shards" in plan:
            raise UserError("NOT_IMPLEMENTED", f"{where}, is in shards itself; read its shards by the option 'query'")
        return self._slots(plan)

    def _for_shard(self, shard: Shard, partitions: int | None = None) -> ScanReader:
        """Returns the reader of a shard."""
        reader = copy.copy(self)
        reader.shard = shard
        reader.options = replace(
            self.options, urls=shard.urls, database=shard.database, table=shard.table, partitions=partitions
        )
        return reader

    def _slots(self, plan: dict[str, Any]) -> list[InputPartition]:
        columns = [(item["name"], parse_type(item["type"])) for item in plan["columns"]]
        if [name for name, _ in columns] != self.schema.fieldNames():
            raise UserError(
                "NO_SUCH_COLUMN_IN_TABLE",
                f"The option 'task_query' gives the columns {', '.join(name for name, _ in columns)}, not "
                f"{', '.join(self.schema.fieldNames())}, for which the frame was made",
            )
        check_read_schema(self.schema, columns)
        return [ScanPartition(number, plan["slots"], self.shard) for number in range(plan["slots"])]

    def _what_to_read(self) -> dict[str, Any]:
        return scan_request(self.options, self.schema.fieldNames())

    # -- reading, in the tasks ---------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Spark reads a plan without tasks as one without rows."""
        if not isinstance(partition, ScanPartition):
            return
        from pyspark.sql.pandas.types import to_arrow_schema

        from parts.blocks.spark_batches import to_spark_batch

        schema = to_arrow_schema(self.schema, timezone="UTC")
        reader = self if partition.shard is None else self._for_shard(partition.shard)
        for batch in reader._batches(partition):
            if batch.num_rows:
                yield to_spark_batch(batch, schema, truncates=self.options.nanoseconds == "truncate")

    def _batches(self, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        given = turn = 0
        failures: list[PandoError] = []
        execution = _execution_name(self.scan)
        urls = _rotate(self.options.urls, sum(execution.encode()) + partition.number)
        with Transport(self.options) as transport:
            while True:
                before = given
                request = self._request(partition, execution, given)
                try:
                    for batch in self._scan(transport, urls[turn % len(urls)], request):
                        given += batch.num_rows
                        yield batch
                    return
                except PandoError as error:
                    failures = [error] if given > before else [*failures, error]
                turn += 1
                if not self._may_retry(failures):
                    raise self._final_error(failures, partition)

    def _request(self, partition: ScanPartition, execution: str, given: int) -> dict[str, Any]:
        options = self.options
        return {
            **self._what_to_read(),
            "scan": execution,
            "slot": partition.number,
            "slots": partition.slots,
            "behind": given,
            "is_alone": len(options.urls) == 1,
            "lease_seconds": options.lease_seconds,
            "sequential_consistency": options.select_sequential_consistency,
            "max_delay_seconds": options.max_replica_delay_seconds,
            "compression": options.compression,
        }

    def _may_retry(self, failures: list[PandoError]) -> bool:
        """Returns whether another try may succeed.

        Another server may have the parts (232: this one lacks them) unbroken. A broken connection may recover, and a
        server that is behind may catch up.
        """
        servers = len(self.options.urls)
        if len(failures) < servers:
            return isinstance(failures[-1], (*_MAY_HEAL, CorruptionError)) or failures[-1].code in _NOT_HERE
        if len(failures) > self.options.retries + servers:
            return False
        if not any(isinstance(error, _MAY_HEAL) or error.code == _BEHIND for error in failures[-servers:]):
            return False
        time.sleep(min(5.0, 0.2 * 2 ** (len(failures) - servers)))
        return True

    def _scan(self, transport: Transport, url: str, request: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        is_computed = bool(self.options.task_query)
        read_seconds = self.options.timeout if is_computed else self.options.stall_timeout
        with transport.stream(url, "/scan/read", request, read_seconds) as answer:
            try:
                with pa.ipc.open_stream(pa.PythonFile(answer, mode="r")) as stream:
                    # another server computes in another order, and could not continue in the middle
                    yield from list(stream) if is_computed else stream
            except (pa.ArrowException, OSError) as error:
                raise answer.failure(error) from None

    def _final_error(self, failures: list[PandoError], partition: ScanPartition) -> PandoError:
        """Returns the first failure of the last round, or rather that the parts are gone."""
        tried = failures[-len(self.options.urls) :]
        first = next((error for error in tried if error.code == _GONE), tried[0])
        if first.code != _GONE and len(tried) == 1:
            return first
        reasons = "; ".join(error.message for error in tried)
        if first.code != _GONE:
            return make_error_from_code(first.code, f"Task {partition.number} cannot be read on any server: {reasons}")
        return make_error_from_code(
            first.code,
            f"The state of {self.options.full_name} that this query began with is gone: its parts were merged or "
            "dropped since. Run the query again. If it pauses for long between two reads of the table, a larger option "
            f"'lease_seconds' (now {self.options.lease_seconds:g}) has the servers hold the parts. {reasons}",
        )


def scan_request(options: Options, columns: Sequence[str]) -> dict[str, Any]:
    """Returns the part of a request that says which rows to read.

    A query names the table's columns that it needs.
    """
    return {
        "database": options.database,
        "table": options.table,
        "columns": options.columns if options.task_query else columns,
        "query": options.task_query,
        "filter": options.filter,
        "max_rows_per_task": options.max_rows_per_task,
        "max_bytes_per_task": options.max_bytes_per_task,
    }


def describe_task_query(transport: Transport) -> list[TableColumn]:
    """Returns the columns that the option ``task_query`` gives."""
    options = transport.options
    request = scan_request(options, ())
    plan = transport.try_servers(options.urls, lambda url: transport.call(url, "/scan/plan", request))
    return [TableColumn(item["name"], parse_type(item["type"]), "") for item in plan["columns"]]


def _explain_catalog_column(error: PandoError) -> PandoError:
    return make_error_from_code(
        error.code,
        f"{error.message}. ALTER TABLE … ADD COLUMN of Spark changes its catalog alone: a table of Pando keeps the "
        "columns it was made with. Make a table that has the column, or make the catalog's table again (DROP TABLE, "
        "and CREATE TABLE … USING pando: the rows stay)",
    )


def _execution_name(scan: str) -> str:
    """Returns the name of the execution that the task belongs to.

    Spark numbers the executions of SQL. Jobs of RDDs have no number; there each stage reads for itself.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # not a task of Spark
        return scan
    return f"{scan} {context.getLocalProperty('spark.sql.execution.id') or f'stage {context.stageId()}'}"


def _rotate(urls: tuple[str, ...], start: int) -> tuple[str, ...]:
    """Rotates the servers, so that tasks spread over the replicas."""
    start %= len(urls)
    return urls[start:] + urls[:start]
