"""Rare interleavings on real tables, each of which would cost rows or stop a table for ever."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import engine.system_tables.replication as replication_tables
from coordination.keeper.memory_keeper import Fault
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_merge_entry
from engine.simulator import simulated_transfer
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_node import SimulatedNode
from engine.tables.statement_options import InsertOptions, OptimizeOptions
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError
from parts.common.part_name import PartName
from parts.format.hashed_file import read_small_file
from parts.read.part_reader import Part
from tests.engine.tables.replicated.owner_context import make_owner_context

MakeColony = Callable[..., SimulatedCluster]


def half_drop(colony: SimulatedCluster, name: str) -> None:
    """DROP REPLICA of a dead one, cut short in its middle."""
    node = colony.nodes.pop(name)
    node.crash()
    colony.end_zombies()
    keeper = colony.nodes["r1"].keeper
    keeper.delete(node.table.replication.replica.host)
    keeper.delete_tree(node.table.replication.replica.queue)
    keeper.delete_tree(node.table.replication.replica.parts)


def test_lost_part_is_given_up_beside_a_replica_whose_drop_was_cut_short(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, _ = colony
    for key in range(3):
        one.insert(1, [key])
    colony.settle()
    half_drop(colony, "r3")
    two.is_frozen = True
    one.insert(1, [100])
    one.crash()
    one.wipe()
    one.force_restore_all = True
    two.is_frozen = False
    colony.end_zombies()
    one.start()
    colony.settle(200)
    colony.check_equal()
    assert one.keys() == two.keys() == [0, 1, 2]
    two.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    assert len(one.parts()) == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER])
@pytest.mark.parametrize("is_overtaken", [False, True])
def test_repeat_on_another_replica_while_the_first_attempt_is_undecided(
    make_colony: MakeColony, fault: Fault, is_overtaken: bool
) -> None:
    """The commit is lost, or only its answer; the client turns to the second replica at once, or even before."""
    colony = make_colony(2)
    one, two = colony
    written = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is not one or kind != "multi" or "/log/" not in path:
            return None
        colony.on_request = lambda *_: None
        if is_overtaken:
            written.append(two.insert(1, [1, 2]))
        return fault

    colony.on_request = on_request
    with contextlib.suppress(PandoError):
        written.append(one.insert(1, [1, 2]))
    written.append(two.insert(1, [1, 2]))
    one.keeper.reconnect()
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == [1, 2]
    assert sum(written) in (0, 2)


@pytest.mark.parametrize("action", ["truncate", "optimize", "insert"])
def test_restart_of_a_replica_while_others_act(make_colony: MakeColony, action: str) -> None:
    """SYSTEM RESTART REPLICA, as often as there are requests in between."""
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(1, [key])
    colony.settle()
    count = [0]

    def on_request(node: SimulatedNode, kind: str, path: str) -> None:
        count[0] += 1
        if node is one and count[0] % 5 == 0:
            one.table.replication.restart()
            two.step_random()
        return

    colony.on_request = on_request
    if action == "truncate":
        one.call(lambda table: table.truncate())
    elif action == "optimize":
        one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    else:
        one.insert(1, [10])
    colony.on_request = lambda *_: None
    colony.settle()
    colony.check_equal()
    expected = {"truncate": [], "optimize": [0, 1, 2, 3], "insert": [0, 1, 2, 3, 10]}
    assert one.keys() == two.keys() == expected[action]


def test_part_listed_with_other_content_is_kept_aside_and_fetched(make_colony: MakeColony) -> None:
    colony = make_colony(3)
    one, two, three = colony
    for key in range(4):
        one.insert(1, [key])
    colony.settle()
    one.crash()
    two_parts = {directory.name: directory for directory in two.directories()}
    directories = one.directories()
    shutil.rmtree(directories[0])
    shutil.copytree(two_parts[directories[1].name], directories[0])
    colony.end_zombies()
    one.start()
    assert one.table.state.readonly_reason == ""
    colony.settle()
    colony.check_equal()
    assert one.keys() == three.keys() == [0, 1, 2, 3]
    assert [name.partition("_")[0] for name in one.table.store.list_detached()] == ["broken"]


@pytest.mark.parametrize("place", ["produced.after_rename", "produced.after_commit"])
def test_sequential_read_between_commit_and_activation_of_a_quorum_part(make_colony: MakeColony, place: str) -> None:
    """The fetcher's commit completes the quorum, and the client may hear of it before the part is visible there."""
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1])
    colony.settle()
    seen: list[object] = []

    def read(node: SimulatedNode, failpoint: str) -> None:
        if node is two and failpoint == place:
            colony.on_failpoint = lambda *_: None
            try:
                seen.append(two.keys(sequential=True))
            except PandoError as error:
                seen.append(error.code)

    colony.on_failpoint = read
    assert one.insert(1, [2], quorum=2, quorum_timeout_seconds=30.0) == 1
    assert seen == [[1] if place == "produced.after_rename" else 289]
    assert two.keys(sequential=True) == [1, 2]


