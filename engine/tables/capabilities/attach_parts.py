"""Attaches existing parts to a table, from ``detached/`` or from another table.

They are committed as the parts of one transaction (``engine.tables.capabilities.table_transactions``): on all replicas,
all at once or not at all, under new numbers.

Files are linked, not copied, except for two kinds of parts, which are rewritten. Parts that store the former block
numbers of their rows (``parts.table.block_number_column``) lose them. Parts of a table with another history of ALTERs
are read by that history.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from coordination.keeper.interface import Op
from coordination.transactions.commit_request import CommitRequest, Overwrite
from coordination.transactions.transaction_nodes import transaction_node_name
from engine.tables.capabilities.table_transactions import TableTransactions
from engine.tables.insert_sink import TemporaryPart
from engine.tables.statement_options import CommitOptions, InsertOptions
from engine.tables.table_data import TableData
from engine.tables.unfinished_errors import report_as_unfinished
from parts.blocks.partition_ids import compute_partition_id
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import link_files
from parts.merge.part_merge import merge_parts
from parts.read.key_mapping import is_sorted_by
from parts.read.part_reader import Part, open_part
from parts.store.detached_parts import list_detached_by_users
from parts.table.block_number_column import BLOCK_NUMBER
from parts.table.table_description import TableDescription, TableSchema

logger = logging.getLogger(__name__)


class PartAttacher:
    """The attaching of parts to one table."""

    def __init__(self, table: TableData, transactions: TableTransactions) -> None:
        self._table = table
        self._transactions = transactions

    def attach(self, directories: Sequence[str], status: QueryStatus) -> None:
        """Attaches directories of ``detached/``.

        Raises 233 for a missing one, and the errors of :meth:`prepare`.
        """
        if not directories:
            return
        transaction = f"attach {self._table.services.new_uuid().hex}"
        self._transactions.stage([], InsertOptions(transaction=transaction))
        try:
            places = self._table.store.attaching.begin(directories, transaction_node_name(transaction))
            self._table.services.failpoint("attach.after_begin")
            schema = self._table.description.schema
            self._commit(transaction, places, schema, Overwrite.NOTHING, status, was_detached=True)
        finally:
            self._end_transaction(transaction)

    def attach_from_table(
        self,
        parts: Sequence[Part],
        schema: TableSchema,
        overwrite: Overwrite,
        status: QueryStatus,
        along: Sequence[Op] = (),
        ahead: PartsAhead | None = None,
    ) -> None:
        """Attaches parts of another table with this schema, which holds them meanwhile.

        What ``ahead`` has prepared is not prepared again. ``along`` are operations of the other table for the same
        commit, if both are replicated. Raises ``Overtaken`` when those operations are no longer possible.
        """
        transaction = f"attach {self._table.services.new_uuid().hex}"
        try:
            places = [part.path for part in parts]
            self._commit(transaction, places, schema, overwrite, status, along=along, ahead=ahead)
        except PandoError:
            with contextlib.suppress(PandoError):
                self._transactions.rollback(transaction)
            raise

    def begin_ahead(self, schema: TableSchema, status: QueryStatus) -> PartsAhead:
        """Returns what prepares parts of another table with this schema before they are attached."""
        return PartsAhead(self._table, self, schema, status)

    def _end_transaction(self, transaction: str) -> None:
        """Ends the transaction. If that fails now, the next start or session ends it."""
        try:
            is_attached = self._transactions.settle(transaction_node_name(transaction))
        except PandoError as error:
            logger.warning("%s of %s is not ended yet: %s", transaction, self._table.definition.full_name, error)
            return
        if is_attached is None:
            return
        with report_as_unfinished("The parts are attached") if is_attached else contextlib.nullcontext():
            self._table.store.attaching.end(transaction_node_name(transaction), is_attached=is_attached)

    def _commit(
        self,
        transaction: str,
        places: Sequence[Path],
        schema: TableSchema,
        overwrite: Overwrite,
        status: QueryStatus,
        *,
        was_detached: bool = False,
        along: Sequence[Op] = (),
        ahead: PartsAhead | None = None,
    ) -> None:
        prepared: list[TemporaryPart] = []
        try:
            for place in places:
                status.check()
                known = ahead.link(place) if ahead is not None else None
                prepared.append(known or self.prepare(place, schema, status))
            options = InsertOptions(
                transaction=transaction, was_detached=was_detached, has_new_rows=False, status=status
            )
            self._transactions.stage(prepared, options)
        finally:
            for part in prepared:
                self._table.store.drop_temporary(part.directory)
        self._table.services.failpoint("attach.after_stage")
        timeout_seconds = self._table.services.queue_wait_seconds
        rows = sum(part.rows for part in prepared)
        request = CommitRequest(transaction, overwrite, rows=rows, extra_ops=tuple(along))
        self._transactions.commit(request, CommitOptions(timeout_seconds=timeout_seconds, status=status))

    def prepare(self, place: Path, schema: TableSchema, status: QueryStatus) -> TemporaryPart:
        """Returns a temporary part with the rows of ``place``, which a table of ``schema`` wrote.

        Raises ``CorruptionError``, 122 for columns of other types, 36 for another key, and 342 for a part of a later
        definition.
        """
        table, description = self._table, self._table.description
        part = open_part(place, table_schema=schema)
        part.verify(status.check)
        _require_fitting(part, description)
        directory = table.store.create_temporary("tmp_attach_")
        try:
            if BLOCK_NUMBER in part.schema or schema.history != description.schema.history:
                settings = replace(description.settings, enable_block_number_column=False)
                part.metadata_version = description.metadata_version  # it is read by the history of its own table
                merge_parts([part], directory, replace(description, settings=settings))
            else:
                link_files(place, directory, should_sync=description.settings.fsync_part_directory)
            written = open_part(directory, table_schema=description.schema)
        except BaseException:
            table.store.drop_temporary(directory)
            raise
        return TemporaryPart(
            directory,
            _compute_partition(part),
            "",
            written.rows,
            written.data_uncompressed_bytes,
            content_hash=written.content_hash,
        )


class PartsAhead:
    """Parts of another table, prepared before it is known which of them will be attached.

    A context manager.

    They are verified, and rewritten if they must be: what takes time. What is attached are links of them, so a commit
    that fails may be repeated.
    """

    def __init__(self, table: TableData, attacher: PartAttacher, schema: TableSchema, status: QueryStatus) -> None:
        self._table = table
        self._attacher = attacher
        self._schema = schema
        self._status = status
        self._prepared: dict[Path, TemporaryPart] = {}

    def __enter__(self) -> PartsAhead:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._prepared.values():
            self._table.store.drop_temporary(part.directory)
        self._prepared.clear()

    def prepare(self, parts: Sequence[Part]) -> bool:
        """Prepares those that are not yet; tells whether there were any. The other table holds them meanwhile."""
        new = [part.path for part in parts if part.path not in self._prepared]
        for place in new:
            self._status.check()
            self._prepared[place] = self._attacher.prepare(place, self._schema, self._status)
        return bool(new)

    def link(self, place: Path) -> TemporaryPart | None:
        """Returns another copy of a part that is prepared; ``None`` for another part."""
        found = self._prepared.get(place)
        if found is None:
            return None
        store = self._table.store
        directory = store.create_temporary("tmp_attach_")
        try:
            link_files(found.directory, directory, should_sync=self._table.description.settings.fsync_part_directory)
        except BaseException:
            store.drop_temporary(directory)
            raise
        return replace(found, directory=directory)


def select_attachable(names: Sequence[str], partition: str | None) -> tuple[list[str], list[str]]:
    """Selects the directories of ``detached/`` to attach:

    without a reason in the name, of one or all partitions. Returns those that no other directory covers, and those
    whose rows another holds.
    """
    wanted = [name for name in list_detached_by_users(names) if partition in (None, name.partition_id)]
    covered = [name for name in wanted if any(other != name and other.covers(name) for other in wanted)]
    return [str(name) for name in wanted if name not in covered], list(map(str, covered))


def _compute_partition(part: Part) -> str:
    return compute_partition_id(
        [array[0] for _, _, array in part.partition_arrays], [t for _, t, _ in part.partition_arrays]
    )


def _require_fitting(part: Part, description: TableDescription) -> None:
    """Raises an error if the part's columns, partition key or sorting key do not fit the table."""
    assert part.table_schema is not None
    history = part.table_schema.history
    if part.metadata_version > history.version:
        raise UserError("METADATA_MISMATCH", f"Part {part.path.name} was written under a later definition of a table")
    written = {column.name: column.type for column in part.schema.columns}
    for column in description.schema.stored.columns:
        former = written.get(column.name, column.type)
        if part.metadata_version == history.version and former != column.type:
            raise UserError(
                "INCOMPATIBLE_COLUMNS",
                f"Column {column.name} of part {part.path.name} is a {former.name}, the table's a {column.type.name}",
            )
    key = tuple(expression for expression, _, _ in part.partition_arrays)
    if key != tuple(description.partition_key.expressions) or not is_sorted_by(part, description.sorting_key):
        raise UserError("BAD_ARGUMENTS", f"Part {part.path.name} was written under another partition or sorting key")
