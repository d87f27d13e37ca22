"""Proof that a request comes from a server of the same cluster, by a shared secret that is never sent.

The asking server names the cluster, the user whose query it is, the time, and a number used once. It signs them
together with the parameters and the statement (HMAC-SHA256). The other server then accepts the user's name without a
password. A recorded request is useless for anything else: another statement has another signature, and each number is
accepted once. Rows and responses are neither signed nor encrypted. Source: ClickHouse documentation, "Distributed Table
Engine", the parameter ``secret`` of a cluster.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from parts.common.errors import UserError

SCHEME = "Pando-Cluster"
"""The scheme of the header ``Authorization``."""
MOST_SECONDS = 300
"""The clocks of a cluster's servers may differ by at most this."""


@dataclass(frozen=True)
class Proof:
    """The content of a request's header, not yet checked. ``time`` is seconds since the epoch."""

    cluster: str
    user: str
    time: float
    number: str
    parameters: str
    """Digest of the signed parameters; ``asked`` is the digest of the request's actual ones."""
    statement: str
    """Digest of the first ``statement_bytes`` of the body. Only rows may follow them, and only if ``has_rows``."""
    statement_bytes: int
    has_rows: bool
    payload: bytes
    signature: str
    asked: str = ""


def make_authorization(
    secret: str,
    cluster: str,
    user: str,
    parameters: Mapping[str, str],
    statement: bytes,
    *,
    has_rows: bool = False,
    now: float,
    number: str,
) -> str:
    """Returns the value of the header ``Authorization``.

    ``has_rows``: rows follow the statement in the body. ``number`` must be unique. ``now`` is seconds since the epoch.
    """
    payload = json.dumps(
        {
            "cluster": cluster,
            "user": user,
            "time": now,
            "number": number,
            "parameters": _digest_pairs(parameters.items()),
            "statement": hashlib.sha256(statement).hexdigest(),
            "statement_bytes": len(statement),
            "has_rows": has_rows,
        }
    ).encode()
    return f"{SCHEME} {base64.b64encode(payload).decode()}.{_sign(secret, payload)}"


def parse_proof(value: str, parameters: Iterable[tuple[str, str]]) -> Proof:
    """Parses the header's value after the scheme. Raises 516 (AUTHENTICATION_FAILED)."""
    encoded, _, signature = value.strip().partition(".")
    try:
        payload = base64.b64decode(encoded, validate=True)
        said = json.loads(payload)
        return Proof(
            str(said["cluster"]), str(said["user"]), float(said["time"]), str(said["number"]), str(said["parameters"]),
            str(said["statement"]), int(said["statement_bytes"]), bool(said["has_rows"]), payload, signature,
            _digest_pairs(parameters),
        )  # fmt: skip
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise UserError("AUTHENTICATION_FAILED", f"Cannot read the Authorization header: not {SCHEME}") from None


def check_proof(proof: Proof, secrets: Mapping[str, str], now: float) -> None:
    """Checks signature, time and parameters of a proof; :func:`read_signed_statement` checks the rest.

    ``secrets`` are by cluster; ``now`` is seconds since the epoch. Raises 516 (AUTHENTICATION_FAILED).
    """
    secret = secrets.get(proof.cluster, "")
    expected = _sign(secret, proof.payload).encode()
    if not hmac.compare_digest(expected, proof.signature.encode("utf-8", "replace")) or not secret:
        raise _make_refusal(proof, "the servers do not have the same secret for this cluster")
    if not abs(now - proof.time) <= MOST_SECONDS:
        raise _make_refusal(proof, f"the clocks of the servers differ by more than {MOST_SECONDS} s")
    if proof.parameters != proof.asked:
        raise _make_refusal(proof, "its parameters are not those that were signed")


def read_signed_statement(proof: Proof, body: BinaryIO, is_first: Callable[[str, float], bool]) -> bytes:
    """Reads the statement from the body and checks that it is the signed one.

    ``is_first(number, seconds)`` returns whether the number was not seen within that time. Raises 516
    (AUTHENTICATION_FAILED) for a repeated number or another statement.
    """
    if not is_first(proof.number, 2.0 * MOST_SECONDS):
        raise _make_refusal(proof, "the request was made before")
    statement = b""
    while len(statement) < proof.statement_bytes and (more := body.read(proof.statement_bytes - len(statement))):
        statement += more
    if hashlib.sha256(statement).hexdigest() != proof.statement or (not proof.has_rows and body.read(1)):
        raise _make_refusal(proof, "its statement is not the one that was signed")
    return statement


def _sign(secret: str, payload: bytes) -> str:
    return hmac.new(secret.encode("utf-8", "surrogatepass"), payload, hashlib.sha256).hexdigest()


def _digest_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(sorted(pairs)).encode()).hexdigest()


def _make_refusal(proof: Proof, why: str) -> UserError:
    return UserError(
        "AUTHENTICATION_FAILED",
        f"{proof.user}: Interserver authentication of cluster {proof.cluster!r} failed: {why}",
    )
