"""Reads the JSON object that is the body of a request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from parts.common.errors import CancelledError, UserError


async def read_json_body(request: Request, timeout_seconds: float | None, most_bytes: int) -> dict[str, Any]:
    """Reads a JSON object of at most ``most_bytes``.

    Raises 36 (BAD_ARGUMENTS), and 209 (SOCKET_TIMEOUT) for a client that falls silent.
    """
    data = bytearray()
    try:
        async for chunk in _with_timeout(request.stream(), timeout_seconds):
            data += chunk
            if len(data) > most_bytes:
                raise UserError("BAD_ARGUMENTS", f"The request is longer than {most_bytes} bytes")
    except ClientDisconnect:
        raise CancelledError("The client closed the connection before the end of its request") from None
    except TimeoutError:
        raise UserError("SOCKET_TIMEOUT", f"The client sent nothing of its request for {timeout_seconds:g} s") from None
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError("BAD_ARGUMENTS", f"The request is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UserError("BAD_ARGUMENTS", f"The request must be a JSON object, got {type(body).__name__}")
    return body


async def _with_timeout(chunks: AsyncIterator[bytes], timeout_seconds: float | None) -> AsyncIterator[bytes]:
    with contextlib.suppress(StopAsyncIteration):
        while True:
            async with asyncio.timeout(timeout_seconds):
                chunk = await anext(chunks)
            yield chunk
