"""Writes the golden parts of the current format version: ``python -m tests.parts.make_golden``.

A golden part, once committed, is never written again: it proves that later code reads earlier bytes. A new format
version gets new directories beside the old ones.
"""

from __future__ import annotations

import datetime
import pathlib
import tempfile
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parts.merge import merge_parts
from parts.merge.last_writer import LastWriter
from parts.read.part_reader import open_part
from parts.table.row_exists_column import ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.row_version import RowVersion, make_place
from parts.table.table_description import TableDescription, TableSchema
from parts.write.block_preparation import (
    sort_block,
)
from parts.write.part_stamp import stamp_part
from parts.write.part_writer import (
    PartWriter,
    write_part,
)
from tests.parts.generated import KINDS, WIDE, block_of, description_of

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
PARTS = {
    "v1_compact": 0, "v1_wide": 0, "v1_1_compact": 7, "v1_1_wide": 7, "v2_packed": 7,
}  # fmt: skip
"""Format version and kind of part → the schema version that it was written under; the first knew none."""
DENSE = ("v2_dense", "v2_scaled")
"""Golden parts with chains that the writer of large merged parts chooses: Split, and since the second one Scale."""
DENSE_COLUMNS = [
    ("k", "UInt64"), ("i", "Int32"), ("h", "UInt16"), ("f", "Float64"), ("n", "Nullable(Int64)"), ("s", "String"),
]  # fmt: skip
DENSE_ROWS = 1200
REPEATED = "v3_repeated"
"""A golden part with dictionaries of texts."""
REPEATED_COLUMNS = [
    ("k", "UInt32"), ("s", "String"), ("n", "Nullable(String)"), ("u", "String"), ("lc", "LowCardinality(String)"),
]  # fmt: skip
REPEATED_ROWS = 9000
VERSIONED = {"v5_packed": {}, "v5_wide": WIDE, "v5_merged": WIDE}
"""Golden parts whose rows have versions: two as they are inserted, and one merged of three, with a tombstone."""
VERSIONED_COLUMNS = [("k", "UInt32"), ("s", "String")]
VERSIONS = tuple(RowVersion(1_764_230_400_000_000 + i, f"cluster{i % 2}.7.1-00c0ffee00c0ffee", i) for i in range(3))
PLACED = {"v6_packed": {}, "v6_wide": WIDE, "v6_merged": WIDE}
"""Golden parts whose rows have places: two as they are inserted, and one merged of two, one of which is older."""
PLACE = make_place("cluster1.7.1-00c0ffee00c0ffee", 4294967310)
ROWS = 50
DAY = datetime.date(2024, 2, 29)


def description(part: str) -> TableDescription:
    kind = KINDS[part.rpartition("_")[2].capitalize()]
    described = description_of(COLUMNS, ("k", "s"), ("d",), index_granularity=8, **kind)
    return replace(described, metadata_version=PARTS[part])


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


def expected(part: str) -> Any:
    return sort_block(block_of(description(part), [row(i) for i in range(ROWS)]), description(part))


def dense_description() -> TableDescription:
    return description_of(DENSE_COLUMNS, ("k",), index_granularity=128, **WIDE)


def dense_row(i: int) -> tuple[Any, ...]:
    number = (i * 2654435761) % 2**32
    nullable = None if i % 7 == 0 else -number
    return number, number % 70_000 - 35_000, number % 1000, number % 1000 / 10, nullable, f"s{i % 5}"


def dense_expected() -> Any:
    return sort_block(block_of(dense_description(), [dense_row(i) for i in range(DENSE_ROWS)]), dense_description())


def write_dense(directory: pathlib.Path) -> None:
    writer = PartWriter(directory, dense_description(), (), part_uuid=PART_UUID, is_dense=True)
    writer.append(dense_expected())
    writer.finish()


def repeated_description() -> TableDescription:
    return description_of(REPEATED_COLUMNS, ("s", "k"), index_granularity=1024, **WIDE)


def repeated_row(i: int) -> tuple[Any, ...]:
    nullable = None if i % 7 == 0 else ["", "é", "日本", "text"][i % 4]
    return i, f"s{i * 31 % 100}", nullable, f"u{i}", f"lc{i % 3}"


def repeated_expected() -> Any:
    block = block_of(repeated_description(), [repeated_row(i) for i in range(REPEATED_ROWS)])
    return sort_block(block, repeated_description())


def write_repeated(directory: pathlib.Path) -> None:
    writer = PartWriter(directory, repeated_description(), (), part_uuid=PART_UUID, with_dictionaries=True)
    writer.append(repeated_expected())
    writer.finish()


def versioned_description(part: str) -> TableDescription:
    return replace(description_of(VERSIONED_COLUMNS, ("k",), **VERSIONED[part]), merge_mode=LastWriter())


def versioned_rows(number: int) -> list[tuple[int, str]]:
    return [(i, f"text {number}") for i in range(number, 8)]


def write_versioned(directory: pathlib.Path, part: str) -> None:
    described = versioned_description(part)
    if part != "v5_merged":
        write_part(directory, block_of(described, versioned_rows(0)), described, (), part_uuid=PART_UUID)
        stamp_part(directory, VERSIONS[0], described.settings)
        return
    with tempfile.TemporaryDirectory() as temporary:
        sources = []
        for number, version in enumerate(VERSIONS):
            path = pathlib.Path(temporary) / f"all_{number}_{number}_0"
            block, written = block_of(described, versioned_rows(number)), described
            if number == 2:  # these rows are deleted
                written = replace(described, schema=TableSchema((*described.schema.columns, ROW_EXISTS_COLUMN)))
                block = block.append_column(written.schema.arrow.field(ROW_EXISTS), pa.array([0] * 6, pa.uint8()))
            write_part(path, block, written, ())
            stamp_part(path, version, described.settings)
            sources.append(open_part(path))
        merge_parts(sources, directory, described)


def placed_description(part: str) -> TableDescription:
    return description_of(VERSIONED_COLUMNS, ("k",), **PLACED[part])


def write_placed(directory: pathlib.Path, part: str) -> None:
    described = placed_description(part)
    if part != "v6_merged":
        write_part(directory, block_of(described, versioned_rows(0)), described, (), part_uuid=PART_UUID)
        stamp_part(directory, PLACE, described.settings)
        return
    with tempfile.TemporaryDirectory() as temporary:
        paths = [pathlib.Path(temporary) / f"all_{number}_{number}_0" for number in range(2)]
        for number, path in enumerate(paths):
            write_part(path, block_of(described, versioned_rows(number)), described, ())
        stamp_part(paths[1], PLACE, described.settings)
        merge_parts(list(map(open_part, paths)), directory, described)


def main() -> None:
    for part in PLACED:
        if not (GOLDEN / part).exists():
            write_placed(GOLDEN / part, part)
            print(f"wrote {part}")
    for part in VERSIONED:
        if not (GOLDEN / part).exists():
            write_versioned(GOLDEN / part, part)
            print(f"wrote {part}")
    if not (GOLDEN / REPEATED).exists():
        write_repeated(GOLDEN / REPEATED)
        print(f"wrote {REPEATED}")
    for part in DENSE:
        if not (GOLDEN / part).exists():
            write_dense(GOLDEN / part)
            print(f"wrote {part}")
    for part in PARTS:
        directory = GOLDEN / part
        if directory.exists():
            print(f"{directory.name} is there already and is never written again")
            continue
        write_part(directory, expected(part), description(part), (DAY,), part_uuid=PART_UUID)
        print(f"wrote {directory.name}")


if __name__ == "__main__":
    main()
