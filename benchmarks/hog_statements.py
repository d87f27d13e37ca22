"""The hostile statements of ``make hogs``. To add one, add a :class:`Hog` to a list of ``HOGS``."""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from dataclasses import dataclass, field

import zstandard

from engine.server.config import Config

LONGEST_SECONDS = 60.0
"""So long an answer is waited for."""
_GRACE_SECONDS = Config.model_fields["query_stop_grace_seconds"].default
_SLACK_SECONDS = 1.5
"""For the looks, the worker's end and the answer, on a machine that does other things."""


@dataclass(frozen=True)
class Hog:
    """``settings`` go into the URL; ``expected`` is the code ClickHouse gives, ``None`` where it does not matter."""

    name: str
    statement: str
    expected: int | None = None
    settings: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    encoding: str = ""
    """The body's compression; the statement goes into the URL then."""
    is_unread: bool = False
    """The client reads nothing of the answer for a second, and leaves."""

    @property
    def longest_seconds(self) -> float:
        limit = float(self.settings.get("max_execution_time", 0))
        return limit + _GRACE_SECONDS + _SLACK_SECONDS if 0 < limit < LONGEST_SECONDS else LONGEST_SECONDS


def _doubling(first: str, count: int) -> str:
    return f"SELECT {first} AS a0" + "".join(f", a{n} + a{n} AS a{n + 1}" for n in range(count))


_WIDE = {"max_query_size": "100000000"}
_MILLION = ",".join(map(str, range(1_000_000)))

COMPILE_TIME = [
    Hog("a scale of -10^9", "SELECT round(toDecimal32(1, 2), -1000000000)", 69),
    Hog("a scale of 10^6", "SELECT round(1.5, 1000000)", 69),
    Hog("25 aliases that double", _doubling("1", 25), None),
    Hog("12 aliases that double, over rows", _doubling("number", 12) + " FROM numbers(10)", 0),
    Hog("5,000 brackets", "SELECT " + "(" * 5000 + "1" + ")" * 5000, 306),
    Hog("5,000 calls", "SELECT " + "abs(" * 5000 + "1" + ")" * 5000, 167),
    Hog("490 calls", "SELECT " + "abs(" * 490 + "number" + ")" * 490 + " FROM numbers(10)", 0),
    Hog("5,000 arrays in arrays", "SELECT " + "[" * 5000 + "1" + "]" * 5000, 306),
    Hog("5,000 sums", "SELECT 1" + " + 1" * 5000, 167),
    Hog("5,000 NOT", "SELECT " + "NOT " * 5000 + "1", 167),
    Hog("5,000 subqueries", "SELECT " + "(SELECT " * 5000 + "1" + ")" * 5000, 306),
    Hog("20,000 ANDs", "SELECT count() FROM numbers(10) WHERE " + " AND ".join(["number < 3"] * 20_000), 168, _WIDE),
    Hog("12,000 ANDs", "SELECT count() FROM numbers(10) WHERE " + " AND ".join(["number < 3"] * 12_000), 0),
    Hog("a million in IN", f"SELECT count() FROM numbers(10) WHERE number IN ({_MILLION})", 0, _WIDE),
    Hog("a million in IN, default size", f"SELECT count() FROM numbers(10) WHERE number IN ({_MILLION})", 62),
    Hog("30,000 columns", "SELECT " + ", ".join(["number"] * 30_000) + " FROM numbers(1)", None),
    Hog("an array of 60,000", "SELECT length([" + ",".join(["1"] * 60_000) + "])", 0),
    Hog("a number of 100,000 digits", "SELECT " + "1" * 100_000, 62),
    Hog("a type 5,000 deep", "SELECT CAST([], '" + "Array(" * 5000 + "Int8" + ")" * 5000 + "')", 306),
    Hog("CREATE of a type 5,000 deep", f"CREATE TABLE x (a {'Array(' * 5000}Int8{')' * 5000}) ENGINE = MergeTree", 306),
    Hog(
        "CREATE of 100,000 columns",
        "CREATE TABLE x (" + ",".join(f"c{n} Int8" for n in range(100_000)) + ") ENGINE = MergeTree ORDER BY tuple()",
        168,
        _WIDE,
    ),
    Hog("1,000 UNION ALL", " UNION ALL ".join(["SELECT 1"] * 1000), 0),
    Hog("5 MB of comments", "SELECT 1 /*" + "a " * 2_500_000 + "*/", 0, _WIDE),
    Hog("5 MB of text", "SELECT length('" + "a" * 5_000_000 + "')", 0, _WIDE),
    Hog("5 MB of escapes", "SELECT length('" + "\\n" * 2_500_000 + "')", 0, _WIDE),
    Hog("5 MB of open brackets", "SELECT " + "(" * 5_000_000, 306, _WIDE),
    Hog("5 MB of quotes", "SELECT '" + "''" * 2_500_000, 62, _WIDE),
    Hog("INSERT of a deep value", "INSERT INTO hogs VALUES (" + "(" * 5000 + "1" + ")" * 5000 + ")", None),
    Hog("a huge repeat", "SELECT repeat('a', 1000000000000)", 131),
    Hog("a huge range", "SELECT range(1000000000000)", 69),
    Hog("a huge power", "SELECT pow(10, 1000000000), bitShiftLeft(1, 1000000000)", 0),
]
"""What must end before anything is read."""

