"""Reads inserted rows as a structured stream, block by block, exactly once.

An offset is, for every partition, the number of the last block that was read; rows keep their block's number through
merges. A server tells up to which block everything is decided (``/scan/positions``). A batch is planned and read like a
scan of the blocks between two offsets, on any replica.

Invariants:

- Between two offsets lie the same rows whenever they are read again: after a restart from the checkpoint, on another
  replica, after merges. Only DROP and TRUNCATE remove rows, and OPTIMIZE … DEDUPLICATE duplicates.
- Rows that were dropped before they were read end the query with code 33, unless ``failOnDataLoss`` is false.
- A batch ends between two blocks of a partition. An INSERT of several partitions may come in several batches.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from parts.common.errors import UserError
from spark_connector.python_source.error_lines import without_tracebacks
from spark_connector.python_source.scan_reader import ScanPartition, ScanReader
from spark_connector.shared.options import Options
from spark_connector.shared.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_VERSION = 1
_NOTHING = -1


@dataclass(frozen=True)
class StreamOffset:
    """The position of a stream: for each partition, the number of the last block read.

    Spark's checkpoint has it as JSON.
    """

    table: str
    """The identity of the table that the numbers belong to; another table of its name has another."""
    blocks: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the offset as JSON. Equal offsets give equal texts, which Spark compares."""
        return {"version": _VERSION, "table": self.table, "blocks": dict(sorted(self.blocks.items()))}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StreamOffset:
        """Reads an offset. Raises 36 for one of another version."""
        if document.get("version") != _VERSION:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Format pando: the offset {json.dumps(document)} is not of version {_VERSION}; this version of Pando "
                "did not write it",
            )
        return cls(document["table"], document["blocks"])


@dataclass
class BlocksPartition(InputPartition):
    """One task: slot ``number`` of ``slots`` of a batch that reads ``blocks`` under the name ``scan``."""

    number: int
    slots: int
    scan: str
    blocks: dict[str, Any]


@without_tracebacks
class BlocksReader(ScanReader):
    """Reads some blocks of a table, as batch reads do all of it."""

    def __init__(self, options: Options, schema: StructType, scan: str, blocks: dict[str, Any]) -> None:
        super().__init__(options, schema)
        self.scan = scan
        self._blocks = blocks

    def _what_to_read(self) -> dict[str, Any]:
        return {**super()._what_to_read(), "blocks": self._blocks}


@without_tracebacks
class PandoStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream.

    It lives in a process of the driver for as long as the query runs; tasks make their own, which only read.
    """

    def __init__(self, parse: Callable[[], Options], schema: StructType) -> None:
        """Creates a reader. ``parse`` may raise, but only later: here Spark would hide the error."""
        self._parse = parse
        self.schema = schema
        self._target: Mapping[str, int] | None = None
        """The blocks at which a query of Trigger.AvailableNow ends."""
        self._available: StreamOffset | None = None

    @cached_property
    def options(self) -> Options:
        """The options of the stream. Raises ``UserError`` 36 for a wrong one."""
        return self._parse()

    # -- offsets, in the driver --------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Returns the offset of a query without checkpoint, by ``startingOffsets``."""
        answer = self._ask({})
        dropped, table = answer["dropped"], answer["identity"]
        if self.options.starting_offsets == "earliest":
            return StreamOffset(table, dropped).to_json()
        if self.options.starting_offsets == "latest":
            return StreamOffset(table, {**dropped, **answer["available"]}).to_json()
        given = json.loads(self.options.starting_offsets)
        if "blocks" in given:
            return StreamOffset.from_json(given).to_json()
        return StreamOffset(table, {**dropped, **given}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns the limit of a batch, by ``maxRowsPerTrigger``."""
        limit = self.options.max_rows_per_trigger
        return ReadMaxRows(limit) if limit is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fixes where the query ends: at the blocks there are now."""
        self._target = self._ask({})["available"]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Returns where the next batch ends."""
        offset = StreamOffset.from_json(start)
        answer = self._ask(
            {
                "start": {"identity": offset.table, "blocks": offset.blocks},
                "until": self._target,
                "max_rows": limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            }
        )
        self._available = StreamOffset(answer["identity"], answer["available"])
        return StreamOffset(answer["identity"], answer["end"]).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Returns the newest offset there is, for the query's progress."""
        return self._available.to_json() if self._available is not None else None

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Asks the first server that answers and is not too far behind."""
        options = self.options
        body = {
            **request,
            "database": options.database,
            "table": options.table,
            "may_lack_rows": not options.fail_on_data_loss,
            "max_delay_seconds": options.max_replica_delay_seconds,
        }
        with Transport(options) as transport:
            answer: dict[str, Any] = transport.try_servers(
                options.urls, lambda url: transport.call(url, "/scan/positions", body)
            )
        return answer

    # -- batches -----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plans the tasks of the batch between two offsets."""
        first, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        before = first.blocks if first.table == last.table else {}
        ranges = {
            name: [before.get(name, _NOTHING), until]
            for name, until in last.blocks.items()
            if until > before.get(name, _NOTHING)
        }
        if not ranges:
            return []
        blocks = {"identity": last.table, "ranges": ranges, "may_lack_rows": not self.options.fail_on_data_loss}
        reader = BlocksReader(self.options, self.schema, uuid.uuid4().hex, blocks)
        slots = [slot for slot in reader.partitions() if isinstance(slot, ScanPartition)]
        return [BlocksPartition(slot.number, slot.slots, reader.scan, blocks) for slot in slots]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, BlocksPartition)
        reader = BlocksReader(self.options, self.schema, partition.scan, partition.blocks)
        return reader.read(ScanPartition(partition.number, partition.slots))
