"""A replica of a linked table keeps the blocks that links need, within its bounds."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.links.link_failures import is_late
from engine.link_store.journal import JOURNAL_FOLDER
from engine.link_store.outbox_retention import RetentionLimits
from parts.common.errors import PandoError
from tests.links.linked_source import INSERT, Asker, find_folder, keep_all, kept, restart, table_with_a_row, tables


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with table_with_a_row(tmp_path) as asker:
        yield asker


def test_a_merged_block_can_still_be_sent(asker: Asker) -> None:
    asker.begin()
    for key in (1, 2):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    asker.table.first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    for table in tables(asker):
        asker.table.servers.now += 10_000
        with next(s for s in asker.table.servers.servers if asker.table.of(s) is table).acting():
            table.delete_outdated(table.store.list_deletable())
    for change in asker.take_all():
        for number in (0, 1):
            snapshot, path = asker.source(number).open_block(change.position, change.blocks[0].part)
            assert path.exists()
            snapshot.release()
    assert kept(tables(asker)[0]) == kept(tables(asker)[1]) == ["1_1_1_0", "1_2_2_0"]


def test_a_wanted_part_is_not_deleted_before_it_is_kept(asker: Asker) -> None:
    """No background step of the outbox runs: the deletion itself keeps the parts."""
    asker.begin()
    first = asker.table.first
    links = asker.table.table.links
    links.blocks._keep_present = list  # type: ignore[method-assign, assignment]
    for key in (1, 2):
        first.sql(INSERT.format(1, key))
    asker.table.settle()
    first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    assert kept(asker.table.table) == []
    asker.table.servers.now += 10_000
    with first.acting():
        asker.table.table.delete_outdated(asker.table.table.store.list_deletable())
    assert kept(asker.table.table) == ["1_1_1_0", "1_2_2_0"]


def test_an_outbox_keeps_within_its_bounds(asker: Asker) -> None:
    asker.begin()
    asker.table.first.sql("ALTER TABLE costs MODIFY SETTING link_log_max_seconds_to_retain = 1000")
    for key in range(1, 6):
        asker.table.first.sql(INSERT.format(1, key))
    keep_all(asker, 5)
    asker.table.servers.now += 2000
    asker.table.first.sql(INSERT.format(1, 6))
    asker.table.work_until(lambda: kept(asker.table.table) == ["1_6_6_0"])
    lost = asker.table.table.links.blocks.outbox.get_statistics().lost
    assert lost is not None
    assert lost.blocks == 5


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_block_that_was_given_up_tells_its_link_that_it_is_late(asker: Asker, is_lost: bool) -> None:
    """The journal names the change for as long as its segment grows, so only the missing block tells.

    It was given up by the settings, or went with the disks that kept it after it was merged.
    """
    asker.begin()
    for key in range(1, 3):
        asker.table.first.sql(INSERT.format(1, key))
    keep_all(asker, 2)
    change = asker.take_all()[0]
    for server in asker.table.servers.servers:
        with server.acting():
            outbox = asker.table.of(server).links.blocks.outbox
            outbox.remove() if is_lost else outbox.trim(RetentionLimits(0, max_bytes=1))
    assert [kept(table) for table in tables(asker)] == [[] if is_lost else ["1_2_2_0"]] * 2
    asker.table.first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    asker.table.servers.now += 10_000
    for server in asker.table.servers.servers:
        with server.acting():
            table = asker.table.of(server)
            table.delete_outdated(table.store.list_deletable())
    with asker.table.first.acting(), pytest.raises(PandoError, match="was given up") as told:
        asker.source().open_block(change.position, change.blocks[0].part)
    assert is_late(told.value)
    asker.table.servers.servers[1].crash()
    asker.table.servers.end_zombies()
    with asker.table.first.acting(), pytest.raises(PandoError, match="No replica") as told:  # who is away may have it
        asker.source().open_block(change.position, change.blocks[0].part)
    assert not is_late(told.value)


def test_acknowledged_blocks_are_given_up(asker: Asker) -> None:
    asker.begin()
    for key in range(1, 4):
        asker.table.first.sql(INSERT.format(1, key))
    keep_all(asker, 3)
    asker.take_all()
    asker.trim = asker.applied(asker.ask().source.origin)
    asker.table.servers.now += 11
    asker.ask()
    (link,) = asker.source().list_outgoing()
    assert link.trim == link.applied == asker.trim
    asker.table.servers.now += 400
    asker.table.work_until(lambda: kept(asker.table.table) == ["1_3_3_0"])
    statistics = asker.table.table.links.blocks.outbox.get_statistics()
    assert (statistics.needed_blocks, statistics.lost) == (0, None)


def test_a_block_comes_from_another_replica(asker: Asker) -> None:
    """A replica that never had a block as its own part fetches it for the link from one that kept it."""
    asker.begin()
    first, second = asker.table.servers.servers
    asker.table.first.sql(INSERT.format(1, 1))
    keep_all(asker, 1)
    (change,) = asker.take_all()
    part = change.blocks[0].part
    table = tables(asker)[1]
    table.links.blocks.outbox.remove()
    first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    for server in (first, second):
        asker.table.servers.now += 10_000
        with server.acting():
            asker.table.of(server).delete_outdated(asker.table.of(server).store.list_deletable())
    assert table.store.get(part) is None
    with second.acting():
        snapshot, path = asker.source(1).open_block(change.position, part)
    assert (path / "checksums.txt").exists() or list(path.iterdir())
    snapshot.release()
    assert not path.exists()
    assert asker.source(1).find_block_holders(change.position, part) == []
    tables(asker)[0].links.blocks.outbox.remove()
    with second.acting(), pytest.raises(PandoError, match=rf"{part}, which was committed at .*:{change.place}"):
        asker.source(1).open_block(change.position, part)


def test_a_clone_keeps_the_blocks_that_it_had(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    asker.table.first.sql(INSERT.format(1, 1))
    keep_all(asker, 1)
    second.crash()
    asker.table.servers.end_zombies()
    asker.table.servers.ensemble.connect().set(asker.table.table.replication.paths.replica("r2").is_lost, b"1")
    restart(asker, second)
    asker.table.settle()
    assert kept(tables(asker)[1]) == ["1_1_1_0"]


def test_a_restarted_replica_trims_its_outbox(asker: Asker) -> None:
    asker.begin()
    for key in (1, 2):
        asker.table.first.sql(INSERT.format(1, key))
    keep_all(asker, 2)
    asker.take_all()
    asker.trim = asker.applied(asker.ask().source.origin)
    asker.table.servers.now += 11
    asker.ask()
    second = asker.table.servers.servers[1]
    second.stop()
    restart(asker, second)
    asker.table.settle()
    asker.table.servers.now += 400
    asker.table.work_until(lambda: kept(tables(asker)[1]) == ["1_2_2_0"])


def test_a_full_disk_goes_before_a_block(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    asker.begin()
    blocks = asker.table.table.links.blocks

    def keep(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks.outbox, "keep", keep)
    for key in (1, 2):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    asker.table.first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    asker.table.servers.now += 10_000
    with asker.table.first.acting():
        asker.table.table.delete_outdated(asker.table.table.store.list_deletable())
    assert [str(part.name) for part in asker.table.table.store.list_active()] == ["1_0_2_1"]
    assert asker.table.table.store.list_deletable() == []


def test_the_blocks_outlive_a_damaged_journal(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    asker.table.first.sql(INSERT.format(1, 1))
    asker.table.settle()
    keep_all(asker, 1)
    since = tables(asker)[1].links.keeping.since
    second.stop()
    journal = find_folder(second.found, JOURNAL_FOLDER)[JOURNAL_FOLDER]
    assert isinstance(journal, dict)
    for name, data in journal.items():
        journal[name] = b"PANDOLJ1" + bytes(len(data) - 8)
    restart(asker, second)
    asker.table.work_until(lambda: tables(asker)[1].links.keeping.is_keeping)
    assert tables(asker)[1].links.keeping.since > since
    assert kept(tables(asker)[1]) == ["1_1_1_0"]


def test_a_block_that_is_open_outlives_the_trimming(asker: Asker) -> None:
    asker.begin()
    for key in (1, 2):
        asker.table.first.sql(INSERT.format(1, key))
    asker.table.settle()
    keep_all(asker, 2)
    change = asker.take_all()[0]
    outbox = tables(asker)[0].links.blocks.outbox
    snapshot, path = asker.source().open_block(change.position, change.blocks[0].part)
    outbox.release(asker.applied(change.position.origin))
    outbox.trim(RetentionLimits(min_seconds=0))
    assert len(kept(tables(asker)[0])) == 1
    assert path.exists()
    snapshot.release()
    outbox.trim(RetentionLimits(min_seconds=0))
    assert not path.exists()
