"""The set of disjoint names against a plain list."""

from __future__ import annotations

import random

import pytest

from parts.common.part_name import PartName
from parts.store.active_part_names import ActivePartNames


@pytest.mark.parametrize("seed", range(20))
def test_against_a_list(seed: int) -> None:
    chance = random.Random(seed)
    names, model = ActivePartNames(), []
    for _ in range(300):
        begin = chance.randrange(60)
        name = PartName(chance.choice("ab"), begin, begin + chance.randrange(6), chance.randrange(4))
        rivals = sorted(other for other in model if not other.is_disjoint(name))
        assert names.find_overlapping(name) == rivals
        assert names.find_covering(name) == next((other for other in rivals if other.covers(name)), None)
        if not rivals:
            names.add(name)
            model.append(name)
        else:
            with pytest.raises(AssertionError):
                names.add(name)
            if chance.random() < 0.5:
                names.discard(rivals[0])
                model.remove(rivals[0])
        assert list(names) == sorted(model)
        assert len(names) == len(model)
    most = max(sum(name.partition_id == p for name in model) for p in "ab")
    assert names.find_largest_partition()[1] == most
