"""Values that a column's type would change are refused before they are sent."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from parts.common.errors import UserError
from parts.types import parse_type
from spark_connector.python_source.lossless_values import check_lossless

_INSTANT = pa.timestamp("us", "UTC")
_PAIRS = pa.map_(pa.string(), pa.float64())
_PAIR = pa.struct([("x", pa.date32()), ("y", pa.string())])


def _at(year: int, microsecond: int = 0) -> datetime.datetime:
    return datetime.datetime(year, 1, 2, 3, 4, 5, microsecond, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("type_", "arrow", "kept", "lost"),
    [
        ("Float32", pa.float64(), [1e38, float("inf"), float("nan"), None, 0.1], 1e300),
        ("Float32", pa.decimal128(38), [Decimal(10) ** 37, None], None),
        ("Float32", pa.int64(), [1 << 24, None], (1 << 24) + 1),
        ("Float64", pa.int64(), [1 << 53, None], (1 << 53) + 1),
        ("Nullable(DateTime)", _INSTANT, [_at(1970), _at(2106, 0), None], _at(2024, 1)),
        ("DateTime", _INSTANT, [_at(2024)], _at(1969)),
        ("DateTime('Asia/Tokyo')", _INSTANT, [_at(2024)], _at(2107)),
        ("DateTime64(3)", _INSTANT, [_at(1900, 999_000), _at(2299)], _at(2024, 999_001)),
        ("DateTime64(6, 'UTC')", _INSTANT, [_at(2024, 1)], _at(1899)),
        ("DateTime64(6)", _INSTANT, [_at(2024, 1)], _at(2300)),
        ("Date", pa.date32(), [datetime.date(1970, 1, 1), datetime.date(2149, 6, 6)], datetime.date(1969, 12, 31)),
        ("Date", pa.date32(), [], datetime.date(2149, 6, 7)),
        ("Date32", pa.date32(), [datetime.date(1900, 1, 1), datetime.date(2299, 12, 31)], datetime.date(1899, 12, 31)),
        ("Date32", pa.date32(), [], datetime.date(2300, 1, 1)),
        ("UInt8", pa.int64(), [0, 255, None], 256),
        ("Int32", pa.float64(), [-1.0], 1.5),
        ("Decimal(5, 1)", pa.decimal128(9, 2), [Decimal("1234.50")], Decimal("1.25")),
        ("Array(Nullable(DateTime))", pa.list_(_INSTANT), [[_at(2024), None], []], [_at(2024), _at(2024, 5)]),
        ("Array(Array(UInt8))", pa.list_(pa.list_(pa.int32())), [[[1], []]], [[1], [300]]),
        ("Map(String, Float32)", _PAIRS, [[("a", 1.0)], []], [("a", 1.0), ("b", 1e39)]),
        ("Tuple(x Date, y String)", _PAIR, [{"x": None, "y": "q"}], {"x": datetime.date(1850, 1, 1), "y": "q"}),
        ("LowCardinality(Nullable(Date))", pa.date32(), [None], datetime.date(1850, 1, 1)),
    ],
)
def test_a_value_that_would_change_is_refused(type_: str, arrow: pa.DataType, kept: list[object], lost: object) -> None:
    check_lossless(pa.chunked_array([pa.array(kept, arrow)]), "c", parse_type(type_))
    if lost is None:
        return
    with pytest.raises(UserError, match=r"Column 'c' of type .* cannot hold") as caught:
        check_lossless(
            pa.chunked_array([pa.array(kept, arrow), pa.array([*kept, lost], arrow)]), "c", parse_type(type_)
        )
    assert caught.value.code == 321
