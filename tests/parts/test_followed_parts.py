"""A follower hears of every change of the active parts, and what readers elsewhere see is not deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from parts.common.part_name import PartName
from parts.store.part_states import PartState
from parts.store.part_store import PartStore
from parts.write.part_writer import write_part
from tests.parts.generated import block_of, description_of

DESCRIPTION = description_of([("k", "Int64")], ("k",), old_parts_lifetime=0, fsync_after_insert=False)


class Follower:
    def __init__(self, active: list[PartName]) -> None:
        self.seen = set(active)
        self.steps: list[set[str]] = []
        self.oldest = 1 << 63

    def on_active_parts_changed(self, changes: Sequence[tuple[PartName, bool]]) -> int:
        for name, is_active in changes:
            (self.seen.add if is_active else self.seen.discard)(name)
        self.steps.append({str(name) for name in self.seen})
        return len(self.steps)

    def get_oldest_read_change(self) -> int:
        return self.oldest


@pytest.fixture
def store(tmp_path: Path) -> PartStore:
    return PartStore(tmp_path, DESCRIPTION, lambda: 1000.0, uuid.uuid4)


def follow(store: PartStore) -> Follower:
    made: list[Follower] = []

    def make(active: list[PartName]) -> Follower:
        made.append(Follower(active))
        return made[0]

    store.set_listener(make)
    return made[0]


def add(store: PartStore, name: str) -> None:
    directory = store.create_temporary("tmp_insert_")
    write_part(directory, block_of(DESCRIPTION, [(1,), (2,)]), DESCRIPTION, ())
    store.commit(store.add_preactive(directory, PartName.parse(name)))


def test_a_change_under_one_lock_is_one_change(store: PartStore) -> None:
    add(store, "all_1_1_0")
    follower = follow(store)
    assert {str(name) for name in follower.seen} == {"all_1_1_0"}
    with store.lock:
        add(store, "all_2_2_0")
        add(store, "all_3_3_0")
        assert follower.steps == []
    assert follower.steps == [{"all_1_1_0", "all_2_2_0", "all_3_3_0"}]
    add(store, "all_1_3_1")
    assert follower.steps[1:] == [{"all_1_3_1"}]


def test_a_part_that_is_read_elsewhere_stays(store: PartStore) -> None:
    follower = follow(store)
    add(store, "all_1_1_0")
    add(store, "all_2_2_0")
    add(store, "all_1_2_1")  # the third change
    follower.oldest = 2
    assert store.list_deletable() == []
    outdated = [part for part, state in store.list_parts() if state is PartState.OUTDATED]
    assert store.delete(outdated) == []
    assert store.is_read()
    follower.oldest = 3
    assert {str(part.name) for part in store.delete(store.list_deletable())} == {"all_1_1_0", "all_2_2_0"}
    assert not store.is_read()


def test_a_table_that_went_is_read_until_everybody_noticed(store: PartStore) -> None:
    follower = follow(store)
    add(store, "all_1_1_0")
    follower.oldest = 1
    assert not store.is_read()
    store.mark_all_hidden(2)
    assert store.is_read()
    follower.oldest = 2
    assert not store.is_read()
