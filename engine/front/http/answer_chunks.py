"""The bytes of an answer, cut and gathered into chunks worth sending."""

from __future__ import annotations

from collections.abc import Iterator

from engine.front.http.response_compression import Compressor
from parts.common.errors import PandoError

_CHUNK_BYTES = 256 << 10
_MOST_AT_ONCE_BYTES = 4 << 20


def _pieces(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A long row is one chunk; what is copied at once on its way is copied with the interpreter locked."""
    for chunk in chunks:
        if len(chunk) <= _MOST_AT_ONCE_BYTES:
            yield chunk
        else:
            view = memoryview(chunk)
            yield from (bytes(view[at : at + _MOST_AT_ONCE_BYTES]) for at in range(0, len(chunk), _MOST_AT_ONCE_BYTES))


def gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The answer in chunks worth sending. What is gathered when an error comes goes out before it."""
    held: list[bytes] = []
    held_bytes = 0
    try:
        for chunk in _pieces(chunks):
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


def compressed(chunks: Iterator[bytes], compressor: Compressor) -> Iterator[bytes]:
    for chunk in chunks:
        data = compressor.compress(chunk)
        if data:
            yield data
    tail = compressor.finish()
    if tail:
        yield tail
