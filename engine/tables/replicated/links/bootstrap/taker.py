"""Takes the parts of a link's source in the place of what the table has, whole or not at all.

1. Rounds of copying, each of a later place F, while everything goes on. Copies lie in ``staged/``, where they outlive
   errors and restarts; a part that has come once is not fetched again.
2. When little is left, a bar closes the table: own commits are refused, other links wait. F is taken anew, and what
   differs is copied.
3. One multi commits the log entry, the vector, the ids and the link's place, and takes the bar away. Every replica
   carries the entry out as one exchange.

A crash in 1 leaves copies, in 2 copies and the bar, after 3 nothing to do. The bar is taken away by the next
:meth:`BootstrapTaker.clean_up`. Whoever made it before cannot commit then, because the multi expects the gate as it
was.

Invariants:

- The table is closed from the moment at which its vector and its rows are examined until the commit.
- The multi expects the versions of the vector, the gate and the link's definition. So a link that was disabled, changed
  or dropped, or that another server runs, is not given a place.
- Copies that a queued log entry names are left alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coordination.links.bootstrap_plan import (
    CopyPlan,
    HeldPart,
    HeldTable,
    bootstrap_bar_owner,
    explain_missing,
    is_little_left,
    plan_copy,
)
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_settings import LinkSettings
from coordination.nodes.gate import Bar, KeptOut
from coordination.nodes.table_gate import move_gate
from engine.tables.capabilities.table_bootstrap import BootstrapProgress, BootstrapReport, HeldSource
from engine.tables.replicated.links.bootstrap.commit import BootstrapCommit, ClosedTable, ReadyCopies
from engine.tables.replicated.links.bootstrap.copies import BootstrapCopies
from engine.tables.replicated.links.bootstrap.copy_writers import CopyWriter, choose_copy_writer
from engine.tables.replicated.links.carried_definitions import CarriedDefinitions
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import ConflictError, PandoError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import make_executor

logger = logging.getLogger(__name__)

LITTLE_BYTES = 64 * 1024 * 1024
"""With no more than this to fetch the table is closed."""
_FETCHES = 3
"""Parts that are fetched at a time."""
_LATER_ATTEMPTS = 5
_LATER_SECONDS = 0.5
"""How often, and after which pauses, a closed table asks for a later place of a source that lacks something."""


class BootstrapTaker:
    """Implements :class:`engine.tables.capabilities.table_bootstrap.BootstrapTaker` for one replica."""

    def __init__(
        self, state: ReplicaState, commit: BootstrapCommit, copies: BootstrapCopies, definitions: CarriedDefinitions
    ) -> None:
        self._state = state
        self._commit = commit
        self._copies = copies
        self._definitions = definitions
        self._running = threading.Lock()

    def bootstrap(
        self,
        link: LinkDefinition,
        source: HeldSource,
        status: QueryStatus,
        *,
        replaces: bool = False,
        note: Callable[[BootstrapProgress], object] = lambda progress: None,
    ) -> BootstrapReport:
        """Copies the source's table, whole or not at all, and gives the link its place."""
        if not self._running.acquire(blocking=False):
            raise ConflictError(
                "ABORTED", f"A bootstrap of {self._state.definition.full_name} is running already; ask again later"
            )
        try:
            self._commit.prepare(link, replaces=replaces)
            with self._copies.use(link.uuid) as staging:
                report = _Bootstrap(
                    self._state, self._commit, self._copies, self._definitions, staging, link, source, status, replaces,
                    note,
                ).run()  # fmt: skip
            self._copies.forget(link.uuid)
            return report
        finally:
            with suppress(PandoError):
                source.release()
            self._running.release()

    def clean_up(self, link_uuid: str) -> None:
        """Opens a table that a bootstrap of this link closed and did not open again."""
        with self._state.hold_write_access() as (keeper, _):
            owner = bootstrap_bar_owner(link_uuid)
            gate = self._state.gate.load(keeper)
            if gate is not None and any(bar.owner == owner for bar in gate.bars):
                move_gate(keeper, self._state.paths, lambda gate: gate.without_bar(owner))
                self._state.gate.load(keeper)

    def forget_copies(self, link_uuid: str) -> None:
        """Removes what was copied here for a link that needs it no more."""
        self._copies.forget(link_uuid)


@dataclass(frozen=True, slots=True)
class _Round:
    """One copy of the source, of one place F."""

    held: HeldTable
    writer: CopyWriter
    parts: tuple[HeldPart, ...]
    """Those that have rows to bring."""
    plan: CopyPlan


