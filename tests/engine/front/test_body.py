"""The request body as a stream: bounded, decompressed, abortable."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import threading
import zlib
from collections.abc import Callable
from typing import cast

import brotli
import pyarrow as pa
import pytest
import zstandard

from engine.front.http.request_body import BodyPipe, join_head, open_decompressed
from engine.front.http.response_compression import choose_compressor
from parts.common.errors import CancelledError, UserError

DATA = b"".join(b"%d,some text\n" % number for number in range(200_000))


def _lz4(data: bytes) -> bytes:
    return bytes(pa.Codec("lz4").compress(data, asbytes=True))


def _xz(data: bytes) -> bytes:
    return lzma.compress(data, preset=1)  # the usual preset takes seconds


def _brotli(data: bytes) -> bytes:
    return brotli.compress(data, quality=5)


def _raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("", bytes),
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", _raw_deflate),
        ("zstd", zstandard.compress),
        ("lz4", _lz4),
        ("br", _brotli),
        ("bz2", bz2.compress),
        ("xz", _xz),
    ],
)
def test_content_encodings(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    assert open_decompressed(io.BytesIO(compress(DATA)), encoding).read() == DATA


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("xz", _xz)])
def test_streams_that_were_put_together(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    def read(data: bytes) -> bytes:
        return open_decompressed(io.BytesIO(data), encoding).read()

    one = compress(DATA)
    assert read(one + compress(b"") + compress(b"more")) == DATA + b"more"
    assert encoding != "xz" or read(one + bytes(8) + one + bytes(4)) == DATA + DATA
    for behind in (b"g", b"garbage", one[:100], one[:-9]):
        with pytest.raises(UserError) as caught:
            read(one + behind)
        assert caught.value.name == "CANNOT_DECOMPRESS"


def test_bytes_that_are_not_of_the_encoding() -> None:
    for encoding in ("gzip", "deflate", "zstd", "lz4", "br", "bz2", "xz"):
        with pytest.raises(UserError) as caught:
            open_decompressed(io.BytesIO(b"this is plain text, not compressed at all"), encoding).read()
        assert caught.value.name == "CANNOT_DECOMPRESS"
    with pytest.raises(UserError, match="snappy"):
        open_decompressed(io.BytesIO(b""), "snappy")


def test_cut_off_body() -> None:
    for encoding, compress in (("gzip", gzip.compress), ("deflate", zlib.compress), ("xz", _xz)):
        with pytest.raises(UserError) as caught:
            open_decompressed(io.BytesIO(compress(DATA)[:-200]), encoding).read()
        assert caught.value.name == "CANNOT_DECOMPRESS"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "lz4", "br", "xz", "bz2"])
def test_answers_are_one_stream(encoding: str) -> None:
    compressor = choose_compressor(f"identity, {encoding};q=0.9", 3)
    assert compressor.encoding == encoding
    parts = [compressor.compress(DATA[start : start + 100_000]) for start in range(0, len(DATA), 100_000)]
    whole = b"".join(parts) + compressor.finish()
    assert open_decompressed(io.BytesIO(whole), encoding).read() == DATA
    assert len(whole) < len(DATA) / 3


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_taken_in_small_pieces(encoding: str) -> None:
    """What is copied at once is copied with the interpreter locked."""
    data = bytes(8 << 20)
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[encoding](data)
    raw = cast(io.BufferedReader, open_decompressed(io.BytesIO(packed), encoding)).raw
    assert 0 < cast(io.RawIOBase, raw).readinto(bytearray(len(data))) <= 1 << 20


def test_no_compression_unless_accepted() -> None:
    assert choose_compressor("identity, gzip;q=0", 3).encoding == ""


def test_joined_keeps_the_order() -> None:
    assert join_head(b"head ", io.BytesIO(b"and rest")).read() == b"head and rest"


@pytest.mark.parametrize("buffer_bytes", [0, 1000, 1 << 20])
def test_joined_reads_on_from_the_stream(buffer_bytes: int) -> None:
    rest = bytes(range(256)) * 20_000
    stream = io.BufferedReader(io.BytesIO(rest), buffer_bytes) if buffer_bytes else io.BytesIO(rest)  # type: ignore[arg-type]
    whole = join_head(b"head ", stream)  # type: ignore[arg-type]
    assert b"".join(iter(lambda: whole.read(70_000), b"")) == b"head " + rest


def test_pipe_holds_back_a_fast_client() -> None:
    """The client waits while the pipe is full, and everything arrives."""
    held: list[int] = []
    received: list[bytes] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pipe = BodyPipe(loop, limit=10_000)
        start_reading = threading.Event()

        def read() -> None:
            start_reading.wait(10)
            reader = io.BufferedReader(pipe, 4096)
            while chunk := reader.read(3000):
                held.append(pipe._held_bytes)
                received.append(chunk)

        reading = loop.run_in_executor(None, read)
        for number in range(100):
            put = asyncio.ensure_future(pipe.put(b"%04d" % number * 250))
            done, _ = await asyncio.wait([put], timeout=0.05 if number < 12 else 10)
            if not done:
                assert number >= 10
                start_reading.set()
                await put
        pipe.finish()
        await reading

    asyncio.run(main())
    assert b"".join(received) == b"".join(b"%04d" % number * 250 for number in range(100))
    assert max(held) <= 11_000


def test_pipe_of_a_client_that_left() -> None:
    async def main() -> None:
        pipe = BodyPipe(asyncio.get_running_loop())
        await pipe.put(b"some")
        pipe.abort()
        with pytest.raises(CancelledError):
            pipe.readinto(bytearray(10))

    asyncio.run(main())


def test_pipe_of_a_silent_client() -> None:
    async def main() -> None:
        pipe = BodyPipe(asyncio.get_running_loop(), timeout_seconds=0.05)
        with pytest.raises(UserError) as caught:
            await asyncio.to_thread(pipe.readinto, bytearray(10))
        assert caught.value.code == 209

    asyncio.run(main())


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "lz4", "br", "bz2", "xz"])
def test_an_empty_body_is_empty_in_every_encoding(encoding: str) -> None:
    assert open_decompressed(io.BytesIO(), encoding).read() == b""
