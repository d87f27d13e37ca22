"""A load generator for machines without ``wrk``.

``python -m benchmarks.load_client URL METHOD PATH ROWS CONNECTIONS SECONDS`` makes requests as ``http_load.lua`` does,
on connections that are kept, and tells their latencies in µs and how many failed. :func:`run` starts several of it, so
that the client is not what is measured.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

_TIMEOUT_SECONDS = 30.0


def run(url: str, method: str, path: str, rows: int, connections: int, seconds: float) -> dict[str, int]:
    """What ``http_load.lua`` tells at its end."""
    count = min(connections, max(os.cpu_count() or 1, 2))
    shares = [connections // count + (index < connections % count) for index in range(count)]
    begin = [sys.executable, "-m", "benchmarks.load_client", url, method, path, str(rows)]
    processes = [
        subprocess.Popen([*begin, str(share), str(seconds)], stdout=subprocess.PIPE, text=True) for share in shares
    ]
    results = [json.loads(process.communicate()[0]) for process in processes]
    latencies = sorted(latency for result in results for latency in result["latencies"]) or [0]
    return {
        "requests": sum(len(result["latencies"]) for result in results),
        "micros": max(result["micros"] for result in results),
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[len(latencies) * 99 // 100],
        "errors": sum(result["errors"] for result in results),
    }


class _Connection:
    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answer = b""
        self.asked = 0.0

    def ask(self, request: bytes) -> None:
        self.answer = b""
        self.asked = time.perf_counter()
        self.socket.sendall(request)

    def hear(self) -> bool:
        """Whether the answer is complete. Raises ``ConnectionError``."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("cut off")
        self.answer += data
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end:
            return False
        _, named, length = head.lower().partition(b"\r\ncontent-length:")
        return len(body) >= int(length.split(b"\r\n")[0]) if named else body.endswith(b"0\r\n\r\n")


def _requests(host: str, method: str, path: str, rows: int) -> list[bytes]:
    draw = random.Random(os.getpid())
    head = f"HTTP/1.1\r\nHost: {host}\r\n"
    if method == "GET":
        keys = [draw.randrange(998_000) for _ in range(1000)]
        paths = [
            path.replace("{k}", str(key)).replace("{h}", str(key + 99)).replace("{t}", str(key + 999)) for key in keys
        ]
        return [f"GET {each} {head}\r\n".encode() for each in paths]
    bodies = []
    for number in range(16):
        keys = list(range(number * rows + 1, (number + 1) * rows + 1))
        bodies.append("".join(f"{key}\t2020-01-{key % 28 + 1:02}\t{key}.5\tvalue {key}\n" for key in keys))
    return [f"POST {path} {head}Content-Length: {len(body)}\r\n\r\n{body}".encode() for body in bodies]


def main() -> None:
    url, method, path, rows, connections, seconds = sys.argv[1:]
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    requests = _requests(host, method, path, int(rows))
    selector = selectors.DefaultSelector()
    latencies: list[int] = []
    errors = 0
    for _ in range(int(connections)):
        connection = _Connection(host, port)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.ask(random.choice(requests))
    begin = time.perf_counter()
    while time.perf_counter() - begin < float(seconds):
        for key, _ in selector.select(1.0):
            connection = key.data
            try:
                if not connection.hear():
                    continue
                errors += not connection.answer.startswith(b"HTTP/1.1 200 ")
                latencies.append(int((time.perf_counter() - connection.asked) * 1e6))
            except ConnectionError:
                errors += 1
                selector.unregister(connection.socket)
                connection = _Connection(host, port)
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.ask(random.choice(requests))
    print(json.dumps({"latencies": latencies, "micros": int((time.perf_counter() - begin) * 1e6), "errors": errors}))


if __name__ == "__main__":
    main()
