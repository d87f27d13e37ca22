"""``python -m benchmarks.soak``: a million small requests against one server, and what its processes hold meanwhile.

Rounds of the loads of :mod:`benchmarks.http_load` (queries of every kind, INSERTs of one row and of a thousand) until
so many requests are through. After each round stands the memory of all processes of the server that is theirs
(proportional share, so that what workers share counts once; mapped files of the system's cache are not theirs), and the
requests that failed. A server that leaks grows with the requests; one that does not is flat after the first rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import httpx

from benchmarks.http_load import LOADS, Server, start_pando
from engine.cluster.os_processes import list_process_tree

_CONNECTIONS = 8
_ROUND_SECONDS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-soak-")))
        client = stack.enter_context(httpx.Client(timeout=120, trust_env=False))
        port, pid = start_pando(directory / "pando", stack)
        server = Server(port, pid, client)
        server.wait_until_it_answers()
        server.fill()
        server.run("CREATE TABLE load_target AS load")
        done = failed = 0
        while done < options.requests:
            for load in LOADS:
                result = server.load(load, _CONNECTIONS, _ROUND_SECONDS)
                done += result["requests"]
                failed += result["errors"]
            server.run("TRUNCATE TABLE load_target")
            held = sum(map(_own_bytes, list_process_tree(pid)))
            print(f"{done:>9,} requests, {failed} failed, {held >> 20:,} MiB", flush=True)
        print(server.run("SELECT number, pid, restarts, memory_usage FROM system.workers"))
    return 1 if failed else 0


def _own_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:]) if rest}
    return (sizes.get("Pss_Anon", 0) + sizes.get("Pss_Shmem", 0)) * 1024


if __name__ == "__main__":
    sys.exit(main())
