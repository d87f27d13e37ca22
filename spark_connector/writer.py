"""Writing: blocks of rows, each an INSERT with a token of its own, so that a repeated attempt adds nothing.

The token is ``<job>:<partition>:<block>``. The job's part is made in the driver (or given by the application, option
``token``) and travels with the pickled writer; a second attempt of a task cuts the same blocks and sends the same
tokens, to whichever replica. This needs an input that comes in the same blocks at every attempt (as from files; after
a shuffle, sort within partitions). So the server is asked to compare: a block with other rows than were stored under
its token, or one that was the last of its task and is not any more, ends the job with an error. Rows may also have
moved to tasks that had none before, or away from tasks that are not there any more. So at its end the driver closes
the job with the number of its blocks: more were claimed if an earlier run cut its rows otherwise, and no later run can
claim others.

Invariants:
- A job that ended well under its token left its rows under it and no others, whatever was begun under it before.
- Nothing is written before names and types of all columns were checked.
- A failed job leaves the blocks it had written: append is not atomic. Running it again with the same ``token``
  completes it.
- On a table that does not deduplicate, an INSERT of unknown outcome is not repeated, and a second attempt of a task
  is refused.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from parts.errors import PandoError, UserError, error_from_code
from spark_connector.options import Options, is_off, quoted
from spark_connector.schema import TableColumn, columns_to_write, describe_table
from spark_connector.transport import Transport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


_NO_WINDOW = (
    "which does not deduplicate. Use a Replicated table, or give it SETTINGS non_replicated_deduplication_window = "
    "1000, and leave the setting insert_deduplicate at 1"
)
_WINDOW = re.compile(r"\breplicated_deduplication_window = (\d+)")
_WINDOW_ALONE = re.compile(r"\bnon_replicated_deduplication_window = (\d+)")


@dataclass
class WrittenBlocks(WriterCommitMessage):
    """What one task wrote. Rows of blocks that were there already count as deduplicated."""

    job: str = ""
    rows: int = 0
    blocks: int = 0
    deduplicated_blocks: int = 0


@dataclass(frozen=True)
class Slot:
    """The place of a block in its job."""

    job: str
    task: int
    number: int
    is_last: bool

    @property
    def token(self) -> str:
        return f"{self.job}:{self.task}:{self.number}"


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
        deduplicates = _has_window(engine) and not is_off(options.settings.get("insert_deduplicate", "1"))
        if options.token and not deduplicates:
            raise UserError(
                "BAD_ARGUMENTS", f"Format pando: the option 'token' does nothing for {options.full_name}, {_NO_WINDOW}"
            )
        if truncate:
            sql = f"TRUNCATE TABLE {options.quoted_name}"
            transport.try_servers(options.urls, lambda url: transport.query(url, sql))
    return Target(options, tuple(columns), deduplicates, is_replicated)


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
        return write_blocks(self.target, self.token, context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.target.options.token:  # another one is nobody else's
            close_job(self.target, self.token, messages)
        report(self.target.options, self.token, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        report(self.target.options, self.token, messages, is_whole=False)


def write_blocks(target: Target, job: str, task: int, batches: Iterable[pa.RecordBatch]) -> WrittenBlocks:
    """Sends the blocks of one task in order; while one is sent the next one is gathered."""
    from spark_connector.arrow_write import cut_blocks, encode_block, to_wire

    options = target.options
    allows_null = not is_off(options.settings.get("input_format_null_as_default", "0"))
    written = WrittenBlocks(job)
    sending: Future[tuple[int, bool]] | None = None
    blocks = cut_blocks(batches, options.batch_rows, options.batch_bytes)
    with Transport(options) as transport, ThreadPoolExecutor(1) as sender:
        for number, (block, is_last) in enumerate(_with_the_end(blocks)):
            body = encode_block(to_wire(block, target.columns, allows_null=allows_null))
            _add(written, sending)
            slot = Slot(job, task, number, is_last)
            sending = sender.submit(_insert, transport, target, slot, body, block.num_rows)
        _add(written, sending)
    return written


def close_job(target: Target, job: str, messages: Iterable[WriterCommitMessage | None]) -> None:
    """When every task is done. Raises 389 when blocks of another cut are there under the job's token."""
    options = target.options
    blocks = sum(message.blocks for message in messages if isinstance(message, WrittenBlocks))
    sql = f"INSERT INTO {options.quoted_name} FORMAT TabSeparated"
    settings = {"insert_deduplication_token_job": job, "insert_deduplication_token_job_size": str(blocks)}
    with Transport(options) as transport:
        try:
            transport.try_servers(target.urls, lambda url: transport.query(url, sql, settings))
        except PandoError as error:
            raise _other_rows(options, f"Job {job}", error) if error.code == 389 else error from None


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


def _other_rows(options: Options, what: str, error: PandoError) -> PandoError:
    return error_from_code(
        error.code,
        f"{what} was written to {options.full_name} before with other rows: a task was repeated and its rows "
        "came in another order, or the job was run again under its token with other rows or partitions. What was "
        "written before stays, and is not all, or too much. Give the rows an order that lasts (sortWithinPartitions "
        "after a shuffle, or write them to files first), take what is there away, and write with a new token. "
        f"{error.message}",
    )


def refused_attempt(options: Options) -> UserError:
    return UserError(
        "NOT_IMPLEMENTED",
        f"A task is repeated, and its rows could be written twice to {options.full_name}, {_NO_WINDOW}",
    )


def _add(written: WrittenBlocks, sent: Future[tuple[int, bool]] | None) -> None:
    if sent is not None:
        rows, is_duplicate = sent.result()
        written.rows += rows
        written.blocks += 1
        written.deduplicated_blocks += is_duplicate


def _insert(transport: Transport, target: Target, slot: Slot, body: bytes, rows: int) -> tuple[int, bool]:
    """Rows of the block, and whether it (or some partition's piece of it) was there already."""
    options = target.options
    names = ", ".join(quoted(column.name) for column in target.columns)
    sql = f"INSERT INTO {options.quoted_name} ({names}) FORMAT ArrowStream"
    settings = {
        "input_format_null_as_default": "0",
        **options.settings,
        "insert_deduplication_token": slot.token,
        "insert_deduplication_token_check": "last" if slot.is_last else "followed",
        "insert_deduplication_token_job": slot.job,
    }
    # Tasks begin at different servers, so that several take the load.
    start = sum(slot.token.encode()) % len(target.urls)
    urls = target.urls[start:] + target.urls[:start]
    try:
        _, summary = transport.try_servers(
            urls, lambda url: transport.query(url, sql, settings, body), is_idempotent=target.deduplicates
        )
    except PandoError as error:
        raise _other_rows(options, f"Block {slot.token}", error) if error.code == 389 else error from None
    return rows, int(summary.get("deduplicated_blocks", 0)) > 0


def _engine_of(transport: Transport) -> str:
    """As SHOW CREATE TABLE tells it: ``ReplicatedMergeTree(…) …``."""
    options = transport.options
    sql = f"SHOW CREATE TABLE {options.quoted_name} FORMAT TabSeparatedRaw"
    text = transport.try_servers(options.urls, lambda url: transport.query(url, sql)[0]).decode()
    return text.rpartition("\nENGINE = ")[2]


def _has_window(engine: str) -> bool:
    """Of the engine's text with its settings."""
    is_replicated = engine.startswith("Replicated")
    found = _WINDOW.search(engine) if is_replicated else _WINDOW_ALONE.search(engine)
    return int(found.group(1)) > 0 if found else is_replicated
