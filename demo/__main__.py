"""Three replicas take real flights from all sides, deduplicate, replicate, merge, survive a kill, and answer.

Every claim is checked; the first that does not hold ends the demo with exit code 1. Everything it started is ended, and
its directory removed, whatever happens.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import xxhash
from rich.console import Console
from rich.table import Table

from demo import spark_part
from demo.flights import CREATE_TABLE, blocks, load_flights
from engine.cluster.cluster import Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

BLOCK_ROWS = 6_000
REPLICAS = 3
VICTIM = "r2"
WAIT_SECONDS = 60.0
console = Console(width=110)

QUESTIONS = {
    "Which airport has the most cancelled flights?": """
        SELECT origin, count() AS flights, countIf(dep_delay IS NULL) AS cancelled,
               round(100 * cancelled / flights, 2) AS percent
        FROM flights GROUP BY origin ORDER BY cancelled DESC""",
    "Which carriers are late most?": """
        SELECT carrier, count() AS flights, round(avg(arr_delay), 1) AS average_delay, max(arr_delay) AS worst
        FROM flights WHERE arr_delay IS NOT NULL GROUP BY carrier ORDER BY average_delay DESC LIMIT 5""",
    "Where do New Yorkers fly at Christmas?": """
        SELECT dest, count() AS flights, uniqExact(carrier) AS carriers
        FROM flights WHERE toDate(time_hour) BETWEEN '2013-12-20' AND '2013-12-26'
        GROUP BY dest ORDER BY flights DESC, dest LIMIT 5""",
}


class ClaimError(Exception):
    """Something the demo promised did not hold."""


@dataclass
class Demo:
    """The running cluster and what was counted so far."""

    cluster: Cluster
    clients: dict[str, HttpClient] = field(default_factory=dict)
    sent: int = 0
    repeated: int = 0
    deduplicated: int = 0

    def start(self) -> None:
        for status in self.cluster.start(REPLICAS):
            if status.name.startswith("r"):
                self.clients[status.name] = HttpClient(port=status.port)

    def create(self, statement: str) -> None:
        for client in self.clients.values():
            client.execute(statement)

    def insert(self, through: str, block: bytes) -> int:
        """Sends one block; returns how many of its parts were known already."""
        return self.clients[through].insert("flights", block, "ArrowStream").deduplicated_blocks

    def on_each(self, question: str) -> dict[str, object]:
        return {name: client.value(question) for name, client in self.clients.items()}

    def wait_until(self, condition: Callable[[], bool], what: str) -> float:
        """Seconds it took."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > WAIT_SECONDS:
                raise ClaimError(f"{what} did not happen within {WAIT_SECONDS:g} s")
            time.sleep(0.02)
        return time.monotonic() - started


def claim(condition: bool, what: str) -> None:
    if not condition:
        raise ClaimError(what)


def say(text: str) -> None:
    console.print(f"[bold cyan]▸[/] {text}")


