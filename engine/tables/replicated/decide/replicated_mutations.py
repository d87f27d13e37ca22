"""Mutations of a replicated table: kept in ZooKeeper, assigned part by part, waited for.

``coordination.merges_mutations.mutation_nodes`` has the nodes and ``coordination.merges_mutations.mutation_set`` the
decisions. Every replica watches ``mutations``; while one is not done here the step assigns what nobody else has
assigned, of the parts that are on this disk, and looks whether all is done.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from coordination.keeper.interface import Keeper
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
from engine.tables.capabilities.table_mutations import (
    MutationFailure,
    MutationOptions,
    MutationSummary,
    format_unfinished_message,
)
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, PandoError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName
from sql.mutations.mutation import Mutation

logger = logging.getLogger(__name__)

_IDLE_SECONDS, _NONE_SECONDS = 60.0, 600.0
"""With mutations, which a lost part may undo, and without any. A watch wakes the step."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.5
"""While something is to be done that nobody tells of: a block that is being committed elsewhere."""
_POLL_SECONDS = 0.02
_MOST_POLL_SECONDS = 0.5
"""Of other replicas, whom every look costs ZooKeeper requests."""
_ATTEMPTS = 20
_MOST_IN_QUEUE = 8
_MOST_IN_ONE_ENTRY = 10_000


