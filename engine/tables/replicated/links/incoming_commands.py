"""Commands that links bring: which a table may carry out, and the marks among them.

Source: ``coordination.links.commands``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordination.keeper.interface import Check, Keeper, Op, SetData
from coordination.links.batches.repartition import find_command
from coordination.links.commands import explain_unreached, find_marks, limit_to_own_rows, with_marks
from coordination.links.link_settings import LinkSettings
from coordination.links.stream.change import Change
from coordination.nodes.gate_commands import EACH_SOURCE
from engine.tables.capabilities.table_links import IncomingBatch, UncoveredSchema
from engine.tables.replicated.decide.command_source import goes_by_sources, read_source_uuid
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.command_reach import find_reach
from sql.mutations.mutation import make_drop
from sql.settings.merge_tree_settings import COMMANDS_FROM


def refuse_commands(state: ReplicaState, batch: IncomingBatch) -> None:
    """Refuses commands on a table that has rows of others, unless they go by the places of rows.

    Each target has others of these rows when a command arrives. Raises ``UncoveredSchema``: the link pauses.
    """
    settings, command = LinkSettings.parse(batch.link.settings), find_command(batch.changes)
    if command is None or not settings.allows_writes or (settings.is_collecting and settings.apply_commands):
        return
    for change in batch.changes if settings.two_way else ():
        if reason := _explain_refused(state, batch, change):
            raise UncoveredSchema(
                f"Table {state.definition.full_name} takes other writes than those of link {batch.link.name}, and "
                f"{_describe(change)} came (position {change.position}), but {reason}",
                sum(each.rows for each in batch.changes),
            )
    if settings.is_collecting and not goes_by_sources(state):
        raise _make_collecting_error(state.definition.full_name, batch, command)


def _explain_refused(state: ReplicaState, batch: IncomingBatch, change: Change) -> str:
    """Says why a change's commands cannot be carried out; "" if they can, or if it has none."""
    if find_command([change]) is None:
        return ""
    reaches = [find_reach(mutation.text) for mutation in change.mutations if mutation.numbers]
    gate = state.gate.gate
    is_commanded = gate is not None and gate.has_commanding_cluster
    if change.drops or None in reaches:
        if not is_commanded:  # given while its table had no two-way link
            return ""
        return (
            "it does not go by the places of rows, so it would touch other rows here than at the source. A link that "
            "is dropped and made anew with start_position = 'now' leaves it out"
        )
    if gate is None or gate.commands is None or not is_commanded:
        return f"the table has no {COMMANDS_FROM}: ALTER TABLE … MODIFY SETTING gives it the source's"
    if read_source_uuid(state.require_writable(), gate) != change.position.origin.cluster:
        return (
            f"the table takes commands of cluster {gate.commands.cluster!r} alone ({COMMANDS_FROM}), and this one was "
            f"given at cluster {change.position.origin.cluster}: give all clusters the same {COMMANDS_FROM}"
        )
    unreached = (explain_unreached(gate.commands, batch.state.own, reach) for reach in reaches if reach is not None)
    reason = next(filter(None, unreached), "")
    return f"{reason}. SYSTEM BOOTSTRAP REPLICATION LINK copies the table anew" if reason else ""


def limit_commands(state: ReplicaState, batch: IncomingBatch) -> IncomingBatch:
    """Returns the batch with commands that reach the rows of their own origin, where each source has them."""
    settings = LinkSettings.parse(batch.link.settings)
    if not settings.is_collecting or settings.apply_commands or not goes_by_sources(state):
        return batch
    database = state.definition.database

    def make_text(partition_id: str) -> str:
        return make_drop(partition_id, database).encode()

    return replace(batch, changes=tuple(limit_to_own_rows(change, make_text) for change in batch.changes))


def _describe(change: Change) -> str:
    return "a mutation" if change.mutations else "a command that drops rows"


def _make_collecting_error(name: str, batch: IncomingBatch, command: Change) -> UncoveredSchema:
    return UncoveredSchema(
        f"Table {name} has rows of others than {batch.source.database}.{batch.source.table}, and {_describe(command)} "
        f"came (position {command.position}), which would touch those too. ALTER REPLICATION LINK {batch.link.name} "
        "MODIFY SETTING apply_commands = 1 carries it out on all rows that the table has; a link that is dropped and "
        f"made anew with start_position = 'now' leaves it out. In a table that had {COMMANDS_FROM} = '{EACH_SOURCE}' "
        "before its first row, it would touch the rows of its own source",
        sum(change.rows for change in batch.changes),
    )


def note_marks_ops(state: ReplicaState, keeper: Keeper, changes: Sequence[Change], checks: Sequence[Op]) -> list[Op]:
    """Returns operations that note the marks of a batch in the gate, whose version ``checks`` expect."""
    marks, gate = find_marks(changes), state.gate.gate
    check = next((op for op in checks if isinstance(op, Check) and op.path == state.paths.gate), None)
    if not marks or gate is None or check is None:
        return []
    gate, version = state.gate.load_versioned(keeper)
    if gate is None or version != check.version:  # the checks fail
        return []
    noted = gate.with_commands(with_marks(gate, marks))
    return [SetData(state.paths.gate, noted.to_bytes(), version)] if noted != gate else []