_TWO_SECONDS = {"max_execution_time": "2"}
_GIGABYTE = 1 << 30


def _zeros(encoding: str, around: tuple[bytes, bytes] = (b"", b"")) -> bytes:
    """A gigabyte of zeros, compressed."""
    compressor = zlib.compressobj(wbits=31) if encoding == "gzip" else zstandard.ZstdCompressor().compressobj()
    piece = b"0" * (1 << 20)
    data = [compressor.compress(around[0]), *(compressor.compress(piece) for _ in range(_GIGABYTE >> 20))]
    return b"".join([*data, compressor.compress(around[1]), compressor.flush()])


def _bomb(name: str, format: str, encoding: str, before: bytes = b"", behind: bytes = b"") -> Hog:
    statement = f"INSERT INTO hog_texts FORMAT {format}"
    return Hog(name, statement, 117, body=_zeros(encoding, (before, behind)), encoding=encoding)


def _nested(levels: int) -> str:
    return f"SELECT length(c) FROM {'(SELECT concat(c, c) AS c FROM ' * levels}(SELECT 'ab' AS c){')' * levels}"


def run_time() -> list[Hog]:
    """What takes time or memory while it runs."""
    many = "FROM numbers(1000000000)"
    return [
        Hog("a range of 10^8", "SELECT length(range(100000000))", 241),
        Hog("a range of 6 * 10^8", "SELECT length(range(600000000))", 69),
        Hog("a long range in many rows", "SELECT sum(length(range(100000 + number))) FROM numbers(10000)", 241),
        Hog("a long constant in many rows", "SELECT range(100000) FROM numbers(100000)", 241),
        Hog("a long row joined with many",
            "SELECT r, number FROM (SELECT range(10000000) AS r) AS a CROSS JOIN numbers(100000) AS b", 241),
        Hog("repeat of repeat", "SELECT length(repeat(repeat('a', 1000000), 10000))", 241),
        Hog("a long repeat in many rows", "SELECT sum(length(repeat('a', 999999 - number))) FROM numbers(9999)", None),
        Hog("padding to 10^9", "SELECT length(leftPad('a', 1000000000))", 131),
        Hog("an array resized to 10^9", "SELECT length(arrayResize([1], 1000000000))", None),
        Hog("replaceAll that grows", "SELECT length(replaceAll(repeat('a', 1000000), 'a', repeat('b', 100000)))", 241),
        Hog("30 concatenations with itself", _nested(30), None),
        Hog("groupArray of 10^8", "SELECT length(groupArray(number)) FROM numbers(100000000)", 241),
        Hog("groupArray of 10^8 texts", "SELECT length(groupArray(toString(number))) FROM numbers(100000000)", 241,),
        Hog("quantileExact of 10^9", f"SELECT quantileExact(number) {many}", 241),
        Hog("arrays in an array", "SELECT length(arrayMap(x -> range(10000), range(1000000)))", 241),
        Hog("lambdas in a lambda", "SELECT length(arrayMap(x -> arrayMap(y -> x + y, range(10000)), range(100000)))",
            159, _TWO_SECONDS),
        Hog("a lambda over 10^7", "SELECT length(arrayMap(x -> length(toString(x)), range(10000000)))",
            None, _TWO_SECONDS),
        Hog("text of a long array", "SELECT length(toString(range(10000000)))", None, _TWO_SECONDS),
        Hog("a long array as JSON", "SELECT range(5000000) FORMAT JSON", None, _TWO_SECONDS),
        Hog("sorting 10^9", f"SELECT number {many} ORDER BY number % 1000, number DESC FORMAT Null", 159, _TWO_SECONDS),
        Hog("10^9 groups", f"SELECT count() FROM (SELECT number {many} GROUP BY number)", 159, _TWO_SECONDS),
        Hog("10^9 distinct", f"SELECT uniqExact(number) {many}", None, _TWO_SECONDS),
        Hog("a window over 10^9", f"SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY number) AS r {many})",
            None, _TWO_SECONDS),
        Hog("IN of 10^9", f"SELECT count() FROM numbers(10) WHERE number IN (SELECT number {many})", 159, _TWO_SECONDS),
        Hog("a join of 10^9", f"SELECT count() {many} AS a JOIN numbers(1000000000) AS b USING (number)",
            159, _TWO_SECONDS),
        Hog("a cross join", "SELECT sum(a.number * b.number) FROM numbers(999999) AS a CROSS JOIN numbers(999999) AS b",
            159, _TWO_SECONDS),
        Hog("a regular expression over 10^9", f"SELECT count() {many} WHERE match(toString(number), '^(1|2)*3.*4$')",
            159, _TWO_SECONDS),
        Hog("LIKE over 10^9", f"SELECT count() {many} WHERE toString(number) LIKE '%1%2%3%4%'", 159, _TWO_SECONDS),
        Hog("arrays of 10^6 joined", "SELECT sum(arrayJoin(range(1000000 + number % 2))) FROM numbers(100000)",
            None, _TWO_SECONDS),
        Hog("system tables squared", "SELECT count() FROM system.functions AS a CROSS JOIN system.functions AS b "
            "CROSS JOIN system.functions AS c WHERE a.name < b.name", None, _TWO_SECONDS),
        Hog("INSERT of 10^9", f"INSERT INTO hogs SELECT number {many}", 159, _TWO_SECONDS),
        Hog("an answer held back", f"SELECT number {many}", 159, {"wait_end_of_query": "1", **_TWO_SECONDS}),
        Hog("an answer that nobody reads", f"SELECT number, toString(number) {many}", None, is_unread=True),
        Hog("an answer as JSON", f"SELECT * {many} FORMAT JSON", None, _TWO_SECONDS),
        Hog("an answer as Parquet", f"SELECT * {many} FORMAT Parquet", None, _TWO_SECONDS),
        _bomb("zstd: a field of a gigabyte", "CSV", "zstd"),
        _bomb("gzip: a field of a gigabyte", "TabSeparated", "gzip"),
        _bomb("zstd: a quoted field of a gigabyte", "CSV", "zstd", b'"', b'"'),
        _bomb("zstd: a text in JSON of a gigabyte", "JSONEachRow", "zstd", b'{"a":"', b'"}'),
        _bomb("zstd: a text in VALUES of a gigabyte", "Values", "zstd", b"('", b"')"),
        Hog("zstd: a statement of a gigabyte", "", 62, body=_zeros("zstd", (b"SELECT ", b"")), encoding="zstd"),
        Hog("a time limit of 10^11 seconds", "SELECT 1", 0, {"max_execution_time": "1e11"}),
    ]  # fmt: skip


