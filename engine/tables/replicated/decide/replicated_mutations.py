"""Mutations of a replicated table: stores them in ZooKeeper, assigns them part by part, waits.

``coordination.merges_mutations.mutation_nodes`` has the nodes, ``coordination.merges_mutations.mutation_set`` the
decisions. Every replica watches ``mutations``. While one is not done here, :meth:`ReplicatedMutations.step` assigns it
to parts on this disk that nobody else has assigned, and checks whether all is done.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from coordination.keeper.interface import Keeper, Op
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_mutate_part_entry
from coordination.merges_mutations.merge_predicate import read_merge_predicate
from coordination.merges_mutations.mutation_nodes import (
    advance_mutation_pointer,
    create_mutation,
    kill_mutation,
    read_mutation_pointer,
    read_mutation_pointers,
)
from coordination.merges_mutations.mutation_set import MutationEntry, MutationSet
from coordination.nodes.gate import CommitKind
from engine.tables.capabilities.table_mutations import (
    MutationFailure,
    MutationOptions,
    MutationSummary,
    format_unfinished_message,
)
from engine.tables.replicated.decide.command_source import TableCommands
from engine.tables.replicated.pull_rest import REST_PAUSE_SECONDS
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, PandoError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from sql.mutations.mutation import Mutation, make_drop

logger = logging.getLogger(__name__)

_IDLE_SECONDS, _NONE_SECONDS = 60.0, 600.0
"""Pauses of the step with mutations, which a lost part may undo, and without any."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.5
"""The pause while waiting for what no watch reports, such as a block that another replica commits."""
_POLL_SECONDS = 0.02
_MAX_POLL_SECONDS = 0.5
"""The longest pause while waiting for other replicas, as every look costs ZooKeeper requests."""
_ATTEMPTS = 20
_MAX_IN_QUEUE = 8
_MAX_IN_ONE_ENTRY = 10_000


class LogReader(Protocol):
    """Reads the table's log into this replica's queue."""

    def pull(self, keeper: Keeper) -> None:
        """Moves everything that is in the log now into the queue."""


class ColumnsVersionSource(Protocol):
    """The source of the version of this replica's columns."""

    def columns_version(self, keeper: Keeper) -> int | None:
        """Returns the version of the node of columns, or ``None`` if this replica has other columns."""


class MutationFailures(Protocol):
    """The last failures of mutations."""

    def get_failure(self, mutation_id: str) -> MutationFailure:
        """Returns the mutation's last failure, empty without one."""


