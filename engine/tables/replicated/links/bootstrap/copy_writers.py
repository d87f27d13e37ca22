"""Turns fetched files of a source's part into parts of this table, or writes their rows anew.

Files stay where the definitions and histories of both tables are equal, but for the block numbers that a part may
store: they are numbers of another table, so such a part is rewritten without them. Elsewhere rows are read by the
source's definition, a slice at a time, and written as level-0 parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.links.link_definition import LinkDefinition
from engine.tables.capabilities.table_links import SourceTable, UncoveredSchema
from engine.tables.replicated.links.bootstrap.copied_places import CopiedPlaces
from engine.tables.replicated.links.row_rewriting import RowRewriter
from engine.tables.replicated.links.source_definition import SourceDefinition, has_same_partitions, list_uncovered
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CorruptionError, UserError
from parts.merge.part_merge import merge_parts
from parts.read.part_reader import Part, open_part
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.table_description import TableSchema

SLICE_ROWS = 1024 * 1024
SLICE_BYTES = 256 * 1024 * 1024
"""Rows are written anew in slices of at most so many rows, or about so many bytes."""


class CopyWriter(Protocol):
    """Makes copies of held parts."""

    @property
    def variant(self) -> str:
        """Tells copies that are written in different ways apart; "" if files stay."""

    @property
    def keeps_partitions(self) -> bool:
        """Whether the rows of a part stay in its partition."""

    def take(self, fetched: Path, part: HeldPart) -> list[Path]:
        """Returns directories of whole, durable parts of this table; ``fetched`` itself may be one.

        Raises ``CorruptionError`` for files that are not the held part's.
        """


def choose_copy_writer(state: ReplicaState, link: LinkDefinition, held: HeldTable, fingerprint: str) -> CopyWriter:
    """Returns what makes the copies. ``fingerprint``: this table's.

    Raises ``UncoveredSchema`` if this table cannot hold the source's rows.
    """
    if held.fingerprint == fingerprint:
        return FileKeeper(state, CopiedPlaces.of(state, held))
    source = SourceTable(
        link.source_database,
        link.source_table,
        held.origin,
        held.place,
        held.create_query,
        held.definition_version,
        held.fingerprint,
        columns=held.columns,
    )
    definition = SourceDefinition.of(source)
    if reasons := list_uncovered(definition.description, state.description):
        raise UncoveredSchema(
            f"Table {state.definition.full_name} cannot hold the rows of {link.source_database}.{link.source_table}: "
            f"{'. '.join(reasons)}. ALTER the target; the link then goes on by itself",
            sum(part.rows for part in held.parts),
        )
    return RowWriter(state, source, definition, fingerprint, CopiedPlaces.of(state, held))


class FileKeeper:
    """Takes files as they are. Implements :class:`CopyWriter`."""

    variant = ""
    keeps_partitions = True

    def __init__(self, state: ReplicaState, places: CopiedPlaces) -> None:
        self._state = state
        self._places = places

    def take(self, fetched: Path, part: HeldPart) -> list[Path]:
        """Returns the files, without block numbers of the source."""
        store, description = self._state.store, self._state.description
        found = _open(fetched, part, description.schema)
        if found.metadata_version > description.metadata_version:
            raise UserError("METADATA_MISMATCH", f"Part {part.name} was written under a later definition of the table")
        if self._places.give(found, part, [fetched]):
            found = _open(fetched, part, description.schema)
        if BLOCK_NUMBER not in found.schema:
            return [fetched]
        rewritten = store.create_temporary("tmp_bootstrap_")
        settings = replace(description.settings, enable_block_number_column=False)
        try:
            merge_parts([found], rewritten, replace(description, settings=settings))
        except BaseException:
            store.drop_temporary(rewritten)
            raise
        return [rewritten]


class RowWriter:
    """Writes rows anew. Implements :class:`CopyWriter`."""

    def __init__(
        self,
        state: ReplicaState,
        source: SourceTable,
        definition: SourceDefinition,
        fingerprint: str,
        places: CopiedPlaces,
    ) -> None:
        self._state = state
        self._places = places
        self._schema = definition.description.schema
        self._rewriter = RowRewriter(state, source, definition)
        self.keeps_partitions = has_same_partitions(definition.description, state.description)
        told = f"{source.fingerprint} {fingerprint}"
        self.variant = f"~{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def take(self, fetched: Path, part: HeldPart) -> list[Path]:
        """Returns one part for each slice of the rows and partition."""
        written: list[Path] = []
        found = _open(fetched, part, self._schema)
        try:
            for rows in self._read(found):
                written += [piece.directory for piece in self._rewriter.write(rows)]
            self._places.give(found, part, written)
        except BaseException:
            for directory in written:
                self._state.store.drop_temporary(directory)
            raise
        return written

    def _read(self, part: Part) -> Iterator[pa.Table]:
        names = [column.name for column in self._schema.stored.columns]
        batches: list[pa.RecordBatch] = []
        for batch in part.adapt_to_schema(self._schema).read(names):
            batches.append(batch)
            if sum(each.num_rows for each in batches) >= SLICE_ROWS or sum(e.nbytes for e in batches) >= SLICE_BYTES:
                yield pa.Table.from_batches(batches)
                batches = []
        if batches:
            yield pa.Table.from_batches(batches)


def _open(fetched: Path, part: HeldPart, schema: TableSchema) -> Part:
    found = open_part(fetched, name=part.name, table_schema=schema)
    if (found.content_hash, found.rows) != (part.content_hash, part.rows):
        raise CorruptionError("The source sent another content than it holds", part=str(part.name))
    return found
