"""Work on a table that is ended before it is done, by its query, its table or a full disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.simulator.simulated_cluster import SimulatedCluster
from parts.common.errors import CancelledError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

MakeColony = Callable[..., SimulatedCluster]


@pytest.mark.parametrize("ends", ["restart", "stop"])
def test_check_of_a_part_ends_when_its_table_pauses(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """A new session can begin only when nobody works for the old one, and a large part is read for minutes."""
    colony = make_colony(1, min_bytes_for_full_part_storage=0)
    (one,) = colony
    one.insert(1, [1, 2])
    (name,) = map(PartName.parse, one.parts())
    one.call(lambda table: table.part_checks.schedule_check(name))
    frames: list[int] = []

    def slow_frame(_: object, offset: int, *__: object) -> int:
        frames.append(offset)
        if len(frames) == 1 and ends == "stop":
            one.table.is_stopping.set()
        elif len(frames) == 1:
            one.table.state.set_readonly("a new session")
        return 1

    with monkeypatch.context() as patch:
        patch.setattr("parts.format.part_files.check_frame", slow_frame)
        one.step(one.task("check parts"))
    assert len(frames) == 1
    one.table.is_stopping.clear()
    one.table.replication.restart()
    colony.settle()
    assert not len(one.table.part_checks)


def test_killed_truncate_waits_no_longer(make_colony: MakeColony) -> None:
    """The drop is logged and will be carried out; who asked for it need not wait till then."""
    colony = make_colony(1)
    (one,) = colony
    one.insert(1, [1])
    one.is_frozen = True
    status = QueryStatus()
    colony.on_wait = status.stop
    begun = colony.now
    with pytest.raises(CancelledError):
        one.call(lambda table: table.truncate(status))
    assert colony.now - begun < 10
    one.is_frozen = False
    colony.settle()
    assert one.keys() == []


def test_full_disk_under_a_fetched_part_keeps_no_copy_of_it(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is fetched again and again: copies left behind would fill the disk for good."""
    colony = make_colony(2, fsync_part_directory=True)
    one, two = colony
    one.insert(1, [1])

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("parts.store.arriving_parts.sync_directory", full)
        two.step_all()
        assert "No space left" in two.table.replication.queue.list_entries()[0].last_exception
    assert not list(two.path.glob("tmp_*"))
    colony.settle()
    colony.check_equal()
    assert two.keys() == [1]
