"""Errors over HTTP: parses the server's own errors, and says what a lost connection means.

A failure is one of three kinds. *Refused*: certainly not executed (no connection, 503, read-only); another server or a
later time may do better. *Unknown*: the connection broke or the server itself does not know (319); repeating is safe
only if the request is idempotent. Everything else is the server's answer, and is raised unchanged.

An error after the first byte of a response is a trailer; ``engine.front.http.error_responses`` describes its form.
"""

from __future__ import annotations

import re

from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, make_error_from_code

_TEXT = re.compile(
    r"Code: (\d+)\. DB::Exception: (.*?)(?: \(\w+\))?(?: \(version [^()]*(?:\([^()]*\))?\))?\s*\Z", re.DOTALL
)
_REFUSALS = frozenset({202, 210, 242, 252, 285, 286, 999})
"""Too many queries, network, read-only, too many parts, too few replicas, pending quorum, ZooKeeper away."""
_BUSY = (429, 502, 503, 504)
_SHOWN_CHARACTERS = 500


class RefusedError(UnavailableError):
    """A request that was certainly not executed and may succeed elsewhere or later."""


def parse_error(text: str, source: str = "") -> PandoError | None:
    """Returns the error that this text ends with, raised on the server ``source``; ``None`` for none."""
    match = _TEXT.search(text)
    if match is None:
        return None
    code = int(match[1])
    error = make_error_from_code(code, f"{match[2]} (from {source})" if source else match[2])
    return RefusedError(error.name, error.message) if code in _REFUSALS else error


def make_response_error(text: str, status: int, url: str, source: str = "") -> PandoError:
    """Returns the error of a response with this status.

    A text that is no error of a Pando server gives 210 (NETWORK_ERROR).
    """
    error = parse_error(text, source)
    if error is None:
        message = f"{url} answered with HTTP status {status}: {text[:_SHOWN_CHARACTERS].strip()}"
        return RefusedError("NETWORK_ERROR", message) if status in _BUSY else PandoError("NETWORK_ERROR", message)
    return RefusedError(error.name, error.message) if status == 503 else error


def split_error_trailer(tail: bytes, tag: str, source: str = "") -> tuple[bytes, PandoError | None]:
    """Splits the end of an aborted response into the data before the error's trailer, and the error."""
    data, found, trailer = tail.rpartition(f"\r\n__exception__\r\n{tag}\r\n".encode())
    if not found:
        return tail, None
    text = trailer.decode(errors="replace").rsplit("\n", 3)[0]
    return data, parse_error(text, source) or PandoError("NETWORK_ERROR", text)


def make_connection_error(server: str, problem: Exception) -> RefusedError:
    """Returns the error for a server that cannot be connected to."""
    hint = " (check host and port)"
    if "refused" in str(problem):
        hint = " (is a server running there?)"
    elif "CERTIFICATE_VERIFY_FAILED" in str(problem):
        hint = " (it does not prove that it is this server: see ca_file of linked_clusters)"
    return RefusedError("NETWORK_ERROR", f"Cannot connect to {server}: {problem}{hint}")


def make_silence_error(url: str, seconds: float | None) -> UnknownOutcomeError:
    """Returns the error for a server that sent nothing for this time."""
    told = "" if seconds is None else f" for {seconds:g} s"
    return UnknownOutcomeError("SOCKET_TIMEOUT", f"{url} sent nothing{told}: the answer is not complete")


def make_lost_connection_error(url: str, problem: Exception) -> UnknownOutcomeError:
    """Returns the error for a connection that broke before the response was complete."""
    return UnknownOutcomeError(
        "NETWORK_ERROR",
        f"The connection was lost before the answer of {url} was complete ({type(problem).__name__}): {problem}",
    )
