"""Writes the golden parts of the current format version: ``python -m tests.parts.make_golden``.

A golden part, once committed, is never written again: it proves that later code reads earlier bytes. A new format
version gets new directories beside the old ones.
"""

from __future__ import annotations

import datetime
import itertools
import pathlib
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

from parts.schema import TableDescription
from parts.writer import sort_block, write_part
from tests.parts.generated import WIDE, block_of, description_of

GOLDEN = pathlib.Path(__file__).parent / "golden"
PART_UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
COLUMNS = [
    ("k", "Int64", "Delta, ZSTD(1)"), ("d", "Date"), ("u8", "UInt8"), ("u64", "UInt64", "DoubleDelta, LZ4"), ("f32",
    "Float32"),
    ("f64", "Float64", "NONE"), ("b", "Bool"), ("dec", "Decimal(15, 2)"), ("big", "Decimal(38, 5)"), ("s", "String",
    "LZ4HC(9)"),
    ("fs", "FixedString(3)"), ("d32", "Date32"), ("dt", "DateTime('UTC')"), ("ms", "DateTime64(3)"), ("uuid",
    "UUID"), ("e", "Enum8('a' = 1, 'b' = 2)"),
    ("ip4", "IPv4"), ("ip6", "IPv6"), ("ns", "Nullable(String)"), ("lc", "LowCardinality(Nullable(String))"),
    ("arr", "Array(Int32)"),
    ("map", "Map(String, UInt16)"), ("tup", "Tuple(x Int32, y Array(String))"),
]  # fmt: skip
VERSIONS = {"v1": 0, "v1_1": 7}
"""Format version → the schema version that its golden parts were written under; the first knew none."""
ROWS = 50
DAY = datetime.date(2024, 2, 29)


def description(is_wide: bool, metadata_version: int = 0) -> TableDescription:
    described = description_of(COLUMNS, ("k", "s"), ("d",), index_granularity=8, **(WIDE if is_wide else {}))
    return replace(described, metadata_version=metadata_version)


def row(i: int) -> tuple[Any, ...]:
    moment = datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=i)
    return (
        i // 3 - 5, DAY, i, 2**60 + i * i, i / 4, -i / 8, i % 3 == 0, Decimal(i * 101).scaleb(-2),
        Decimal(10**30 + i).scaleb(-5),
        f"text {i}", b"%03d" % i, datetime.date(1900, 1, 1) + datetime.timedelta(i), moment,
        moment + datetime.timedelta(milliseconds=i), bytes([i] * 16), 1 + i % 2, i * 1000, bytes([i]) + bytes(15),
        None if i % 4 == 0 else f"n{i}", None if i % 5 == 0 else f"lc{i % 7}", list(range(i % 4)),
        [(f"key{j}", j) for j in range(i % 3)], {"x": i, "y": ["y"] * (i % 2)},
    )  # fmt: skip


def expected(is_wide: bool) -> Any:
    return sort_block(block_of(description(is_wide), [row(i) for i in range(ROWS)]), description(is_wide))


def main() -> None:
    for (version, number), is_wide in itertools.product(VERSIONS.items(), (False, True)):
        directory = GOLDEN / f"{version}_{'wide' if is_wide else 'compact'}"
        if directory.exists():
            print(f"{directory.name} is there already and is never written again")
            continue
        write_part(directory, expected(is_wide), description(is_wide, number), (DAY,), part_uuid=PART_UUID)
        print(f"wrote {directory.name}")


if __name__ == "__main__":
    main()
