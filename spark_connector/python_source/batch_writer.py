"""Writes a batch job in one transaction: its rows become visible all at once, or not at all.

Every task stages its rows on the servers, in blocks, under the name of its attempt; nobody sees them. The driver
commits the attempts that Spark took, with the number of their rows. The rows become visible in one step on every
replica, and an overwrite drops the old rows in the same step. What failed attempts, retries and speculation left behind
is dropped. Any replica takes a block, and any commits.

Invariants:

- The rows of an attempt belong to the attempt: it does not matter in which order or blocks they are sent again.
- Nothing is written before names and types of all columns were checked.
- A commit that is repeated, because its answer was lost, changes nothing. A job whose driver dies before it leaves
  nothing; the servers drop its blocks after a day.
- With ``txnAppId`` and ``txnVersion``, or ``token``, a job that committed before commits nothing again, and says so.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from parts.common.errors import PandoError, UserError, make_error_from_code
from spark_connector.python_source.error_lines import without_tracebacks
from spark_connector.shared.options import Options, is_switched_off, quote_identifier
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import TableColumn, describe_table, match_columns_to_write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_INVALID_TRANSACTION, _DEDUPLICATED, _TOO_MANY_PARTS = 649, 389, 252
_TOO_MANY_PARTITIONS = "Too many partitions for a single INSERT block"
_LEAST_ROWS = 1000
"""Blocks with fewer rows are not halved: with so many partitions their rows are in no order."""


@dataclass
class StagedBlocks(WriterCommitMessage):
    """The rows that one attempt of a task staged.

    ``is_done`` says that the transaction was already committed.
    """

    attempt: str = ""
    rows: int = 0
    blocks: int = 0
    is_done: bool = False
    job: str = ""
    """For a stream, the query's id."""


@dataclass(frozen=True)
class WriteTarget:
    """The table that rows are written to, as checked in the driver."""

    options: Options
    columns: tuple[TableColumn, ...]
    is_replicated: bool

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers that take blocks: all replicas, or the first server only."""
        return self.options.urls if self.is_replicated else self.options.urls[:1]


@dataclass(frozen=True)
class CommitResult:
    """The server's answer to a commit; ``rows`` are those of this or of the earlier commit."""

    status: str
    rows: int

    @property
    def is_skipped(self) -> bool:
        """Returns whether the job had committed before, so that nothing was written."""
        return self.status.startswith("skipped")


def check_target(options: Options, schema: StructType) -> WriteTarget:
    """Compares the data frame's columns with the table's."""
    with Transport(options, is_first=True) as transport:
        columns = match_columns_to_write(schema, describe_table(transport), options)
        engine = _find_engine(transport)
        is_replicated = engine.startswith("Replicated")
        if len(options.urls) > 1 and not is_replicated:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Format pando: the option 'url' names {len(options.urls)} servers, but {options.full_name} is a "
                f"{engine.split()[0].partition('(')[0]} table, which each server has for itself; name one, or use "
                "a Replicated table",
            )
    return WriteTarget(options, tuple(columns), is_replicated)


