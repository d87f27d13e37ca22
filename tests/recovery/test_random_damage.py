"""Some random damages of each kind of part; ``make damage`` makes five hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.portions import one_in
from tests.recovery.random_damage import DAMAGES_A_HISTORY, damaged_replicas


@pytest.mark.parametrize("history", one_in(3, range(3)))
@pytest.mark.long
def test_what_is_damaged_is_mended(tmp_path: Path, history: int) -> None:
    first = history * DAMAGES_A_HISTORY
    with damaged_replicas(tmp_path, first) as replicas:
        for seed in range(first, first + DAMAGES_A_HISTORY):
            replicas.damage(seed)
    kinds = {words.rpartition(" ")[2] for words in replicas.counts}
    assert kinds >= {"running", "stopped"}
    assert replicas.counts["broken parts found by CHECK"] + replicas.counts["a query failed"]
