"""HTTP requests to servers and their responses.

Only this module imports ``httpx``, whose import takes a tenth of a second.
"""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from engine.http_client.errors import (
    RefusedError,
    make_connection_error,
    make_lost_connection_error,
    make_response_error,
    make_silence_error,
    split_error_trailer,
)
from parts.common.errors import PandoError, UserError

_HELD_BYTES = 64 << 10
"""The end of a streamed response is held back until it is known not to be an error's trailer."""
_MOST_ERROR_BYTES = 1 << 20
_MOST_PAGE_BYTES = 16 << 20
_NO_PARAMETERS: Mapping[str, str] = {}


class Connections:
    """Connections to any number of servers, kept and reused. Thread-safe.

    Raises ``RefusedError`` when it cannot connect, ``UnknownOutcomeError`` when the connection breaks, and otherwise
    the server's own errors. With ``names_servers`` their messages end with the server's URL. ``is_secure``: servers
    with ``https://`` must prove who they are; a path is the file of the authorities that may vouch for them.
    """

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        timeout_seconds: float,
        connect_seconds: float = 10.0,
        is_secure: bool | Path = False,
        names_servers: bool = False,
    ) -> None:
        headers = {"Accept-Encoding": "identity", "User-Agent": "pando-client"}
        if user or password:
            headers |= _make_credentials(user or "default", password)
        self._names_servers = names_servers
        self._timeout = httpx.Timeout(timeout_seconds, connect=connect_seconds)
        self._client = httpx.Client(
            headers=headers,
            timeout=self._timeout,
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=20.0),
            trust_env=False,
            # Reading the certificate authorities takes longer than a small request.
            verify=_trust_authorities(is_secure) if isinstance(is_secure, Path) else is_secure,
        )

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()

    @contextmanager
    def post(
        self,
        url: str,
        path: str,
        body: bytes | Iterable[bytes],
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        *,
        read_seconds: float | None = None,
        authorization: str = "",
    ) -> Iterator[StreamedResponse]:
        """Sends a POST request and gives the response as it arrives.

        Leaving early closes the connection, which cancels a query. A server that sends nothing for ``read_seconds``
        counts as lost. ``authorization`` is the value of that header.
        """
        source = url if self._names_servers else ""
        timeout = self._timeout
        if read_seconds is not None:
            timeout = httpx.Timeout(**{**timeout.as_dict(), "read": read_seconds})
        try:
            with self._client.stream(
                "POST",
                url + path,
                params=dict(parameters),
                content=body,
                timeout=timeout,
                headers={"Authorization": authorization} if authorization else {},
            ) as response:
                answer = StreamedResponse(response, url, source)
                if response.status_code != 200:
                    text = answer.read_beginning(_MOST_ERROR_BYTES).decode(errors="replace")
                    raise make_response_error(text, response.status_code, url, source)
                yield answer
        except RuntimeError as error:
            if not self._client.is_closed:
                raise
            raise RefusedError("NETWORK_ERROR", f"The connections to {url} were closed meanwhile: {error}") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise make_connection_error(source or url.removeprefix("http://"), error) from None
        except httpx.ReadTimeout:
            raise make_silence_error(url, timeout.read) from None
        except httpx.TransportError as error:
            raise make_lost_connection_error(url, error) from None

    def get(self, url: str) -> httpx.Response:
        """Returns a page, whatever its status."""
        return self._client.get(url)

    def is_alive(self, url: str, timeout_seconds: float) -> bool:
        """Returns whether ``/ping`` is answered with status 200 in time."""
        page = self.try_get(f"{url}/ping", timeout_seconds)
        return page is not None and page.status_code == 200

    def try_get(self, url: str, timeout_seconds: float) -> httpx.Response | None:
        """Returns a page, whatever its status; ``None`` if no response comes in time."""
        until = time.monotonic() + timeout_seconds
        try:
            with self._client.stream("GET", url, timeout=timeout_seconds) as page:
                content = b""
                for chunk in page.iter_bytes():
                    content += chunk
                    if len(content) > _MOST_PAGE_BYTES or time.monotonic() > until:
                        return None
                return httpx.Response(page.status_code, headers=page.headers, content=content)
        except httpx.TransportError:
            return None


def _make_credentials(user: str, password: str) -> dict[str, str]:
    """Returns the headers that tell user and password.

    A header holds ASCII without blanks at its ends. Any other text goes as basic authentication, in UTF-8. Source:
    RFC 7617, "The 'Basic' HTTP Authentication Scheme".
    """
    if all(text.isascii() and (text.isprintable() and text == text.strip()) for text in (user, password)):
        return {"X-ClickHouse-User": user, "X-ClickHouse-Key": password}
    if ":" in user:
        raise UserError("BAD_ARGUMENTS", f"The user {user!r} cannot log in: a name with ':' and other text is not sent")
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _trust_authorities(file: Path) -> ssl.SSLContext:
    """Trusts the authorities of a file alone. Raises 36 (BAD_ARGUMENTS)."""
    try:
        return ssl.create_default_context(cafile=str(file))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UserError(
            "BAD_ARGUMENTS", f"No certificates can be read from the file {file} (ca_file): {error}"
        ) from None


class StreamedResponse:
    """A response read once as it arrives. An error in its trailer is raised instead of returned as data."""

    def __init__(self, response: httpx.Response, url: str, source: str) -> None:
        self._response = response
        self.url = url
        self._source = source
        self.headers: Mapping[str, str] = response.headers

    def __iter__(self) -> Iterator[bytes]:
        tag = self.headers.get("x-clickhouse-exception-tag", "")
        held = b""
        try:
            for chunk in self._response.iter_bytes():
                held += chunk
                if not tag:
                    yield held
                    held = b""
                elif len(held) > 2 * _HELD_BYTES:
                    yield held[:-_HELD_BYTES]
                    held = held[-_HELD_BYTES:]
        except httpx.TransportError as error:
            data, problem = split_error_trailer(held, tag, self._source) if tag else (held, None)
            yield data
            raise problem or self._make_failure(error) from None
        yield held

    def read(self) -> bytes:
        """Returns the whole response."""
        return b"".join(self)

    def read_beginning(self, most_bytes: int) -> bytes:
        """Returns at most the first ``most_bytes`` of the response and does not read the rest."""
        pieces, size = [], 0
        for chunk in self:
            pieces.append(chunk)
            size += len(chunk)
            if size >= most_bytes:
                break
        return b"".join(pieces)[:most_bytes]

    def _make_failure(self, error: httpx.TransportError) -> PandoError:
        if isinstance(error, httpx.ReadTimeout):
            return make_silence_error(self.url, self._response.request.extensions.get("timeout", {}).get("read"))
        return make_lost_connection_error(self.url, error)