RUN_TIME = run_time()

_FIVE_SECONDS = {"max_execution_time": "5", **_WIDE}


def _lambdas(levels: int) -> str:
    text = f"x{levels - 1} + 1"
    for level in reversed(range(levels)):
        text = f"arrayMap(x{level} -> {text}, [{f'x{level - 1}' if level else '1, 2'}])"
    return f"SELECT {text}"


def deaf() -> list[Hog]:
    """What does not look at its limits, or did not: most of them are ended by the replica process."""
    terms = " OR ".join(f"number = {n}" for n in range(10_000))
    silent, endless = silent_host(), endless_host()
    return [
        Hog("18 lambdas in lambdas", _lambdas(18), 36),
        Hog("40 lambdas in lambdas", _lambdas(40), 36),
        Hog("18 lambdas, unlimited", _lambdas(18), 168, {"max_expanded_ast_elements": "0"}),
        Hog("lambdas over text of arrays", "SELECT " + "toString(arrayMap(x -> length(" * 8 + "toString(1)"
            + "), [1, 2]))" * 8, None, _FIVE_SECONDS),
        Hog("a window over 10^8", "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY number) AS r "
            "FROM numbers(100000000))", None, _FIVE_SECONDS),
        Hog("a window over 10^8, 1 s", "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY number) AS r "
            "FROM numbers(100000000))", 159, {"max_execution_time": "1"}),
        Hog("10,000 ORs", f"SELECT count() FROM numbers(1000000) WHERE {terms}", None, _FIVE_SECONDS),
        Hog("10,000 ORs, 1 s", f"SELECT count() FROM numbers(1000000) WHERE {terms}", None,
            {**_WIDE, "max_execution_time": "1"}),
        Hog("a regular expression of a megabyte", "SELECT count() FROM numbers(1000000) WHERE match(toString(number), '"
            + "(a|b)?" * 170_000 + "')", 159, _FIVE_SECONDS),
        Hog("a regular expression that is repeated", "SELECT match('a', '" + "((a{1,30}){1,30}){1,30}" + "')", None,
            _FIVE_SECONDS),
        Hog("31 concatenations with itself, 1.2 GB", _nested(31), 241, {"max_memory_usage": "1200000000"}),
        Hog("31 concatenations with itself, 100 MB", _nested(31), 241, {"max_memory_usage": "100000000"}),
        Hog("a type 140 deep", "SELECT CAST([], '" + "Array(" * 140 + "Int8" + ")" * 140 + "')", 306),
        Hog("numbers(2^64-1)", "SELECT max(number) FROM numbers(18446744073709551615)", 159, _TWO_SECONDS),
        Hog("generate_series(0, 2^64-1)", "SELECT count() FROM generate_series(0, 18446744073709551615)", 36),
        Hog("remote: a silent host", f"SELECT * FROM remote('127.0.0.1:{silent}', default.t)", 159, _TWO_SECONDS),
        Hog("remote: an endless answer", f"SELECT * FROM remote('127.0.0.1:{endless}', default.t)", 519, _TWO_SECONDS),
        Hog("remote: no host", "SELECT * FROM remote('127.0.0.1:1/path?x=', default.t)", 36),
    ]  # fmt: skip


def silent_host() -> int:
    """The port of a host that takes connections, and says nothing, as long as this program runs."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    _HOSTS.append(listening)
    return int(listening.getsockname()[1])


def endless_host() -> int:
    """The port of a host whose answers have no end."""
    listening = socket.create_server(("127.0.0.1", 0))
    _HOSTS.append(listening)

    def serve() -> None:
        while True:
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    connection.sendall(b"[" * (1 << 20))

    threading.Thread(target=serve, daemon=True).start()
    return int(listening.getsockname()[1])


_HOSTS: list[socket.socket] = []
DEAF = deaf()

HOGS = [*COMPILE_TIME, *RUN_TIME, *DEAF]
