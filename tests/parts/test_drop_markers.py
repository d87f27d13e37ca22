"""Marks of dropped parts: found by their blocks, not by trying each."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from parts.common.part_name import MAX_LEVEL, PartName
from parts.store.drop_markers import CoveringNames, DropMarkers
from tests.work import calls_of


def _name(random_: random.Random) -> PartName:
    first = random_.randrange(20)
    level = MAX_LEVEL if random_.random() < 0.1 else random_.randrange(3)
    return PartName(random_.choice("ab"), first, first + random_.choice((0, 0, 1, 5)), level, random_.randrange(3))


@pytest.mark.parametrize("seed", range(50))
def test_what_covers_a_name_is_what_a_trial_of_all_finds(seed: int) -> None:
    random_ = random.Random(seed)
    names = [_name(random_) for _ in range(30)]
    found = CoveringNames(names[:20])
    found.discard(names[:5])
    found.add(names[25:])
    left = {*names[5:20], *names[25:]} - ({*names[:5]} - {*names[25:]})
    for _ in range(100):
        asked = _name(random_)
        assert set(found.find_covering(asked)) == {name for name in left if name.covers(asked)}


def _markers(path: Path, parts: int) -> tuple[DropMarkers, list[PartName]]:
    markers = DropMarkers(path, should_sync=False)
    names = [PartName("all", number, number, 0) for number in range(parts)]
    markers.add(names)
    return markers, names


def test_asking_of_every_part_does_not_try_every_mark(tmp_path: Path) -> None:
    markers, names = _markers(tmp_path, 300)

    def ask() -> None:
        assert all(markers.is_dropped(name) for name in names)
        assert not markers.is_dropped(PartName("all", 0, 0, 1))
        markers.remove_unneeded(names)

    assert calls_of(ask)["parts.common.part_name.PartName.covers"] <= 2 * len(names) + 1


def test_of_parts_that_went_only_their_marks_are_looked_at(tmp_path: Path) -> None:
    markers, names = _markers(tmp_path, 100)
    merged = PartName("all", 0, 9, 1)
    markers.add([merged])
    markers.remove_unneeded(names[5:], names[:5])
    left = {PartName.parse(file.name.removeprefix("dropped_")) for file in tmp_path.iterdir()}
    assert left == {*names[5:], merged}
    markers.remove_unneeded(names[10:], names[5:10])
    assert not markers.is_dropped(names[0])
    assert len(list(tmp_path.iterdir())) == 90
