"""Writes the rows of a linked table's block anew under this table's definition.

Where the definitions or their histories differ, the fetched part is read by the source's definition, and its rows are
written as a level-0 part of this table: each column of the source by its name, converted to the type here; the others
by their defaults. Rows are not reduced by the engine's mode and not checked again: they were committed at the source.
With another partition key a block may become several parts.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from coordination.links.stream.change import Block
from engine.tables.capabilities.table_links import SourceTable
from engine.tables.replicated.links.batch_staging import StagedFile, require_content
from engine.tables.replicated.links.source_definition import SourceDefinition
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError
from parts.read.part_reader import Part, open_part
from parts.table.row_exists_column import ROW_EXISTS_COLUMN
from parts.table.row_version import NO_ROW_VERSION
from parts.table.table_description import TableDescription, TableSchema
from parts.write.block_preparation import PartitionBlock, sort_block, split_by_partition
from parts.write.part_writer import write_part
from sql.definitions.column_defaults import cast_block, complete_block
from sql.settings.supported_settings import DEFAULT_SETTINGS

_SETTINGS = replace(DEFAULT_SETTINGS, insert_allow_materialized_columns=True)


class RowRewriter:
    """Rewrites the blocks of one batch. Implements ``batch_staging.BlockWriter``."""

    def __init__(self, state: ReplicaState, source: SourceTable, definition: SourceDefinition) -> None:
        self._state = state
        self._source = source
        self._definition = definition
        self._description = state.description

    def take(self, fetched: Path, block: Block) -> list[StagedFile]:
        """Returns a part for each partition that the rows go to, in the order in which they appear."""
        part = open_part(fetched, name=block.part, table_schema=self._definition.description.schema)
        require_content(block, part.content_hash, part.rows)
        if part.metadata_version != self._source.definition_version and not self._source.columns:
            raise ConflictError(
                "CANNOT_ASSIGN_ALTER",
                f"Block {block.part} was written under version {part.metadata_version} of the source's definition, "
                f"and the source sent only version {self._source.definition_version}; try again",
            )
        are_tombstones = self._keeps_tombstones(part)
        schema = self._definition.description.schema
        names = [column.name for column in schema.stored.columns]
        arrow = part.adapt_to_schema(schema)
        batches = arrow.read(names, with_deleted=are_tombstones)
        rows = pa.Table.from_batches(batches, schema=pa.schema([]) if not names else None)
        return self.write(rows, are_tombstones=are_tombstones)

    def write(self, rows: pa.Table, *, are_tombstones: bool = False) -> list[StagedFile]:
        """Returns a part for each partition that the rows go to. ``rows`` has the source's stored columns."""
        rows, description = self._convert(rows), self._description
        if are_tombstones:
            schema = TableSchema((*description.schema.columns, ROW_EXISTS_COLUMN))
            description = replace(description, schema=schema)
            deleted = pa.array(np.zeros(rows.num_rows, np.uint8))
            rows = rows.append_column(schema.arrow.field(ROW_EXISTS_COLUMN.name), deleted)
        return [self._write(piece, description) for piece in split_by_partition(rows, description)]

    def _convert(self, rows: pa.Table) -> pa.Table:
        schema, own = self._definition.description.schema, self._description.schema
        names = [column.name for column in schema.stored.columns]
        types, columns = [schema.column(name).type for name in names], [own.column(name) for name in names]
        cast = cast_block(rows, types, columns, settings=_SETTINGS)
        return complete_block(cast, own, settings=_SETTINGS)

    def _keeps_tombstones(self, part: Part) -> bool:
        """Tells whether the part is what a DELETE inserted, and rows have versions here too.

        All its rows are tombstones (``parts.merge.last_writer``).
        """
        has_versions = self._description.merge_mode.has_row_versions
        return has_versions and part.has_deleted_rows and part.row_version != NO_ROW_VERSION

    def _write(self, piece: PartitionBlock, description: TableDescription) -> StagedFile:
        directory = self._state.store.create_temporary("tmp_link_")
        try:
            block = sort_block(piece.block, description)
            written = write_part(directory, block, description, piece.values, part_uuid=uuid.UUID(int=0))
        except BaseException:
            self._state.store.drop_temporary(directory)
            raise
        return StagedFile(
            directory, written.content_hash, block.num_rows, written.data_uncompressed_bytes, piece.partition_id
        )
