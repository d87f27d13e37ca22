"""Parses the URL parameters and ``X-ClickHouse-*`` headers of a query's request.

A URL parameter is one of the interface's own (``query``, ``database``, …), a query parameter (``param_x``), or a
setting. Source: ClickHouse documentation, "HTTP Interface".
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from engine.front.http.multipart_forms import get_boundary, is_external_table_option
from engine.server.cluster_secret import SCHEME, Proof, parse_proof
from parts.common.errors import UserError
from sql.settings.session_settings import (
    canonical_name,
    parse_setting,
)
from sql.settings.setting_values import (
    SettingValue,
)

_IGNORED = frozenset({"quota_key", "stacktrace"})
"""Parameters of clients that have no effect."""
_REQUEST_SETTINGS = {
    "default_format": "default_format",
    "wait_end_of_query": "wait_end_of_query",
    "buffer_size": "http_response_buffer_size",
}
"""Parameters that are settings here. In ClickHouse they are none, so read-only users may give them."""
_MAX_SESSION_SECONDS = 3600
_LONGEST_ID = 1000


@dataclass(frozen=True)
class Credentials:
    """The user of a request, with the password or with another server's proof."""

    user: str = "default"
    password: str = ""
    proof: Proof | None = None
    """Proof of another server of the cluster that asks for the user, in place of a password."""


@dataclass(frozen=True)
class QueryRequest:
    """A parsed request."""

    method: str
    query: str = ""
    database: str = ""
    credentials: Credentials = Credentials()
    query_id: str = ""
    format: str = ""
    session_id: str = ""
    session_timeout_seconds: int = 60
    session_check: bool = False
    profile: str = ""
    settings: dict[str, SettingValue] = field(default_factory=dict)
    own_settings: dict[str, SettingValue] = field(default_factory=dict)
    """Settings that even a read-only user may give."""
    parameters: dict[str, str] = field(default_factory=dict)
    content_encoding: str = ""
    accept_encoding: str = ""
    client_protocol_version: int = 0
    origin: str = ""
    compresses_blocks: bool = False
    decompresses_blocks: bool = False
    boundary: str = ""
    """The boundary of the form in the body, which holds the rest of the request."""
    with_form_fields: Callable[[list[tuple[str, str]]], QueryRequest] | None = None
    """Returns the request with the fields of its form added."""
    table_options: dict[str, str] = field(default_factory=dict)

    @property
    def is_read_only(self) -> bool:
        """Whether the request may not change anything: GET and HEAD."""
        return self.method in ("GET", "HEAD")


def parse_credentials(scope: Mapping[str, Any]) -> Credentials:
    """Reads the credentials from headers or URL of an ASGI scope. Raises ``UserError``."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    pairs = _parse_url_parameters(scope)
    return _read_credentials(dict(pairs), headers, pairs)


def _parse_url_parameters(scope: Mapping[str, Any]) -> list[tuple[str, str]]:
    try:
        return parse_qsl(scope["query_string"].decode(), keep_blank_values=True, errors="strict", max_num_fields=10_000)
    except ValueError as error:
        raise UserError("BAD_ARGUMENTS", f"Cannot read the URL parameters: {error}") from None


def parse_request(scope: Mapping[str, Any]) -> QueryRequest:
    """Parses an ASGI scope. Raises ``UserError``."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    kind = headers.get("content-type", "")
    boundary = get_boundary(kind) if "multipart" in kind.lower() else ""
    pairs = _parse_url_parameters(scope)
    request = _make_request(scope["method"], headers, pairs, is_form=bool(boundary))
    if not boundary:
        return request

    def with_form_fields(fields: list[tuple[str, str]]) -> QueryRequest:
        """Adds the form's fields, except user and password, which were checked before it was read."""
        more = [(name, value) for name, value in fields if name not in ("user", "password")]
        return _make_request(scope["method"], headers, [*pairs, *more], is_form=True)

    return replace(request, boundary=boundary, with_form_fields=with_form_fields)


