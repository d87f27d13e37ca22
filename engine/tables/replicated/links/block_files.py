"""Takes the files of a block as they are, where both tables have equal definitions and histories."""

from __future__ import annotations

from pathlib import Path

from coordination.links.stream.change import Block
from engine.tables.replicated.links.batch_staging import StagedFile, require_content
from parts.common.errors import UnavailableError
from parts.read.part_reader import open_part
from parts.table.table_description import TableDescription


class FileTaker:
    """Checks fetched files. Implements ``batch_staging.BlockWriter``."""

    def __init__(self, description: TableDescription) -> None:
        self._description = description

    def take(self, fetched: Path, block: Block) -> list[StagedFile]:
        """Returns the files, checked. Raises 342 for a block of a definition that is not here yet."""
        part = open_part(fetched, name=block.part, table_schema=self._description.schema)
        if part.metadata_version > self._description.metadata_version:
            raise UnavailableError(
                "METADATA_MISMATCH",
                f"Block {block.part} was written under version {part.metadata_version} of the source's definition, "
                f"and the target has version {self._description.metadata_version}",
            )
        require_content(block, part.content_hash, part.rows)
        return [StagedFile(fetched, part.content_hash, part.rows, part.data_uncompressed_bytes, block.partition_id)]
