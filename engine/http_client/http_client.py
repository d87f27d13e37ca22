"""A client of the HTTP interface: ``HttpClient("127.0.0.1", 8123).execute("SELECT 1").text``.

Errors of the server are raised as the same ``PandoError`` that the server raised. An incomplete response never counts
as success: one cut off by an error raises that error (see ``engine.front.http.error_responses``), and a statement
without a response raises ``UnknownOutcomeError``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from engine.http_client.connections import Connections, StreamedResponse

if TYPE_CHECKING:
    import httpx

Data = bytes | BinaryIO | Iterable[bytes]

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class QuerySummary:
    """The header ``X-ClickHouse-Summary``.

    It is exact when the server had the whole result before it sent it, else as of the first byte.
    """

    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    elapsed_ns: int = 0
    deduplicated_blocks: int = 0

    @classmethod
    def parse(cls, text: str) -> QuerySummary:
        """Reads the JSON of the header; unknown keys are ignored."""
        values = json.loads(text or "{}")
        return cls(**{name: int(values[name]) for name in cls.__dataclass_fields__ if name in values})


@dataclass(frozen=True)
class Response:
    """A whole response of one statement."""

    data: bytes
    format: str
    query_id: str
    summary: QuerySummary = field(default_factory=QuerySummary)

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode()


class Stream:
    """A response as it arrives. ``summary`` is read from its headers."""

    def __init__(self, answer: StreamedResponse) -> None:
        self._answer = answer
        self.format = answer.headers.get("x-clickhouse-format", "")
        self.query_id = answer.headers.get("x-clickhouse-query-id", "")
        self.summary = QuerySummary.parse(answer.headers.get("x-clickhouse-summary", ""))

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes. Raises the server's error if the response ends with one."""
        return iter(self._answer)


class HttpClient:
    """One server's HTTP interface. Thread-safe; connections are kept and reused."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8123,
        *,
        user: str = "default",
        password: str = "",
        database: str = "",
        settings: Mapping[str, object] | None = None,
        timeout_seconds: float = 300.0,
    ) -> None:
        self.host = host
        self.port = port
        self.user = user
        self.database = database
        self.settings = dict(settings or {})
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._connections = Connections(user=user, password=password, timeout_seconds=timeout_seconds)

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(
        self,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
        data: Data | None = None,
        query_id: str = "",
    ) -> Response:
        """Runs one statement and reads its whole response.

        ``data`` follows the statement (INSERT … FORMAT x). ``parameters`` are values of ``{name:Type}`` in ClickHouse's
        form: text is escaped as in TabSeparated.
        """
        with self.stream(sql, settings=settings, parameters=parameters, data=data, query_id=query_id) as stream:
            answer = b"".join(stream)
            return Response(answer, stream.format, stream.query_id, stream.summary)

    @contextmanager
    def stream(
        self,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
        data: Data | None = None,
        query_id: str = "",
    ) -> Iterator[Stream]:
        """Runs one statement and gives its response as it arrives. Leaving early cancels the query."""
        query = self._url_parameters(settings, parameters, query_id)
        body = sql.encode() if data is None else _join_body(sql.encode() + b"\n", data)
        with self._connections.post(self._url, "/", body, query) as answer:
            yield Stream(answer)

    def insert(
        self,
        table: str,
        data: Data,
        format: str,
        *,
        columns: Iterable[str] = (),
        settings: Mapping[str, object] | None = None,
        query_id: str = "",
    ) -> QuerySummary:
        """Sends ``INSERT INTO table FORMAT format`` with the data.

        ``table`` and ``columns`` are SQL text, quoted where needed.
        """
        names = ", ".join(columns)
        sql = f"INSERT INTO {table}{f' ({names})' if names else ''} FORMAT {format}"
        return self.execute(sql, data=data, settings=settings, query_id=query_id).summary

    def rows(self, sql: str, **options: Any) -> list[list[Any]]:
        """Returns the result as rows of Python values; 64-bit integers are exact."""
        text = self.execute(f"{sql.rstrip().rstrip(';')} FORMAT JSONCompact", **options).text
        data = json.loads(text)["data"]
        assert isinstance(data, list)
        return data

    def value(self, sql: str, **options: Any) -> Any:
        """Returns the first column of the first row."""
        return self.rows(sql, **options)[0][0]

    # -- the server -------------------------------------------------------------------------------------------------

    def ping(self, timeout_seconds: float = 2.0) -> bool:
        """Returns whether the server answers ``/ping`` in time."""
        return self._connections.is_alive(self._url, timeout_seconds)

    def get(self, path: str) -> httpx.Response:
        """Returns a page of the server, such as ``/metrics`` or ``/replicas_status?verbose=1``."""
        return self._connections.get(self._url + path)

    def kill(self, query_id: str) -> None:
        """Kills a running query, whichever client sent it."""
        quoted = query_id.replace("\\", "\\\\").replace("'", "\\'")
        self.execute(f"KILL QUERY WHERE query_id = '{quoted}'")

    def close(self) -> None:
        """Closes the connections."""
        self._connections.close()

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _url_parameters(
        self, settings: Mapping[str, object] | None, parameters: Mapping[str, object] | None, query_id: str
    ) -> dict[str, str]:
        query = {name: _format_value(value) for name, value in {**self.settings, **(settings or {})}.items()}
        query.update((f"param_{name}", _format_value(value)) for name, value in (parameters or {}).items())
        if self.database:
            query["database"] = self.database
        query["query_id"] = query_id or str(uuid.uuid4())
        return query


def _format_value(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _join_body(head: bytes, data: Data) -> bytes | Iterator[bytes]:
    if isinstance(data, bytes):
        return head + data
    return _stream_body(head, data)


def _stream_body(head: bytes, data: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    yield head
    read = getattr(data, "read1", getattr(data, "read", None))
    if read is None:
        yield from data
        return
    while chunk := read(_READ_BYTES):
        yield chunk
