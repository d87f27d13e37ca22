"""Backends of a client: a server over HTTP, or an engine in this process, with one interface."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

from parts.common.errors import PandoError
from sql.grammar.statements.statement import Insert, ParsedStatement, SetSettings, Use

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.http_client.http_client import HttpClient
    from engine.queries.session import Session


_TEMPORARY = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?TEMPORARY\s", re.IGNORECASE)
_SESSION_SECONDS = 3600
"""The longest session timeout that a server allows."""


@dataclass(frozen=True)
class ClientQuery:
    """One statement as a client sends it. ``format`` is the default for a query without FORMAT."""

    text: str
    format: str
    insert: Insert | None = None
    """The head of an INSERT whose rows are in ``data``."""
    data: BinaryIO | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the server completes the answer before it sends it, with exact counts and no late errors."""
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass
class QueryProgress:
    """Counts of a query, running or finished."""

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    total_rows: int = 0
    result_rows: int = 0
    deduplicated_blocks: int = 0


class ClientAnswer(Protocol):
    """The answer to a statement. ``chunks`` are formatted bytes."""

    chunks: Iterator[bytes]
    format: str

    def get_final_counts(self) -> QueryProgress:
        """Returns the counts, which are right once the chunks are read."""


class Backend(Protocol):
    """The interface of a backend."""

    @property
    def database(self) -> str:
        """The current database."""

    def run(self, query: ClientQuery) -> contextlib.AbstractContextManager[ClientAnswer]:
        """Runs a statement. Raises ``PandoError``."""

    def cancel(self, query_id: str) -> None:
        """Cancels a running query."""

    def progress(self, query_id: str) -> QueryProgress | None:
        """Returns the counts of a running query; called on another thread."""

    def query_names(self, sql: str) -> list[str]:
        """Returns the first column of a query's result, as text; nothing if the query fails."""


# -- a server ---------------------------------------------------------------------------------------------------


@dataclass
class _HttpAnswer:
    chunks: Iterator[bytes]
    format: str
    _progress: QueryProgress

    def get_final_counts(self) -> QueryProgress:
        return self._progress


class HttpBackend:
    """A backend over HTTP. It keeps USE and SET itself, so that a server may restart unnoticed."""

    def __init__(self, client: HttpClient, settings: Mapping[str, object], parameters: Mapping[str, object]) -> None:
        self._client = client
        self._settings = dict(settings)
        self._parameters = parameters
        self._database = client.database or "default"
        self._session: dict[str, object] = {}
        """Session parameters, sent from the first temporary table on, which would not survive without a session."""

    @property
    def database(self) -> str:
        """The current database."""
        return self._database

    @contextlib.contextmanager
    def run(self, query: ClientQuery) -> Iterator[ClientAnswer]:
        """Runs a statement on the server. Raises ``PandoError``."""
        if not self._session and _TEMPORARY.match(query.text):
            self._session = {"session_id": str(uuid.uuid4()), "session_timeout": _SESSION_SECONDS}
        settings = {**self._settings, **query.settings, **self._session, "default_format": query.format}
        if query.is_whole:
            settings.setdefault("wait_end_of_query", 1)
        with self._client.stream(
            query.text, settings=settings, parameters=self._parameters, data=query.data, query_id=query.query_id
        ) as stream:
            summary = stream.summary
            counts = QueryProgress(
                summary.read_rows, summary.read_bytes, summary.written_rows, 0, summary.result_rows,
                summary.deduplicated_blocks,
            )  # fmt: skip
            yield _HttpAnswer(iter(stream), stream.format, counts)

    def cancel(self, query_id: str) -> None:
        """Kills the query; errors are ignored."""
        with contextlib.suppress(PandoError):
            self._client.kill(query_id)

    def progress(self, query_id: str) -> QueryProgress | None:
        """Returns the counts from ``system.processes``, or ``None`` if there are none."""
        sql = f"SELECT * FROM system.processes WHERE query_id = '{query_id}' FORMAT JSONEachRow"
        try:
            text = self._client.execute(sql).text
            row = json.loads(text) if text.strip() else {}
            names = ("read_rows", "read_bytes", "written_rows")
            counts = {name: int(row[name]) for name in names}
        except (PandoError, ValueError, KeyError):
            return None
        return QueryProgress(**counts, total_rows=int(row.get("total_rows_approx", 0)))

    def query_names(self, sql: str) -> list[str]:
        """Returns the first column of a query's result, as text; nothing if the query fails."""
        try:
            return [str(row[0]) for row in self._client.rows(sql)]
        except PandoError:
            return []

    def apply_change(self, change: Use | SetSettings) -> None:
        """Applies a USE or SET to later statements."""
        if isinstance(change, Use):
            self._client.database = self._database = change.database
        else:
            named = {f"param_{name}": value for name, value in change.parameters.items()}
            self._settings.update({**change.settings, **named})


# -- an engine in this process -----------------------------------------------------------------------------------


@dataclass
class _LocalAnswer:
    chunks: Iterator[bytes]
    format: str
    _statistics: object

    def get_final_counts(self) -> QueryProgress:
        names = ("read_rows", "read_bytes", "written_rows", "result_rows", "deduplicated_blocks")
        return QueryProgress(**{name: getattr(self._statistics, name, 0) for name in names})


class LocalBackend:
    """A backend with an engine in this process."""

    def __init__(self, engine: Engine, settings: Mapping[str, object], parameters: Mapping[str, object]) -> None:
        from engine.queries.session import Session
        from sql.settings.session_settings import (
            parse_given_settings,
        )

        self._engine = engine
        self._parameters = {name: str(value) for name, value in parameters.items()}
        self.session: Session = Session(settings=parse_given_settings(settings))

    @property
    def database(self) -> str:
        """The current database."""
        return self.session.database

    @contextlib.contextmanager
    def run(self, query: ClientQuery) -> Iterator[ClientAnswer]:
        """Runs a statement in the engine. Raises ``PandoError``."""
        from engine.queries.result_output import encode_result, resolve_output_settings

        self.session.query_id = query.query_id
        if query.insert is not None:
            parsed = ParsedStatement(query.insert)
        else:
            parsed = self._engine.parse(query.text, self.session)
        result = self._engine.execute_parsed(parsed, query.text, self.session, query.data, self._parameters)
        try:
            if not result.columns:
                yield _LocalAnswer(iter(()), "", result.statistics)
                return
            settings = resolve_output_settings(self._engine.config, self.session, parsed, query.settings)
            name = result.format or query.format
            chunks = encode_result(result, name, settings, self._engine.services.monotonic)
            yield _LocalAnswer(iter(chunks), name, result.statistics)
        finally:
            result.close()

    def cancel(self, query_id: str) -> None:
        """Kills the query."""
        self._engine.kill_query(query_id)

    def progress(self, query_id: str) -> QueryProgress | None:
        """Returns the counts of a running query."""
        for process in self._engine.processes():
            if process.query_id == query_id:
                counts = process.statistics
                return QueryProgress(counts.read_rows, counts.read_bytes, counts.written_rows)
        return None

    def query_names(self, sql: str) -> list[str]:
        """Returns the first column of a query's result, as text; nothing if the query fails."""
        try:
            with self.run(ClientQuery(sql, "TabSeparated")) as answer:
                return b"".join(answer.chunks).decode().splitlines()
        except PandoError:
            return []
