"""Requests over HTTP, and what can be wrong with them: the cases of :mod:`tests.fuzz.requests`."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import zstandard

from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)

_METHODS = (b"GET", b"GET", b"POST", b"POST", b"POST", b"POST", b"HEAD")
_ODD_METHODS = (b"PUT", b"OPTIONS", b"TRACE", b"DELETE", b"CONNECT", b"get", b"", b"GET GET")
_PATHS = (b"/ping", b"/replicas_status", b"/metrics", b"/play", b"/ready", b"/scan/plan", b"/scan/read",
          b"/scan/release", b"/nowhere", b"/..", b"//", b"*", b"http://h/", b"/%00", b"/?", b"/#")  # fmt: skip
_STATEMENTS = (
    b"SELECT 1", b"SELECT number, toString(number) FROM numbers(1000)", b"SELECT * FROM t FORMAT JSON",
    b"SELECT {x:String}", b"INSERT INTO t VALUES (1, 'a')", b"INSERT INTO t FORMAT CSV\n1,a\n2,b\n",
    b'INSERT INTO t FORMAT JSONEachRow\n{"k":1}', b"SELECT number FROM system.numbers", b"SET max_threads = 1",
    b"USE system", b"KILL QUERY WHERE query_id = 'q'", b"SELECT throwIf(number = 90000) FROM numbers(100000)",
    b"SHOW TABLES", b"", b"\xff\xfe", b"SELECT '\xe2\x82\xac'", b"SELECT * FROM ext FORMAT CSVWithNames",
    b"CREATE TABLE IF NOT EXISTS t2 (a UInt8) ENGINE = MergeTree ORDER BY a",
)  # fmt: skip
_VALUES = (b"", b"0", b"1", b"2", b"auto", b"true", b"0.001", b"a%5Ctb", b"q")
_ODD_VALUES = (
    b"-1", b"18446744073709551615", b"9223372036854775808", b"1e400", b"nan", b"%00", b"%0D%0A", b"%FF", b"%C2%B2",
    b"x" * 300, b"%F0%9F%8C%B3", b"'", b"%ZZ",
)  # fmt: skip
_NAMES = (
    b"query", b"query_id", b"session_id", b"session_timeout", b"session_check", b"database", b"user", b"password",
    b"default_format", b"compress", b"decompress", b"param_x", b"readonly", b"role", b"stacktrace", b"quota_key",
    b"buffer_size", b"profile", b"wait_end_of_query", b"http_response_buffer_size", b"enable_http_compression",
    b"send_progress_in_http_headers", b"add_http_cors_header", b"client_protocol_version",
)  # fmt: skip
_HEADERS = (
    b"Host: x", b"Connection: close", b"Connection: keep-alive", b"Expect: 100-continue", b"Origin: http://a",
    b"Accept-Encoding: gzip, zstd;q=0", b"Authorization: Basic ZGVmYXVsdDo=", b"X-ClickHouse-Key: ",
    b"X-ClickHouse-Database: system", b"X-ClickHouse-Format: JSON", b"Content-Type: text/plain", b"X:", b"Cookie: a=b",
    b"Content-Type: application/x-www-form-urlencoded", b"X: " + b"y" * 9000, b"Te: trailers",
)  # fmt: skip
_ODD_HEADERS = (
    b"Connection: Upgrade\r\nUpgrade: h2c", b"Upgrade: websocket\r\nConnection: upgrade", b"Content-Encoding: gzip",
    b"Content-Encoding: br", b"Content-Encoding: zstd", b"Accept-Encoding: \xff", b"Authorization: Basic \xff",
    b"Authorization: Bearer x", b"X-ClickHouse-User: \xe4", b"X-ClickHouse-Key: x", b"X-ClickHouse-Format: \x01",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Content-Length: 5", b"Content-Length: -1",
    b"Content-Length: 99999999999999999999", b"Content-Type: multipart/form-data; boundary=b", b": x", b"X",
    b"Y: a\r\n b", b"Z\x00: 1", b"Content-Type: multipart/form-data",
)  # fmt: skip
_BITS = (
    b"\r\n", b"\n", b"\r", b"\x00", b" ", b":", b"\xff", b"0\r\n\r\n", b"HTTP/1.1", b"%", b"&", b"=", b"\r\n\r\n", b";",
    b"chunked", b"ffffffffffffffff\r\n", b"-1\r\n", b"\t", b"GET / HTTP/1.1\r\n\r\n", b"--b\r\n", b"--b--\r\n",
)  # fmt: skip


def _one(chance: random.Random, usual: Sequence[bytes], odd: Sequence[bytes], likelihood: float = 0.1) -> bytes:
    return chance.choice(odd if chance.random() < likelihood else usual)


@dataclass(frozen=True)
class Case:
    pieces: tuple[bytes, ...]
    ending: str
    """``read``: to the end; ``leave``: at once; ``half``: no more is sent, and the end is read; ``reset``."""


def case_of(seed: int) -> Case:
    chance = random.Random(f"requests {seed}")
    data = b"".join(_request(chance) for _ in range(chance.choice((1, 1, 1, 1, 2, 5))))
    if chance.random() < 0.4:
        data = _damaged(chance, data)
    ending = chance.choice(("read", "read", "read", "read", "leave", "half", "reset"))
    return Case(tuple(_pieces(chance, data)), ending)


def _request(chance: random.Random) -> bytes:
    statement = chance.choice(_STATEMENTS)
    method, path = _one(chance, _METHODS, _ODD_METHODS), _one(chance, (b"/",), _PATHS, 0.2)
    parameters = [
        chance.choice(_NAMES) + b"=" + _one(chance, _VALUES, _ODD_VALUES) for _ in range(chance.choice((0, 0, 1, 3)))
    ]
    if chance.random() < 0.3:
        parameters.append(
            chance.choice(sorted(SUPPORTED_SETTINGS)).encode() + b"=" + _one(chance, _VALUES, _ODD_VALUES, 0.5)
        )
    if chance.random() < 0.4:
        parameters.append(b"query=" + re.sub(rb"[^\w]", lambda match: b"%%%02X" % match.group()[0], statement))
        statement = b""
    chance.shuffle(parameters)
    uri = path + (b"?" + b"&".join(parameters) if parameters else b"")
    headers = [_one(chance, _HEADERS, _ODD_HEADERS) for _ in range(chance.choice((0, 0, 1, 2, 4)))]
    body = _body(chance, statement, headers)
    chance.shuffle(headers)
    return b"\r\n".join([method + b" " + uri + b" HTTP/1.1", *headers, b"", b""]) + body


def _body(chance: random.Random, statement: bytes, headers: list[bytes]) -> bytes:
    body = statement
    kind = chance.random()
    if kind < 0.1:
        body = chance.choice((gzip.compress(body, mtime=0), zstandard.compress(body)))
        headers.append(b"Content-Encoding: " + chance.choice((b"gzip", b"zstd", b"deflate")))
    elif kind < 0.2:
        parts = [b"query", b"ext", b"ext_structure", b"param_x", b"ext_format", b"max_threads"]
        fields = b"".join(
            b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
            % (
                chance.choice(parts),
                chance.choice((b"", b'; filename="f"')),
                chance.choice((body, b"k UInt8", b"1\n2")),
            )
            for _ in range(chance.randrange(4))
        )
        body = fields + b"--b--\r\n"
        headers.append(b"Content-Type: multipart/form-data; boundary=b")
    elif kind < 0.25:
        body = b'{"table": "t", "columns": ["k"], "lease": "x", "parts": [%b]}' % chance.choice(
            (b"", b"1", b"[]", b"{}")
        )
    if chance.random() < 0.5:
        headers.append(b"Content-Length: %d" % len(body))
        return body
    headers.append(b"Transfer-Encoding: chunked")
    return _chunked(chance, body)


def _chunked(chance: random.Random, body: bytes) -> bytes:
    chunks = []
    while body:
        size = chance.randrange(1, len(body) + 1)
        extension = chance.choice((b"", b"", b"", b";a=b", b";" + b"x" * 500))
        chunks.append(b"%x%b\r\n%b\r\n" % (size, extension, body[:size]))
        body = body[size:]
    trailer = chance.choice((b"", b"", b"", b"T: x\r\n", b"Content-Length: 3\r\n"))
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


def _damaged(chance: random.Random, data: bytes) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((0, 1, 1, 4, 50)))
        kind = chance.randrange(5)
        if kind == 0:
            data = data[:start] + chance.choice(_BITS) + data[end:]
        elif kind == 1:
            data = data[:start] + data[end:]
        elif kind == 2:
            data = data[:end] + data[start:]
        elif kind == 3:
            data = data[:start] + bytes([chance.randrange(256)]) + data[start + 1 :]
        elif chance.random() < 0.3:
            data = data[:start]
    return data


def _pieces(chance: random.Random, data: bytes) -> Iterator[bytes]:
    count = chance.choice((1, 1, 1, 2, 5))
    size = max(1, len(data) // count)
    yield from (data[start : start + size] for start in range(0, len(data), size))