@without_tracebacks
class BatchWriter(DataSourceArrowWriter):
    """Writes one job. It is built once in the driver, and used by every task."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        self.target = check_target(options, schema)
        self.transaction = f"spark {uuid.uuid4().hex}"
        self.overwrite = build_overwrite_clause(options) if overwrite else ""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBlocks:
        """Stages the rows of one task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        return write_blocks(self.target, self.transaction, context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commits the attempts that Spark took. Raises 389 if ``token`` committed other rows before."""
        options = self.target.options
        application, version = options.application
        committed = commit_transaction(
            self.target, self.transaction, messages, self.overwrite, application=application, version=version
        )
        rows = sum(message.rows for message in messages if isinstance(message, StagedBlocks))
        if committed.is_skipped and options.token and committed.rows != rows:
            raise make_error_from_code(
                _DEDUPLICATED,
                f"Format pando: a job with the token {options.token!r} wrote {committed.rows} rows to "
                f"{options.full_name} before, and this one has {rows}: nothing was written. Another job needs a token "
                "of its own",
            )
        log_commit(self.target.options, messages, committed)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Rolls the transaction back."""
        rollback_transaction(self.target, self.transaction)
        log_line(f"the job failed: nothing was written to {self.target.options.full_name}")


def write_blocks(target: WriteTarget, transaction: str, task: int, batches: Iterable[pa.RecordBatch]) -> StagedBlocks:
    """Stages the rows of one attempt in blocks; gathers the next block while one is sent."""
    from spark_connector.python_source.insert_blocks import cast_to_table_types, cut_blocks, encode_block

    options = target.options
    allows_null = not is_switched_off(options.settings.get("input_format_null_as_default", "0"))
    written = StagedBlocks(f"{task}:{uuid.uuid4().hex[:12]}")
    sending: Future[int] | None = None
    with Transport(options) as transport, ThreadPoolExecutor(1) as sender:
        for number, block in enumerate(cut_blocks(batches, options.batch_rows, options.batch_bytes)):
            block = cast_to_table_types(block, target.columns, allows_null=allows_null)
            body = encode_block(block)
            if not _add_sent_block(written, sending):
                return written
            stage = partial(_insert_block, transport, target, transaction, written.attempt)
            sending = sender.submit(_stage_block, stage, str(number), block, body)
        _add_sent_block(written, sending)
    return written


def _add_sent_block(written: StagedBlocks, sent: Future[int] | None) -> bool:
    """Adds a sent block's rows; returns ``False`` if the transaction was already committed."""
    if sent is None:
        return True
    try:
        written.rows += sent.result()
    except PandoError as error:
        if error.code != _INVALID_TRANSACTION or " was committed before" not in error.message:
            raise
        written.is_done = True
        return False
    written.blocks += 1
    return True


def _stage_block(insert: Callable[[str, bytes], None], token: str, block: pa.Table, body: bytes) -> int:
    """Sends a block, and returns its rows.

    A block of more partitions than the server takes at once is sent in halves, which have fewer if rows are in the
    order of partitions.
    """
    from spark_connector.python_source.insert_blocks import encode_block

    try:
        insert(token, body)
    except PandoError as error:
        if error.code != _TOO_MANY_PARTS or _TOO_MANY_PARTITIONS not in error.message:
            raise
        if block.num_rows < _LEAST_ROWS:
            advice = "spark_connector.prepare(df, url, table) puts the rows into the order of partitions"
            raise make_error_from_code(error.code, f"{error.message}. {advice}") from None
        half = block.num_rows // 2
        for number, piece in enumerate((block.slice(0, half), block.slice(half))):
            _stage_block(insert, f"{token}.{number}", piece, encode_block(piece))
    return block.num_rows


def _insert_block(
    transport: Transport, target: WriteTarget, transaction: str, attempt: str, token: str, body: bytes
) -> None:
    options = target.options
    names = ", ".join(quote_identifier(column.name) for column in target.columns)
    sql = f"INSERT INTO {options.quoted_name} ({names}) FORMAT ArrowStream"
    settings = {
        "input_format_null_as_default": "0",
        **options.settings,
        "insert_transaction": transaction,
        "insert_transaction_attempt": attempt,
        "insert_deduplication_token": token,
    }
    # Tasks begin at different servers, to spread the load.
    start = sum(attempt.encode()) % len(target.urls)
    urls = target.urls[start:] + target.urls[:start]
    transport.try_servers(urls, lambda url: transport.query(url, sql, settings, body))


# -- the end of a job -----------------------------------------------------------------------------------------------


def build_overwrite_clause(options: Options) -> str:
    """Returns the OVERWRITE clause of COMMIT TRANSACTION."""
    return "OVERWRITE PARTITIONS" if options.overwrite_mode == "partitions" else "OVERWRITE"


def commit_transaction(
    target: WriteTarget,
    transaction: str,
    messages: Iterable[WriterCommitMessage | None],
    overwrite: str = "",
    *,
    application: str = "",
    version: int = 0,
) -> CommitResult:
    """Commits on one server after the other until one answers: a commit can be repeated."""
    done = [message for message in messages if isinstance(message, StagedBlocks)]
    attempts = ", ".join(_format_literal(message.attempt) for message in done if message.rows) or "''"
    clauses = [overwrite, f"ATTEMPTS {attempts}", f"ROWS {sum(message.rows for message in done)}"]
    if application:
        clauses.append(f"APPLICATION {_format_literal(application)} VERSION {version}")
    options = target.options
    name = _format_literal(transaction)
    sql = f"COMMIT TRANSACTION {name} ON {options.quoted_name} {' '.join(clauses)} FORMAT JSONEachRow"
    with Transport(options) as transport:
        answer, _ = transport.try_servers(
            target.urls, lambda url: transport.query(url, "", options.settings, sql.encode())
        )
    row = json.loads(answer)
    return CommitResult(row["status"], int(row["rows"]))


def rollback_transaction(target: WriteTarget, transaction: str) -> None:
    """Rolls back if a server can be reached; else the servers drop the blocks after a day."""
    sql = f"ROLLBACK TRANSACTION {_format_literal(transaction)} ON {target.options.quoted_name}"
    with Transport(target.options) as transport:
        try:
            transport.try_servers(target.urls, lambda url: transport.query(url, sql))
        except PandoError as error:
            log_line(f"the transaction could not be rolled back now: {error.message}")


def log_commit(options: Options, messages: Iterable[WriterCommitMessage | None], committed: CommitResult) -> None:
    """Logs the commit in the driver's log."""
    done = [message for message in messages if isinstance(message, StagedBlocks)]
    if committed.is_skipped:
        log_line(
            f"nothing was written to {options.full_name}: a job of this identity had committed this version before"
        )
    else:
        blocks = sum(item.blocks for item in done)
        log_line(f"{committed.rows} rows in {blocks} blocks written to {options.full_name} ({committed.status})")


def log_line(text: str) -> None:
    """Writes a line to the driver's log."""
    print(f"pando: {text}", file=sys.stderr)


def _format_literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _find_engine(transport: Transport) -> str:
    """Returns the table's engine from SHOW CREATE TABLE: ``ReplicatedMergeTree(…) …``."""
    options = transport.options
    sql = f"SHOW CREATE TABLE {options.quoted_name} FORMAT TabSeparatedRaw"
    text = transport.try_servers(options.urls, lambda url: transport.query(url, sql)[0]).decode()
    return text.rpartition("\nENGINE = ")[2]
