"""What a second cluster as a refuge costs: synchronous links, groups of tables, switching over.

All clusters are processes of this machine, spoken to over HTTP; source and target share its cores.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.linked_sites import (
    Site,
    add_replica,
    drop_table,
    find_at_share,
    insert_all,
    linked_sites,
    make_table,
    measure_lags,
    wait,
)
from benchmarks.measure import Figure, seconds

RUNS = 3
GROUP_SIZES = (1, 5, 20)
COMMITS_A_SECOND = 10
TAIL_ROWS = 1_000_000


def compare(directory: Path) -> Iterator[Figure]:
    with linked_sites(directory, ("west", "east")) as (source, target):
        yield _compare_inserts(source, target)
        for tables in GROUP_SIZES:
            yield from _compare_cuts(source, target, tables)
        yield _compare_switch(source, target)
        yield _compare_promotion(source, target)


def _compare_inserts(source: Site, target: Site) -> Figure:
    """Single-row INSERTs that wait for a target, against those that wait for a second replica. Aim: at least 0.5."""
    sync, quorum = [], []
    for _ in range(RUNS):
        table = make_table(source, [target])
        target.run(f"ALTER REPLICATION LINK {table}_from_{source.name} MODE sync")
        state = f"SELECT state FROM system.replication_links WHERE table = '{table}' AND direction = 'out'"
        wait(lambda state=state: source.run(state) == "enabled")  # type: ignore[misc]
        sync.append(insert_all(source, table))
        drop_table(table, [target, source])
        table = make_table(source, ())
        add_replica(source, table)
        quorum.append(insert_all(source, table, "SETTINGS insert_quorum = 2"))
        source.run(f"DROP TABLE {table}_second SYNC")
        drop_table(table, [source])
    return Figure(
        "INSERTs with a synchronous link", "insert_quorum = 2", statistics.median(sync), statistics.median(quorum)
    )


def _compare_cuts(source: Site, target: Site, tables: int) -> Iterator[Figure]:
    """From the answer to an INSERT until a group of tables shows it, against the same links without a group."""
    alone = _measure_cuts(source, target, tables, is_group=False)
    grouped = _measure_cuts(source, target, tables, is_group=True)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        yield Figure(
            f"lag of a group of {tables}, {COMMITS_A_SECOND} commits a second, {name}", "no group",
            find_at_share(grouped, share), find_at_share(alone, share),
        )  # fmt: skip


def _measure_cuts(source: Site, target: Site, tables: int, *, is_group: bool) -> list[float]:
    names = [make_table(source, [target]) for _ in range(tables)]
    links = [f"{name}_from_{source.name}" for name in names]
    for link in links:
        target.run(f"SYSTEM WAIT REPLICATION LINK {link}")
    if is_group:
        target.run(f"CREATE REPLICATION LINK GROUP g ({', '.join(links)}) SETTINGS transactional = 1")
    if is_group:
        wait(lambda: all(_answers(target, f"SELECT count() FROM {name}") for name in names))
    (lags,) = measure_lags(
        lambda key: source.insert(names[key % tables], key), COMMITS_A_SECOND, [_count_in_turn(target, names)]
    )
    if is_group:
        target.run("DROP REPLICATION LINK GROUP g")
    for name in names:
        drop_table(name, [target, source])
    return lags


def _count_in_turn(target: Site, tables: Sequence[str]) -> Callable[[], int]:
    """Returns a function that counts the first rows of all that have come, which go to the tables in turn.

    It asks for one table at a time: a query of 20 tables would take more of the machine than the cuts do.
    """
    found = 0

    def count() -> int:
        nonlocal found
        while target.count(tables[found % len(tables)]) > found // len(tables):
            found += 1
        return found

    return count


def _answers(site: Site, query: str) -> bool:
    try:
        site.run(query)
    except RuntimeError:
        return False
    return True


def _insert_tail(source: Site, target: Site) -> tuple[str, str]:
    """Makes a linked table whose target lacks the last rows; returns the table and the link, which is disabled."""
    table = make_table(source, [target])
    link = f"{table}_from_{source.name}"
    source.insert(table, 2**40)
    target.run(f"SYSTEM WAIT REPLICATION LINK {link}")
    target.run(f"ALTER REPLICATION LINK {link} DISABLE")
    source.run(f"INSERT INTO {table} SELECT number, toString(number) FROM numbers({TAIL_ROWS})")
    return table, link


def _compare_switch(source: Site, target: Site) -> Figure:
    """SWITCH with rows that the target lacks, against bringing them alone."""
    switched, brought = [], []
    for _ in range(RUNS):
        table, link = _insert_tail(source, target)

        def bring(link: str = link) -> None:
            target.run(f"ALTER REPLICATION LINK {link} ENABLE")
            target.run(f"SYSTEM WAIT REPLICATION LINK {link}")

        brought.append(seconds(bring))
        drop_table(table, [target, source])
        table, link = _insert_tail(source, target)

        def switch(link: str = link) -> None:
            target.run(f"ALTER REPLICATION LINK {link} ENABLE")
            target.run(f"SYSTEM SWITCH REPLICATION LINK {link}")

        switched.append(seconds(switch))
        drop_table(table, [source, target])
    name = f"SWITCH with {TAIL_ROWS / 1e6:g} M rows to bring"
    return Figure(name, "bringing them", statistics.median(switched), statistics.median(brought))


def _compare_promotion(source: Site, target: Site) -> Figure:
    """PROMOTE when the source is gone with rows that the target lacks. No peer: against a second."""
    _, link = _insert_tail(source, target)
    source.cluster.kill(source.cluster.status()[0].name)
    taken = seconds(lambda: target.run(f"SYSTEM PROMOTE REPLICATION LINK {link}"))
    return Figure(f"PROMOTE, {TAIL_ROWS / 1e6:g} M rows behind the source", "a second", taken, 1.0)
