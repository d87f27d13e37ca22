r"""Errors over HTTP: status, text, and the trailer when the response has already begun.

An error after the first byte cannot change the status any more. The response then ends with ::

    \r\n__exception__\r\n<tag>\r\n<message>\n<length of message and line end in bytes> <tag>\r\n__exception__\r\n

and the connection is closed without the last chunk, so that no client takes the response for complete. ``tag`` is the
16 random letters of the header ``X-ClickHouse-Exception-Tag``, which data cannot imitate.
Source of trailer and statuses: ClickHouse documentation, "HTTP Interface".
"""

from __future__ import annotations

import logging
import secrets
import string
from importlib.metadata import version

from parts.common.errors import PandoError, UnavailableError, UserError, convert_resource_error, make_error_from_code

logger = logging.getLogger(__name__)

SERVER_VERSION = version("pando")
_STATUSES = {
    "REQUIRED_PASSWORD": 401,
    "AUTHENTICATION_FAILED": 403,
    "UNKNOWN_USER": 403,
    "WRONG_PASSWORD": 403,
    "UNKNOWN_TABLE": 404,
    "UNKNOWN_DATABASE": 404,
    "UNKNOWN_FUNCTION": 404,
    "UNKNOWN_IDENTIFIER": 404,
    "UNKNOWN_TYPE": 404,
    "UNKNOWN_STORAGE": 404,
    "UNKNOWN_SETTING": 404,
    "UNKNOWN_FORMAT": 404,
    "SESSION_NOT_FOUND": 404,
    "UNSUPPORTED_METHOD": 405,
    "TIMEOUT_EXCEEDED": 408,
    "SOCKET_TIMEOUT": 408,
    "NOT_IMPLEMENTED": 501,
    "TOO_MANY_SIMULTANEOUS_QUERIES": 503,
    "STD_EXCEPTION": 500,
    "LOGICAL_ERROR": 500,
}


def get_http_status(error: PandoError) -> int:
    """Returns the HTTP status of an error.

    ClickHouse's own by name; else 400 for the user's errors, 503 for what a retry may cure, 500 for the rest.
    """
    named = _STATUSES.get(error.name)
    if named is not None:
        return named
    if isinstance(error, UnavailableError):
        return 503
    return 400 if isinstance(error, UserError) else 500


def make_error_headers(error: PandoError, length: int) -> list[tuple[bytes, bytes]]:
    """Returns the headers of an error response whose text has this length."""
    return [
        (b"x-clickhouse-exception-code", str(error.code).encode()),
        (b"content-type", b"text/plain; charset=UTF-8"),
        (b"content-length", str(length).encode()),
    ]


def format_error(error: PandoError) -> str:
    """Returns the text of an error response."""
    return f"{error} (version {SERVER_VERSION})\n"


def convert_to_pando_error(error: BaseException) -> PandoError:
    """Converts an exception to a ``PandoError``.

    Unexpected ones are bugs: they are logged with a traceback and become 1001 (STD_EXCEPTION).
    """
    if isinstance(error, OSError | MemoryError | RuntimeError):
        error = convert_resource_error(error)
    if isinstance(error, PandoError):
        return error
    logger.error("unexpected error while running a query", exc_info=error)
    return make_error_from_code(1001, f"{type(error).__name__}: {error}")


def make_exception_tag() -> str:
    """Returns 16 random letters."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(16))


def make_exception_trailer(error: PandoError, tag: str) -> bytes:
    """Returns the trailer that ends a response after an error."""
    message = format_error(error).encode()
    return b"\r\n__exception__\r\n%b\r\n%b%d %b\r\n__exception__\r\n" % (
        tag.encode(),
        message,
        len(message),
        tag.encode(),
    )
