"""Checks the constraints of a link's target on what arrives (``check_constraints = 1``)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from coordination.links.stream.change import Block
from engine.tables.capabilities.table_links import UncoveredSchema
from engine.tables.replicated.links.batch_staging import BlockWriter, StagedFile
from parts.common.errors import UserError
from parts.read.part_reader import open_part
from parts.table.table_description import TableDescription
from parts.write.constraint_checks import check_constraints


class ConstraintChecker:
    """Checks what another writer made. Implements ``batch_staging.BlockWriter``."""

    def __init__(self, writer: BlockWriter, description: TableDescription, table: str) -> None:
        self._writer = writer
        self._description = description
        self._table = table

    def take(self, fetched: Path, block: Block) -> list[StagedFile]:
        """Returns the writer's parts. Raises ``UncoveredSchema`` for a row that violates a constraint."""
        taken = self._writer.take(fetched, block)
        names = list(self._description.schema.stored.names)
        for file in taken:
            part = open_part(file.directory, name=block.part, table_schema=self._description.schema)
            for batch in part.read(names):
                self._check(pa.Table.from_batches([batch]), block)
        return taken

    def _check(self, rows: pa.Table, block: Block) -> None:
        try:
            check_constraints(rows, self._description, self._table)
        except UserError as error:
            raise UncoveredSchema(
                f"A row of the source violates a constraint of the target: {error.message}. Drop the constraint or set "
                "check_constraints = 0 for the link",
                block.rows,
            ) from error
