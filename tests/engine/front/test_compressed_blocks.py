"""ClickHouse's own compression: the frames of its files, both ways, and over HTTP."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import httpx
import pytest
import zstandard

from engine.front.compressed_blocks import (
    MAX_FRAME_BYTES,
    NONE,
    ZSTD,
    BlockCompressor,
    compress_block,
    compute_checksum,
    open_compressed_blocks,
)
from engine.front.http.response_compression import choose_compressor
from parts.common.errors import UserError
from tests.engine.front.conftest import RunningServer

GOLDEN = {
    "96cba4cb7d590cc2500099d2a3b281578215000000300000002f2f61010016506161616161": b"\x2f" + b"a" * 47,
    "ed26096473049c78fb2b61ea74f6ac10901a0000002d00000028b52ffd202d450000102c62010098000b": b"\x2c" + b"b" * 44,
    "bc3c0ebb35315f30adcb01fea7a24761020a0000000100000007": b"\x07",
}
"""Frames of a MergeTree table of ClickHouse (codecs LZ4, ZSTD, NONE), and what they hold."""
DATA = b"".join(b"%d,some text\n" % number for number in range(200_000))


def packed(method: int, data: bytes, size: int) -> bytes:
    rest = struct.pack("<BII", method, 9 + len(data), size) + data
    return compute_checksum(rest) + rest


def test_clickhouses_frames_are_read() -> None:
    for text, data in GOLDEN.items():
        assert open_compressed_blocks(io.BytesIO(bytes.fromhex(text))).read() == data
    together = b"".join(bytes.fromhex(text) for text in GOLDEN)
    assert open_compressed_blocks(io.BytesIO(together)).read() == b"".join(GOLDEN.values())


def test_frames_that_are_written_are_read() -> None:
    compressor = BlockCompressor()
    parts = [compressor.compress(DATA[start : start + 77_777]) for start in range(0, len(DATA), 77_777)]
    whole = b"".join(parts) + compressor.finish()
    assert len(whole) < len(DATA) / 2
    assert open_compressed_blocks(io.BytesIO(whole)).read() == DATA
    assert BlockCompressor().finish() == b""


BOMB = zstandard.compress(bytes(100 << 20))
BAD: dict[str, tuple[bytes, str]] = {
    "one byte changed": (compress_block(DATA[:5000])[:-1] + b"\xff", "CHECKSUM_DOESNT_MATCH"),
    "checksum changed": (b"\0" + compress_block(DATA[:5000])[1:], "CHECKSUM_DOESNT_MATCH"),
    "unknown method": (packed(0x55, b"abc", 3), "UNKNOWN_COMPRESSION_METHOD"),
    "cut off": (compress_block(DATA[:5000])[:-7], "CANNOT_READ_ALL_DATA"),
    "cut off in the head": (compress_block(DATA)[:11], "CANNOT_READ_ALL_DATA"),
    "huge": (packed(NONE, b"", MAX_FRAME_BYTES + 1), "TOO_LARGE_SIZE_COMPRESSED"),
    "smaller than its head": (bytes(16) + struct.pack("<BII", NONE, 3, 3), "TOO_LARGE_SIZE_COMPRESSED"),
    "more than it says": (packed(ZSTD, BOMB, 10), "CANNOT_DECOMPRESS"),
    "less than it says": (packed(ZSTD, zstandard.compress(b"abc"), 1000), "CANNOT_DECOMPRESS"),
    "no lz4": (packed(0x82, b"\x00\x01\x02", 100), "CANNOT_DECOMPRESS"),
    "lz4 that cannot be so large": (packed(0x82, b"\x10a", 100 << 20), "CANNOT_DECOMPRESS"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_frame_is_refused(name: str) -> None:
    data, error = BAD[name]
    with pytest.raises(UserError) as caught:
        open_compressed_blocks(io.BytesIO(data)).read()
    assert caught.value.name == error


def test_both_compressions_at_once() -> None:
    compressor = choose_compressor("zstd", 3, in_blocks=True)
    whole = compressor.compress(DATA) + compressor.finish()
    assert compressor.encoding == "zstd"
    assert open_compressed_blocks(io.BytesIO(zstandard.ZstdDecompressor().stream_reader(whole).read())).read() == DATA


# Over HTTP ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def post(server: RunningServer) -> Callable[..., httpx.Response]:
    def send(content: bytes, **parameters: object) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{server.http.port}/", params=parameters, content=content, timeout=60)  # type: ignore[arg-type]

    return send


def test_questions_and_answers_in_frames(post: Callable[..., httpx.Response]) -> None:
    answer = post(compress_block(b"SELECT number FROM numbers(300000)"), decompress=1, compress=1)
    assert answer.status_code == 200
    text = open_compressed_blocks(io.BytesIO(answer.content)).read()
    assert text == b"".join(b"%d\n" % number for number in range(300_000))
    post(b"CREATE TABLE IF NOT EXISTS framed (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    rows = b"".join(compress_block(b"%d\tx\n" % number) for number in range(100))
    assert post(rows, decompress=1, query="INSERT INTO framed FORMAT TSV").status_code == 200
    assert post(b"SELECT count(), sum(a) FROM framed").text == "100\t4950\n"
    answer = post(rows[:-1] + b"?", decompress=1, query="INSERT INTO framed FORMAT TSV")
    assert answer.headers["x-clickhouse-exception-code"] == "40"
    assert post(b"SELECT count() FROM framed").text == "100\n"
    post(b"DROP TABLE framed")


@pytest.mark.parametrize("encoding", ["br", "xz", "bz2", "lz4"])
def test_answers_in_the_encodings_of_http(server: RunningServer, encoding: str) -> None:
    from engine.front.http.request_body import open_decompressed

    with httpx.stream(
        "GET",
        f"http://127.0.0.1:{server.http.port}/",
        params={"query": "SELECT number FROM numbers(1000)", "enable_http_compression": 1},
        headers={"accept-encoding": encoding},
    ) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == encoding
    assert open_decompressed(io.BytesIO(raw), encoding).read() == b"".join(b"%d\n" % number for number in range(1000))


def test_a_native_answer_knows_the_clients_protocol(post: Callable[..., httpx.Response]) -> None:
    answer = post(b"SELECT 7::UInt8 AS a FORMAT Native", client_protocol_version=54405)
    assert answer.content == b"\x01\x00\x02\xff\xff\xff\xff\x00" + b"\x01\x01\x01a\x05UInt8\x07"
    assert post(b"SELECT 7::UInt8 AS a FORMAT Native").content == b"\x01\x01\x01a\x05UInt8\x07"