def _make_request(
    method: str, headers: Mapping[str, str], pairs: Sequence[tuple[str, str]], *, is_form: bool
) -> QueryRequest:
    options = {name: value for name, value in pairs if is_form and is_external_table_option(name)}
    own, settings, own_settings, parameters = _sort_parameters([pair for pair in pairs if pair[0] not in options])
    return QueryRequest(
        method=method,
        table_options=options,
        query=own.get("query", ""),
        database=own.get("database") or headers.get("x-clickhouse-database", ""),
        credentials=_read_credentials(own, headers, pairs),
        query_id=_check_id("query_id", own.get("query_id", "")),
        format=str(own_settings.get("default_format") or headers.get("x-clickhouse-format", "")),
        session_id=_check_id("session_id", own.get("session_id", "")),
        session_timeout_seconds=_parse_session_timeout(own.get("session_timeout", "60")),
        session_check=own.get("session_check", "0") not in ("0", ""),
        profile=own.get("profile", ""),
        settings=settings,
        own_settings=own_settings,
        parameters=parameters,
        content_encoding=headers.get("content-encoding", "").strip().lower(),
        accept_encoding=headers.get("accept-encoding", "").lower(),
        compresses_blocks=own.get("compress", "0") not in ("0", ""),
        decompresses_blocks=own.get("decompress", "0") not in ("0", ""),
        client_protocol_version=_parse_protocol_version(own.get("client_protocol_version", "0")),
        origin=headers.get("origin", ""),
    )


def _sort_parameters(
    pairs: Iterable[tuple[str, str]],
) -> tuple[dict[str, str], dict[str, SettingValue], dict[str, SettingValue], dict[str, str]]:
    own: dict[str, str] = {}
    settings: dict[str, SettingValue] = {}
    own_settings: dict[str, SettingValue] = {}
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in _OWN_PARAMETERS:
            own[name] = value
        elif name in _REQUEST_SETTINGS:
            own_settings[_REQUEST_SETTINGS[name]] = parse_setting(_REQUEST_SETTINGS[name], value)
        elif name.startswith("param_"):
            parameters[name.removeprefix("param_")] = value
        elif name not in _IGNORED:
            settings[canonical_name(name)] = parse_setting(name, value)
    return own, settings, own_settings, parameters


_OWN_PARAMETERS = frozenset(
    {
        "query",
        "database",
        "user",
        "password",
        "profile",
        "query_id",
        "session_id",
        "session_timeout",
        "session_check",
        "client_protocol_version",
        "compress",
        "decompress",
    }
)


def _parse_protocol_version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UserError("BAD_ARGUMENTS", f"client_protocol_version must be a number, got {text[:100]!r}")
    return int(text)


def _parse_session_timeout(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    if not is_number or not 0 < int(text) <= _MAX_SESSION_SECONDS:
        raise UserError(
            "INVALID_SESSION_TIMEOUT",
            f"session_timeout must be 1 to {_MAX_SESSION_SECONDS} seconds, got {text[:100]!r}",
        )
    return int(text)


def _check_id(name: str, text: str) -> str:
    """Returns the id if it is fit for headers and the log. Raises 36 (BAD_ARGUMENTS)."""
    if not text:
        return text
    if len(text) > _LONGEST_ID or any(char < " " or char == "\x7f" for char in text):
        raise UserError(
            "BAD_ARGUMENTS",
            f"{name} must have at most {_LONGEST_ID} characters and no control characters, got {text[:100]!r}",
        )
    return text


def _decode_header(text: str) -> str:
    """Returns a header's value as UTF-8 if its bytes are that; clients send them as they are, undeclared."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return text


def _read_credentials(
    own: Mapping[str, str], headers: Mapping[str, str], pairs: Sequence[tuple[str, str]]
) -> Credentials:
    """Reads ``X-ClickHouse-User/Key``, a cluster's proof, basic authentication, or the URL, in this order."""
    if "x-clickhouse-user" in headers or "x-clickhouse-key" in headers:
        user, password = headers.get("x-clickhouse-user", ""), headers.get("x-clickhouse-key", "")
        return Credentials(_decode_header(user) or "default", _decode_header(password))
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme == SCHEME:
        proof = parse_proof(value, pairs)
        return Credentials(proof.user, proof=proof)
    if scheme.lower() not in ("", "never"):  # pages send "never" to keep the browser from asking
        try:
            if scheme.lower() != "basic" or not value:
                raise ValueError(scheme)
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            raise UserError("AUTHENTICATION_FAILED", "Cannot read the Authorization header: not Basic") from None
        return Credentials(user or "default", password)
    return Credentials(own.get("user") or "default", own.get("password", ""))
