"""Cuts and joins the bytes of a response into chunks worth sending."""

from __future__ import annotations

from collections.abc import Iterator

from engine.front.http.response_compression import Compressor
from parts.common.errors import PandoError

_CHUNK_BYTES = 256 << 10
_MOST_AT_ONCE_BYTES = 4 << 20


def _cut_long_chunks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Cuts very long chunks, because one large copy would hold the interpreter's lock for long."""
    for chunk in chunks:
        if len(chunk) <= _MOST_AT_ONCE_BYTES:
            yield chunk
        else:
            view = memoryview(chunk)
            yield from (bytes(view[at : at + _MOST_AT_ONCE_BYTES]) for at in range(0, len(chunk), _MOST_AT_ONCE_BYTES))


def gather_chunks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the response in chunks worth sending; before an error it yields what is left."""
    held: list[bytes] = []
    held_bytes = 0
    try:
        for chunk in _cut_long_chunks(chunks):
            held.append(chunk)
            held_bytes += len(chunk)
            if held_bytes >= _CHUNK_BYTES:
                yield b"".join(held)
                held, held_bytes = [], 0
    except PandoError:
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def compress_chunks(chunks: Iterator[bytes], compressor: Compressor) -> Iterator[bytes]:
    """Yields the compressed response."""
    for chunk in chunks:
        data = compressor.compress(chunk)
        if data:
            yield data
    tail = compressor.finish()
    if tail:
        yield tail
