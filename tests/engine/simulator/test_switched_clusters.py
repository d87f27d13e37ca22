"""Three simulated clusters whose source is switched over: promises hold under faults of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.links.switched_scenarios import NAMES, simulate_switches
from engine.simulator.scenario import TABLE_SETTINGS
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.trace import Trace
from engine.tables.replicated.write.sync_insert import SyncInsert
from parts.common.thread_pool import run_jobs_inline
from tests.portions import one_in

_LINK = "CREATE REPLICATION LINK l ON t FROM CLUSTER east SETTINGS start_position = 'now', replication_timeout = 5"


@pytest.mark.long
def test_a_seed_replays_byte_for_byte() -> None:
    first, second = (simulate_switches(3, rounds=1, steps=60) for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.parametrize("seed", one_in(9, (0, 2, 4, 6, 8, 10, 57, 3, 5, 15, 21, 29, 121, 71, 91, 123, 133)))
def test_promises_hold(seed: int) -> None:
    """Odd seeds force promotions, too, some of them in both rounds."""
    outcome = simulate_switches(seed)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])


def test_a_sibling_follows_from_a_server_that_kept_all_changes(tmp_path: Path) -> None:
    """A server of the new source that began late to keep changes does not know what was written before."""
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        options: dict[str, object] = {"queue_wait_seconds": 3.0, **TABLE_SETTINGS}
        world = LinkedWorld(tmp_path, NAMES, 2, 1, Trace(), disks, lambda _: None, **options)
        (_, _), (late, early), (north, _) = (cluster.servers for cluster in world.clusters.values())
        world.calm()
        late.is_frozen = True
        for server in (early, north):
            server.sql(_LINK)
        for _ in range(6):
            world.timeline.now += 2.0
            world.step_others()
        world.network.cut("north", "west")  # it hears of the fork later
        early.sql("SYSTEM SWITCH REPLICATION LINK l", receive_timeout=20)
        early.insert(1, [1])
        early.insert(0, [2])
        early.crash()
        late.is_frozen = False
        world.network.mend()
        world.timeline.now += 5.0
        world.step_others()
        late.insert(1, [3])
        for _ in range(8):  # only the late server answers
            world.timeline.now += 5.0
            world.step_others()
        assert north.keys() == []
        world.calm()
        servers = [cast(SimulatedServer, node) for node in world]
        world.settle(lambda: all(s.keys() == [1, 2, 3] for s in servers), lambda: str([s.keys() for s in servers]))
        world.end()


@pytest.mark.long
def test_synchronous_targets_show_what_is_acknowledged() -> None:
    outcome = simulate_switches(2, replicas=2, is_sync=True)
    assert not outcome.failure, "\n".join([*outcome.last, outcome.failure])
    assert outcome.counts["an acknowledged key was seen at a synchronous target"] > 5


def test_an_answer_that_does_not_wait_for_synchronous_targets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncInsert, "wait", lambda insert: None)
    assert "is a synchronous target, and" in simulate_switches(4, replicas=2, is_sync=True).failure
