"""The part store: states, snapshots, and loading."""

from __future__ import annotations

import pathlib
import shutil
import uuid

import pytest

from parts.common.errors import ConflictError, UserError
from parts.common.part_name import PartName
from parts.store.detached_parts import parse_detached_name
from parts.store.part_states import (
    PartState,
)
from parts.store.part_store import (
    PartStore,
)
from parts.write.part_writer import write_part
from tests.parts.generated import block_of, description_of
from tests.parts.stores import DESCRIPTION, LIFETIME, Clock, add, add_active, names, new_store


def test_life_of_a_part(tmp_path: pathlib.Path) -> None:
    clock = Clock()
    store = new_store(tmp_path, clock)
    part = add(store, "all_1_1_0")
    assert store.list_active() == []
    assert store.get_state(part.name) is PartState.PRE_ACTIVE
    assert store.commit(part) == []
    assert names(store) == ["all_1_1_0"]
    other = add_active(store, "all_2_2_0")
    merged = add(store, "all_1_2_1")
    assert store.covering_active(merged.name) is None
    assert store.commit(merged) == [part, other]
    assert store.covering_active(part.name) is merged
    assert names(store) == ["all_1_2_1"]
    assert store.list_deletable(clock.now + LIFETIME - 1) == []
    clock.now += LIFETIME
    expired = store.list_deletable()
    assert store.delete(expired) == [part, other]
    assert [str(p.name) for p, _ in store.list_parts()] == ["all_1_2_1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all_1_2_1", "detached"]


def test_snapshot_keeps_files(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    add_active(store, "all_1_1_0")
    with store.snapshot() as snapshot:
        store.drop_active([PartName.parse("all_1_1_0")])
        assert store.list_deletable(1e9) == []
        assert store.delete(snapshot.parts) == []
        assert sum(b.num_rows for b in snapshot.parts[0].read(["k"])) == 3
    snapshot.release()
    assert len(store.delete(store.list_deletable(1e9))) == 1


def test_entries_tell_how_many_read_each_part(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)

    def readers() -> list[int]:
        return [entry.references for entry in store.entries()]

    add_active(store, "all_1_1_0")
    with store.snapshot(), store.snapshot():
        assert readers() == [2]
        add_active(store, "all_2_2_0")
        with store.snapshot(), store.hold([PartName.parse("all_1_1_0")]):
            assert readers() == [4, 1]
    assert readers() == [0, 0]


def test_rollback_and_conflicts(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add(store, "all_1_1_0")
    with pytest.raises(ConflictError):
        add(store, "all_1_1_0")
    store.rollback(part)
    assert store.list_parts() == []
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
        patch.setattr("parts.format.hashed_file.sync_directory", fail)
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
        patch.setattr("parts.store.drop_markers.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.drop_active([part.name for part in store.list_active()])
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
        patch.setattr("parts.store.detached_parts.sync_directory", fail)
        with pytest.raises(OSError, match="Input/output"):
            store.replace_with_copy(part, good, "broken")
    (copy,) = store.list_active()
    assert copy.path == tmp_path / "all_1_1_0"
    assert store.list_detached() == ["broken_all_1_1_0"]


def test_intersecting_part_is_refused_and_overtaken_part_is_outdated(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    add_active(store, "all_1_3_1")
    with pytest.raises(ConflictError, match="intersects the active part all_1_3_1"):
        store.commit(add(store, "all_2_4_1"))
    late = add(store, "all_2_2_0")
    assert store.commit(late) == []
    assert store.get_state(late.name) is PartState.OUTDATED


def test_detach(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    for _ in range(3):
        part = add_active(store, "all_1_1_0")
        store.detach(part.name, "broken")
    part = add_active(store, "all_1_1_0")
    store.detach(part.name)
    assert store.list_detached() == ["all_1_1_0", "broken_all_1_1_0", "broken_all_1_1_0_try1", "broken_all_1_1_0_try2"]
    assert store.list_active() == []


def test_dropped_parts_and_their_sources_stay_dropped(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    for name in ("all_1_1_0", "all_2_2_0", "all_1_2_1", "all_3_3_0"):
        add_active(store, name)
    store.drop_active([PartName.parse("all_1_2_1")])
    again = new_store(tmp_path)
    again.load()
    assert names(again) == ["all_3_3_0"]
    again.delete([part for part in again.list_deletable(1e9) if str(part.name) == "all_1_2_1"])
    again = new_store(tmp_path)
    again.load()
    assert names(again) == ["all_3_3_0"]
    add_active(again, "all_2_2_1")  # a part that came later is not dropped
    later = new_store(tmp_path)
    later.load()
    assert names(later) == ["all_2_2_1", "all_3_3_0"]
    later.delete(later.list_deletable(1e9))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all_2_2_1", "all_3_3_0", "detached"]


def test_revive_after_the_cover_left(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    sources = [add_active(store, name) for name in ("all_1_1_0", "all_2_2_0")]
    cover = add_active(store, "all_1_2_1")
    assert store.reactivate_covered([part.name for part in sources]) == []
    store.detach(cover.name, "broken")
    assert {part.name for part in store.reactivate_covered([part.name for part in sources])} == {
        part.name for part in sources
    }
    assert names(store) == ["all_1_1_0", "all_2_2_0"]


def test_take_back_and_add_again(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add(store, "all_1_1_0")
    assert store.list_preactive() == [part]
    directory = store.take_back(part)
    assert (store.list_parts(), store.list_preactive()) == ([], [])
    again = store.add_preactive(directory, PartName.parse("all_2_2_0"))
    store.commit(again)
    assert names(store) == ["all_2_2_0"]
    assert (store.get_active(again.name), store.get_active(part.name)) == (again, None)
    assert store.compute_next_block_number("all") == 3


def test_replace_keeps_readers_of_the_broken_part(tmp_path: pathlib.Path) -> None:
    store = new_store(tmp_path)
    part = add_active(store, "all_1_1_0")
    with store.snapshot() as snapshot:
        good = store.create_temporary("tmp_fetch_")
        write_part(good, block_of(DESCRIPTION, [(7,)]), DESCRIPTION, ())
        detached = store.replace_with_copy(part, good, "broken")
        assert sum(b.num_rows for b in snapshot.parts[0].read(["k"])) == 3
    assert store.list_detached() == [detached] == ["broken_all_1_1_0"]
    (copy,) = store.list_active()
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
    assert "broken-on-start_all_2_2_0" in again.list_detached()
    assert [name for name in again.list_detached() if name.startswith("intersecting_")]
    assert {name for name, _ in report.broken} == set(again.list_detached())
    assert report.broken_bytes > 0
    assert sorted(report.dropped_temporary) == ["delete_tmp_all_9_9_0", "tmp_insert_x"]
    assert report.unknown == ["notes"]
    assert (tmp_path / "notes").exists()
    assert again.load().parts == []


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
    found = parse_detached_name(directory)
    assert (found[0], str(found[1]) if found[1] else None) == (reason, name)