class LogReader(Protocol):
    """The log, as this replica takes it over."""

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue."""


class ColumnsVersionSource(Protocol):
    def columns_version(self, keeper: Keeper) -> int | None:
        """The version of the node that has the columns, when this replica works with them; else ``None``."""


class MutationFailures(Protocol):
    def failure(self, mutation_id: str) -> MutationFailure: ...


class ReplicatedMutations:
    """Implements ``engine.tables.capabilities.table_mutations.TableMutations``."""

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
        self.task = state.make_task("mutations", self.step)
        self._has_news = threading.Event()
        """A mutation may have come or gone, or another session may have begun."""
        self._finished = ""
        """The last that is done here, and all before it are."""
        self._to_do: deque[PartName] = deque()
        """Parts on this disk that had something before them when all were last looked at. Only the step uses it."""
        self._compared_at = -math.inf
        """When the mutations that are done were last compared with all parts."""

    # -- statements -----------------------------------------------------------------------------------------------

    def add(self, mutation: Mutation, options: MutationOptions) -> str:
        """Also raises 36 for what may differ between replicas, 48 beside replicas of an older version, 242, 999."""
        if not options.may_differ and (what := mutation.nondeterministic()):
            raise _not_deterministic(what)
        for _ in range(_ATTEMPTS):
            options.status.check()
            entry = self._create(mutation)
            if entry is not None:
                break
        else:
            raise ConflictError("CANNOT_ASSIGN_ALTER", "Others keep changing the table; repeat the mutation")
        self.note_news()
        if options.sync:
            with report_as_unfinished(f"Mutation {entry.mutation_id} is kept"):
                self._wait(entry.mutation_id, options)
        return entry.mutation_id

    def _create(self, mutation: Mutation) -> MutationEntry | None:
        """``None``: others got ahead."""
        state = self._state
        with state.working() as (keeper, _), state.restart_on_leaked_number():
            keeper.sync(state.paths.root)
            columns_version = self._definition.columns_version(keeper)
            if columns_version is None:
                return None
            mutation.check(state.description)
            self._log.pull(keeper)
            return create_mutation(
                keeper,
                state.replica,
                mutation.encode(),
                mutation.partition_ids,
                state.description.metadata_version,
                columns_version,
                first_number=self._first_number,
                clock=state.services.clock,
            )

    def _first_number(self, partition_id: str) -> int:
        return max((part.max_block + 1 for part in self._state.queue.virtual_parts_of(partition_id)), default=0)

    def kill(self, id: str) -> bool:
        state = self._state
        with state.working() as (keeper, _):
            if id <= self._finished or not id.isdecimal() or not kill_mutation(keeper, state.paths, id):
                return False
            state.mutations.load(keeper)
        state.queue.retry_entries_of_mutations([id])
        self._wake_execution()
        self.task.wake()
        return True

    def shown(self) -> list[MutationSummary]:
        state, parts = self._state, sorted({*self._parts()})
        running = [item.entry for item in state.queue.entries() if item.is_executing]
        found = []
        for entry in state.mutations.current.mutations:
            is_done = entry.mutation_id <= self._finished
            found.append(
                MutationSummary(
                    id=entry.mutation_id,
                    mutation=Mutation.decode(entry.text),
                    create_time=entry.create_time,
                    numbers=entry.numbers,
                    parts_to_do=[] if is_done else entry.parts_to_change(parts),
                    parts_in_progress=[e.source_parts[0] for e in running if entry.mutation_id in e.mutations],
                    is_done=is_done,
                    failure=MutationFailure() if is_done else self._failures.failure(entry.mutation_id),
                )
            )
        return found

    # -- waiting --------------------------------------------------------------------------------------------------

    def _wait(self, id_: str, options: MutationOptions) -> None:
        state = self._state
        deadline = state.services.monotonic() + options.timeout_seconds
        pause = _POLL_SECONDS
        while behind := self._behind(id_, everywhere=options.sync > 1):
            options.status.check()
            failure = self._failures.failure(id_)
            if failure.part:
                raise UnknownOutcomeError("UNFINISHED", format_unfinished_message(id_, failure))
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED",
                    f"Mutation {id_} is kept, but replicas {', '.join(behind)} have not carried it out yet; they will",
                )
            state.sleep(pause)
            if id_ <= self._finished:
                pause = min(1.5 * pause, _MOST_POLL_SECONDS)

    def _behind(self, id_: str, *, everywhere: bool) -> list[str]:
        """Active replicas that are not done with it. Raises 341 when it was killed."""
        state = self._state
        if id_ > self._finished:
            if state.mutations.current.get(id_) is None and state.activation is not None:
                with state.working() as (keeper, _):
                    if state.mutations.load(keeper).get(id_) is None and id_ > read_mutation_pointer(
                        keeper, state.replica
                    ):
                        raise UnknownOutcomeError("UNFINISHED", f"Mutation {id_} was killed")
            return [state.replica.name]
        if not everywhere:
            return []
        with state.working() as (keeper, _):
            return [name for name, pointer in read_mutation_pointers(keeper, state.paths).items() if pointer < id_]

    # -- in the background ----------------------------------------------------------------------------------------

    def step(self) -> float:
        state = self._state
        if state.activation is None or state.is_session_expired:
            return _IDLE_SECONDS
        try:
            with state.working() as (keeper, _):
                return self._step(keeper)
        except PandoError as error:
            self._has_news.set()
            logger.info("the mutations of %s are looked at later: %s", state.definition.full_name, error)
            return _RETRY_SECONDS

    def _step(self, keeper: Keeper) -> float:
        state = self._state
        if self._has_news.is_set():
            self._has_news.clear()
            state.mutations.load(keeper, lambda _: self.note_news())
            self._finished = read_mutation_pointer(keeper, state.replica)
        known = state.mutations.current
        is_stopped, now = StoppableAction.MERGES in state.stopped, state.services.monotonic()
        if now - self._compared_at >= _LOOK_SECONDS or not self._to_do:
            self._compared_at = now
            self._step_back(keeper, known)
        if is_stopped or not self._to_do:
            if not known.unfinished(self._finished):
                return _IDLE_SECONDS if known.mutations else _NONE_SECONDS
            self._to_do = deque(part for part in state.queue.virtual_parts() if self._next_of(part))
        if self._to_do:
            if not is_stopped and self._has_room:
                self._assign(keeper)
        elif known.finished_up_to(self._finished, {}, self._parts()) > self._finished:
            self._finished = advance_mutation_pointer(
                keeper, state.replica, state.mutations, self._finished, lambda: self._pulled_parts(keeper)
            )
        return _LOOK_SECONDS if state.mutations.current.unfinished(self._finished) else _IDLE_SECONDS

    def _step_back(self, keeper: Keeper, known: MutationSet) -> None:
        """A mutated part was lost, and an older version of it is there again: its mutations are not done any more."""
        state = self._state
        finished = known.finished_before_loss(self._finished, self._parts())
        if finished < self._finished:
            logger.warning(
                "parts of %s lack mutations behind %r again, which are carried out anew",
                state.definition.full_name, finished,
            )  # fmt: skip
            keeper.set(state.replica.mutation_pointer, finished.encode())
            self._finished = finished

    def note_news(self) -> None:
        self._has_news.set()
        self.task.wake()

    def _pulled_parts(self, keeper: Keeper) -> list[PartName]:
        self._log.pull(keeper)
        return self._parts()

    def _parts(self) -> list[PartName]:
        """What is active here or is to come. An entry leaves the queue when its part is active, so the queue comes
        first."""
        state = self._state
        return [*state.queue.parts_to_come(), *(part.name for part in state.store.active())]

    @property
    def _room(self) -> int:
        return _MOST_IN_QUEUE - self._state.queue.count(EntryType.MUTATE_PART)

    @property
    def _has_room(self) -> bool:
        """For several entries: what one assignment asks of ZooKeeper is shared by them."""
        return self._room >= _MOST_IN_QUEUE // 2

    def note_made(self) -> None:
        """The part of an entry is here: perhaps there is room for more, or all is done."""
        if self._has_room:
            self.task.wake()

    def _next_of(self, part: PartName) -> list[MutationEntry]:
        """Of a part on this disk."""
        state = self._state
        if state.store.get_active(part) is None:
            return []
        version = state.description.metadata_version
        return state.mutations.current.next_mutations(part, version, _MOST_IN_ONE_ENTRY)

    def _assign(self, keeper: Keeper) -> None:
        """Of the parts that are to be mutated as many as have room in the queue. What cannot be assigned now is found
        again when the others are."""
        state = self._state
        predicate = read_merge_predicate(
            keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load, ()
        )
        room = self._room
        entries: list[LogEntry] = []
        while self._to_do and len(entries) < room:
            part = self._to_do.popleft()
            mutations, source = self._next_of(part), state.store.get_active(part)
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


def _not_deterministic(what: str) -> UserError:
    """As in ClickHouse, whose messages tell the two apart."""
    if what == "a subquery":
        text = "ALTER UPDATE/ALTER DELETE statement with subquery may be nondeterministic"
    else:
        text = (
            "The source storage is replicated so ALTER UPDATE/ALTER DELETE statements must use only deterministic "
            f"functions: {what} is non-deterministic"
        )
    return UserError("BAD_ARGUMENTS", f"{text}, see allow_nondeterministic_mutations setting")
