"""Statistics of columns over several batches and parts are those of a query; distinct values are estimated."""

from __future__ import annotations

import pytest

from engine.scan.column_statistics import describe_columns
from engine.scan.slot_planning import sort_parts
from tests.engine.conftest import Local

COLUMNS = {
    "small": ("Int32", "toInt32(number % 700) - 50", "toString({})"),
    "many": ("UInt64", "cityHash64(number)", "toString({})"),
    "some": ("Nullable(Int64)", "if(number % 5 = 0, NULL, toInt64(number))", "toString({})"),
    "none": ("Nullable(Int8)", "NULL", "toString({})"),
    "day": ("Date", "toDate('2024-01-01') + number % 90", "toString(toInt32({}))"),
    "time": (
        "DateTime('UTC')",
        "toDateTime('2024-01-01 00:00:00', 'UTC') + number",
        "toString(toUInt32({}) * 1000000)",
    ),
    "price": ("Decimal(15, 2)", "number / 4", "toString(toDecimal64({}, 2))"),
    "text": ("String", "toString(number % 3000)", ""),
    "word": ("LowCardinality(Nullable(String))", "if(number % 7 = 0, NULL, toString(number % 11))", ""),
}


@pytest.fixture
def local_table(local: Local) -> Local:
    """150,000 rows in two parts, so that a part has more than one batch."""
    types = ", ".join(f"{name} {type_}" for name, (type_, _, _) in COLUMNS.items())
    values = ", ".join(value for _, value, _ in COLUMNS.values())
    local.run(f"CREATE TABLE t ({types}) ENGINE = MergeTree ORDER BY tuple() PARTITION BY small < 0")
    local.run(f"INSERT INTO t SELECT {values} FROM numbers(150000)")
    return local


def test_statistics_are_those_of_a_query(local_table: Local) -> None:
    table = local_table.engine.catalog.table("default", "t")
    with table.snapshot() as snapshot:
        parts = sort_parts(snapshot.parts, table.description)
        assert max(part.rows for part in parts) > 2 * 65_536
        found = describe_columns(parts, table.description.schema.columns)
        assert found == describe_columns(parts, table.description.schema.columns)
    assert found.keys() == COLUMNS.keys()
    for name, (_, _, shown) in COLUMNS.items():
        facts = found[name]
        ((distinct, nulls),) = local_table.run(f"SELECT uniqExact({name}), countIf(isNull({name})) FROM t")
        assert facts["nulls"] == nulls
        assert isinstance(distinct, int)
        assert abs(facts["distinct"] - distinct) <= (0 if distinct < 1024 else distinct // 8), name
        if shown and distinct:
            bounds = f"{shown.format(f'min({name})')}, {shown.format(f'max({name})')}"
            ((least, greatest),) = local_table.run(f"SELECT {bounds} FROM t")
            assert [float(facts["min"]), float(facts["max"])] == [float(str(least)), float(str(greatest))], name
        else:
            assert "min" not in facts
