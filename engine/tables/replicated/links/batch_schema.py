"""Decides how the blocks of a batch become parts of the target: as files, or by rewriting their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from coordination.links.batches.repartition import find_command
from coordination.links.table_fingerprint import make_table_fingerprint
from engine.tables.capabilities.table_links import IncomingBatch, SourceTable, UncoveredSchema
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.links.batch_staging import BlockWriter
from engine.tables.replicated.links.block_constraints import ConstraintChecker
from engine.tables.replicated.links.block_files import FileTaker
from engine.tables.replicated.links.incoming_commands import refuse_commands
from engine.tables.replicated.links.row_rewriting import RowRewriter
from engine.tables.replicated.links.source_definition import SourceDefinition, has_same_partitions, list_uncovered
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.mutations.mutation import Mutation


def choose_block_writer(state: ReplicaState, batch: IncomingBatch) -> BlockWriter:
    """Returns what turns the batch's blocks into parts.

    Raises ``UncoveredSchema`` for rows or commands that this table cannot take.
    """
    writer = _choose_writer(state, batch)
    if batch.link.settings.get("check_constraints") and state.description.constraints:
        return ConstraintChecker(writer, state.description, state.definition.full_name)
    return writer


def _choose_writer(state: ReplicaState, batch: IncomingBatch) -> BlockWriter:
    description = state.description
    refuse_commands(state, batch)
    _check_mutations(batch, description)
    if batch.source.fingerprint == compute_fingerprint(description):
        return FileTaker(description)
    definition = SourceDefinition.of(batch.source)
    name = state.definition.full_name
    command = find_command(batch.changes)
    if command is not None and not has_same_partitions(definition.description, description):
        raise refuse_command(name, batch)
    reasons = list_uncovered(definition.description, description)
    if reasons and any(change.blocks for change in batch.changes):
        raise UncoveredSchema(
            f"Table {name} cannot hold the rows of {batch.source.database}.{batch.source.table}: {'. '.join(reasons)}. "
            "ALTER the target; the link then goes on by itself",
            _count_rows(batch),
        )
    return RowRewriter(state, batch.source, definition)


def refuse_command(name: str, batch: IncomingBatch) -> UncoveredSchema:
    """Returns the error for a command on partitions that the target does not have."""
    command = find_command(batch.changes)
    position = command.position if command is not None else batch.end
    what = "a mutation" if command is not None and command.mutations else "a command on partitions"
    return UncoveredSchema(
        f"Table {name} has other partitions than {batch.source.database}.{batch.source.table}, so its link takes "
        f"inserts alone, and {what} came (position {position}). Make the target with the source's PARTITION BY",
        _count_rows(batch),
    )


def compute_fingerprint(description: TableDescription) -> str:
    """Returns the fingerprint of a definition."""
    shared = make_shared_definition(description)
    return make_table_fingerprint(shared.metadata, shared.columns)


def explain_uncovered(state: ReplicaState, source: SourceTable, settings: Mapping[str, object]) -> Collection[str]:
    """Says why the table cannot take the source's rows: one sentence a reason, none if it can."""
    if source.fingerprint == compute_fingerprint(state.description):
        return ()
    return list_uncovered(SourceDefinition.of(source).description, state.description)


def _count_rows(batch: IncomingBatch) -> int:
    return sum(change.rows for change in batch.changes)


def _check_mutations(batch: IncomingBatch, description: TableDescription) -> None:
    for change in batch.changes:
        for mutation in change.mutations:
            try:
                Mutation.decode(mutation.text).check(description)
            except UserError as error:
                raise UncoveredSchema(
                    f"The mutation at position {change.position} of the source cannot be carried out: {error.message}. "
                    "ALTER the target; the link then goes on by itself",
                    _count_rows(batch),
                ) from error
