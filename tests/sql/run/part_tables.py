"""MergeTree tables of a few parts on disk, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.table.table_description import PartSettings, TableDescription
from parts.write.block_preparation import sort_block, split_by_partition
from parts.write.part_writer import write_part
from sql.run.block_expressions import compile_key
from tests.sql.run.dataset import schema_of


@dataclass
class Snapshot:
    parts: Sequence[Part]
    released: int = 0

    def release(self) -> None:
        self.released += 1


@dataclass
class PartTable:
    """Implements ``PartsRelation``."""

    description: TableDescription
    parts: list[Part] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)

    def snapshot(self, *, sequential_consistency: bool = False) -> Snapshot:
        snapshot = Snapshot(list(self.parts))
        self.snapshots.append(snapshot)
        return snapshot

    def insert(self, directory: Path, block: pa.Table) -> None:
        for split in split_by_partition(block, self.description):
            number = len(self.parts) + 1
            name = PartName(split.partition_id, number, number, 0)
            path = directory / str(name)
            write_part(path, sort_block(split.block, self.description), self.description, split.values)
            self.parts.append(open_part(path, name=name))


def describe(
    columns: str, order_by: str, partition_by: str = "", sample_by: str = "", granularity: int = 8
) -> PartTable:
    schema = schema_of(columns)
    key = compile_key(order_by, schema)
    return PartTable(
        TableDescription(
            schema, key, key, compile_key(partition_by, schema), compile_key(sample_by, schema),
            PartSettings(index_granularity=granularity),
        )
    )  # fmt: skip
