"""The response to a scan: an Arrow stream that is pulled on a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.responses import Response

from engine.front.http.error_responses import (
    convert_to_pando_error,
    make_exception_tag,
    make_exception_trailer,
)

logger = logging.getLogger(__name__)

Chunk = bytes | Sequence[bytes | memoryview]
"""What a step makes: bytes, or several pieces to be sent one after another."""


class ScanResponse(Response):
    """A streamed response, pulled on a thread; an error in the middle ends it after the trailer."""

    media_type = "application/vnd.apache.arrow.stream"

    def __init__(self, first: Chunk, chunks: Iterator[Chunk], threads: ThreadPoolExecutor) -> None:
        self._first = first
        self._chunks = chunks
        self._threads = threads
        self._tag = make_exception_tag()
        self.status_code = 200
        self.background = None
        self.init_headers({"X-ClickHouse-Exception-Tag": self._tag})
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        watch = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._stream(send, watch)
        finally:
            watch.cancel()
            await asyncio.get_running_loop().run_in_executor(self._threads, self._chunks.close)  # type: ignore[attr-defined]

    async def _stream(self, send: Any, watch: asyncio.Future[None]) -> None:
        chunk: Chunk | None = self._first
        while chunk is not None and not watch.done():
            following = asyncio.get_running_loop().run_in_executor(self._threads, next, self._chunks, None)
            try:
                for piece in [chunk] if isinstance(chunk, bytes) else chunk:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            finally:
                try:
                    chunk = await following
                except Exception as problem:
                    error = convert_to_pando_error(problem)
                    logger.info("scan failed in the middle: %s", error)
                    trailer = make_exception_trailer(error, self._tag)
                    await send({"type": "http.response.body", "body": trailer, "more_body": True})
                    return  # without the last chunk: the server closes the connection
        await send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