def test_broken_part_that_nobody_can_replace_is_not_read_all_the_time(
    make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch
) -> None:
    colony = make_colony(2)
    one, two = colony
    one.insert(1, [1, 2])
    colony.settle()
    good = one.directories()[0]
    (directory,) = two.directories()
    data = next(directory.glob("*.bin"))
    content = data.read_bytes()
    data.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    one.crash()
    colony.end_zombies()
    verified: list[float] = []
    verify = Part.verify
    monkeypatch.setattr(Part, "verify", lambda part, check: (verified.append(colony.now), verify(part, check)))
    for _ in range(1000):
        colony.now += 1.0
        two.call(lambda table: table.part_checks.schedule_check(PartName.parse(directory.name)))
        two.step(two.task("check parts"))
    assert 2 < len(verified) < 15
    assert good.exists()
    one.start()
    colony.now += 300.0
    colony.settle()
    colony.check_equal()
    assert two.keys() == [1, 2]
    assert not len(two.table.part_checks)


def test_merge_whose_other_result_was_lost_is_made_here_after_all(make_colony: MakeColony) -> None:
    """This replica's result differed, so it was to fetch the other's; the other lost its disk."""
    colony = make_colony(2)
    one, two = colony
    for key in range(4):
        one.insert(1, [key])
    colony.settle()
    two.is_frozen = True
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    two.step(two.task("pull log"))
    (item,) = two.table.replication.queue.list_entries()
    two.table.replication.queue.fetch_instead(item.name)
    one.crash()
    one.wipe()
    one.force_restore_all = True
    two.is_frozen = False
    colony.end_zombies()
    one.start()
    colony.settle(200)
    colony.check_equal()
    assert one.keys() == two.keys() == [0, 1, 2, 3]
    assert len(one.parts()) == 1


@pytest.mark.parametrize("has_pulled", [False, True])
def test_merged_part_is_not_given_up_while_another_replica_will_merge_it(
    make_colony: MakeColony, has_pulled: bool
) -> None:
    """It sleeps, and makes the part when it wakes; who had given it up would have merged the sources otherwise."""
    colony = make_colony(3)
    one, two, three = colony
    for key in range(4):
        one.insert(1, [key])
    colony.settle()
    two.is_frozen = three.is_frozen = True
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    if has_pulled:
        two.step(two.task("pull log"))
        three.step(three.task("pull log"))
    for node in (one, two, three):
        node.crash()
    one.wipe()
    one.force_restore_all = True
    colony.end_zombies()
    one.start()
    for _ in range(100):
        colony.now += 30.0
        one.step_all()
    assert [str(item.entry.new_part) for item in one.table.replication.queue.list_entries()] == ["1_0_3_1"]
    for node in (two, three):
        node.is_frozen = False
        node.start()
    colony.settle(200)
    colony.check_equal()
    assert one.keys() == [0, 1, 2, 3]
    assert len(one.parts()) == 1


def test_truncate_drops_partitions_that_its_zookeeper_server_has_not_seen_yet(make_colony: MakeColony) -> None:
    colony = make_colony(2)
    one, two = colony
    two.keeper.lag()
    one.insert(1, [1])
    two.call(lambda table: table.truncate())
    colony.settle()
    assert one.keys() == two.keys() == []


def insert_blocks(node: SimulatedNode, blocks: list[list[int]], **options: object) -> int:
    """One INSERT of several blocks; rows written."""
    with node.acting():
        sink = node.table.begin_insert(InsertOptions(**options))  # type: ignore[arg-type]
        try:
            for keys in blocks:
                sink.write(node.block([1] * len(keys), keys))
            return sink.commit().written_rows
        finally:
            sink.abort()


