r"""What went wrong over HTTP: the server's own errors read back, and what a lost connection means.

A failure is one of three kinds. *Refused*: certainly not done (no connection, 503, read-only): another server or a
later time may do better. *Unknown*: the connection broke or the server itself does not know (319): repeating is safe
only for what is idempotent. Everything else is an answer, and is raised as it is.

An error after the first byte of an answer is a trailer; ``engine.front.http.error_responses`` has its form.
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
    """Certainly not done; may succeed elsewhere or later."""


def parse_error(text: str, source: str = "") -> PandoError | None:
    """The error that this text ends with, as it was raised on the server ``source``."""
    match = _TEXT.search(text)
    if match is None:
        return None
    code = int(match[1])
    error = make_error_from_code(code, f"{match[2]} (from {source})" if source else match[2])
    return RefusedError(error.name, error.message) if code in _REFUSALS else error


def make_response_error(text: str, status: int, url: str, source: str = "") -> PandoError:
    """The error of an answer with this status; 210 (NETWORK_ERROR) for one that no server of ours wrote."""
    error = parse_error(text, source)
    if error is None:
        message = f"{url} answered with HTTP status {status}: {text[:_SHOWN_CHARACTERS].strip()}"
        return RefusedError("NETWORK_ERROR", message) if status in _BUSY else PandoError("NETWORK_ERROR", message)
    return RefusedError(error.name, error.message) if status == 503 else error


def split_error_trailer(tail: bytes, tag: str, source: str = "") -> tuple[bytes, PandoError | None]:
    """What came before the error's trailer, and the error. ``tail`` is the end of an answer that was cut off."""
    data, found, trailer = tail.rpartition(f"\r\n__exception__\r\n{tag}\r\n".encode())
    if not found:
        return tail, None
    text = trailer.decode(errors="replace").rsplit("\n", 3)[0]
    return data, parse_error(text, source) or PandoError("NETWORK_ERROR", text)


def make_connection_error(server: str, problem: Exception) -> RefusedError:
    hint = " (is a server running there?)" if "refused" in str(problem) else " (check host and port)"
    return RefusedError("NETWORK_ERROR", f"Cannot connect to {server}: {problem}{hint}")


def silent(url: str, seconds: float | None) -> UnknownOutcomeError:
    told = "" if seconds is None else f" for {seconds:g} s"
    return UnknownOutcomeError("SOCKET_TIMEOUT", f"{url} sent nothing{told}: the answer is not complete")


def make_lost_connection_error(url: str, problem: Exception) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        "NETWORK_ERROR",
        f"The connection was lost before the answer of {url} was complete ({type(problem).__name__}): {problem}",
    )
