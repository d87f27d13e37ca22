"""Mutations of a replicated table: kept in ZooKeeper, assigned part by part, waited for.

``coordination.mutations`` has the nodes and ``coordination.mutation_set`` the decisions. Every replica watches
``mutations``; while one is not done here the step assigns what nobody else has assigned, of the parts that are on this
disk, and looks whether all is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from coordination.keeper import Keeper
from coordination.log_entry import EntryType
from coordination.merge_assignment import assign_merges, mutation_entry
from coordination.merge_predicate import MergePredicate, build_predicate
from coordination.mutation_set import MutationEntry
from coordination.mutations import advance_pointer, create_mutation, kill_mutation, pointers, read_pointer
from engine.tables.afterwards import afterwards
from engine.tables.mutations import MutationFailure, MutationOptions, ShownMutation, unfinished_text
from engine.tables.replicated.state import ReplicaState
from engine.tables.stopped import Stoppable
from parts.errors import ConflictError, PandoError, UnknownOutcomeError, UserError
from parts.part_name import PartName
from sql.definitions.mutations import Mutation

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0
"""A watch wakes the step."""
_RETRY_SECONDS = 1.0
_LOOK_SECONDS = 0.5
"""While something is to be done that nobody tells of: a block that is being committed elsewhere."""
_POLL_SECONDS = 0.02
_ATTEMPTS = 20
_MOST_IN_QUEUE = 8
_MOST_IN_ONE_ENTRY = 10_000


class Log(Protocol):
    """The log, as this replica takes it over."""

    def pull(self, keeper: Keeper) -> None:
        """Everything that is in the log now enters the queue."""


class Definition(Protocol):
    def columns_version(self, keeper: Keeper) -> int | None:
        """Of the node that has the columns, when they are those that this replica works with; else ``None``."""


class Failures(Protocol):
    def failure(self, mutation_id: str) -> MutationFailure: ...


class ReplicatedMutations:
    """Implements ``engine.tables.mutations.TableMutations``."""

    def __init__(
        self,
        state: ReplicaState,
        log: Log,
        definition: Definition,
        failures: Failures,
        wake_execution: Callable[[], None],
    ) -> None:
        self._state = state
        self._log = log
        self._definition = definition
        self._failures = failures
        self._wake_execution = wake_execution
        self.task = state.make_task("mutations", self.step)
        self._finished = ""
        """The last that is done here, and all before it are."""

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
        self._on_news("")
        if options.sync:
            with afterwards(f"Mutation {entry.mutation_id} is kept"):
                self._wait(entry.mutation_id, options)
        return entry.mutation_id

    def _create(self, mutation: Mutation) -> MutationEntry | None:
        """``None``: others got ahead."""
        state = self._state
        with state.working() as (keeper, _), state.releasing_numbers():
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
        return max((part.max_block + 1 for part in self._state.queue.virtual_parts().parts(partition_id)), default=0)

    def kill(self, id: str) -> bool:
        state = self._state
        with state.working() as (keeper, _):
            if id <= self._finished or not id.isdecimal() or not kill_mutation(keeper, state.paths, id):
                return False
            state.mutations.load(keeper)
        state.queue.try_now([id])
        self._wake_execution()
        self.task.wake()
        return True

    def shown(self) -> list[ShownMutation]:
        state, parts = self._state, self._parts()
        running = [item.entry for item in state.queue.entries() if item.is_executing]
        found = []
        for entry in state.mutations.current.mutations:
            is_done = entry.mutation_id <= self._finished
            found.append(
                ShownMutation(
                    id=entry.mutation_id,
                    mutation=Mutation.decode(entry.text),
                    create_time=entry.create_time,
                    numbers=entry.numbers,
                    parts_to_do=[] if is_done else entry.parts_to_do(parts),
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
        while behind := self._behind(id_, everywhere=options.sync > 1):
            options.status.check()
            failure = self._failures.failure(id_)
            if failure.part:
                raise UnknownOutcomeError("UNFINISHED", unfinished_text(id_, failure))
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED",
                    f"Mutation {id_} is kept, but replicas {', '.join(behind)} have not carried it out yet; they will",
                )
            state.sleep(_POLL_SECONDS)

    def _behind(self, id_: str, *, everywhere: bool) -> list[str]:
        """Active replicas that are not done with it. Raises 341 when it was killed."""
        state = self._state
        if id_ > self._finished:
            if state.mutations.current.get(id_) is None and state.activation is not None:
                with state.working() as (keeper, _):
                    if state.mutations.load(keeper).get(id_) is None and id_ > read_pointer(keeper, state.replica):
                        raise UnknownOutcomeError("UNFINISHED", f"Mutation {id_} was killed")
            return [state.replica.name]
        if not everywhere:
            return []
        with state.working() as (keeper, _):
            return [name for name, pointer in pointers(keeper, state.paths).items() if pointer < id_]

    # -- in the background ----------------------------------------------------------------------------------------

    def step(self) -> float:
        state = self._state
        if state.activation is None:
            return _IDLE_SECONDS
        try:
            with state.working() as (keeper, _):
                return self._step(keeper)
        except PandoError as error:
            logger.info("the mutations of %s are looked at later: %s", state.definition.full_name, error)
            return _RETRY_SECONDS

    def _step(self, keeper: Keeper) -> float:
        state = self._state
        known = state.mutations.load(keeper, self._on_news)
        self._finished = read_pointer(keeper, state.replica)
        if not known.unfinished(self._finished):
            return _IDLE_SECONDS
        if Stoppable.MERGES not in state.stopped and self._may_assign():
            self._assign(keeper)
        self._finished = advance_pointer(
            keeper, state.replica, state.mutations, self._finished, lambda: self._pulled_parts(keeper)
        )
        return _LOOK_SECONDS if state.mutations.current.unfinished(self._finished) else _IDLE_SECONDS

    def _on_news(self, _: str) -> None:
        self.task.wake()

    def _pulled_parts(self, keeper: Keeper) -> list[PartName]:
        self._log.pull(keeper)
        return self._parts()

    def _parts(self) -> list[PartName]:
        """What is active here or is to come. An entry leaves the queue when its part is active, so the queue comes
        first."""
        state = self._state
        return sorted({*state.queue.parts_to_come(), *(part.name for part in state.store.active())})

    def _room(self) -> int:
        return _MOST_IN_QUEUE - self._state.queue.count(EntryType.MUTATE_PART)

    def _may_assign(self) -> bool:
        """Spares ZooKeeper the predicate's questions."""
        return self._room() > 0 and any(map(self._next_of, self._state.queue.virtual_parts()))

    def _next_of(self, part: PartName) -> list[MutationEntry]:
        """Of a part on this disk."""
        state = self._state
        if state.store.get_active(part) is None:
            return []
        version = state.description.metadata_version
        return state.mutations.current.next_of(part, version, _MOST_IN_ONE_ENTRY)

    def _assign(self, keeper: Keeper) -> None:
        state = self._state
        predicate = build_predicate(
            keeper, state.paths, state.queue, lambda: self._log.pull(keeper), state.mutations.load
        )
        entries = [
            mutation_entry(
                part,
                mutations,
                state.replica.name,
                state.services.clock(),
                metadata_version=state.description.metadata_version,
                rows=source.rows,
                size_bytes=source.bytes_on_disk,
            )
            for part, mutations in self._free(predicate)
            if (source := state.store.get_active(part)) is not None
        ]
        if entries and assign_merges(keeper, state.paths, predicate.log_version, entries[: self._room()]):
            self._log.pull(keeper)

    def _free(self, predicate: MergePredicate) -> Collection[tuple[PartName, Sequence[MutationEntry]]]:
        """Parts that have something before them, and may be replaced now."""
        return [
            (part, mutations)
            for part in predicate.snapshot
            if (mutations := self._next_of(part)) and predicate.why_not_single(part) is None
        ]


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