class _Bootstrap:
    """One bootstrap."""

    def __init__(
        self,
        state: ReplicaState,
        commit: BootstrapCommit,
        copies: BootstrapCopies,
        definitions: CarriedDefinitions,
        staging: str,
        link: LinkDefinition,
        source: HeldSource,
        status: QueryStatus,
        replaces: bool,
        note: Callable[[BootstrapProgress], object],
    ) -> None:
        self._state = state
        self._commit = commit
        self._link = link
        self._source = source
        self._status = status
        self._replaces = replaces
        self._note = note
        self._progress = BootstrapProgress()
        self._copies = copies
        self._definitions = definitions
        self._staging = staging
        self._lock = threading.Lock()
        self._fetched_bytes = 0

    def run(self) -> BootstrapReport:
        """Copies until little is left, closes the table, and commits."""
        while True:
            now = self._plan(self._hold())
            if is_little_left(now.plan.fetch_bytes, self._progress.rounds, LITTLE_BYTES):
                break
            self._copy(now)
        bar = Bar(bootstrap_bar_owner(self._link.uuid), KeptOut.ALL, reason=self._reason())
        try:
            with self._state.hold_write_access() as (keeper, _):
                move_gate(keeper, self._state.paths, lambda gate: gate.with_bar(bar))
            self._state.services.failpoint("bootstrap.after_bar")
            return self._copy_the_rest(bar)
        except BaseException:
            with suppress(PandoError):
                self._open_again(bar)
            raise

    def _hold(self) -> HeldTable:
        self._status.check()
        held = self._source.hold(self._status)
        self._state.services.failpoint("bootstrap.after_hold")
        return held

    def _reason(self) -> str:
        return (
            f"Table {self._state.definition.full_name} is being copied from its source by replication link "
            f"{self._link.name}; it takes no writes until that is done"
        )

    def _open_again(self, bar: Bar) -> None:
        with self._state.hold_write_access() as (keeper, _):
            move_gate(keeper, self._state.paths, lambda gate: gate.without_bar(bar.owner))

    def _copy_the_rest(self, bar: Bar) -> BootstrapReport:
        """Copies what F has that an earlier place had not, and commits. The table is closed."""
        self._progress.is_closed = True
        closed = self._commit.read_closed(self._link, bar)
        if not self._replaces and closed.rows:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {self._state.definition.full_name} has {closed.rows} rows, and link {self._link.name} would "
                "copy its source into an empty table. SYSTEM BOOTSTRAP REPLICATION LINK takes the place of what it "
                "has; the setting start_position of a link says what of the source it has already",
            )
        held = self._hold_what_covers(closed)
        last = self._plan(held)
        self._copy(last)
        self._state.services.failpoint("bootstrap.before_commit")
        copies = {part.name: self._copies.find(self._staging, part.key(last.writer.variant)) for part in last.parts}
        settings = LinkSettings.parse(self._link.settings)
        moves_ids = last.writer.keeps_partitions and settings.preserve_timestamps and not settings.two_way
        ready = ReadyCopies(held, copies, self._staging, moves_ids)
        ids_left_out = self._commit.commit(self._link, bar, closed, ready)
        if ids_left_out:
            logger.warning("%d ids of the oldest blocks of %s are left out", ids_left_out, self._link.source_table)
        return BootstrapReport(held.place, len(held.parts), ready.rows, self._fetched_bytes, ids_left_out)

    def _hold_what_covers(self, closed: ClosedTable) -> HeldTable:
        """Returns a held table that has everything that this one has.

        Raises 117 (INCORRECT_DATA) if the source does not get it in time.
        """
        for attempt in range(_LATER_ATTEMPTS):
            if attempt:
                self._state.sleep(_LATER_SECONDS)
            held = self._hold()
            missing = explain_missing(held, closed.vector, closed.own)
            if not missing:
                return held
        raise ConflictError(
            "INCORRECT_DATA",
            f"The source of link {self._link.name} cannot take the place of table "
            f"{self._state.definition.full_name}: {missing}. Copy the table from a cluster that has them, or wait "
            "until the source has got them",
        )

    # -- copying ------------------------------------------------------------------------------------------------------

    def _plan(self, held: HeldTable) -> _Round:
        if not self._progress.is_closed:
            self._definitions.follow_copied(self._link, held, self._status)
        with self._state.hold_write_access() as (keeper, _):
            fingerprint = self._commit.read_fingerprint(keeper)
        writer = choose_copy_writer(self._state, self._link, held, fingerprint)
        copied, active = self._copies.list_keys(self._staging), dict[tuple[str, str], PartName]()
        if writer.variant:  # a part without rows becomes none
            parts = tuple(part for part in held.parts if part.rows)
        else:
            parts = held.parts
            active = {
                (part.name.partition_id, part.content_hash): part.name
                for part in self._state.store.list_active()
                if part.metadata_version == self._state.description.metadata_version
            }
        return _Round(held, writer, parts, plan_copy(parts, copied, active, writer.variant))

    def _copy(self, now: _Round) -> None:
        """Brings all parts of F into the staging."""
        progress, plan = self._progress, now.plan
        progress.rounds += 1
        progress.parts, progress.parts_done = len(now.parts), len(plan.kept)
        progress.size_bytes, progress.bytes_done = plan.fetch_bytes, 0
        self._note(progress)
        fetched = list(plan.fetched)
        for part, active in plan.linked:
            if self._copies.link(self._staging, part, active):
                self._count(0)
            else:  # it was merged meanwhile
                fetched.append(part)
        with make_executor(_FETCHES, "bootstrap") as executor:
            futures: list[Future[None]] = [executor.submit(self._fetch, now, part) for part in fetched]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise
        self._copies.remove(self._staging, plan.surplus)
        self._state.services.failpoint("bootstrap.after_copy")

    def _fetch(self, now: _Round, part: HeldPart) -> None:
        self._status.check()

        def receive(directory: Path) -> None:
            self._source.fetch(now.held, part, directory, self._status)

        self._copies.fetch(self._staging, part, now.writer, receive)
        self._state.services.failpoint("bootstrap.after_part")
        self._count(part.file_bytes)

    def _count(self, size_bytes: int) -> None:
        with self._lock:
            self._fetched_bytes += size_bytes
            self._progress.parts_done += 1
            self._progress.bytes_done += size_bytes
            self._note(self._progress)
