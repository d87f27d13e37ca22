"""Executes MUTATE_PART: writes the mutated part, and keeps the failures of mutations.

The entry names the mutations that its assigner found. A missing one was killed, or all replicas that count have
finished it. Then the part is fetched from a replica that has it; if none has, it is written without that mutation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from coordination.drops.reached_blocks import free_reached_ids
from coordination.keeper.interface import Keeper, Op
from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_nodes import not_killed_checks
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet
from engine.tables.capabilities.table_mutations import MutationFailure
from engine.tables.merges.mutation_execution import FindTable, mutate_to_temporary
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import CancelledError
from parts.common.part_name import PartName
from parts.read.part_reader import Part
from sql.mutations.mutation import Mutation

logger = logging.getLogger(__name__)


class MutatePartExecutor:
    """The mutated parts and failed mutations of one replica."""

    def __init__(self, state: ReplicaState, find_table: FindTable, on_done: Callable[[], None]) -> None:
        """``on_done`` is called when an entry has been executed."""
        self._state = state
        self._find_table = find_table
        self._on_done = on_done
        self._failures: dict[str, MutationFailure] = {}
        self._freed: set[str] = set()
        """Drops whose block ids are free again."""

    def load_mutations(self, keeper: Keeper, entry: LogEntry) -> list[MutationEntry]:
        """Returns those of the entry's mutations that exist.

        Reads ZooKeeper if this replica does not know one of them.
        """
        known = self._state.mutations.current
        if any(known.get(id_) is None for id_ in entry.mutations):
            known = self._state.mutations.load(keeper)
        found = (known.get(id_) for id_ in entry.mutations)
        return [mutation for mutation in found if mutation is not None]

    def free_dropped_ids(self, keeper: Keeper, mutations: Sequence[MutationEntry]) -> None:
        """Frees the ids of the table's own blocks that drops among the mutations remove, before they go.

        Raises 999 if others keep deleting ids.
        """
        origin = self._state.gate.own_origin
        self._freed &= {each.mutation_id for each in self._state.mutations.current.mutations}
        for entry in mutations if origin else ():
            mutation = Mutation.decode(entry.text)
            if mutation.is_drop and mutation.reach is not None and entry.mutation_id not in self._freed:
                free_reached_ids(keeper, self._state.paths, entry.numbers, mutation.reach.find_last(origin))
                self._freed.add(entry.mutation_id)

    def make_commit_checks(self, mutations: Sequence[MutationEntry]) -> list[Op]:
        """Returns the checks under which the result may be committed: no mutation was killed meanwhile."""
        return not_killed_checks(self._state.paths, [mutation.mutation_id for mutation in mutations])

    def mutate(self, entry: LogEntry, name: str, source: Part, mutations: Sequence[MutationEntry]) -> Path:
        """Writes the mutated part; returns its temporary directory.

        The caller holds the source. ``name`` is that of the queue entry. Raises the errors of
        :func:`engine.tables.merges.mutation_execution.mutate_to_temporary`.
        """
        state = self._state
        assert entry.new_part is not None

        known: MutationSet | None = None
        was_killed = False

        def is_cancelled() -> bool:
            nonlocal known, was_killed
            current = state.mutations.current
            if current is not known:  # unchanged since the last check
                known = current
                was_killed = any(current.get(mutation.mutation_id) is None for mutation in mutations)
            is_stopped = state.is_cancelled() or StoppableAction.MERGES in state.stopped
            return was_killed or is_stopped or state.queue.is_cancelled(name)

        try:
            return mutate_to_temporary(
                state,
                source,
                [Mutation.decode(mutation.text) for mutation in mutations],
                entry.new_part,
                self._find_table,
                is_cancelled=is_cancelled,
            )
        except CancelledError:
            raise
        except Exception as error:
            self._note_failure(mutations, source.name, error)
            raise

    # -- failures -------------------------------------------------------------------------------------------------

    def get_failure(self, mutation_id: str) -> MutationFailure:
        """Returns the last failure that no success has followed; empty without one."""
        return self._failures.get(mutation_id, MutationFailure())

    def _note_failure(self, mutations: Sequence[MutationEntry], source: PartName, error: Exception) -> None:
        failure = MutationFailure.of(source, error, self._state.services.clock())
        self._failures |= {mutation.mutation_id: failure for mutation in mutations}
        ids = ", ".join(mutation.mutation_id for mutation in mutations)
        name = self._state.definition.full_name
        logger.warning("mutations %s failed on part %s of %s: %s", ids, source, name, error)

    def note_done(self, entry: LogEntry) -> None:
        """Records that the part has been written here or fetched."""
        self._on_done()
        for id_ in entry.mutations:
            failure = self._failures.get(id_)
            if failure is not None and failure.part == str(entry.source_parts[0]):
                self._failures.pop(id_, None)
