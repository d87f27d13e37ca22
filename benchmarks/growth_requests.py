"""``python -m benchmarks.growth_requests``: how requests to ZooKeeper and CPU time of a replicated table grow with its
partitions, parts and mutations.

Servers of the simulator (``engine.simulator.statement_costs``) without faults, one replica. A request counts once for
each node that it reads, although ZooKeeper 3.6 and newer gets many reads as one request; the start is measured with a
real ZooKeeper, and counts what is sent. ClickHouse 18.16 makes 595 and 1,925 requests for the UPDATE with 30 and 100
partitions.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from coordination.keeper.embedded_zookeeper import EmbeddedZooKeeper
from engine.engine import Engine
from engine.queries.session import Session
from engine.server.config import Config
from engine.simulator.statement_costs import Cost, CountedTable, counted_table
from engine.tables.replicated.replicated_table import ReplicatedTable

Costs = Mapping[str, float]
_COLUMNS = "p UInt16, k UInt64, v UInt64"
_PARTS = 20
"""Of the table that mutations queue up for."""


def cases() -> Iterator[tuple[str, Sequence[int], Callable[[int], Costs]]]:
    yield "merge one pair in each of n partitions", (30, 100, 300), _merges
    yield "UPDATE … WHERE p = 3, n partitions", (30, 100, 300), _update_of_partitions
    yield "TRUNCATE of n partitions", (100, 300, 1000), _truncate
    yield "UPDATE of n parts, replicated", (100, 300, 1000), _update_of_parts
    yield f"n queued mutations of {_PARTS} parts, replicated", (30, 100, 300), _queued_mutations
    yield "start with n parts", (1000, 3000, 10_000), _start


@contextmanager
def _table(partition_key: str = "") -> Iterator[CountedTable]:
    rest = f"{partition_key} ORDER BY k"
    with tempfile.TemporaryDirectory() as directory, counted_table(Path(directory), _COLUMNS, rest) as table:
        yield table


def _insert(table: CountedTable, select: str) -> None:
    table.first.sql(f"INSERT INTO costs SETTINGS max_partitions_per_insert_block = 0 SELECT {select}")


def _costs(cost: Cost) -> Costs:
    return {"requests": cost.requests, "CPU s": cost.cpu_seconds}


def _merges(size: int) -> Costs:
    with _table("PARTITION BY p") as table:
        for part in range(2):
            _insert(table, f"number, {part}, 0 FROM numbers({size})")
        table.settle()
        table.select_merges(True)
        with table.measure_cost() as cost:
            table.work_until(lambda: len(table.table.store.list_active()) == size)
            table.settle()
        return _costs(cost)


def _update_of_partitions(size: int) -> Costs:
    with _table("PARTITION BY p") as table:
        _insert(table, f"number, 0, 0 FROM numbers({size})")
        table.settle()
        return _mutated(table, "ALTER TABLE costs UPDATE v = 1 WHERE p = 3 SETTINGS mutations_sync = 0")


def _update_of_parts(size: int) -> Costs:
    with _table() as table:
        for part in range(size):
            _insert(table, f"0, {part}, 0")
        table.settle()
        return _mutated(table, "ALTER TABLE costs UPDATE v = 1 WHERE 1 SETTINGS mutations_sync = 0")


def _queued_mutations(size: int) -> Costs:
    with _table() as table:
        for part in range(_PARTS):
            _insert(table, f"{part}, number, 0 FROM numbers(1000)")
        table.settle()
        table.first.sql("SYSTEM STOP MERGES costs")
        for number in range(size):
            table.first.sql(
                f"ALTER TABLE costs UPDATE v = v + 1 WHERE k % 7 = {number % 7} SETTINGS mutations_sync = 0"
            )
        return _mutated(table, "SYSTEM START MERGES costs")


def _mutated(table: CountedTable, statement: str) -> Costs:
    with table.measure_cost() as cost:
        table.first.sql(statement)
        table.work_until(lambda: _is_mutated(table))
        table.settle()
    return _costs(cost)


def _is_mutated(table: CountedTable) -> bool:
    shown = table.table.mutations.shown()
    return bool(shown) and all(mutation.is_done for mutation in shown)


def _truncate(size: int) -> Costs:
    with _table("PARTITION BY p") as table:
        _insert(table, f"number, 0, 0 FROM numbers({size})")
        table.settle()
        with table.measure_cost() as cost:
            table.first.sql("TRUNCATE TABLE costs")
            table.settle()
        return _costs(cost)


def _start(size: int) -> Costs:
    with tempfile.TemporaryDirectory() as directory:
        zookeeper = EmbeddedZooKeeper(Path(directory) / "zookeeper").start()
        try:
            return _started(Path(directory) / "server", zookeeper.hosts, size)
        finally:
            zookeeper.stop()


def _started(path: Path, hosts: str, size: int) -> Costs:
    host, _, port = hosts.partition(":")
    config = Config.model_validate(
        {
            "path": path,
            "http_port": None,
            "interserver_http_port": None,
            "zookeeper": {"nodes": [{"host": host, "port": int(port)}]},
            "merge_tree": {"parts_to_delay_insert": 1_000_000, "parts_to_throw_insert": 1_000_000},
        }
    )
    engine = Engine(config)
    engine.start()
    _run(engine, f"CREATE TABLE t ({_COLUMNS}) ENGINE = ReplicatedMergeTree('/t', 'r1') ORDER BY k")
    _run(engine, "SYSTEM STOP MERGES t")
    for part in range(size):
        _run(engine, f"INSERT INTO t VALUES (0, {part}, 0)")
    engine.stop()
    started = time.process_time()
    engine = Engine(config)
    engine.start()
    try:
        while _run(engine, "SELECT is_readonly FROM system.replicas") != [0]:
            time.sleep(0.01)
        table = engine.catalog.table("default", "t")
        assert isinstance(table, ReplicatedTable)
        client = table.keeper._client  # type: ignore[union-attr]
        return {"requests": client._connection._xid, "CPU s": time.process_time() - started}
    finally:
        engine.stop()


def _run(engine: Engine, statement: str) -> list[object]:
    batches = engine.execute(statement, Session()).batches
    return [row for batch in batches for row in batch.column(0).to_pylist()] if batches else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="no larger sizes")
    options = parser.parse_args()
    for name, sizes, run in cases():
        measured = {size: run(size) for size in sizes if options.only in name and size <= options.most}
        for cost in ("requests", "CPU s") if measured else ():
            values = [(size, costs[cost]) for size, costs in measured.items()]
            (first, least), (last, most) = values[0], values[-1]
            slope = math.log(most / least) / math.log(last / first) if last > first else math.nan
            shown = "  ".join(f"{size:,}: {value:,.4g}" for size, value in values)
            print(f"{name}: {cost}  {shown}  exponent {slope:.2f}  one {most / last:.3g}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
