"""HTTP to the servers: one request, its error, and what may be tried again where.

A failure is one of three kinds. *Refused*: certainly not done (no connection, 503, read-only): another server or a
later time may do better. *Unknown*: the connection broke or the server itself does not know (319): repeating is safe
only for what is idempotent. Everything else is an answer, and is raised as it is.
"""

from __future__ import annotations

import io
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from parts.errors import PandoError, UnavailableError, UnknownOutcomeError, error_from_code
from spark_connector.options import Options

if TYPE_CHECKING:
    import httpx

Result = TypeVar("Result")

_MESSAGE = re.compile(r"Code: (\d+)\. DB::Exception: (.*?)(?: \(\w+\))?(?: \(version [^()]*\))?\s*$", re.DOTALL)
_RETRIED_CODES = frozenset({202, 210, 242, 252, 285, 286, 999})
"""Too many queries, network, read-only, too many parts, too few replicas, pending quorum, ZooKeeper away."""
_TAIL_BYTES = 16 << 10
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


class RefusedError(UnavailableError):
    """Certainly not done; may succeed elsewhere or later."""


class Transport:
    """Connections to the servers of one read or write. Not for several threads at once."""

    def __init__(self, options: Options) -> None:
        import httpx

        self.options = options
        headers = {}
        if options.user or options.password:
            headers = {"X-ClickHouse-User": options.user or "default", "X-ClickHouse-Key": options.password}
        timeout = httpx.Timeout(options.timeout, connect=options.connect_timeout)
        # Reading the certificate authorities takes longer than a small request: only for what needs them.
        is_secure = any(url.startswith("https:") for url in options.urls)
        self._client = httpx.Client(headers=headers, timeout=timeout, trust_env=False, verify=is_secure)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    def query(
        self, url: str, sql: str, settings: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> tuple[bytes, Mapping[str, str]]:
        """Runs one statement on one server; its answer and the counts of ``X-ClickHouse-Summary``."""
        response = self._send(url, "/", {"query": sql, **(settings or {})}, body if body is not None else b"")
        return response.content, json.loads(response.headers.get("x-clickhouse-summary", "{}"))

    def call(self, url: str, path: str, body: object) -> Any:
        """A request in JSON, answered in JSON."""
        return self._send(url, path, {}, json.dumps(body).encode()).json()

    @contextmanager
    def stream(self, url: str, path: str, body: object) -> Iterator[AnswerStream]:
        """A request in JSON, answered by a stream."""
        import httpx

        with _translated(url):
            request = self._client.build_request("POST", url + path, content=json.dumps(body).encode())
            response = self._client.send(request, stream=True)
        try:
            if response.status_code != 200:
                with _translated(url):
                    response.read()
                raise _error_of(response, url)
            yield AnswerStream(response, url)
        except httpx.TransportError as error:
            raise _unknown(url, error) from error
        finally:
            response.close()

    def _send(self, url: str, path: str, parameters: Mapping[str, str], body: bytes) -> httpx.Response:
        with _translated(url):
            response = self._client.post(url + path, params=dict(parameters), content=body)
        if response.status_code != 200:
            raise _error_of(response, url)
        return response

    # -- trying again ------------------------------------------------------------------------------------------------

    def try_servers(
        self, urls: tuple[str, ...], function: Callable[[str], Result], *, is_idempotent: bool = True
    ) -> Result:
        """The first success, on the servers in turn, with growing pauses after each round; raises the last failure."""
        attempts = self.options.retries + 1
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(max(attempts, len(urls))):
            url = urls[attempt % len(urls)]
            try:
                return function(url)
            except (RefusedError, UnknownOutcomeError) as error:
                if isinstance(error, UnknownOutcomeError) and not is_idempotent:
                    raise
                if attempt + 1 >= max(attempts, len(urls)):
                    raise
            if (attempt + 1) % len(urls) == 0:
                time.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("every attempt returns or raises")


class AnswerStream(io.RawIOBase):
    """The bytes of an answer, which may end in an error of the server that came after the first byte."""

    def __init__(self, response: httpx.Response, url: str) -> None:
        self._response = response
        self._url = url
        self._chunks = response.iter_raw(1 << 20)
        self._chunk = memoryview(b"")
        self._tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer, unless the answer ends. Raises what cut it off."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            if not self._chunk and not self._next_chunk():
                break
            size = min(len(self._chunk), len(view) - filled)
            view[filled : filled + size] = self._chunk[:size]
            self._chunk = self._chunk[size:]
            filled += size
        return filled

    def _next_chunk(self) -> bool:
        import httpx

        try:
            chunk = next(self._chunks, b"")
        except httpx.TransportError as error:
            raise self._cut_off(error) from error
        if chunk:
            self._tail = (self._tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        self._chunk = memoryview(chunk)
        return bool(chunk)

    def failure(self, problem: Exception) -> PandoError:
        """The reason why the answer cannot be read: the server's, if it sent one behind what it had sent already."""
        try:
            while self._next_chunk():
                pass
        except PandoError as error:
            return error
        return _unknown(self._url, problem)

    def _cut_off(self, error: Exception) -> PandoError:
        tag = self._response.headers.get("x-clickhouse-exception-tag", "")
        _, found, rest = self._tail.partition(f"\r\n__exception__\r\n{tag}\r\n".encode())
        if tag and found:
            message = rest.decode("utf-8", "replace").partition(tag)[0].rpartition("\n")[0]
            return parse_error(message, self._url)
        return _unknown(self._url, error)


def parse_error(text: str, url: str, status: int = 500) -> PandoError:
    """The server's error as it was raised there, with the address of the server that raised it."""
    match = _MESSAGE.search(text)
    if match is None:
        message = f"{url} answered with HTTP status {status}: {text[:500]}"
        return RefusedError("NETWORK_ERROR", message) if status in (429, 502, 503, 504) else _other(message)
    code = int(match.group(1))
    error = error_from_code(code, f"{match.group(2)} (from {url})")
    if code in _RETRIED_CODES or status == 503:
        return RefusedError(error.name, error.message)
    return error


def _other(message: str) -> PandoError:
    return error_from_code(1001, message)


def _error_of(response: httpx.Response, url: str) -> PandoError:
    return parse_error(response.text, url, response.status_code)


@contextmanager
def _translated(url: str) -> Iterator[None]:
    import httpx

    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise RefusedError("NETWORK_ERROR", f"Cannot connect to {url}: {error}") from error
    except httpx.TransportError as error:
        raise _unknown(url, error) from error


def _unknown(url: str, error: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError("NETWORK_ERROR", f"The connection to {url} broke: {error or type(error).__name__}")
