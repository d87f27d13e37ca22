"""What outboxes and journals of a linked table keep and give up: clocks, ages, and blocks that came in merged parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.links.stream.change import Change
from parts.common.errors import PandoError
from parts.read.part_reader import open_part
from tests.links.linked_source import INSERT, Asker, keep_all, kept, linked_table, restart, tables
from tests.portions import one_in


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path) as asker:
        asker.table.first.sql(INSERT.format(1, 0))
        asker.table.settle()
        yield asker


def mutate(asker: Asker, values: range) -> None:
    for value in values:
        asker.table.first.sql(f"ALTER TABLE costs UPDATE v = {value} WHERE p = 1 SETTINGS mutations_sync = 2")


@pytest.mark.parametrize("has_link_that_asks", one_in(2, [True, False]))
@pytest.mark.long
def test_a_table_with_mutations_only_trims_its_journal(asker: Asker, has_link_that_asks: bool) -> None:
    """By what the links have, or by the longest time."""
    asker.begin()
    for server in asker.table.servers.servers:
        server.sql("ALTER TABLE costs MODIFY SETTING link_log_max_seconds_to_retain = 4000")
    for table in tables(asker):
        table.links.keeping.journal._segment_bytes = 2000
    mutate(asker, range(1, 15))
    asker.table.settle()
    look_at_outboxes(asker)
    if has_link_that_asks:
        asker.take_all()
        asker.trim = asker.applied(asker.ask().source.origin)
        asker.table.servers.now += 11
        asker.ask()
    before = [table.links.keeping.journal.get_statistics() for table in tables(asker)]
    assert all(facts.segments > 3 for facts in before)
    for _ in range(30):
        asker.table.servers.now += 20 if has_link_that_asks else 200
        for server in asker.table.servers.servers:
            server.step_all()
    after = [table.links.keeping.journal.get_statistics() for table in tables(asker)]
    assert all(facts.segments <= 2 for facts in after)
    since, second = tables(asker)[1].links.keeping.since, asker.table.servers.servers[1]
    second.stop()
    restart(asker, second)
    asker.table.settle()
    assert tables(asker)[1].links.keeping.since == since
    mutate(asker, range(20, 22))
    if has_link_that_asks:
        assert [len(change.mutations) for change in asker.take_all(1)] == [1, 1]
    else:
        with pytest.raises(PandoError, match="begins after zxid"):
            asker.ask(1)


def merge_on_one_replica(asker: Asker) -> None:
    """The first replica inserts three blocks and merges them; the second fetches nothing meanwhile."""
    first, second = asker.table.servers.servers
    second.sql("SYSTEM STOP FETCHES costs")
    for key in range(1, 4):
        first.sql(INSERT.format(1, key))
    asker.table.work_until(lambda: len(kept(tables(asker)[0])) == 3)
    first.sql("OPTIMIZE TABLE costs PARTITION 1 FINAL SETTINGS alter_sync = 1")
    asker.table.servers.now += 10_000
    with first.acting():
        asker.table.table.delete_outdated(asker.table.table.store.list_deletable())


def test_blocks_that_came_inside_a_merged_part_are_kept_too(asker: Asker) -> None:
    """The second replica fetches the merged part. Its outbox gets the blocks while a link lacks them."""
    asker.begin()
    second = asker.table.servers.servers[1]
    merge_on_one_replica(asker)
    keeping = tables(asker)[1].links.keeping
    asker.table.work_until(lambda: keeping.missing_blocks == 3)
    second.sql("SYSTEM START FETCHES costs")
    keep_all(asker, 3)
    assert keeping.missing_blocks == 0
    assert [str(part.name) for part in tables(asker)[1].store.list_active()] == ["1_0_3_1"]
    assert kept(tables(asker)[1]) == kept(tables(asker)[0]) == ["1_1_1_0", "1_2_2_0", "1_3_3_0"]
    assert not list(tables(asker)[1].store.path.glob("tmp_*"))


def test_blocks_that_no_link_needs_or_nobody_has_are_not_fetched(asker: Asker) -> None:
    asker.begin()
    second = asker.table.servers.servers[1]
    merge_on_one_replica(asker)
    asker.take(max_rows=1)
    asker.trim = asker.applied(asker.ask(max_rows=1).source.origin)
    asker.table.servers.now += 11
    asker.ask()
    outbox = tables(asker)[0].links.blocks.outbox
    outbox.discard(outbox.list_blocks()[1])
    second.sql("SYSTEM START FETCHES costs")
    keep_all(asker, 1)
    asker.table.work_until(lambda: not tables(asker)[1].links.blocks._wanted)
    assert kept(tables(asker)[1]) == ["1_3_3_0"]


def look_at_outboxes(asker: Asker, seconds: float = 20) -> None:
    """Lets every server look at its outbox, at least once after so many seconds."""
    for _ in range(3):
        asker.table.servers.now += seconds
        for server in asker.table.servers.servers:
            server.step_all()


@pytest.mark.parametrize("days", [10, -10])
def test_a_wrong_clock_gives_up_nothing(asker: Asker, days: float) -> None:
    """Neither a server's, nor ZooKeeper's that steps: not what a link needs, and not before the least time."""
    asker.begin()
    servers = asker.table.servers
    servers.servers[0].clock.skew = days * 86_400
    for key in range(1, 4):
        asker.table.first.sql(INSERT.format(1, key))
    keep_all(asker, 3)
    asker.take_all()
    asker.trim = asker.applied(asker.ask().source.origin)
    servers.now += 11
    asker.ask()
    asker.table.first.sql(INSERT.format(1, 4))
    keep_all(asker, 4)
    clock = servers.ensemble.clock
    servers.ensemble.clock = lambda: clock() + days * 86_400
    asker.table.first.sql(INSERT.format(1, 5))
    keep_all(asker, 5)
    look_at_outboxes(asker)
    servers.ensemble.clock = clock
    look_at_outboxes(asker)
    assert [len(kept(table)) for table in tables(asker)] == [5, 5]
    servers.servers[1].clock.skew = days * 86_400
    servers.servers[1].stop()
    restart(asker, servers.servers[1])
    look_at_outboxes(asker, 10)
    assert [len(kept(table)) for table in tables(asker)] == [5, 5]
    servers.now += 400
    look_at_outboxes(asker)
    assert kept(tables(asker)[0]) == kept(tables(asker)[1]) == ["1_4_4_0", "1_5_5_0"]


def lose_outboxes(asker: Asker) -> None:
    """Merges all parts, lets the old ones go, and removes the outboxes of all replicas."""
    asker.table.first.sql("OPTIMIZE TABLE costs FINAL")
    asker.table.settle()
    for server in asker.table.servers.servers:
        asker.table.servers.now += 10_000
        with server.acting():
            asker.table.of(server).delete_outdated(asker.table.of(server).store.list_deletable())
        asker.table.of(server).links.blocks.outbox.remove()


def read_block(asker: Asker, change: Change, number: int = 1) -> list[tuple[object, ...]]:
    with asker.table.servers.servers[number].acting():
        snapshot, path = asker.source(number).open_block(change.position, change.blocks[0].part)
    with snapshot:
        batches = open_part(path, name=change.blocks[0].part).read(["k", "v"])
        rows = [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]
    assert not path.exists()
    return rows


@pytest.fixture
def numbered(tmp_path: Path) -> Iterator[Asker]:
    with linked_table(tmp_path, more="SETTINGS enable_block_number_column = 1") as asker:
        yield asker


def test_a_block_that_no_outbox_has_is_read_out_of_a_merged_part(numbered: Asker) -> None:
    asker = numbered
    asker.begin()
    for key in (5, 1, 3):
        asker.table.first.sql(f"INSERT INTO costs (p, k, v) VALUES (1, {key + 1}, 7), (1, {key}, 8), (1, {key}, 9)")
    lose_outboxes(asker)
    changes = asker.take_all()
    for change, key in zip(changes, (5, 1, 3), strict=True):
        assert read_block(asker, change) == [(key, 8), (key, 9), (key + 1, 7)]
    for table in tables(asker):
        assert not list(table.store.path.glob("tmp_*"))


@pytest.mark.parametrize("what", ["no numbers", "a mutation"])
def test_a_block_is_not_made_of_other_rows(tmp_path: Path, what: str) -> None:
    with linked_table(tmp_path, more=f"SETTINGS enable_block_number_column = {int(what != 'no numbers')}") as asker:
        check_that_nothing_is_made(asker, what)


def check_that_nothing_is_made(asker: Asker, what: str) -> None:
    asker.begin()
    for key in (5, 1):
        asker.table.first.sql(INSERT.format(1, key))
    if what == "a mutation":
        asker.table.first.sql("ALTER TABLE costs UPDATE v = 9 WHERE k = 5 SETTINGS mutations_sync = 2")
    lose_outboxes(asker)
    change = asker.take_all()[0]
    with pytest.raises(PandoError, match="No replica of"):
        read_block(asker, change)
