"""Partition ids equal ClickHouse's; splitting keeps rows and their order."""

from __future__ import annotations

import datetime
import ipaddress
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parts.blocks.partition_ids import compute_partition_id
from parts.types import parse_type
from parts.write.block_preparation import split_by_partition
from tests.parts.generated import blocks, description_of, plain, same_rows
from tests.portions import one_in

# As system.parts.partition_id shows them.
CLICKHOUSE_IDS: list[tuple[str, Any, str]] = [
    ("UInt8", 5, "5"),
    ("Int32", -5, "-5"),
    ("Date", datetime.date(2020, 1, 2), "20200102"),
    ("Date32", datetime.date(1950, 1, 2), "-7304"),
    ("DateTime('UTC')", datetime.datetime(2020, 1, 2, 3, 4, 5), "1577934245"),
    ("String", "abc", "f815b3f19bae3563399d3c6214a8ed43"),
    ("LowCardinality(String)", "abc", "f815b3f19bae3563399d3c6214a8ed43"),
    ("FixedString(4)", b"abc\0", "1f76e881d0c33986c426c498641d2ad0"),
    ("Bool", True, "1"),
    ("Enum8('a'=1,'b'=-2)", -2, "-2"),
    ("UUID", uuid.UUID("61f0c404-5cb3-11e7-907b-a6006ad3dba0").bytes, "48406fdb38e23228b776558b4edfa795"),
    ("IPv4", int(ipaddress.ip_address("1.2.3.4")), "16909060"),
    ("IPv6", ipaddress.ip_address("::1").packed, "1ebc31932a947b7ca9e898a271e7f028"),
    ("Decimal(9,2)", Decimal("1.50"), "5a693d6b11ee645c737d2fa6e60e123c"),
    ("Decimal(18,2)", Decimal("1.50"), "007e2937f2c1dc02133e19db4b226f3b"),
    ("Decimal(38,2)", Decimal("1.50"), "86ecbfa0fddcdfc79868d3cc5e953ac0"),
    ("DateTime64(3,'UTC')", datetime.datetime(2020, 1, 2, 3, 4, 5, 123000), "8eea66108f5c6af4a41f0579de6d1d31"),
    ("Nullable(Int32)", None, "2b16b490a87466b6a6d34fd9027f3c3d"),
    ("Nullable(Int32)", 7, "7"),
    ("Tuple(UInt8,String)", {"1": 1, "2": "a"}, "856971e78dc9ccfd8e6a0270f6924206"),
    ("Array(UInt8)", [1, 2], "3f00cdd1684ab009c87e93c9e33ec12e"),
    ("Float64", 1.5, "11876ff8640afac37203e8651c527cea"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), CLICKHOUSE_IDS)
def test_ids_are_clickhouse_ids(type_: str, value: Any, expected: str) -> None:
    parsed = parse_type(type_)
    arrow = parsed.arrow.value_type if pa.types.is_dictionary(parsed.arrow) else parsed.arrow
    assert compute_partition_id([pa.scalar(value, arrow)], [parsed]) == expected


def test_ids_of_several_values() -> None:
    assert compute_partition_id([], []) == "all"
    two = [parse_type("UInt8"), parse_type("String")]
    assert compute_partition_id([pa.scalar(5, pa.uint8()), pa.scalar("abc")], two) == "801e1b68c17cc67324a077e29b91312b"
    dated = [parse_type("Int8"), parse_type("Date")]
    day = pa.scalar(datetime.date(2020, 1, 1))
    assert compute_partition_id([pa.scalar(-5, pa.int8()), day], dated) == "-5-20200101"


@pytest.mark.parametrize("keys", one_in(3, [(("a",),), (("a", "b"),), (("c",),), (("d", "c"),), (("t",),)]))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_split(keys: tuple[str, ...], data: st.DataObject) -> None:
    columns = [("a", "Nullable(Int8)"), ("b", "Bool"), ("c", "LowCardinality(String)"), ("d", "Date")]
    columns += [("t", "Tuple(Bool, Bool)")]
    description = description_of([*columns, ("v", "Int64")], (), keys)
    block = data.draw(blocks(description))
    rows = [tuple(str(row[key]) for key in keys) for row in plain(block).to_pylist()]
    pieces = split_by_partition(block, description)
    assert [tuple(str(v.as_py()) for v in piece.values) for piece in pieces] == list(dict.fromkeys(rows))
    assert len({piece.partition_id for piece in pieces}) == len(pieces)
    for piece, key in zip(pieces, dict.fromkeys(rows), strict=True):
        mine = [i for i, row in enumerate(rows) if row == key]
        assert same_rows(piece.block, plain(block).take(pa.array(mine)))