def test_equal_blocks_of_one_insert_are_all_stored(make_colony: MakeColony) -> None:
    """Only the repeat of the whole INSERT is a duplicate, on whichever replica."""
    colony = make_colony(2)
    one, two = colony
    assert insert_blocks(one, [[1], [1], [2], [1]]) == 4
    assert insert_blocks(two, [[1], [1], [2], [1]]) == 0
    assert insert_blocks(two, [[1], [1], [1], [1]]) == 1
    colony.settle()
    assert one.keys() == two.keys() == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.EXPIRE, None])
def test_insert_over_partitions_that_fails_midway_says_what_is_stored(
    make_colony: MakeColony, fault: Fault | None, deduplicate: bool
) -> None:
    colony = make_colony(2)
    one, two = colony
    commits: list[str] = []

    def at(node: SimulatedNode, name: str) -> None:
        if name == "insert.after_rename":
            commits.append(name)
            if len(commits) == 2 and fault is None:
                raise OSError(28, "No space left on device")
            if len(commits) == 2:
                colony.on_request = lambda asking, *_: fault if asking is one else None

    colony.on_failpoint = at
    with pytest.raises(UnknownOutcomeError) as caught:
        one.insert([1, 2, 3], [1, 2, 3], deduplicate=deduplicate)
    assert caught.value.code == 319
    assert "1 of 3 rows of this INSERT into db.t are stored, as 1 of 3 parts (1_0_0_0)" in caught.value.message
    colony.on_request = lambda *_: None
    one.keeper.reconnect()
    colony.settle()
    assert two.keys() == [1]
    if deduplicate:
        assert "Repeating the same INSERT stores the rest" in caught.value.message
        assert two.insert([1, 2, 3], [1, 2, 3]) == 2
        colony.settle()
        assert one.keys() == [1, 2, 3]
    colony.check_equal()


# --- what a server is told about its place -----------------------------------------------------------------------


@pytest.mark.parametrize("keeps_quiet", [True, False])
def test_removed_is_active_begins_the_session_anew(make_colony: MakeColony, keeps_quiet: bool) -> None:
    """An operator, or a former server of the name, deleted the node: nobody need write to notice it."""
    colony = make_colony(2)
    one, two = colony
    two.keeper.delete(one.table.replication.replica.is_active)
    if not keeps_quiet:
        with pytest.raises(UnavailableError):
            one.insert(1, [1])
    one.step(one.task("ZooKeeper session"))
    assert two.keeper.exists(one.table.replication.replica.is_active) is not None
    assert one.table.replication.problem() is None
    assert one.insert(1, [1]) == 1
    colony.settle()
    colony.check_equal()
    assert two.keys() == [1]


def test_broken_connection_is_no_new_session(make_colony: MakeColony) -> None:
    """The watch on ``is_active`` goes with the connection, and is set again."""
    colony = make_colony(2)
    one, two = colony
    activation = one.table.state.activation
    one.keeper.disconnect()
    one.step_all()
    one.keeper.reconnect()
    one.step_all()
    assert one.table.state.activation is activation
    two.keeper.delete(one.table.replication.replica.is_active)
    one.step_all()
    assert one.insert(1, [1]) == 1


def test_lost_zookeeper_shows(make_colony: MakeColony) -> None:
    one = make_colony(1).nodes["r1"]

    def shown() -> tuple[object, ...]:
        engine = SimpleNamespace(
            services=one.table.services,
            catalog=SimpleNamespace(tables=lambda: [one.table]),
        )
        names = ("is_readonly", "is_session_expired", "last_queue_update_exception")
        (row,) = replication_tables.TABLES[0].rows(make_owner_context(engine), names)
        return row

    assert shown() == (0, 0, "")
    for lose in (one.keeper.disconnect, one.keeper.expire):
        lose()
        one.step_all()
        readonly, is_expired, reason = shown()
        assert (readonly, is_expired) == (1, 1)
        assert "no connection to ZooKeeper" in str(reason)
        assert "no connection to ZooKeeper" in (one.table.replication.problem() or "")
        one.keeper.reconnect()
        one.step_all()
        assert shown() == (0, 0, "")


