"""What scans compute of texts is the same whether these repeat, and is computed of each text once where they do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sql.typing.column_kernels.scannable import ScanComputation


def _lengths(met: list[int]) -> ScanComputation:
    def compute(texts: pa.Array) -> pa.Array:
        met.append(len(texts))
        return pa.array([None if text is None else len(text) for text in texts.to_pylist()], pa.int32())

    return ScanComputation(("t",), compute, pa.int32(), 2)


@pytest.mark.parametrize("different", [3, 200, 100_000])
def test_dear_values_of_texts_that_repeat_are_computed_once(different: int) -> None:
    texts: list[str | None] = [f"x{number * 7 % different}" for number in range(9000)]
    texts[5::11] = [None] * len(texts[5::11])
    met: list[int] = []
    found = _lengths(met).of(pa.array(texts).slice(1))
    assert found.to_pylist() == [None if text is None else len(text) for text in texts[1:]]
    assert sum(met) == len(found) if different > 9000 else sum(met) <= different


def test_of_few_texts_all_are_computed() -> None:
    met: list[int] = []
    assert _lengths(met).of(pa.array(["a", "a"])).to_pylist() == [1, 1]
    assert met == [2]
