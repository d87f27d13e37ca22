"""generateRandom: equal seeds give equal rows, others do not; what it does not make is refused."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from sql.run.query_engine import QueryEngine
from tests.sql.run.dataset import MemoryCatalog

_STRUCTURE = (
    "'a UInt64, s String, t Tuple(x IPv6, y Array(Nullable(Int8))), m Map(LowCardinality(String), FixedString(20))'"
)


def _rows(arguments: str) -> list[object]:
    query = f"SELECT * FROM generateRandom({arguments}) LIMIT 50"
    return QueryEngine().select(query, catalog=MemoryCatalog({})).read_all().to_pylist()


def test_the_seed_decides() -> None:
    assert _rows(f"{_STRUCTURE}, 5") == _rows(f"{_STRUCTURE}, 5")
    assert _rows(f"{_STRUCTURE}, 5") != _rows(f"{_STRUCTURE}, 6")
    assert len(_rows(f"{_STRUCTURE}, NULL, 3, 2")) == 50


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("", 42), ("5", 36), ("'a UInt8', 1, 2, 3, 4", 42), ("'a UInt8', 1, 100000", 69), ("'d Decimal(38, 2)'", 48)],
)
def test_refusals(arguments: str, code: int) -> None:
    with pytest.raises(UserError) as refusal:
        _rows(arguments)
    assert refusal.value.code == code
