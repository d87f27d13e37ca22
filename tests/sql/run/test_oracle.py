"""Every query of ``cases/*.sql`` gives ClickHouse's names, types and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.portions import one_in
from tests.sql.run.dataset import Engines, same_cell

CASES = [
    (path.stem, number, line.strip())
    for path in sorted((Path(__file__).parent / "cases").glob("*.sql"))
    for number, line in enumerate(path.read_text().splitlines(), 1)
    if line.strip() and not line.startswith("--")
]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 240


@pytest.mark.parametrize(
    ("file", "number", "query"), one_in(6, CASES), ids=[f"{file}:{number}" for file, number, _ in CASES]
)
def test_same_answer(engines: Engines, file: str, number: int, query: str) -> None:
    names, types, rows = engines.clickhouse(query)
    our_names, our_types, our_rows = engines.pando(query)
    assert our_names == names
    assert our_types == types
    assert len(our_rows) == len(rows)
    for position, (row, ours) in enumerate(zip(rows, our_rows, strict=True)):
        for name, type_, cell, our_cell in zip(names, types, row, ours, strict=True):
            assert same_cell(cell, our_cell, type_), f"row {position}, {name}: ClickHouse {cell!r}, Pando {our_cell!r}"
