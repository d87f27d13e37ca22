"""Runs the statements of a script and shows their results, in batch and interactive use.

A statement runs on its own thread and its chunks arrive through a bounded queue. So Ctrl-C works at once, whatever the
statement does, and the progress line moves while nothing arrives.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from engine.client.backends import Backend, ClientQuery, HttpBackend, QueryProgress
from engine.client.number_text import format_bytes, format_count, format_rows
from engine.client.progress_line import ProgressLine
from engine.client.script import ScriptStatement, split_script
from parts.common.errors import CancelledError, PandoError, UserError, make_error_from_code

logger = logging.getLogger(__name__)

_QUEUE_CHUNKS = 16
_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 10.0
_OUTFILE_FORMATS = {
    ".csv": "CSVWithNames", ".tsv": "TabSeparatedWithNames", ".json": "JSON", ".jsonl": "JSONEachRow",
    ".ndjson": "JSONEachRow", ".parquet": "Parquet", ".arrow": "Arrow",
}  # fmt: skip


@dataclass(frozen=True)
class RunnerOptions:
    """The options of a runner."""

    format: str = ""
    """The format of queries without FORMAT; empty: tables on a terminal, TSV into a pipe."""
    is_interactive: bool = False
    shows_progress: bool = False
    prints_time: bool = False
    ignores_errors: bool = False
    is_vertical: bool = False


class ScriptRunner:
    """Runs statements on a backend and writes their results."""

    def __init__(self, backend: Backend, options: RunnerOptions, output: BinaryIO | None = None) -> None:
        self.backend = backend
        self.options = options
        self._output = output or sys.stdout.buffer
        self._is_terminal = self._output.isatty()

    # -- scripts ----------------------------------------------------------------------------------------------------

    def run_script(self, text: str, stdin: BinaryIO | None = None) -> int:
        """Runs all statements and returns the exit code.

        ``stdin`` is the data of an INSERT that has none in the text.
        """
        code = 0
        try:
            for statement in split_script(text):
                try:
                    self.run(statement, stdin if statement.wants_data else None)
                except PandoError as error:
                    shown = show_error(error)
                    code = code or shown
                    if not self.options.ignores_errors or isinstance(error, CancelledError):
                        return code
        except UserError as error:
            last = show_error(error)
            return code or last
        return code

    def run_stream(self, stdin: BinaryIO) -> int:
        """Runs a script from a pipe. The data of a single INSERT are streamed."""
        from sql.grammar.statements.insert import parse_insert_head

        prefix = stdin.read(3).removeprefix(b"\xef\xbb\xbf")
        is_complete = False
        while True:
            try:
                head = parse_insert_head(prefix, complete=is_complete)
            except UserError:
                head = (None, 0)
            if head is not None:
                break
            chunk = stdin.read(64 << 10)
            is_complete = not chunk
            prefix += chunk
        insert, start = head
        if insert is not None and insert.format != "Values":
            statement = ScriptStatement(prefix[:start].decode().rstrip(), insert)
            data = io.BufferedReader(_JoinedStream(prefix[start:], stdin), 1 << 20)
            try:
                self.run(statement, data)
            except PandoError as error:
                return show_error(error)
            return 0
        try:
            text = (prefix + stdin.read()).decode()
        except UnicodeDecodeError as error:
            return show_error(UserError("SYNTAX_ERROR", f"The script is not valid UTF-8 at byte {error.start}"))
        return self.run_script(text)

    # -- one statement ---------------------------------------------------------------------------------------------

    def run(self, statement: ScriptStatement, stdin: BinaryIO | None = None) -> None:
        """Runs one statement. Raises ``PandoError``; ``CancelledError`` after Ctrl-C."""
        started = time.perf_counter()
        with self._open_output(statement) as (output, format):
            counts, format = self._run_on_thread(self._make_query(statement, format, stdin), output)
        self._apply_change(statement)
        elapsed = time.perf_counter() - started
        if self.options.is_interactive:
            self._show_footer(statement, counts, elapsed, has_rows=bool(format))
        elif self.options.prints_time:
            click.echo(f"{elapsed:.3f}", err=True)

    def _make_query(self, statement: ScriptStatement, format: str, stdin: BinaryIO | None) -> ClientQuery:
        data: BinaryIO | None = io.BytesIO(statement.data) if statement.is_insert and statement.data else stdin
        if statement.wants_data and data is None:
            data = io.BytesIO()
        settings: dict[str, object] = {}
        if format.startswith(("Pretty", "Vertical")) and self._is_terminal and not os.environ.get("NO_COLOR"):
            settings["output_format_pretty_color"] = 1
        is_whole = self.options.is_interactive and not statement.is_insert and statement.outfile is None
        return ClientQuery(statement.text, format, statement.insert, data, settings, is_whole)

    @contextlib.contextmanager
    def _open_output(self, statement: ScriptStatement) -> Iterator[tuple[BinaryIO, str]]:
        """Gives the output of a result, and its format if the statement names none."""
        if statement.outfile is None:
            default = "PrettyCompact" if self._is_terminal else "TabSeparated"
            is_vertical = statement.is_vertical or self.options.is_vertical
            yield self._output, "Vertical" if is_vertical else (self.options.format or default)
            return
        path = Path(statement.outfile)
        try:
            file = open(path, "xb")  # noqa: SIM115
        except FileExistsError:
            raise UserError(
                "CANNOT_OPEN_FILE", f"The file {path} exists already; INTO OUTFILE overwrites none"
            ) from None
        except OSError as error:
            raise UserError("CANNOT_OPEN_FILE", f"Cannot write {path}: {error.strerror}") from None
        try:
            with file:
                yield file, self.options.format or _OUTFILE_FORMATS.get(path.suffix.lower(), "TabSeparated")
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _run_on_thread(self, query: ClientQuery, output: BinaryIO) -> tuple[QueryProgress, str]:
        """Runs the query on a thread. Returns counts and format of its result."""
        chunks: queue.Queue[bytes | _End] = queue.Queue(_QUEUE_CHUNKS)
        thread = threading.Thread(target=_produce_chunks, args=(self.backend, query, chunks), daemon=True)
        thread.start()
        line = ProgressLine(self.options.shows_progress)
        is_cancelled = False
        give_up_at = float("inf")
        while True:
            try:
                item = chunks.get(timeout=_POLL_SECONDS)
                if isinstance(item, _End):
                    break
                line.clear()
                if not is_cancelled:
                    output.write(item)
                    output.flush()
            except queue.Empty:
                if time.monotonic() > give_up_at:
                    raise CancelledError("Query was cancelled, and did not answer to it") from None
                if line.is_due:
                    line.draw(self.backend.progress(query.query_id))
            except KeyboardInterrupt:
                line.clear()
                if is_cancelled:
                    raise
                is_cancelled = True
                give_up_at = time.monotonic() + _CANCEL_SECONDS
                self.backend.cancel(query.query_id)
        line.clear()
        thread.join(_CANCEL_SECONDS)
        if item.error is not None:
            raise CancelledError if is_cancelled else item.error
        if is_cancelled:
            raise CancelledError
        return item.counts, item.format

    def _apply_change(self, statement: ScriptStatement) -> None:
        """Applies USE and SET to later statements."""
        if isinstance(self.backend, HttpBackend) and statement.change is not None:
            self.backend.apply_change(statement.change)

    def _show_footer(self, statement: ScriptStatement, counts: QueryProgress, elapsed: float, has_rows: bool) -> None:
        if has_rows:
            text = f"{format_rows(counts.result_rows)} in set."
        elif statement.is_insert:
            text = f"Ok. {format_rows(counts.written_rows)} inserted."
            if counts.deduplicated_blocks:
                blocks = counts.deduplicated_blocks
                text += f" {blocks} duplicate block{'s' if blocks > 1 else ''} dropped."
        else:
            text = "Ok."
        text += f" Elapsed: {elapsed:.3f} sec."
        if counts.read_rows > 10_000 and elapsed > 0:
            text += f" Processed {format_count(counts.read_rows)} rows, {format_bytes(counts.read_bytes)}"
            text += f" ({format_count(counts.read_rows / elapsed)} rows/s)."
        if statement.outfile is not None:
            text += f" Written to {statement.outfile}."
        click.echo(f"\n{text}\n")


class _End:
    """The last item of a query's queue."""

    def __init__(self, counts: QueryProgress, format: str, error: BaseException | None = None) -> None:
        self.counts = counts
        self.format = format
        self.error = error


def _produce_chunks(backend: Backend, query: ClientQuery, chunks: queue.Queue[bytes | _End]) -> None:
    try:
        with backend.run(query) as answer:
            for chunk in answer.chunks:
                chunks.put(chunk)
            end = _End(answer.get_final_counts(), answer.format)
    except PandoError as error:
        end = _End(QueryProgress(), "", error)
    except BaseException as error:
        logger.exception("a query failed unexpectedly")
        end = _End(QueryProgress(), "", make_error_from_code(1001, f"{type(error).__name__}: {error}"))
    chunks.put(end)


class _JoinedStream(io.RawIOBase):
    """Bytes already read, followed by the rest of the stream."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Copies the next bytes."""
        data = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def show_error(error: PandoError) -> int:
    """Writes the error to standard error. Returns ClickHouse's exit code: the error's code in one byte."""
    text = "Query was cancelled." if isinstance(error, CancelledError) else str(error)
    click.echo(click.style(text, fg="red") if sys.stderr.isatty() else text, err=True)
    return 130 if isinstance(error, CancelledError) else error.code % 256 or 1
