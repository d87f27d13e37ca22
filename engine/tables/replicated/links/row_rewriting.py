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

import pyarrow as pa

from coordination.links.change import Block
from engine.tables.capabilities.table_links import SourceTable
from engine.tables.replicated.links.batch_staging import StagedFile, require_content
from engine.tables.replicated.links.source_definition import SourceDefinition
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError
from parts.read.part_reader import Part, open_part
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
        return [self._write(piece) for piece in split_by_partition(self._convert(part), self._description)]

    def _convert(self, part: Part) -> pa.Table:
        schema, own = self._definition.description.schema, self._description.schema
        names = [column.name for column in schema.stored.columns]
        arrow = part.adapt_to_schema(schema)
        rows = pa.Table.from_batches(arrow.read(names), schema=pa.schema([]) if not names else None)
        types, columns = [schema.column(name).type for name in names], [own.column(name) for name in names]
        cast = cast_block(rows, types, columns, settings=_SETTINGS)
        return complete_block(cast, own, settings=_SETTINGS)

    def _write(self, piece: PartitionBlock) -> StagedFile:
        directory = self._state.store.create_temporary("tmp_link_")
        try:
            block = sort_block(piece.block, self._description)
            written = write_part(directory, block, self._description, piece.values, part_uuid=uuid.UUID(int=0))
        except BaseException:
            self._state.store.drop_temporary(directory)
            raise
        return StagedFile(
            directory, written.content_hash, block.num_rows, written.data_uncompressed_bytes, piece.partition_id
        )