class ReplicatedMutations:
    """The mutations of one replica.

    Implements ``engine.tables.capabilities.table_mutations.TableMutations``.
    """

    def __init__(
        self,
        state: ReplicaState,
        log: LogReader,
        definition: ColumnsVersionSource,
        failures: MutationFailures,
        wake_execution: Callable[[], None],
    ) -> None:
        self._state = state
        self._log = log
        self._definition = definition
        self._failures = failures
        self._wake_execution = wake_execution
        self._commands = TableCommands(state)
        self.task = state.make_task("mutations", self.step)
        self._may_have_changed = threading.Event()
        """Set when mutations or the session may have changed."""
        self._finished = ""
        """The last mutation of the finished ones; all before it are finished here too."""
        self._to_do: deque[PartName] = deque()
        """Parts on this disk that may need a mutation, as of the last full look. Only the step uses it."""
        self._compared_at = -math.inf
        """When the finished mutations were last compared with all parts."""

    # -- statements -----------------------------------------------------------------------------------------------

    def add(self, mutation: Mutation, options: MutationOptions) -> str:
        """Adds a mutation to ZooKeeper and returns its name.

        Raises 36 for what may differ between replicas, 48 beside replicas of an older version, 242 and 999.
        """
        what = mutation.find_nondeterminism()
        if what and not options.may_differ:
            raise _make_determinism_error(what)
        refused = f"A mutation whose result may differ between clusters ({what})" if what else ""
        for _ in range(_ATTEMPTS):
            options.status.check()
            kind = self._commands.find_kind()
            create = partial(self._create, mutation, refused, kind, mutation.partition_ids)
            entry = self._state.pass_gate(kind, create, options.status)
            if entry is not None:
                break
        else:
            raise ConflictError("CANNOT_ASSIGN_ALTER", "Others keep changing the table; repeat the mutation")
        self.note_news()
        if options.sync:
            with report_as_unfinished(f"Mutation {entry.mutation_id} is kept"):
                self._wait(entry.mutation_id, options)
        return entry.mutation_id

    def drop(self, partition_id: str | None, status: QueryStatus) -> bool:
        """Drops rows of a partition, or all, where drops go by places; tells whether they do."""
        if self._commands.find_kind() is not CommitKind.COMMAND:
            return False
        options = MutationOptions(1, timeout_seconds=self._state.services.queue_wait_seconds, status=status)
        self.add(make_drop(partition_id, self._state.definition.database), options)
        return True

    def change_command_source(self, cluster: str) -> None:
        """Sets the cluster that takes commands. Raises as ``links.command_source.TableCommands.change``."""
        self._commands.change(cluster, self._add_mark)
        self.note_news()

    def _add_mark(self, mark: Mutation) -> None:
        create, status = partial(self._create, mark, "", CommitKind.UPKEEP, frozenset()), QueryStatus()
        for _ in range(_ATTEMPTS):
            if self._state.pass_gate(CommitKind.UPKEEP, create, status) is not None:
                return
        raise ConflictError("CANNOT_ASSIGN_ALTER", "Others keep changing the table; repeat the statement")

    def _create(
        self, mutation: Mutation, refused_by_links: str, kind: CommitKind, partition_ids: frozenset[str] | None
    ) -> MutationEntry | None:
        """Creates the mutation's node; returns ``None`` if others changed the table at the same time."""
        state = self._state
        with state.hold_write_access() as (keeper, _), state.restart_on_leaked_number():
            keeper.sync(state.paths.root)
            columns_version = self._definition.columns_version(keeper)
            if columns_version is None:
                return None
            mutation.check(state.description)
            self._log.pull(keeper)
            conditions: Sequence[Op] = ()
            if kind is CommitKind.COMMAND:  # before it takes its numbers
                mutation, conditions = self._commands.limit(keeper, mutation)
            return create_mutation(
                keeper,
                state.replica,
                mutation.encode(),
                partition_ids,
                state.description.metadata_version,
                columns_version,
                gate=state.gate,
                first_number=self._first_number,
                clock=state.services.clock,
                wait=state.sleep,
                unlinked_for=refused_by_links,
                kind=kind,
                conditions=conditions,
            )

    def _first_number(self, partition_id: str) -> int:
        return max((part.max_block + 1 for part in self._state.queue.list_virtual_parts(partition_id)), default=0)

    def kill(self, id: str) -> bool:
        """Removes the mutation; returns ``False`` for an unknown or finished one."""
        state = self._state
        if not state.pass_gate(CommitKind.OTHER, lambda: self._remove(id), QueryStatus()):
            return False
        state.queue.retry_entries_of_mutations([id])
        self._wake_execution()
        self.task.wake()
        return True

    def _remove(self, id: str) -> bool:
        state = self._state
        with state.hold_write_access() as (keeper, _):
            if id <= self._finished or not id.isdecimal() or not kill_mutation(keeper, state.paths, id, state.gate):
                return False
            state.mutations.load(keeper)
        return True

    def shown(self) -> list[MutationSummary]:
        """Returns the mutations in their order."""
        state, parts = self._state, sorted({*self._parts()})
        running = [item.entry for item in state.queue.list_entries() if item.is_executing]
        found = []
        for entry in state.mutations.current.mutations:
            is_done = entry.mutation_id <= self._finished
            found.append(
                MutationSummary(
                    id=entry.mutation_id,
                    mutation=Mutation.decode(entry.text),
                    create_time=entry.create_time,
                    numbers=entry.numbers,
                    parts_to_do=[] if is_done else entry.list_parts_to_change(parts),
                    parts_in_progress=[e.source_parts[0] for e in running if entry.mutation_id in e.mutations],
                    is_done=is_done,
                    failure=MutationFailure() if is_done else self._failures.get_failure(entry.mutation_id),
                )
            )
        return found

    # -- waiting --------------------------------------------------------------------------------------------------

    def _wait(self, id_: str, options: MutationOptions) -> None:
        state = self._state
        deadline = state.services.monotonic() + options.timeout_seconds
        pause = _POLL_SECONDS
        while behind := self._list_unfinished_replicas(id_, everywhere=options.sync > 1):
            options.status.check()
            failure = self._failures.get_failure(id_)
            if failure.part:
                raise UnknownOutcomeError("UNFINISHED", format_unfinished_message(id_, failure))
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED",
                    f"Mutation {id_} is kept, but replicas {', '.join(behind)} have not carried it out yet; they will",
                )
            state.sleep(pause)
            if id_ <= self._finished:
                pause = min(1.5 * pause, _MAX_POLL_SECONDS)

    def _list_unfinished_replicas(self, id_: str, *, everywhere: bool) -> list[str]:
        """Returns the active replicas that have not finished the mutation. Raises 341 if it was killed."""
        state = self._state
        if id_ > self._finished:
            if state.mutations.current.get(id_) is None and state.activation is not None:
                with state.hold_write_access() as (keeper, _):
                    if state.mutations.load(keeper).get(id_) is None and id_ > read_mutation_pointer(
                        keeper, state.replica
                    ):
                        raise UnknownOutcomeError("UNFINISHED", f"Mutation {id_} was killed")
            return [state.replica.name]
        if not everywhere:
            return []
        with state.hold_write_access() as (keeper, _):
            return [name for name, pointer in read_mutation_pointers(keeper, state.paths).items() if pointer < id_]

    # -- in the background ----------------------------------------------------------------------------------------

    def step(self) -> float:
        """Assigns mutations to parts; returns the seconds until the next look."""
        state = self._state
        if state.activation is None or state.is_session_expired:
            return _IDLE_SECONDS
        if state.pull_rest.is_resting:
            return REST_PAUSE_SECONDS
        try:
            with state.hold_write_access() as (keeper, _):
                return self._step(keeper)
        except PandoError as error:
            self._may_have_changed.set()
            logger.info("the mutations of %s are looked at later: %s", state.definition.full_name, error)
            return _RETRY_SECONDS

    def _step(self, keeper: Keeper) -> float:
        state = self._state
        if self._may_have_changed.is_set():
            self._may_have_changed.clear()
            state.mutations.load(keeper, lambda _: self.note_news())
            self._finished = read_mutation_pointer(keeper, state.replica)
        known = state.mutations.current
        is_stopped, now = StoppableAction.MERGES in state.stopped, state.services.monotonic()
        if now - self._compared_at >= _LOOK_SECONDS or not self._to_do:
            self._compared_at = now
            self._reopen_mutations(keeper, known)
        if is_stopped or not self._to_do:
            if not known.unfinished(self._finished):
                return _IDLE_SECONDS if known.mutations else _NONE_SECONDS
            self._to_do = deque(part for part in state.queue.copy_virtual_parts() if self._list_next_mutations(part))
        if self._to_do:
            if not is_stopped and self._has_free_entries:
                self._assign(keeper)
        elif known.find_finished_up_to(self._finished, {}, self._parts()) > self._finished:
            self._finished = advance_mutation_pointer(
                keeper, state.replica, state.mutations, self._finished, lambda: self._pulled_parts(keeper)
            )
        return _LOOK_SECONDS if state.mutations.current.unfinished(self._finished) else _IDLE_SECONDS

    def _reopen_mutations(self, keeper: Keeper, known: MutationSet) -> None:
        """Marks mutations as unfinished again if a mutated part was lost and an older version replaced it."""
        state = self._state
        finished = known.find_finished_before_loss(self._finished, self._parts())
        if finished < self._finished:
            logger.warning(
                "parts of %s lack mutations behind %r again, which are carried out anew",
                state.definition.full_name, finished,
            )  # fmt: skip
            keeper.set(state.replica.mutation_pointer, finished.encode())
            self._finished = finished

    def note_news(self) -> None:
        """Reads the mutations anew soon."""
        self._may_have_changed.set()
        self.task.wake()

    def _pulled_parts(self, keeper: Keeper) -> list[PartName]:
        self._log.pull(keeper)
        return self._parts()

    def _parts(self) -> list[PartName]:
        """Returns the parts that are active here or still to come.

        An entry leaves the queue after its part is active, so the queue is read first.
        """
        state = self._state
        return [*state.queue.list_coming_parts(), *(part.name for part in state.store.list_active())]

    @property
    def _free_entries(self) -> int:
        return _MAX_IN_QUEUE - self._state.queue.count(EntryType.MUTATE_PART)

    @property
    def _has_free_entries(self) -> bool:
        """Tells whether several entries fit the queue. One assignment's requests to ZooKeeper serve them all."""
        return self._free_entries >= _MAX_IN_QUEUE // 2

    def note_made(self) -> None:
        """Called when a mutated part is here: assigns more, or finds that all is done."""
        if self._has_free_entries:
            self.task.wake()

    def _list_next_mutations(self, part: PartName) -> list[MutationEntry]:
        """Returns the next mutations of a part on this disk."""
        state = self._state
        if state.store.get_active(part) is None:
            return []
        version = state.description.metadata_version
        return state.mutations.current.list_next_mutations(part, version, _MAX_IN_ONE_ENTRY)

    def _assign(self, keeper: Keeper) -> None:
        """Logs mutations of as many parts as fit the queue.

        Parts that cannot be assigned now are found again at the next full look.
        """
        state = self._state
        predicate = read_merge_predicate(
            keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load, ()
        )
        room = self._free_entries
        entries: list[LogEntry] = []
        while self._to_do and len(entries) < room:
            part = self._to_do.popleft()
            mutations, source = self._list_next_mutations(part), state.store.get_active(part)
            if source is None or not mutations or predicate.why_not_mergeable(part) is not None:
                continue
            entries.append(
                make_mutate_part_entry(
                    part,
                    mutations,
                    state.replica.name,
                    state.services.clock(),
                    metadata_version=state.description.metadata_version,
                    rows=source.rows,
                    size_bytes=source.bytes_on_disk,
                )
            )
        if entries and log_merges_and_mutations(keeper, state.paths, predicate.log_version, entries):
            self._log.pull(keeper)


def _make_determinism_error(what: str) -> UserError:
    """Returns the error with ClickHouse's message, which tells subqueries from functions."""
    if what == "a subquery":
        text = "ALTER UPDATE/ALTER DELETE statement with subquery may be nondeterministic"
    else:
        text = (
            "The source storage is replicated so ALTER UPDATE/ALTER DELETE statements must use only deterministic "
            f"functions: {what} is non-deterministic"
        )
    return UserError("BAD_ARGUMENTS", f"{text}, see allow_nondeterministic_mutations setting")
