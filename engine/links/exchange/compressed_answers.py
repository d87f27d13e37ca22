"""Compression of JSON answers between clusters.

A target's server says in its request that it reads zstd: ``"accept": ["zstd"]``. A source that knows this field may
answer with one zstd frame in the place of the JSON; an older one ignores it. The first bytes tell which came, so no
header is needed that a proxy might take away. Nothing is said of ``hello``, nor of files, which are compressed already.
"""

from __future__ import annotations

import io

import zstandard

from engine.links.exchange.fields import Document
from parts.common.errors import UserError

_FIELD = "accept"
_ZSTD = "zstd"
_MAGIC = b"\x28\xb5\x2f\xfd"
_LEAST_BYTES = 1024
"""Smaller answers, most of them, fit into a packet as they are."""
_MOST_WINDOW_BYTES = 8 << 20
"""The memory that a frame may ask for, besides the answer itself. A compressor of level 1 asks for 512 KiB."""


def accept_compressed(request: Document) -> Document:
    """Returns the request, which also says that its answer may be compressed."""
    return {**request, _FIELD: [_ZSTD]}


def compress_answer(data: bytes, request: Document) -> bytes:
    """Returns the answer, compressed if the request accepts that and it is long."""
    accepted = request.get(_FIELD)
    if len(data) < _LEAST_BYTES or not isinstance(accepted, list) or _ZSTD not in accepted:
        return data
    return zstandard.ZstdCompressor(level=1).compress(data)


def decompress_answer(data: bytes, limit_bytes: int) -> bytes:
    """Returns the JSON of an answer.

    Raises 36 (BAD_ARGUMENTS) for a broken frame, or one of more than the limit.
    """
    if not data.startswith(_MAGIC):
        return data
    try:
        frame = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES).stream_reader(io.BytesIO(data))
        text = frame.read(limit_bytes + 1)
    except zstandard.ZstdError as error:
        raise UserError("BAD_ARGUMENTS", f"it cannot be decompressed: {error}") from None
    if len(text) > limit_bytes:
        raise UserError("BAD_ARGUMENTS", f"it has more than {limit_bytes} bytes")
    return text