def test_part_that_a_fetch_reads_is_not_deleted(make_colony: MakeColony, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is outdated and its time is over, but another replica is in the middle of its files."""
    colony = make_colony(2, old_parts_lifetime=5, min_bytes_for_full_part_storage=0)
    one, two = colony
    two.is_frozen = True
    for key in range(2):
        one.insert(1, [key])
    two.step(two.task("pull log"))
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    wanted = one.path / "1_0_0_0"
    assert "1_0_0_0" in one.list_outdated()
    chosen = [part for part, _ in one.table.store.list_parts() if str(part.name) == "1_0_0_0"]
    copied: list[str] = []

    def read_slowly(source: Path, part: str) -> bytes:
        if source.parent == wanted:
            colony.now += 100
            one.step(one.task("clean up"))
            one.call(lambda table: table.delete_outdated(chosen))  # by a clean-up that chose it before
            copied.append(source.name)
        return read_small_file(source, part)

    monkeypatch.setattr(simulated_transfer, "read_small_file", read_slowly)
    two.step(two.task("execute queue 0"))
    assert len(copied) == 2
    assert two.keys() == [0]
    one.step(one.task("clean up"))
    assert not wanted.exists(), "the fetch is over"
    two.is_frozen = False
    colony.settle()
    colony.check_equal()


@pytest.mark.parametrize("fault", [Fault.EXPIRE, Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_outdated_parts_leave_zookeeper_before_the_disk(make_colony: MakeColony, fault: Fault) -> None:
    """ZooKeeper goes away at the moment of deletion: a part that is listed is on disk."""
    colony = make_colony(2, old_parts_lifetime=1e6)
    one, two = colony
    for key in range(2):
        one.insert(1, [key])
    colony.settle()
    one.call(lambda table: table.optimize(OptimizeOptions(final=True)))
    colony.settle()
    outdated = sorted(one.list_outdated())
    assert outdated == ["1_0_0_0", "1_1_1_0"]
    seen: list[bool] = []

    def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        if node is one and kind in ("multi", "delete") and "/parts/1_" in path:
            seen.append(all((one.path / name).exists() for name in outdated))
            return fault
        return None

    colony.on_request = on_request
    colony.now += 2e6
    one.step(one.task("clean up"))
    assert seen
    assert all(seen)
    colony.on_request = lambda *_: None
    listed = {name for name in outdated if two.keeper.exists(one.table.replication.replica.part(name)) is not None}
    assert listed <= {path.name for path in one.directories()}
    one.keeper.reconnect()
    colony.settle()
    colony.check_equal()
    assert one.keys() == two.keys() == [0, 1]


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.EXPIRE_AFTER])
def test_optimize_whose_logging_was_not_answered_may_have_been_done(make_colony: MakeColony, fault: Fault) -> None:
    colony = make_colony(2)
    one, _ = colony
    for key in range(3):
        one.insert(1, [key])
    faults = [fault]

    def lose(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        is_logging = kind == "multi" and path == one.table.replication.paths.log_prefix
        return faults.pop() if faults and is_logging else None

    colony.on_request = lose
    with pytest.raises(UnknownOutcomeError, match="may be in the log"):
        one.optimize()
    assert not faults
    colony.heal()
    colony.check_equal()
    assert len(one.parts()) == 1


def test_merges_of_which_some_are_logged_are_not_refused(make_colony: MakeColony) -> None:
    colony = make_colony(1)
    (one,) = colony
    sources = [[PartName(f"{number:032}", index, index, 0) for index in range(2)] for number in range(3000)]
    merges = [make_merge_entry(names, one.name, 1.0) for names in sources]
    asked: list[str] = []

    def lose(node: SimulatedNode, kind: str, path: str) -> Fault | None:
        asked.append(path)
        return Fault.EXPIRE if len(asked) == 2 else None

    keeper, paths = one.keeper, one.table.replication.paths
    version = keeper.get(paths.log)[1].version
    colony.on_request = lose
    with one.acting(), pytest.raises(UnknownOutcomeError, match="of 3000 merges are in the log"):
        log_merges_and_mutations(keeper, paths, version, merges)
    assert 0 < len(colony.ensemble.connect().children(paths.log)) < len(merges)
