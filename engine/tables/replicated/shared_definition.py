"""The part of a table's definition that all replicas must agree on, as the texts kept in ZooKeeper."""

from __future__ import annotations

import json

from coordination.table_nodes import SharedDefinition
from parts.schema import Column, TableDescription

METADATA_VERSION = 1


def shared_definition(description: TableDescription) -> SharedDefinition:
    """Canonical: equal definitions give equal texts."""
    metadata = {
        "version": METADATA_VERSION,
        "merge_mode": description.merge_mode.name,
        "partition_key": list(description.partition_key.expressions),
        "sorting_key": list(description.sorting_key.expressions),
        "primary_key": list(description.primary_key.expressions),
        "sampling_key": list(description.sampling_key.expressions),
        "index_granularity": description.settings.index_granularity,
    }
    if description.settings.enable_block_number_column:
        metadata["enable_block_number_column"] = True
    columns = "\n".join(_column_line(column) for column in description.schema.columns)
    return SharedDefinition(json.dumps(metadata, sort_keys=True), columns)


def _column_line(column: Column) -> str:
    default = f" {column.default_kind} {column.default_expression}" if column.default_kind else ""
    codec = f" CODEC({column.codec})" if column.codec else ""
    return f"{json.dumps(column.name)} {column.type}{default}{codec}"