def show(title: str, columns: list[str], rows: list[list[object]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        is_number = bool(rows) and isinstance(rows[0][index], int | float)
        table.add_column(column, justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    console.print(table)


def insert_all(demo: Demo, pieces: list[bytes]) -> None:
    """Blocks go through the living replicas in turn; every third is sent again to another one."""
    kill_at, restart_at = len(pieces) // 2, len(pieces) * 3 // 4
    turn = itertools.cycle(demo.clients)
    for number, piece in enumerate(pieces):
        if number == kill_at:
            pid = demo.cluster.kill(VICTIM)
            say(f"replica [bold]{VICTIM}[/] (pid {pid}) killed with SIGKILL after {number} of {len(pieces)} blocks")
        if number == restart_at:
            demo.cluster.restart(VICTIM)
            say(f"replica [bold]{VICTIM}[/] restarted after {number} blocks")
        living = [name for name in demo.clients if not (kill_at <= number < restart_at and name == VICTIM)]
        through = next(name for name in turn if name in living)
        claim(demo.insert(through, piece) == 0, f"block {number} was taken for a duplicate")
        demo.sent += 1
        if number % 3 == 2:
            other = next(name for name in living if name != through)
            known = demo.insert(other, piece)
            claim(known > 0, f"block {number} was stored twice")
            demo.repeated += 1
            demo.deduplicated += known > 0


def content(client: HttpClient) -> str:
    """One hash over the content hashes of all active parts."""
    hashes = client.rows(
        "SELECT hash_of_uncompressed_files FROM system.parts WHERE active AND table = 'flights' ORDER BY name"
    )
    return xxhash.xxh3_64_hexdigest("".join(row[0] for row in hashes).encode())


def show_replicas(demo: Demo, rows: int, lag_seconds: float) -> None:
    counts = demo.on_each("SELECT count() FROM flights")
    hashes = {name: content(client) for name, client in demo.clients.items()}
    delays = demo.on_each("SELECT absolute_delay FROM system.replicas WHERE table = 'flights'")
    show(
        "Replicas",
        ["replica", "rows", "content hash", "absolute delay, s"],
        [[name, counts[name], hashes[name], delays[name]] for name in demo.clients],
    )
    claim(set(counts.values()) == {rows}, f"every replica has {rows} rows")
    claim(len(set(hashes.values())) == 1, "all replicas have the same content")
    show(
        "Blocks",
        ["sent", "sent again", "deduplicated", "lag of the slowest replica after the last block, s"],
        [[demo.sent, demo.repeated, demo.deduplicated, f"{lag_seconds:.2f}"]],
    )
    claim(demo.deduplicated == demo.repeated, "every repeated block was recognised")


def replicate(demo: Demo) -> int:
    """Inserts, converges, merges; returns the number of flights."""
    flights = load_flights()
    pieces = list(blocks(flights, BLOCK_ROWS))
    say(f"inserting {flights.num_rows:,} flights in {len(pieces)} blocks through {REPLICAS} replicas in turn")
    started = time.monotonic()
    insert_all(demo, pieces)
    say(f"all blocks acknowledged after {time.monotonic() - started:.1f} s")
    rows = flights.num_rows
    lag = demo.wait_until(
        lambda: set(demo.on_each("SELECT count() FROM flights").values()) == {rows}, "replication of every block"
    )
    for client in demo.clients.values():
        client.execute("SYSTEM SYNC REPLICA flights")
    before = demo.on_each("SELECT count() FROM system.parts WHERE active AND table = 'flights'")
    demo.clients["r1"].execute("OPTIMIZE TABLE flights FINAL")
    for client in demo.clients.values():
        client.execute("SYSTEM SYNC REPLICA flights")
    after = demo.on_each("SELECT count() FROM system.parts WHERE active AND table = 'flights'")
    show_replicas(demo, rows, lag)
    show(
        "Parts",
        ["replica", "before OPTIMIZE FINAL", "after"],
        [[name, before[name], after[name]] for name in demo.clients],
    )
    claim(len(set(after.values())) == 1, "all replicas have merged to the same parts")
    return rows


def ask(demo: Demo) -> None:
    for (question, sql), (name, client) in zip(QUESTIONS.items(), demo.clients.items(), strict=True):
        rows = client.rows(sql)
        names = [column[0] for column in client.rows(f"DESCRIBE ({sql})")]
        show(f"{question} (asked of {name})", names, rows)


def use_spark(demo: Demo) -> None:
    say("starting Spark")
    url = ",".join(f"http://127.0.0.1:{client.port}" for client in demo.clients.values())
    demo.create(
        "CREATE TABLE carriers (carrier String, flights Int64, miles Int64) "
        "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/carriers', '{replica}') ORDER BY carrier"
    )
    question = (
        "SELECT carrier, count() AS flights, sum(distance) AS miles FROM flights GROUP BY carrier ORDER BY carrier"
    )
    with spark_part.spark_session() as session:
        frame = spark_part.carriers(session, url)
        from_spark = [list(row) for row in frame.collect()]
        spark_part.write_carriers(frame, url)
    from_sql = demo.clients["r3"].rows(question)
    demo.clients["r2"].execute("SYSTEM SYNC REPLICA carriers")
    read_back = demo.clients["r2"].rows("SELECT * FROM carriers ORDER BY carrier")
    show(
        "Flights and miles by carrier: Spark, SQL, and Spark's write read back by SQL",
        ["carrier", "Spark", "SQL", "read back"],
        [[s[0], f"{s[1]:,} / {s[2]:,}", f"{q[1]:,} / {q[2]:,}", f"{b[1]:,} / {b[2]:,}"]
         for s, q, b in zip(from_spark, from_sql, read_back, strict=False)][:6],
    )  # fmt: skip
    claim(from_spark == from_sql, "Spark's aggregation equals SQL's")
    claim(read_back == from_spark, "what Spark wrote is what SQL reads")


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pando-demo-") as directory:
        demo = Demo(Cluster(Path(directory)))
        try:
            say(f"starting ZooKeeper and {REPLICAS} replicas")
            demo.start()
            demo.create(CREATE_TABLE)
            replicate(demo)
            ask(demo)
            use_spark(demo)
        except (ClaimError, PandoError) as error:
            console.print(f"[bold red]failed:[/] {error}")
            return 1
        finally:
            for client in demo.clients.values():
                client.close()
            demo.cluster.stop()
    say(f"[bold green]everything held[/]; {time.monotonic() - started:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
