"""The part store over any order of steps, over crashes between them, and with many threads."""

from __future__ import annotations

import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from parts.common.part_name import PartName, make_merged_name
from parts.read.part_reader import Part
from parts.store.part_states import (
    PartState,
    Snapshot,
)
from tests.parts.stores import LIFETIME, Clock, add, add_active, names, new_store
from tests.portions import one_in


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
        active = self.store.list_active()
        if len(active) < 2:
            return
        first = data.draw(st.integers(0, len(active) - 2))
        last = data.draw(st.integers(first + 1, len(active) - 1))
        sources = active[first : last + 1]
        pending = [part for part, state in self.store.list_parts() if state is PartState.PRE_ACTIVE]
        name = make_merged_name([part.name for part in sources])
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
        active = self.store.list_active()
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
        for part in self.store.delete(self.store.list_deletable()):
            removed = before[part.name]
            assert removed is not None
            assert removed + LIFETIME <= self.clock.now

    @invariant()
    def active_parts_are_disjoint_and_complete(self) -> None:
        active = self.store.list_active()
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
        assert on_disk == {str(part.name) for part, _ in self.store.list_parts()}

    @rule()
    def restart(self) -> None:
        """What was active is active again, what was dropped is not (pre-active ones come back too)."""
        copy = pathlib.Path(tempfile.mkdtemp())
        try:
            shutil.copytree(self.directory, copy, dirs_exist_ok=True)
            again = new_store(copy)
            assert again.load().broken == []
            for part in self.store.list_active():
                assert again.covering_active(part.name) is not None
            pending = [part.name for part, state in self.store.list_parts() if state is PartState.PRE_ACTIVE]
            for part in again.list_active():
                blocks = range(part.name.min_block, part.name.max_block + 1)
                assert not self.expected_blocks.isdisjoint(blocks) or part.name in pending
        finally:
            shutil.rmtree(copy)


StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)

TestStoreMachine = StoreMachine.TestCase

_CHILD = """
import os, pathlib, signal, sys
from dataclasses import replace
import parts.format.hashed_file, parts.read.part_reader, parts.store.part_store, parts.write.part_writer
from tests.parts.stores import DESCRIPTION, add_active, block_of, new_store
from parts.common.part_name import PartName
step, path = sys.argv[1], pathlib.Path(sys.argv[2])
store = new_store(path)
store.description = replace(DESCRIPTION, settings=replace(DESCRIPTION.settings, fsync_part_directory=True))
add_active(store, "all_1_1_0")

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if step == "in_the_middle_of_writing":
    parts.format.hashed_file.HashedFile.write = die
directory = store.create_temporary("tmp_insert_")
block = block_of(DESCRIPTION, [(i,) for i in range(3)])
parts.write.part_writer.write_part(directory, block, DESCRIPTION, ())
if step == "before_rename":
    parts.read.part_reader.Part.rename_directory = die
if step == "after_rename":
    parts.format.hashed_file.sync_directory = lambda path: die() if path == store.path else None
part = store.add_preactive(directory, PartName.parse("all_2_2_0"))
if step == "before_delete":
    store.commit(part)
    store.drop_active([part.name])
    parts.store.part_store.shutil.rmtree = die
    store.delete([part])
die()
"""


@pytest.mark.parametrize(
    ("step", "expected"),
    one_in(
        5,
        [
            ("in_the_middle_of_writing", ["all_1_1_0"]),
            ("before_rename", ["all_1_1_0"]),
            ("after_rename", ["all_1_1_0", "all_2_2_0"]),
            ("before_commit", ["all_1_1_0", "all_2_2_0"]),
            ("before_delete", ["all_1_1_0"]),
        ],
    ),
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
    for part in store.list_active():
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
                active = store.list_active()
                store.drop_active([p.name for p in active if p.name.min_block % 2])
                store.delete(store.list_deletable(1e9))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=insert, args=(n * 100,)) for n in range(3)]
    threads += [threading.Thread(target=read) for _ in range(2)] + [threading.Thread(target=clean)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    kept = {p.name.min_block for p in store.list_active()}
    assert {n * 100 + i for n in range(3) for i in range(0, 10, 2)} <= kept
