"""Answers short queries on the event loop itself: no task, no thread, no stream.

``sql.run.short_queries.short_query_cache`` decides whether a query is short; this module decides whether a request is
simple enough. Everything else, and everything that fails, is left to
:class:`engine.front.http.query_endpoint.QueryEndpoint`, which handles the request from the beginning.

Such a query takes a millisecond or two. It is not in ``system.processes``, because nobody could see or stop it there.
Its limits of time and memory are checked before it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.front.http.query_request import QueryRequest, parse_request
from engine.front.http.request_entry import AuthenticatedUser, RequestEntry
from engine.front.http.response_compression import choose_compressor
from engine.front.prometheus_metrics import Metrics
from engine.queries.server_links import LinkFreshness
from engine.queries.session import Session
from parts.common.errors import PandoError
from parts.common.lru_cache import LruCache
from sql.formats.format_options import FormatOptions
from sql.formats.registry import find_format
from sql.settings.session_settings import (
    make_settings,
)
from sql.settings.setting_values import (
    SettingValue,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
)

if TYPE_CHECKING:
    from engine.statement_runner import StatementRunner

logger = logging.getLogger(__name__)

_MOST_KNOWN = 256
_QUICK_ENCODINGS = ("", "zstd", "lz4", "gzip", "deflate")
_HIGHEST_LEVEL = 6
"""The highest gzip level that is quick enough for a short answer."""


@dataclass(frozen=True, slots=True)
class _CachedSession:
    """The common part of a user's requests with the same settings."""

    settings: dict[str, SettingValue]
    compresses: bool
    compression_level: int
    default_format: str
    options: FormatOptions


class ShortAnswers:
    """Answers short queries of one server; used on its event loop only."""

    def __init__(
        self,
        engine: StatementRunner,
        entry: RequestEntry,
        metrics: Metrics,
        has_free_slot: Callable[[], bool],
        common_headers: Sequence[tuple[bytes, bytes]],
    ) -> None:
        """``has_free_slot`` returns whether another query may run; ``common_headers`` are those of every response."""
        self._engine = engine
        self._entry = entry
        self._metrics = metrics
        self._has_free_slot = has_free_slot
        self._common_head = b"".join(name + b": " + value + b"\r\n" for name, value in common_headers)
        self._cached_sessions: LruCache[tuple[object, ...], _CachedSession | None] = LruCache(_MOST_KNOWN)

    def answer(self, scope: Mapping[str, Any], body: bytes) -> tuple[bytes, bytes] | None:
        """Returns header lines and body of a 200, or ``None`` if the request must take the normal way."""
        try:
            return self._answer(scope, body)
        except PandoError:
            return None
        except Exception:
            logger.exception("a short query is left to a thread")
            return None

    def _answer(self, scope: Mapping[str, Any], body: bytes) -> tuple[bytes, bytes] | None:
        request = parse_request(scope)
        if not _is_simple(request) or not self._has_free_slot():
            return None
        user = self._entry.authenticate(request.credentials, scope, is_last=False)
        cached = self._get_cached_session(request, user)
        if cached is None:
            return None
        text = request.query
        if body and not request.is_read_only:  # one text with the URL's, as in engine.front.http.query_exchange
            try:
                text = f"{text}\n{body.decode()}"
            except UnicodeDecodeError:
                return None
        monotonic = self._engine.services.monotonic
        started = monotonic()
        session = Session(request.database or "default", cached.settings, request.credentials.user, request.query_id)
        result = self._engine.answer_short_query(text, session, request.parameters)
        if result is None:
            return None
        counts = result.statistics
        counts.elapsed_seconds = monotonic() - started
        format = find_format(result.format or request.format or cached.default_format)
        if format.writer is None:
            return None
        data = b"".join(format.writer(result.columns, result.batches, cached.options, counts))
        encoding = ""
        if request.accept_encoding and cached.compresses:
            compressor = choose_compressor(request.accept_encoding, cached.compression_level)
            encoding = compressor.encoding
            if encoding not in _QUICK_ENCODINGS:
                return None
            data = compressor.compress(data) + compressor.finish()
        seconds = monotonic() - started
        self._metrics.count_answer(seconds, counts.rows_read)
        logger.debug("query %s of %s was answered at once", result.query_id, request.credentials.user)
        summary = (
            f'{{"read_rows":"{counts.rows_read}","read_bytes":"{counts.bytes_read}","written_rows":"0",'
            f'"written_bytes":"0","total_rows_to_read":"0","result_rows":"{counts.result_rows}",'
            f'"deduplicated_blocks":"0","memory_usage":"0","elapsed_ns":"{int(seconds * 1e9)}"}}'
        )
        head = (
            f"x-clickhouse-query-id: {result.query_id}\r\nx-clickhouse-summary: {summary}\r\n"
            f"x-clickhouse-format: {format.name}\r\n"
        )
        if encoding:
            head += f"content-encoding: {encoding}\r\n"
        head += f"content-type: {format.content_type}\r\ncontent-length: {len(data)}\r\n"
        return self._common_head + head.encode("latin-1", "replace"), data

    def _get_cached_session(self, request: QueryRequest, user: AuthenticatedUser) -> _CachedSession | None:
        given = tuple(
            (name, type(value), value)
            for settings in (request.settings, request.own_settings)
            for name, value in (*settings.items(), ("", None))
        )
        version = request.client_protocol_version
        key = (request.credentials.user, request.profile, request.is_read_only, version, given)
        return self._cached_sessions.get(key, lambda: self._make_cached_session(request, user))

    def _make_cached_session(self, request: QueryRequest, user: AuthenticatedUser) -> _CachedSession | None:
        """Builds the session's settings; ``None`` if such requests are not answered here."""
        settings = user.resolve_settings(user.open_session().settings, request)
        output = make_settings(settings, self._engine.config.timezone)
        if output.send_progress_in_http_headers or output.max_block_size != DEFAULT_SETTINGS.max_block_size:
            return None
        if LinkFreshness.of(output).is_demanded:  # they may have to wait
            return None
        options = replace(FormatOptions.of(output), client_protocol_version=request.client_protocol_version)
        level = output.http_zlib_compression_level
        compresses = output.enable_http_compression
        if compresses and level > _HIGHEST_LEVEL:
            return None
        return _CachedSession(settings, compresses, level, output.default_format or "TabSeparated", options)


def _is_simple(request: QueryRequest) -> bool:
    return not (
        request.method not in ("GET", "POST")
        or request.session_id
        or request.credentials.proof is not None
        or request.origin
        or request.with_form_fields is not None
        or request.content_encoding not in ("", "identity")
        or request.compresses_blocks
        or request.decompresses_blocks
    )
