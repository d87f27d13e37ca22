"""A simulated transactional group: every read is the source at one commit, under faults of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest

from coordination.keeper.memory_keeper import Fault
from coordination.links.groups.shown_cut import TableProgress
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from engine.simulator.links.groups.grouped_scenarios import NAMES, simulate_groups
from engine.simulator.links.groups.grouped_work import GroupedWork
from engine.simulator.links.groups.source_record import SentRows
from engine.simulator.links.groups.world_faults import FaultRates
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.scenario import TABLE_SETTINGS
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.trace import Trace
from engine.tables.shown_groups import shown_group
from parts.common.errors import UnavailableError
from parts.common.thread_pool import run_jobs_inline
from tests.portions import one_in

_TABLES = ("t", "u")
KINDS = {
    "a commit of 0 drops and 2 partitions",
    "a commit of 1 drops and 0 partitions",
    "a commit of 2 drops and 2 partitions",
    "a cut was committed",
    "a cut was read",
    "a fetch was broken off",
    "a link was paused",
    "a refused INSERT is nowhere",
    "a replica was lost",
    "an fsync failed",
    "delete ok",
    "error 369 of look",
    *(fault.name for fault in Fault),
}


@pytest.mark.parametrize("seed", one_in(6, range(1, 13)))
def test_promises_hold(seed: int) -> None:
    outcome = simulate_groups(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.parametrize("seed", [1645])
def test_seeds_that_found_something(seed: int) -> None:
    """Parts of a clone that a later cut dropped before they were copied."""
    outcome = simulate_groups(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


@pytest.mark.parametrize("seed", [0, 14])
def test_mutations_are_shown_with_their_cut(seed: int) -> None:
    """These find a cut that is shown before its mutation is done, and a mutation that waits for the next cut."""
    outcome = simulate_groups(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
    assert outcome.counts["delete ok"]


@pytest.mark.long
def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_groups(5, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.long
def test_everything_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in range(100, 300):
        outcome = simulate_groups(seed)
        assert not outcome.failure, "\n".join([f"seed {seed}", *outcome.last, outcome.failure])
        counts += outcome.counts
        if counts.keys() >= KINDS:
            return
    raise AssertionError(f"never happened: {KINDS - counts.keys()}; {counts}")


@pytest.mark.long
def test_tables_that_are_shown_at_different_cuts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def show_some(tables: list[TableProgress]) -> int | None:
        return max((table.at for table in tables if table.has_joined and table.is_ready), default=0) or None

    monkeypatch.setattr(shown_group, "find_showable", show_some)
    assert any(", of west r" in simulate_groups(seed).failure for seed in range(1, 20))


@contextmanager
def grouped_world(path: Path, **target_settings: object) -> Iterator[GroupedWork]:
    """A source and a target of two servers each, without faults; the target shows its first cut."""
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        options: dict[str, object] = {"queue_wait_seconds": 3.0, **TABLE_SETTINGS}
        world = LinkedWorld(path, NAMES, 2, 1, Trace(), disks, lambda _: None, **options)
        work = GroupedWork(world, _TABLES, Counter(), FaultRates(), target_settings)
        try:
            work.begin()
            yield work
        finally:
            world.end()


def test_a_replica_that_was_lost_shows_the_group_again(tmp_path: Path) -> None:
    """Its parts come by a clone, not by cuts."""
    with grouped_world(tmp_path, max_replicated_logs_to_keep=4, cleanup_delay_period=1) as work:
        away = work.target.servers[1]
        away.crash()
        work.target.end_zombies()
        for key in range(1, 30):
            assert work.send(SentRows(_TABLES[key % 2], (key,))) == "ok"
            for _ in range(3):
                work.world.timeline.now += 7.0
                work.world.step_others()
        away.start()
        for number in range(200):  # whatever it shows while its parts come is a state of the source
            with suppress(UnavailableError):
                work.look(away, is_by_sql=False)
            away.step(away.pool.tasks[number % len(away.pool.tasks)])
        work.heal()
        work.check()


def test_a_cut_whose_mutation_is_not_done_counts_as_begun_after_a_restart(tmp_path: Path) -> None:
    """Its rows are active already, and its entry has left the queue of every table."""
    with grouped_world(tmp_path) as work:
        away = work.target.servers[1]
        work.target.servers[0].sql("ALTER REPLICATION LINK t DISABLE")
        for key, table in enumerate(_TABLES, 1):
            for server in work.target.servers:
                server.sql(f"SYSTEM STOP MERGES {table}")
            assert work.send(SentRows(table, (key,))) == "ok"
            work.source.servers[0].sql(f"ALTER TABLE {table} DELETE WHERE k IN ({key})", mutations_sync=0)
        work.target.servers[0].sql("ALTER REPLICATION LINK t ENABLE")
        for _ in range(10):
            work.world.timeline.now += 1.0
            work.world.step_others()
        assert sum(len(table.store.list_active()) for table in away.tables) == len(_TABLES)
        away.crash()
        work.target.end_zombies()
        away.start()
        for task in away.pool.tasks:
            away.step(task)
            with suppress(UnavailableError):
                work.look(away, is_by_sql=False)
        for server, table in product(work.target.servers, _TABLES):
            server.sql(f"SYSTEM START MERGES {table}")
        work.heal()
        work.check()


@contextmanager
def synchronous_world(path: Path) -> Iterator[GroupedWork]:
    """As :func:`grouped_world`, with a synchronous link of the table ``t``."""
    with grouped_world(path) as work:
        work.target.servers[0].sql("ALTER REPLICATION LINK t MODE sync")
        gate = TablePaths("/tables/t").gate

        def is_enabled() -> bool:
            return bool(Gate.parse(work.source.ensemble.tree[gate].data).sync_targets)

        work.world.settle(is_enabled, lambda: "the link is not enabled")
        yield work


def _step(server: SimulatedServer, *names: str) -> None:
    """Runs these tasks of all tables, in this order."""
    for name, table in product(names, _TABLES):
        server.step(server.task(f"{table}: {name}"))


def _must_show_or_refuse(work: GroupedWork, server: SimulatedServer, rows: list[int]) -> None:
    with suppress(UnavailableError):
        assert work.look(server, is_by_sql=False).rows["t"] == rows


def test_a_server_that_starts_shows_no_cut_from_before(tmp_path: Path) -> None:
    """An INSERT that was acknowledged without it was not waited for here."""
    with synchronous_world(tmp_path) as work:
        away = work.target.servers[1]
        away.crash()
        work.target.end_zombies()
        assert work.send(SentRows("t", (1,))) == "ok"
        away.start()
        _step(away, "ZooKeeper session", "follow the gate")
        _must_show_or_refuse(work, away, [1])
        work.heal()
        work.check()


def test_a_session_that_begins_anew_shows_no_cut_from_before(tmp_path: Path) -> None:
    with synchronous_world(tmp_path) as work:
        away = work.target.servers[1]
        assert work.look(away).rows["t"] == []
        away.keeper.expire()
        assert work.send(SentRows("t", (1,))) == "ok"
        away.keeper.reconnect()
        _step(away, "ZooKeeper session")
        _must_show_or_refuse(work, away, [1])
        _step(away, "follow the gate")
        _must_show_or_refuse(work, away, [1])
        work.heal()
        work.check()
