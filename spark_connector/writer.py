"""Writing: blocks of rows, each an INSERT with a token of its own, so that a repeated attempt adds nothing.

The token is ``<job>:<partition>:<block>``. The job's part is made in the driver (or given by the application, option
``token``) and travels with the pickled writer; a second attempt of a task cuts the same blocks and sends the same
tokens, to whichever replica. This needs an input that comes in the same blocks at every attempt (as from files; after
a shuffle, sort within partitions). So the server is asked to compare: a block with other rows than were stored under
its token, or one that was the last of its task and is not any more, ends the job with an error.

Invariants:
- Nothing is written before names and types of all columns were checked.
- A failed job leaves the blocks it had written: append is not atomic. Running it again with the same ``token``
  completes it.
- On a table that does not deduplicate, an INSERT of unknown outcome is not repeated, and a second attempt of a task
  is refused.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from parts.errors import PandoError, UserError, error_from_code
from spark_connector.options import Options, quoted
from spark_connector.schema import TableColumn, columns_to_write, describe_table
from spark_connector.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class WrittenBlocks(WriterCommitMessage):
    """What one task wrote. Rows of blocks that were there already count as deduplicated."""

    rows: int = 0
    blocks: int = 0
    deduplicated_blocks: int = 0


@dataclass(frozen=True)
class Target:
    """Where the rows go, as checked in the driver."""

    options: Options
    columns: tuple[TableColumn, ...]
    deduplicates: bool
    is_replicated: bool

    @property
    def urls(self) -> tuple[str, ...]:
        return self.options.urls if self.is_replicated else self.options.urls[:1]


def check_target(options: Options, schema: StructType, *, truncate: bool) -> Target:
    """Compares the data frame's columns with the table's; then empties the table if asked."""
    with Transport(options) as transport:
        columns = columns_to_write(schema, describe_table(transport), options)
        engine = _engine_of(transport)
        is_replicated = engine.startswith("Replicated")
        if len(options.urls) > 1 and not is_replicated:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Format pando: the option 'url' names {len(options.urls)} servers, but {options.full_name} is a "
                f"{engine.split()[0].partition('(')[0]} table, which each server has for itself; name one, or use "
                "a Replicated table",
            )
        if truncate:
            sql = f"TRUNCATE TABLE {options.quoted_name}"
            transport.try_servers(options.urls, lambda url: transport.query(url, sql))
    return Target(options, tuple(columns), is_replicated or _has_window(engine), is_replicated)


class PandoWriter(DataSourceArrowWriter):
    """Built once in the driver, used by every task."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        self.target = check_target(options, schema, truncate=overwrite)
        self.token = options.token or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenBlocks:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() and not self.target.deduplicates:
            raise refused_attempt(self.target.options)
        return write_blocks(self.target, f"{self.token}:{context.partitionId()}", iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report(self.target.options, self.token, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report(self.target.options, self.token, messages, is_whole=False)


def write_blocks(target: Target, token: str, batches: Iterable[pa.RecordBatch]) -> WrittenBlocks:
    """Sends the blocks in order; while one is sent the next one is gathered."""
    from spark_connector.arrow_write import cut_blocks, encode_block, to_wire

    options = target.options
    allows_null = options.settings.get("input_format_null_as_default", "0") not in ("0", "false")
    written = WrittenBlocks()
    sending: Future[tuple[int, bool]] | None = None
    blocks = cut_blocks(batches, options.batch_rows, options.batch_bytes)
    with Transport(options) as transport, ThreadPoolExecutor(1) as sender:
        for number, (block, is_last) in enumerate(_with_the_end(blocks)):
            body = encode_block(to_wire(block, target.columns, allows_null=allows_null))
            _add(written, sending)
            sending = sender.submit(_insert, transport, target, f"{token}:{number}", body, block.num_rows, is_last)
        _add(written, sending)
    return written


def _with_the_end(blocks: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, bool]]:
    """Each block, and whether it is the last."""
    last: pa.Table | None = None
    for block in blocks:
        if last is not None:
            yield last, False
        last = block
    if last is not None:
        yield last, True


def report(
    options: Options, token: str, messages: Iterable[WriterCommitMessage | None], *, is_whole: bool = True
) -> None:
    """A line in the driver's log."""
    done = [message for message in messages if isinstance(message, WrittenBlocks)]
    rows, blocks = sum(item.rows for item in done), sum(item.blocks for item in done)
    again = sum(item.deduplicated_blocks for item in done)
    state = "written to" if is_whole else "of finished tasks stay in"
    ending = "" if is_whole else "; write again with the option 'token' set to it to complete without repeating"
    print(f"pando: {rows} rows in {blocks} blocks ({again} were there already) {state} {options.full_name}, token "
          f"{token}{ending}", file=sys.stderr)  # fmt: skip


def _other_rows(options: Options, token: str, error: PandoError) -> PandoError:
    return error_from_code(
        error.code,
        f"Block {token} was written to {options.full_name} before with other rows: a task was repeated and its rows "
        "came in another order, or the job was run again under its token with other rows or partitions. What was "
        "written before stays, and is not the whole. Give the rows an order that lasts (sortWithinPartitions after a "
        "shuffle, or write them to files first), take what is there away, and write with a new token. "
        f"{error.message}",
    )


def refused_attempt(options: Options) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"A task is repeated, and {options.full_name} does not deduplicate: its rows could be written twice. "
        "Use a Replicated table, or give it SETTINGS non_replicated_deduplication_window = 1000",
    )


def _add(written: WrittenBlocks, sent: Future[tuple[int, bool]] | None) -> None:
    if sent is not None:
        rows, is_duplicate = sent.result()
        written.rows += rows
        written.blocks += 1
        written.deduplicated_blocks += is_duplicate


def _insert(
    transport: Transport, target: Target, token: str, body: bytes, rows: int, is_last: bool
) -> tuple[int, bool]:
    """Rows of the block, and whether it (or some partition's piece of it) was there already."""
    options = target.options
    names = ", ".join(quoted(column.name) for column in target.columns)
    sql = f"INSERT INTO {options.quoted_name} ({names}) FORMAT ArrowStream"
    settings = {
        "input_format_null_as_default": "0",
        **options.settings,
        "insert_deduplication_token": token,
        "insert_deduplication_token_check": "last" if is_last else "followed",
    }
    # Tasks begin at different servers, so that several take the load.
    start = sum(token.encode()) % len(target.urls)
    urls = target.urls[start:] + target.urls[:start]
    try:
        _, summary = transport.try_servers(
            urls, lambda url: transport.query(url, sql, settings, body), is_idempotent=target.deduplicates
        )
    except PandoError as error:
        raise _other_rows(options, token, error) if error.code == 389 else error from None
    return rows, int(summary.get("deduplicated_blocks", 0)) > 0


def _engine_of(transport: Transport) -> str:
    """As SHOW CREATE TABLE tells it: ``ReplicatedMergeTree(…) …``."""
    options = transport.options
    sql = f"SHOW CREATE TABLE {options.quoted_name} FORMAT TabSeparatedRaw"
    text = transport.try_servers(options.urls, lambda url: transport.query(url, sql)[0]).decode()
    return text.rpartition("\nENGINE = ")[2]


def _has_window(engine: str) -> bool:
    _, found, value = engine.partition("non_replicated_deduplication_window = ")
    return bool(found) and not value.startswith("0")
