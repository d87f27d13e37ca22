"""The part store: states, snapshots, loading, and what crashes leave behind."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from parts.detached import split_detached
from parts.errors import ConflictError, UserError
from parts.part_name import PartName, merged_name
from parts.reader import Part
from parts.store import PartState, PartStore, Snapshot
from parts.writer import write_part
from tests.parts.generated import block_of, description_of

LIFETIME = 100
NO_SYNC = {"fsync_after_insert": False, "fsync_part_directory": False}
DESCRIPTION = description_of([("k", "Int64")], ("k",), old_parts_lifetime=LIFETIME, **NO_SYNC)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def new_store(path: pathlib.Path, clock: Clock | None = None) -> PartStore:
    return PartStore(path, DESCRIPTION, clock or Clock(), uuid.uuid4)


def add(store: PartStore, name: str, rows: int = 3) -> Part:
    directory = store.create_temporary("tmp_insert_")
    write_part(directory, block_of(DESCRIPTION, [(i,) for i in range(rows)]), DESCRIPTION, ())
    return store.add_preactive(directory, PartName.parse(name))


def add_active(store: PartStore, name: str) -> Part:
    part = add(store, name)
    store.commit(part)
    return part


def names(store: PartStore) -> list[str]:
    return [str(part.name) for part in store.active()]


def test_life_of_a_part(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    store = new_store(tmp_path, clock)
    part = add(store, "all_1_1_0")
    assert store.active() == []
    assert store.state(part.name) is PartState.PRE_ACTIVE
    assert store.commit(part) == []
    assert names(store) == ["all_1_1_0"]
    other = add_active(store, "all_2_2_0")
    merged = add(store, "all_1_2_1")
    assert store.covering_active(merged.name) is None
    assert store.commit(merged) == [part, other]
    assert store.covering_active(part.name) is merged
    assert names(store) == ["all_1_2_1"]
    assert store.outdated_expired(clock.now + LIFETIME - 1) == []
    clock.now += LIFETIME
    expired = store.outdated_expired()
    assert store.delete(expired) == [part, other]
    assert [str(p.name) for p, _ in store.all_parts()] == ["all_1_2_1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all_1_2_1", "detached"]


def test_snapshot_keeps_files(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    add_active(store, "all_1_1_0")
    with store.snapshot() as snapshot:
        store.drop_active([PartName.parse("all_1_1_0")])
        assert store.outdated_expired(1e9) == []
        assert store.delete(snapshot.parts) == []
        assert sum(b.num_rows for b in snapshot.parts[0].read(["k"])) == 3
    snapshot.release()
    assert len(store.delete(store.outdated_expired(1e9))) == 1


def test_rollback_and_conflicts(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add(store, "all_1_1_0")
    with pytest.raises(ConflictError):
        add(store, "all_1_1_0")
    store.rollback(part)
    assert store.all_parts() == []
    with pytest.raises(UserError) as caught:
        store.commit(part)
    assert caught.value.code == 232


def test_a_name_that_is_not_durable_is_given_back(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows the part, so a restart must not find it."""
    description = description_of([("k", "Int64")], ("k",))
    store = PartStore(tmp_path, description, Clock(), uuid.uuid4)
    tmp_dir = store.create_temporary("tmp_insert_")
    write_part(tmp_dir, block_of(description, [(1,)]), description, ())

    def fail(path: pathlib.Path) -> None:
        raise OSError(5, f"Input/output error: {path}")

    with monkeypatch.context() as patch:
        patch.setattr("parts.disk.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.add_preactive(tmp_dir, PartName.parse("all_1_1_0"), is_synced=True)
    assert tmp_dir.is_dir()
    assert not new_store(tmp_path).load().parts
    store.drop_temporary(tmp_dir)
    add_active(store, "all_1_1_0")
    assert names(store) == ["all_1_1_0"]


def test_a_drop_that_is_not_durable_is_none(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was told that it failed must not lose the rows at the next start."""
    description = description_of([("k", "Int64")], ("k",))
    store = PartStore(tmp_path, description, Clock(), uuid.uuid4)
    for name in ("all_1_1_0", "all_2_2_0"):
        add_active(store, name)

    def fail(path: pathlib.Path) -> None:
        raise OSError(5, f"Input/output error: {path}")

    with monkeypatch.context() as patch:
        patch.setattr("parts.drop_markers.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.drop_active([part.name for part in store.active()])
    assert names(store) == ["all_1_1_0", "all_2_2_0"]
    restarted = PartStore(tmp_path, description, Clock(), uuid.uuid4)
    restarted.load()
    assert names(restarted) == ["all_1_1_0", "all_2_2_0"]


def test_a_replacement_that_is_not_durable_counts_until_the_next_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = description_of([("k", "Int64")], ("k",))
    store = PartStore(tmp_path, description, Clock(), uuid.uuid4)
    part = add_active(store, "all_1_1_0")
    good = store.create_temporary("tmp_fetch_")
    write_part(good, block_of(description, [(1,)]), description, ())

    def fail(path: pathlib.Path) -> None:
        raise OSError(5, f"Input/output error: {path}")

    with monkeypatch.context() as patch:
        patch.setattr("parts.detached.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.replace(part, good, "broken")
    (copy,) = store.active()
    assert copy.path == tmp_path / "all_1_1_0"
    assert store.detached() == ["broken_all_1_1_0"]


def test_intersecting_part_is_refused_and_overtaken_part_is_outdated(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    add_active(store, "all_1_3_1")
    with pytest.raises(ConflictError, match="intersects the active part all_1_3_1"):
        store.commit(add(store, "all_2_4_1"))
    late = add(store, "all_2_2_0")
    assert store.commit(late) == []
    assert store.state(late.name) is PartState.OUTDATED


def test_detach(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    for _ in range(3):
        part = add_active(store, "all_1_1_0")
        store.detach(part.name, "broken")
    part = add_active(store, "all_1_1_0")
    store.detach(part.name)
    assert store.detached() == ["all_1_1_0", "broken_all_1_1_0", "broken_all_1_1_0_try1", "broken_all_1_1_0_try2"]
    assert store.active() == []


def test_dropped_parts_and_their_sources_stay_dropped(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    for name in ("all_1_1_0", "all_2_2_0", "all_1_2_1", "all_3_3_0"):
        add_active(store, name)
    store.drop_active([PartName.parse("all_1_2_1")])
    again = new_store(tmp_path)
    again.load()
    assert names(again) == ["all_3_3_0"]
    again.delete([part for part in again.outdated_expired(1e9) if str(part.name) == "all_1_2_1"])
    again = new_store(tmp_path)
    again.load()
    assert names(again) == ["all_3_3_0"]
    add_active(again, "all_2_2_1")  # a part that came later is not dropped
    later = new_store(tmp_path)
    later.load()
    assert names(later) == ["all_2_2_1", "all_3_3_0"]
    later.delete(later.outdated_expired(1e9))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all_2_2_1", "all_3_3_0", "detached"]


def test_revive_after_the_cover_left(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    sources = [add_active(store, name) for name in ("all_1_1_0", "all_2_2_0")]
    cover = add_active(store, "all_1_2_1")
    assert store.revive([part.name for part in sources]) == []
    store.detach(cover.name, "broken")
    assert {part.name for part in store.revive([part.name for part in sources])} == {part.name for part in sources}
    assert names(store) == ["all_1_1_0", "all_2_2_0"]


def test_take_back_and_add_again(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add(store, "all_1_1_0")
    assert store.preactive() == [part]
    directory = store.take_back(part)
    assert (store.all_parts(), store.preactive()) == ([], [])
    again = store.add_preactive(directory, PartName.parse("all_2_2_0"))
    store.commit(again)
    assert names(store) == ["all_2_2_0"]
    assert (store.get_active(again.name), store.get_active(part.name)) == (again, None)
    assert store.next_block_number("all") == 3


def test_replace_keeps_readers_of_the_broken_part(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add_active(store, "all_1_1_0")
    with store.snapshot() as snapshot:
        good = store.create_temporary("tmp_fetch_")
        write_part(good, block_of(DESCRIPTION, [(7,)]), DESCRIPTION, ())
        detached = store.replace(part, good, "broken")
        assert sum(b.num_rows for b in snapshot.parts[0].read(["k"])) == 3
    assert store.detached() == [detached] == ["broken_all_1_1_0"]
    (copy,) = store.active()
    assert copy.rows == 1
    assert new_store(tmp_path).load().broken == []


def test_load(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    for name in ("all_1_1_0", "all_2_2_0", "all_1_2_1", "all_4_4_0", "all_5_6_1"):
        add(store, name)
    shutil.copytree(tmp_path / "all_4_4_0", tmp_path / "all_4_5_1")  # intersects all_5_6_1
    (tmp_path / "all_2_2_0" / "meta.bin").write_bytes(b"torn")
    (tmp_path / "tmp_insert_x").mkdir()
    (tmp_path / "delete_tmp_all_9_9_0").mkdir()
    (tmp_path / "notes").mkdir()
    again = new_store(tmp_path)
    report = again.load()
    assert [str(p.name) for p in report.parts] == names(again)
    assert names(again) in (["all_1_2_1", "all_4_5_1"], ["all_1_2_1", "all_4_4_0", "all_5_6_1"])
    assert [str(p.name) for p in report.outdated][:1] == ["all_1_1_0"]
    assert "broken-on-start_all_2_2_0" in again.detached()
    assert [name for name in again.detached() if name.startswith("intersecting_")]
    assert {name for name, _ in report.broken} == set(again.detached())
    assert report.broken_bytes > 0
    assert sorted(report.dropped_temporary) == ["delete_tmp_all_9_9_0", "tmp_insert_x"]
    assert report.unknown == ["notes"]
    assert (tmp_path / "notes").exists()
    assert again.load().parts == []


class StoreMachine(RuleBasedStateMachine):
    """Random operations of several actors; after each, the invariants of the module docstring hold."""

    preactive = Bundle("preactive")
    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.store = new_store(self.directory, self.clock)
        self.next_block = 0
        self.held: list[Snapshot] = []
        self.expected_blocks: set[int] = set()

    def teardown(self) -> None:
        for snapshot in self.held:
            snapshot.release()
        shutil.rmtree(self.directory)

    @rule(target=preactive)
    def insert(self) -> Part:
        self.next_block += 1
        return add(self.store, f"all_{self.next_block}_{self.next_block}_0", 1)

    @rule(part=consumes(preactive), commit=st.booleans())
    def finish_insert(self, part: Part, commit: bool) -> None:
        if commit:
            self.store.commit(part)
            self.expected_blocks.update(range(part.name.min_block, part.name.max_block + 1))
        else:
            self.store.rollback(part)

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        active = self.store.active()
        if len(active) < 2:
            return
        first = data.draw(st.integers(0, len(active) - 2))
        last = data.draw(st.integers(first + 1, len(active) - 1))
        sources = active[first : last + 1]
        pending = [part for part, state in self.store.all_parts() if state is PartState.PRE_ACTIVE]
        name = merged_name([part.name for part in sources])
        if any(name.covers(part.name) for part in pending) or self.store.get(name) is not None:
            return
        covered = self.store.commit(add(self.store, str(name), 1))
        assert [p.name for p in covered] == [p.name for p in sources]

    @rule(target=snapshots)
    def open_snapshot(self) -> Snapshot:
        snapshot = self.store.snapshot()
        self.held.append(snapshot)
        return snapshot

    @rule(snapshot=consumes(snapshots))
    def release_snapshot(self, snapshot: Snapshot) -> None:
        snapshot.release()
        self.held.remove(snapshot)

    @rule(data=st.data(), detach=st.booleans())
    def drop(self, data: st.DataObject, detach: bool) -> None:
        active = self.store.active()
        if not active:
            return
        part = data.draw(st.sampled_from(active))
        if detach:
            self.store.detach(part.name, "test")
        else:
            self.store.drop_active([part.name])
        self.expected_blocks.difference_update(range(part.name.min_block, part.name.max_block + 1))

    @rule(seconds=st.sampled_from([1, LIFETIME]))
    def clean_up(self, seconds: int) -> None:
        self.clock.now += seconds
        before = {entry.part.name: entry.remove_time for entry in self.store.entries()}
        for part in self.store.delete(self.store.outdated_expired()):
            removed = before[part.name]
            assert removed is not None
            assert removed + LIFETIME <= self.clock.now

    @invariant()
    def active_parts_are_disjoint_and_complete(self) -> None:
        active = self.store.active()
        for left, right in itertools.pairwise(active):
            assert left.name.is_disjoint(right.name)
        for block in self.expected_blocks:
            assert self.store.covering_active(PartName("all", block, block, 0)) is not None

    @invariant()
    def held_files_exist(self) -> None:
        for snapshot in self.held:
            for part in snapshot.parts:
                assert sum(batch.num_rows for batch in part.read(["k"])) == part.rows
                assert part.path.is_dir()

    @invariant()
    def disk_and_set_agree(self) -> None:
        on_disk = {p.name for p in self.directory.iterdir() if not p.name.startswith("dropped_")} - {"detached"}
        assert on_disk == {str(part.name) for part, _ in self.store.all_parts()}

    @rule()
    def restart(self) -> None:
        """What was active is active again, what was dropped is not (pre-active ones come back too)."""
        copy = pathlib.Path(tempfile.mkdtemp())
        try:
            shutil.copytree(self.directory, copy, dirs_exist_ok=True)
            again = new_store(copy)
            assert again.load().broken == []
            for part in self.store.active():
                assert again.covering_active(part.name) is not None
            pending = [part.name for part, state in self.store.all_parts() if state is PartState.PRE_ACTIVE]
            for part in again.active():
                blocks = range(part.name.min_block, part.name.max_block + 1)
                assert not self.expected_blocks.isdisjoint(blocks) or part.name in pending
        finally:
            shutil.rmtree(copy)


StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestStoreMachine = StoreMachine.TestCase

_CHILD = """
import os, pathlib, signal, sys
from dataclasses import replace
import parts.disk, parts.reader, parts.store, parts.writer
from tests.parts.test_part_store import DESCRIPTION, add_active, block_of, new_store
from parts.part_name import PartName
step, path = sys.argv[1], pathlib.Path(sys.argv[2])
store = new_store(path)
store.description = replace(DESCRIPTION, settings=replace(DESCRIPTION.settings, fsync_part_directory=True))
add_active(store, "all_1_1_0")

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if step == "in_the_middle_of_writing":
    parts.disk.HashedFile.write = die
directory = store.create_temporary("tmp_insert_")
block = block_of(DESCRIPTION, [(i,) for i in range(3)])
parts.writer.write_part(directory, block, DESCRIPTION, ())
if step == "before_rename":
    parts.reader.Part.move = die
if step == "after_rename":
    parts.disk.sync_directory = lambda path: die() if path == store.path else None
part = store.add_preactive(directory, PartName.parse("all_2_2_0"))
if step == "before_delete":
    store.commit(part)
    store.drop_active([part.name])
    parts.store.shutil.rmtree = die
    store.delete([part])
die()
"""


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("in_the_middle_of_writing", ["all_1_1_0"]),
        ("before_rename", ["all_1_1_0"]),
        ("after_rename", ["all_1_1_0", "all_2_2_0"]),
        ("before_commit", ["all_1_1_0", "all_2_2_0"]),
        ("before_delete", ["all_1_1_0"]),
    ],
)
def test_kill_between_steps(step: str, expected: list[str], tmp_path: pathlib.Path) -> None:
    """Whatever step was the last, the next load finds whole parts only and drops the rest."""
    root = pathlib.Path(__file__).parents[2]
    command = [sys.executable, "-c", _CHILD, step, str(tmp_path)]
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    store = new_store(tmp_path)
    report = store.load()
    assert report.broken == []
    assert names(store) == expected
    for part in store.active():
        part.verify()
    assert sorted(p.name for p in tmp_path.iterdir()) == [*expected, "detached"]


def test_concurrent_use(tmp_path: pathlib.Path) -> None:
    """Threads insert, read and clean up together; every committed block stays covered and every snapshot readable."""
    import threading

    clock = Clock()
    store = new_store(tmp_path, clock)
    errors: list[BaseException] = []

    def insert(first: int) -> None:
        try:
            for block in range(first, first + 10):
                add_active(store, f"all_{block}_{block}_0")
        except BaseException as error:
            errors.append(error)

    def read() -> None:
        try:
            for _ in range(30):
                with store.snapshot() as snapshot:
                    for part in snapshot.parts:
                        assert sum(b.num_rows for b in part.read(["k"])) == 3
        except BaseException as error:
            errors.append(error)

    def clean() -> None:
        try:
            for _ in range(30):
                active = store.active()
                store.drop_active([p.name for p in active if p.name.min_block % 2])
                store.delete(store.outdated_expired(1e9))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=insert, args=(n * 100,)) for n in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)] + [threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    kept = {p.name.min_block for p in store.active()}
    assert {n * 100 + i for n in range(3) for i in range(0, 10, 2)} <= kept


@pytest.mark.parametrize(
    ("directory", "reason", "name"),
    [
        ("all_1_1_0", "", "all_1_1_0"),
        ("0_1_1_2_3", "", "0_1_1_2_3"),
        ("ignored_1_1_1_0", "ignored", "1_1_1_0"),
        ("broken-on-start_-5-20200101_1_2_3_4_try2", "broken-on-start", "-5-20200101_1_2_3_4"),
        ("noquorum_0123456789abcdef0123456789abcdef_1_1_0_try1", "noquorum", "0123456789abcdef0123456789abcdef_1_1_0"),
        ("clone_x", "", None),
    ],
)
def test_a_reason_is_no_partition(directory: str, reason: str, name: str | None) -> None:
    found = split_detached(directory)
    assert (found[0], str(found[1]) if found[1] else None) == (reason, name)
