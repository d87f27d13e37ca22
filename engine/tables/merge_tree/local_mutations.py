"""Runs the mutations of a table of one server, stored as ``mutation_<number>.txt``, part by part.

A mutation takes a block number like an INSERT, so it tells older rows from later ones. A part's *version* is the number
of the last mutation applied to it, or its first block. A mutation with a larger number that may change the part's
partition is still to be applied to it, together with all other such mutations.

Invariants:

- A mutation's number is taken before its file is written, and its file is durable before the mutation is acknowledged.
- Its parts are replaced one by one, each by a commit like a merge's. A kill leaves every part as before or as after,
  and a start goes on with the others.
- A merge combines only parts that wait for the same mutations (:meth:`MergeTreeMutations.waiting`).
- A mutation is done when no part is left, and no INSERT with a smaller number is about to commit.
- Subqueries see the tables as they were when the mutation was made, or at the start after. All parts are mutated with
  the same rows, never with rows that the mutation itself has changed.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from engine.tables.capabilities.table_mutations import (
    MutationFailure,
    MutationOptions,
    MutationSummary,
    format_unfinished_message,
)
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.merge_tree.kept_mutations import StoredMutation, TableSnapshot, load_mutations, select_pending
from engine.tables.merge_tree.part_replacement import PartReservations, replace_parts
from engine.tables.merges.mutation_execution import FindTable, mutate_to_temporary
from engine.tables.stopped_actions import StoppableAction, StoppedActions
from engine.tables.table_data import TableData
from parts.common.errors import (
    CancelledError,
    ConflictError,
    CorruptionError,
    PandoError,
    UnavailableError,
    UserError,
)
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.format.hashed_file import sync_directory
from parts.read.part_reader import Part
from sql.definitions.alter.column_changes import refuse_conflicting_mutations
from sql.mutations.mutation import Mutation

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
"""How often a waiting statement checks for cancellation and for the end of an INSERT."""
_FIRST_RETRY_SECONDS = 0.5


class MutatedTable(TableData, Protocol):
    """A table whose work can be stopped."""

    is_stopping: threading.Event
    stopped: StoppedActions

    def report_corruption(self, error: CorruptionError) -> None:
        """Detaches the broken part."""


class MergeTreeMutations:
    """The mutations of one table.

    ``wake`` makes :meth:`step` run soon. Implements ``engine.tables.capabilities.table_mutations.TableMutations``.
    """

    def __init__(
        self,
        table: MutatedTable,
        numbers: BlockNumbers,
        reservations: PartReservations,
        find_table: FindTable,
        wake: Callable[[], None],
    ) -> None:
        self._table = table
        self._numbers = numbers
        self._reservations = reservations
        self._find_table = find_table
        self._wake = wake
        self._lock = threading.Lock()
        self._deciding = threading.Lock()
        """Held while a part is committed or a mutation killed: a killed mutation commits nothing more."""
        self._kept: list[StoredMutation] = []
        """In the order of their numbers."""
        self._in_progress: PartName | None = None
        self._agenda: list[PartName] = []
        """Parts that :meth:`step` has still to visit in this round; the next one is last."""

    def load(self) -> int:
        """Reads the mutations from disk; returns the largest number."""
        self._kept = load_mutations(self._table.store.path)
        return max((kept.number for kept in self._kept), default=0)

    # -- statements

    def add(self, mutation: Mutation, options: MutationOptions) -> str:
        """Stores a mutation and starts it; waits for it if ``options.sync``.

        Raises 341 (UNFINISHED) if it fails while waited for, and 692 (TOO_MANY_MUTATIONS).
        """
        table = self._table
        most = table.definition.settings.number_of_mutations_to_throw
        if most and sum(not kept.finish_time for kept in self._all()) >= most:
            raise UnavailableError(
                "TOO_MANY_MUTATIONS",
                f"Too many unfinished mutations in table {table.definition.full_name}, "
                f"number_of_mutations_to_throw = {most}; wait, or kill those that fail",
            )
        with self._numbers.allocate(1) as numbers:
            kept = StoredMutation(numbers[0], mutation, table.services.clock())
            kept.write(table.store.path)
            table.services.failpoint("mutation.after_file")
            with self._lock:
                self._kept = sorted([*self._kept, kept], key=lambda each: each.number)
            self._hold_read_tables(kept)
        self._wake()
        if options.sync:
            self._wait(kept, options.status)
        return kept.id

    def kill(self, id: str) -> bool:
        """Stops a mutation; returns ``False`` for an unknown or finished one."""
        with self._deciding:
            kept = next((kept for kept in self._all() if kept.id == id), None)
            if kept is None or self._is_done(kept):
                return False
            kept.is_killed = True
        kept.changed.set()
        self._forget([kept])
        sync_directory(self._table.store.path)  # a killed mutation must not come back
        self._wake()
        return True

    def shown(self) -> list[MutationSummary]:
        """Returns the mutations in their order."""
        found = []
        asked = self._progress()
        for kept in self._all():
            is_done = kept.is_done(*asked)
            left = self._list_remaining_parts(kept) if not is_done else []
            failed = None if is_done else self._find_blocking_failure(kept)
            running = [name for name in left if name == self._in_progress]
            found.append(
                MutationSummary(
                    kept.id, kept.mutation, kept.create_time, {"": kept.number}, left, running, is_done,
                    kept.is_killed, kept.finish_time, MutationFailure() if failed is None else failed.failure,
                )
            )  # fmt: skip
        return found

    def refuse_conflicting_columns(self, touched: frozenset[str]) -> None:
        """Raises 36 if an unfinished mutation names one of the columns."""
        asked = self._progress()
        refuse_conflicting_mutations(
            ((kept.id, kept.mutation) for kept in self._all() if not kept.is_done(*asked)), touched
        )

    def _wait(self, kept: StoredMutation, status: QueryStatus) -> None:
        """Waits until the mutation is done. Raises 341 (UNFINISHED) if it fails or is killed."""
        services = self._table.services
        while not self._is_done(kept):
            status.check()
            if kept.is_killed:
                raise UnavailableError("UNFINISHED", f"Mutation {kept.id} was killed")
            failed = self._find_blocking_failure(kept)
            if failed is not None:
                raise UnavailableError("UNFINISHED", format_unfinished_message(failed.id, failed.failure))
            services.wait(kept.changed, _POLL_SECONDS)
            kept.changed.clear()
            if self._table.is_stopping.is_set():
                raise UnavailableError("ABORTED", "The table is being stopped; the mutation goes on after its start")

    def _find_blocking_failure(self, kept: StoredMutation) -> StoredMutation | None:
        """Returns the first failed mutation that delays parts of this one; perhaps this one itself."""
        elders = [each for each in self._all() if each.failures and each.number <= kept.number]
        left = set(self._list_remaining_parts(kept)) if elders else set()
        return next((each for each in elders if left.intersection(self._list_remaining_parts(each))), None)

    # -- merges

    def waiting(self) -> Callable[[PartName], int]:
        """Returns a function that counts the mutations a part waits for.

        Parts of one partition with the same count wait for the same mutations: the last ones.
        """
        kept = self._all()
        return lambda name: len(select_pending(kept, name))

    def find_next(self, name: PartName) -> str | None:
        """Returns the id of the next mutation that a part needs, ``None`` for none."""
        pending = select_pending(self._all(), name)
        return pending[0].id if pending else None

    @property
    def has_failed(self) -> bool:
        """Tells whether a mutation fails, so that parts may wait for long."""
        return any(kept.failures for kept in self._all())

    # -- execution

    def step(self) -> float | None:
        """Applies mutations to one part.

        Returns the seconds until the next attempt, or ``None`` if nothing is left. Each round looks at all parts once,
        then visits those that have work.
        """
        if all(kept.finish_time for kept in self._all()):
            return None  # the usual case after an INSERT
        now = self._table.services.monotonic()
        delay: float | None = None
        is_anew = not self._agenda
        if is_anew:
            kept = self._all()
            names = [part.name for part in self._table.store.list_active()]
            self._agenda = [name for name in reversed(names) if select_pending(kept, name)]
        while self._agenda:
            name = self._agenda.pop()
            waiting = select_pending(self._all(), name) if self._table.store.get_active(name) is not None else []
            if not waiting:
                continue
            # A failing mutation must not delay earlier ones. One with subqueries runs alone, after the earlier ones.
            waiting = list(itertools.takewhile(_may_share, waiting)) or waiting[:1]
            if waiting[0].retry_at > now:
                delay = min(delay or waiting[0].retry_at - now, waiting[0].retry_at - now)
                continue
            try:
                with self._reservations.reserve([name]):
                    self._mutate(name, waiting)
                return 0.0
            except ConflictError as conflict:  # the part is being merged, or was dropped
                logger.info("mutation of part %s put off: %s", name, conflict)
                delay = min(delay or _FIRST_RETRY_SECONDS, _FIRST_RETRY_SECONDS)
        if not is_anew:
            return 0.0  # other parts may have come meanwhile
        self._record_finished()
        return delay

    def clean_up(self) -> None:
        """Removes the oldest finished mutations beyond ``finished_mutations_to_keep``."""
        self._record_finished()
        done = [kept for kept in self._all() if kept.finish_time]
        self._forget(done[: max(0, len(done) - self._table.definition.settings.finished_mutations_to_keep)])

    def _mutate(self, name: PartName, mutations: Sequence[StoredMutation]) -> None:
        table = self._table
        result = PartName(name.partition_id, name.min_block, name.max_block, name.level, mutations[-1].number)
        self._in_progress = name
        try:
            with table.store.hold_active([name]) as held:
                if not held.parts:
                    raise ConflictError("ABORTED", f"Part {name} has gone")
                (source,) = held.parts
                directory = self._run_mutations(source, mutations, result)
                self._commit(directory, result, name, mutations)
                table.services.failpoint("mutation.after_commit")
            for kept in mutations:
                if kept.failure.part == str(name):
                    kept.failures, kept.failure, kept.retry_at = 0, MutationFailure(), 0.0
        except CancelledError:
            if table.is_cancelled():
                raise
        except ConflictError:
            raise
        except (PandoError, OSError, MemoryError) as error:
            if isinstance(error, CorruptionError):
                table.report_corruption(error)
            if isinstance(error, UserError) and len(mutations) > 1:
                self._mutate(name, mutations[: len(mutations) // 2])  # find out which of them fails
            else:
                self._record_failure(name, mutations, error)
        finally:
            self._in_progress = None

    def _commit(self, directory: Path, result: PartName, name: PartName, mutations: Sequence[StoredMutation]) -> None:
        with self._deciding:
            if any(kept.is_killed for kept in mutations):
                self._table.store.drop_temporary(directory)
                raise CancelledError(f"Mutation of part {name} was killed")
            replace_parts(self._table.store, directory, result, [name])

    def _run_mutations(self, source: Part, mutations: Sequence[StoredMutation], result: PartName) -> Path:
        table = self._table
        read = self._hold_read_tables(mutations[0])
        known = self._all()

        def is_killed() -> bool:
            nonlocal known
            if self._all() is known:  # unchanged since the last check
                return False
            known = self._all()
            return any(kept.is_killed for kept in mutations)

        return mutate_to_temporary(
            table,
            source,
            [kept.mutation for kept in mutations],
            result,
            lambda database, name: read.get((database, name)),
            is_cancelled=lambda: table.is_cancelled() or StoppableAction.MERGES in table.stopped or is_killed(),
        )

    def _hold_read_tables(self, kept: StoredMutation) -> Mapping[tuple[str, str], TableSnapshot]:
        with self._lock:
            if kept.reads is None:
                found = ((name, self._find_table(*name)) for name in kept.mutation.tables)
                kept.reads = {
                    name: TableSnapshot(table.definition, table.snapshot())
                    for name, table in found
                    if table is not None
                }
            return kept.reads

    def _record_failure(self, name: PartName, mutations: Sequence[StoredMutation], error: Exception) -> None:
        services = self._table.services
        most = self._table.definition.settings.max_postpone_time_for_failed_mutations_ms / 1000
        for kept in mutations:
            delay = min(_FIRST_RETRY_SECONDS * 2 ** min(kept.failures, 30), most)
            kept.failures += 1
            kept.failure = MutationFailure.of(name, error, services.clock())
            kept.retry_at = services.monotonic() + delay
        for kept in self._all():
            if kept.number >= mutations[0].number:
                kept.changed.set()
        ids = ", ".join(kept.id for kept in mutations)
        logger.warning("table %s: %s failed on part %s: %s", self._table.definition.full_name, ids, name, error)

    # -- progress

    def _all(self) -> list[StoredMutation]:
        with self._lock:
            return self._kept

    def _list_remaining_parts(self, kept: StoredMutation) -> list[PartName]:
        store = self._table.store
        return sorted(part.name for part in (*store.list_active(), *store.list_preactive()) if kept.is_for(part.name))

    def _is_done(self, kept: StoredMutation) -> bool:
        return kept.is_done(*self._progress())

    def _progress(self) -> tuple[int, dict[str, int]]:
        """Returns the arguments of :meth:`StoredMutation.is_done`.

        Pending blocks are read first, so that a block is either pending or among the parts.
        """
        first_pending, store = self._numbers.first_pending(), self._table.store
        least: dict[str, int] = {}
        for part in (*store.list_active(), *store.list_preactive()):
            partition, version = part.name.partition_id, part.name.data_version
            least[partition] = min(version, least.get(partition, version))
        return first_pending, least

    def _record_finished(self) -> None:
        if all(kept.finish_time for kept in self._all()):
            return
        asked = self._progress()
        for kept in self._all():
            if not kept.finish_time and kept.is_done(*asked):
                kept.finish_time = self._table.services.clock()
                kept.release()
                kept.changed.set()

    def _forget(self, gone: Iterable[StoredMutation]) -> None:
        gone = set(gone)
        with self._lock:
            self._kept = [kept for kept in self._kept if kept not in gone]
        for kept in gone:
            kept.release()
            (self._table.store.path / kept.id).unlink(missing_ok=True)


def _may_share(kept: StoredMutation) -> bool:
    """Tells whether the mutation may be applied in one rewrite with others."""
    return not kept.failures and not kept.mutation.tables
