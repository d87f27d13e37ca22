"""A replica whose disk is full says so, takes nothing that does not fit, and goes on when there is room again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from engine.tables.disk_reservations import DiskReservations
from parts.common.errors import PandoError
from parts.format.hashed_file import replace_sync

MakeColony = Callable[..., SimulatedCluster]


def _full(free: int = 100) -> DiskReservations:
    return DiskReservations(lambda path: free)


def _two_parts(make_colony: MakeColony, **settings: object) -> SimulatedCluster:
    colony = make_colony(2, **settings)
    one, _ = colony
    for first in (1, 3):
        one.insert(1, [first, first + 1])
    colony.settle()
    return colony


def test_optimize_that_does_not_fit_is_refused_before_it_is_logged(make_colony: MakeColony) -> None:
    colony = _two_parts(make_colony, queue_wait_seconds=20.0)
    one, two = colony
    services, roomy = one.table.state.services, one.table.state.services.disk
    services.disk = _full()
    with pytest.raises(PandoError, match="Not enough free disk space for merging to 1_0_1_1") as refused:
        one.optimize()
    assert refused.value.code == 243
    colony.settle()
    assert sorted(two.parts()) == ["1_0_0_0", "1_1_1_0"]
    services.disk = roomy
    one.optimize()
    colony.settle()
    colony.check_equal()
    assert sorted(one.parts()) == ["1_0_1_1"]


def test_optimize_does_not_wait_for_a_disk_that_became_full(make_colony: MakeColony) -> None:
    """The merge is in the log: it is made when there is room."""
    colony = _two_parts(make_colony, queue_wait_seconds=20.0, fsync_after_insert=True, fsync_part_directory=True)
    one, _ = colony

    def refuse(descriptor: int) -> None:
        if "tmp_merge_" in os.readlink(f"/proc/self/fd/{descriptor}") and one in colony.stack:
            raise OSError(errno.ENOSPC, "No space left on device")

    with replace_sync(refuse), pytest.raises(PandoError, match="is in the log, and will be made") as raised:
        one.optimize()
    assert raised.value.code == 243
    assert colony.now < 1_700_000_300, "it has not waited until its end"
    colony.now += 60
    colony.settle()
    colony.check_equal()
    assert sorted(one.parts()) == ["1_0_1_1"]


def test_optimize_does_not_wait_for_a_merge_that_another_replica_logged(make_colony: MakeColony) -> None:
    colony = _two_parts(make_colony, queue_wait_seconds=20.0)
    one, two = colony
    roomy = two.table.state.services.disk
    two.table.state.services.disk = _full()
    one.optimize()
    with pytest.raises(PandoError, match="is in the log, and will be made") as raised:
        two.optimize()
    assert raised.value.code == 243
    two.table.state.services.disk = roomy
    colony.now += 60
    colony.settle()
    colony.check_equal()


def test_a_fetch_has_room_before_it_begins(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    free = 1 << 20
    disk = two.table.state.services.disk = DiskReservations(lambda path: free)
    one.insert(1, [1, 2])
    seen: list[int] = []
    colony.on_copy = lambda part, sender: seen.append(disk.unreserved_bytes(Path()))
    colony.settle()
    size = two.table.store.list_active()[0].bytes_on_disk
    assert seen
    assert set(seen) == {free - int(size * 1.1)}
    assert disk.unreserved_bytes(Path()) == free, "the room is given back"


def test_a_fetch_that_does_not_fit_brings_nothing_and_says_why(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    roomy = two.table.state.services.disk
    two.table.state.services.disk = _full()
    one.insert(1, [1, 2])
    copied: list[object] = []
    colony.on_copy = lambda part, sender: copied.append(part)
    for _ in range(3):
        colony.now += 7
        two.step_all()
    assert not copied
    assert ["(NOT_ENOUGH_SPACE)" in item.last_exception for item in two.table.replication.queue.list_entries()] == [
        True
    ]
    assert not list(two.path.glob("tmp_*"))
    two.table.state.services.disk = roomy
    colony.settle()
    colony.check_equal()
