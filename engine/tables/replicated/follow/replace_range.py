"""Executes REPLACE_RANGE: fetches new parts, exchanges them for old ones, updates ZooKeeper.

1. Every new part is brought to ``staged/``, unless a transaction staged it here. It stays there over failures and
   restarts.
2. ``PartStore.exchange`` replaces the parts in one step, for readers and over a restart.
3. The old parts leave ZooKeeper's list of this replica's parts, and the new ones enter it. Then the entry leaves the
   queue.

Invariants:

- The log entry is the decision: its parts may be active here before they are listed, with the entry's content hashes.
- Nothing else touches these blocks until the entry has left the queue (``coordination.log.queue_rules``).
- A part of a link's batch that no replica has any more is never given up: it is asked for again at the link's source.
- A part that a later drop covers is not fetched. A part that a later DETACH covers is fetched if possible. The replica
  that staged it has it, so it ends in some ``detached/``.
- Some entries run in one step, so that no reader sees a part of a transaction: entries of which only a common merged
  part is left, and an entry that drops parts of another. So does a drop for which one of them waits
  (``coordination.log.queue_rules.QueueRules.list_entries_to_join``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from coordination.drops.drop_partition import clear_drop_leftovers
from coordination.inserts.quorum import confirm_own_parts
from coordination.keeper.interface import Create, Keeper, KeeperConnectionLoss, MultiFailed, NodeExists
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.log_entry import LogEntry, StagedPart
from coordination.log.part_set import PartSet
from coordination.log.queue_rules import Action
from coordination.nodes.part_record import PartRecord
from coordination.nodes.replica_activation import read_addresses
from coordination.replicas.log_pull import read_listed_parts, remove_entries, unlist_parts
from coordination.replicas.part_commit import content_agreement_ops
from engine.tables.part_log import PartEventType
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.replicated.follow.transaction_versions import give_versions
from engine.tables.replicated.repair.lost_transactions import LostTransactionParts, LostTransactions
from engine.tables.replicated.replica_state import (
    ATTEMPTS_BEFORE_LOSS_CHECK,
    DETACHED_STAGING_PREFIX,
    ReplicaState,
    make_part_record,
)
from engine.tables.shown_groups.cut_order import NO_CUTS
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import CancelledError, ConflictError, CorruptionError, PandoError, UnavailableError
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.store.detached_parts import DETACHED, list_detached_by_users

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
RefetchPart = Callable[[LogEntry, StagedPart, Path], None]
"""Brings a part of a link's batch, which no replica has, from the link's source into an empty directory."""


class ReplaceRangeExecutor:
    """The REPLACE_RANGE entries of one replica."""

    def __init__(self, state: ReplicaState, fetcher: PartFetcher, lost: LostTransactions) -> None:
        self._state = state
        self._fetcher = fetcher
        self._lost = lost
        self.refetch: RefetchPart | None = None
        self.cuts = NO_CUTS

    def execute(self, keeper: Keeper, action: Action) -> None:
        """Executes an entry; may be repeated after a failure."""
        group = [action]
        try:
            self._execute(keeper, action, group)
        finally:
            for other in group[1:]:
                self._state.queue.postpone(other.name, f"It was begun together with {action.name}", pause_seconds=0.0)

    def _execute(self, keeper: Keeper, action: Action, group: list[Action]) -> None:
        """Executes the entry; ``group`` collects those that run in one step with it."""
        state, entry, losses = self._state, action.entry, dict[str, LostTransactionParts]()
        state.store.settle()  # a failed exchange may have to return its parts to staged/
        try:
            arrivals = self._fetch_all(keeper, group)
        except CancelledError:
            raise
        except PandoError:
            losses = self._find_losses(keeper, group)
            if not losses:
                raise
            for each in group:
                if (loss := losses.get(each.name)) is not None and loss.is_whole:
                    self._lost.give_up(keeper, each, loss)
                    return  # without it the others may be no group
            arrivals = self._fetch_all(keeper, group, {part for loss in losses.values() for part in loss.parts})
            for each in group:
                if each.name in losses:
                    self._lost.record_loss(keeper, each.entry, losses[each.name])
        if arrivals is None:
            state.queue.postpone(action.name, "Another entry that is one step with it may not run", pause_seconds=0.1)
            return
        if not self.cuts.admit(keeper, [each.entry for each in group]):
            state.queue.postpone(action.name, "The cut before it is not shown yet", pause_seconds=0.05)
            return
        state.services.failpoint("exchange.before")
        gone = [dropped for each in group for dropped in each.entry.removed_ranges]
        self._keep_detached(group, arrivals)
        # Parts may have been fetched before an entry that drops them was known. It is behind theirs in the log, because
        # a commit below the number of a drop must take another number.
        arrivals = {name: place for name, place in arrivals.items() if not any(drop.covers(name) for drop in gone)}
        for dropped in gone:
            if any(each.entry.has_leftovers for each in group):
                clear_drop_leftovers(keeper, state.paths, dropped)
        give_versions([action.entry for action in group], arrivals, state.description.settings)
        if arrivals or gone:
            state.store.exchange(arrivals, lambda name: any(dropped.covers(name) for dropped in gone))
        for part in arrivals:
            state.queue.add_active(part)
            self._add_to_part_log(part, group)
        state.services.failpoint("exchange.after")
        self._update_listing(keeper, action, list(arrivals))
        remove_entries(
            keeper, state.replica, state.queue, [*state.queue.list_covered_entries(action.name), action.name]
        )
        self.cuts.note_done()
        state.store.staged.remove(entry.transaction)
        for part in losses[action.name].parts if action.name in losses else ():
            state.queue.remove_virtual(part)

    def _keep_detached(self, group: list[Action], arrivals: Mapping[PartName, Path]) -> None:
        """Copies to ``detached/`` the parts that a DETACH of the group drops, also those that arrive now.

        Parts that an earlier entry drops are left out.
        """
        dropped: list[PartName] = []
        for each in sorted(group, key=lambda action: action.name):
            if each.entry.detach:
                keep_detached(self._state, each.entry.removed_ranges, arrivals, dropped)
            dropped += each.entry.removed_ranges

    def _add_to_part_log(self, name: PartName, group: list[Action]) -> None:
        """Adds the new part to the part log."""
        part, services = self._state.store.get_active(name), self._state.services
        staged = [staged for action in group for staged in action.entry.replace_parts if staged.part == name]
        is_own = any(each.replica == self._state.replica.name for each in staged)
        if part is not None:
            kind = PartEventType.NEW if is_own else PartEventType.DOWNLOAD
            services.part_log.note(kind, self._state.definition, part, services.clock())

    def _find_losses(self, keeper: Keeper, group: list[Action]) -> dict[str, LostTransactionParts]:
        """Returns by entry the parts that no replica has any more.

        Entries that only joined the group are examined too: they are never tried alone.
        """
        if not self._may_be_lost(group[0]):
            return {}
        found = {action.name: self._find_loss(keeper, action) for action in group if not action.entry.is_batch}
        return {name: loss for name, loss in found.items() if loss is not None}

    def _may_be_lost(self, action: Action) -> bool:
        item = self._state.queue.get(action.name)
        return item is not None and item.num_tries >= ATTEMPTS_BEFORE_LOSS_CHECK

    def _find_loss(self, keeper: Keeper, action: Action) -> LostTransactionParts | None:
        state = self._state

        def is_here(staged: StagedPart) -> bool:
            place = state.store.staged.path(action.entry.transaction, staged.place)
            return state.store.covering_active(staged.part) is not None or (
                place.exists() and self._is_same(place, staged)
            )

        def ask(replica: str, staged: StagedPart) -> None:
            sources = self._find_staged_sources(keeper, action, staged, [replica])
            directory, _ = self._fetch(action, staged.part, staged, sources)
            state.store.staged.move_in(action.entry.transaction, [(directory, staged.place)])

        return self._lost.find_losses(keeper, action, is_here, ask)

    # -- new parts ------------------------------------------------------------------------------------------------

    def _fetch_all(
        self, keeper: Keeper, group: list[Action], lost: Collection[PartName] = ()
    ) -> dict[PartName, Path] | None:
        """Returns names and directories of all missing parts of the step; ``None`` if an entry cannot run now."""
        arrivals: dict[PartName, Path] = {}
        brought = PartSet()
        done = 0
        while True:
            more = self._state.queue.start_replacements_with([action.name for action in group], list(arrivals))
            if more is None:
                return None
            group += more
            if done == len(group):
                return arrivals
            for action in group[done:]:
                self._fetch_missing(keeper, action, lost, arrivals, brought)
            done = len(group)

    def _fetch_missing(
        self,
        keeper: Keeper,
        action: Action,
        lost: Collection[PartName],
        arrivals: dict[PartName, Path],
        brought: PartSet,
    ) -> None:
        """Brings the missing parts of one entry. A covering part replaces one that nobody has any more."""
        state = self._state
        for staged in action.entry.replace_parts:
            taker = state.queue.find_later_removal(action.name, staged.part)
            if staged.part in lost or (taker is not None and not taker.detach):
                continue
            if state.store.covering_active(staged.part) is not None or brought.find_covering(staged.part) is not None:
                continue
            try:
                name, directory = self._fetch_part(keeper, action, staged)
            except CancelledError:
                raise
            except PandoError:
                if taker is None:
                    raise
                continue  # the replica that has it moves it to ``detached/``, or has done so
            for covered in brought.remove_covered(name):
                del arrivals[covered]
            brought.add(name)
            arrivals[name] = directory

    def _fetch_part(self, keeper: Keeper, action: Action, staged: StagedPart) -> tuple[PartName, Path]:
        state = self._state
        place = state.store.staged.path(action.entry.transaction, staged.place)
        if place.exists() and self._is_same(place, staged):
            return staged.part, place
        if staged.place.startswith(DETACHED_STAGING_PREFIX) and self._stage_detached_copy(action, staged):
            return staged.part, place
        former = state.store.get(staged.part)
        if former is not None:  # outdated: left from an earlier table of this name
            state.store.delete([former])
        cover = state.queue.find_virtual_cover(staged.part)
        names = [staged.part] if cover is None or cover == staged.part else [staged.part, cover]
        failure: PandoError | None = None
        for name in names:
            sources = self._find_staged_sources(keeper, action, staged, [staged.replica]) if name == staged.part else []
            try:
                directory, _ = self._fetch(action, name, staged, [*sources, *self._fetcher.find_holders(keeper, name)])
            except CancelledError:
                raise
            except PandoError as error:
                failure = failure or error
                continue
            key = staged.place if name == staged.part else str(name)
            state.store.staged.move_in(action.entry.transaction, [(directory, key)])
            return name, state.store.staged.path(action.entry.transaction, key)
        assert failure is not None
        if not action.entry.is_batch or self.refetch is None or not self._may_be_lost(action):
            raise failure
        return self._refetch_part(self.refetch, action, staged)

    def _refetch_part(self, refetch: RefetchPart, action: Action, staged: StagedPart) -> tuple[PartName, Path]:
        """Asks the source of a link for a part that no replica has any more."""
        store = self._state.store
        directory = store.create_temporary("tmp_fetch_link_")
        try:
            refetch(action.entry, staged, directory)
            if not self._is_same(directory, staged):
                raise CorruptionError("The source sent another content than was committed", part=str(staged.part))
            store.staged.move_in(action.entry.transaction, [(directory, staged.place)])
        finally:
            store.drop_temporary(directory)
        return staged.part, store.staged.path(action.entry.transaction, staged.place)

    def _stage_detached_copy(self, action: Action, staged: StagedPart) -> bool:
        """Stages a copy from ``detached/`` with the same content, if there is one; tells whether."""
        store = self._state.store
        for name in list_detached_by_users(store.list_detached()):
            directory = store.path / DETACHED / str(name)
            if name.partition_id == staged.part.partition_id and self._is_same(directory, staged, every_byte=True):
                store.staged.move_in(action.entry.transaction, [(directory, staged.place)])
                return True
        return False

    def _is_same(self, place: Path, staged: StagedPart, *, every_byte: bool = False) -> bool:
        try:
            part = open_part(place, name=staged.part, table_schema=self._state.description.schema)
            if every_byte and part.content_hash == staged.content_hash:
                part.verify()
        except CorruptionError as error:
            logger.warning("a staged part of %s is broken here: %s", self._state.definition.full_name, error)
            return False
        return part.content_hash == staged.content_hash

    def _find_staged_sources(
        self, keeper: Keeper, action: Action, staged: StagedPart, replicas: list[str]
    ) -> list[FetchSource]:
        """Returns the other replicas that may have the part staged; all stage it at the same place."""
        others = [name for name in replicas if name != self._state.replica.name]
        known = read_addresses(keeper, self._state.paths, others)
        place = f"{action.entry.transaction}/{staged.place}"
        return [FetchSource(name, address.interserver_url, staged=place) for name, address in known.items()]

    def _fetch(
        self, action: Action, name: PartName, staged: StagedPart, sources: list[FetchSource]
    ) -> tuple[Path, FetchSource]:
        state = self._state
        state.stopped.refuse(StoppableAction.FETCHES, "Fetching of part was cancelled")
        if not sources:
            raise UnavailableError("NO_REPLICA_HAS_PART", f"No active replica has part {name} or a part covering it")
        with state.services.fetches.try_take() as is_taken:
            if not is_taken:
                raise UnavailableError("ABORTED", "background_fetches_pool_size parts are being fetched already")
            directory, source = self._fetcher.fetch_from(
                name,
                sources,
                lambda: (
                    state.is_cancelled()
                    or state.queue.is_cancelled(action.name)
                    or StoppableAction.FETCHES in state.stopped
                ),
            )
        if name == staged.part and not self._is_same(directory, staged):
            state.store.drop_temporary(directory)
            raise CorruptionError(
                f"Replica {source.replica_name} sent another content than was committed", part=str(name)
            )
        return directory, source

    # -- ZooKeeper ------------------------------------------------------------------------------------------------

    def _update_listing(self, keeper: Keeper, action: Action, arrived: list[PartName]) -> None:
        """Updates this replica's list of parts in ZooKeeper, including parts that an earlier attempt brought."""
        state, entry = self._state, action.entry
        if entry.removed_ranges:
            listed = read_listed_parts(keeper, state.replica)
            unlist_parts(
                keeper, state.replica, [n for n in listed if any(gone.covers(n) for gone in entry.removed_ranges)]
            )
        made = {staged.part: PartRecord(staged.content_hash, staged.rows, staged.size_bytes)
                for staged in entry.replace_parts}  # fmt: skip
        here = {part.name for part in map(state.store.covering_active, made) if part is not None}
        for packet in split_into_multis([Create(state.replica.part(str(name)), made[name].to_bytes())
                               for name in sorted(here & made.keys())], operation_bytes):  # fmt: skip
            _create_missing(keeper, packet)
        for name in sorted(here - made.keys()):
            self._list_cover(keeper, name)
        if entry.quorum >= 2:
            confirm_own_parts(keeper, state.replica, map(str, here))

    def _list_cover(self, keeper: Keeper, name: PartName) -> None:
        """Lists a merged part that came instead, with the content that other replicas list."""
        state = self._state
        part = state.store.get_active(name)
        for _ in range(_ATTEMPTS):
            if part is None or keeper.exists(state.replica.part(str(name))) is not None:
                return
            agreement = content_agreement_ops(keeper, state.replica, name, make_part_record(part))
            if agreement is None:
                raise CorruptionError("Another replica has other content under this name", part=str(name))
            try:
                keeper.multi([*agreement, Create(state.replica.part(str(name)), make_part_record(part).to_bytes())])
                return
            except (MultiFailed, KeeperConnectionLoss):
                continue
        raise ConflictError("KEEPER_EXCEPTION", f"Could not list part {name}: others keep changing its nodes; retry")


def keep_detached(
    state: ReplicaState,
    ranges: Collection[PartName],
    arrivals: Mapping[PartName, Path] = MappingProxyType({}),
    dropped: Collection[PartName] = (),
) -> None:
    """Copies the parts of the ranges to ``detached/``; may be repeated.

    Copies active parts and ``arrivals`` with their directories, except those that ``dropped`` covers.
    """

    def is_taken(name: PartName) -> bool:
        return any(each.covers(name) for each in ranges) and not any(each.covers(name) for each in dropped)

    schema = state.description.schema
    with state.store.hold([part.name for part in state.store.list_active() if is_taken(part.name)]) as held:
        state.store.link_to_detached(held.parts)
    state.store.link_to_detached(
        open_part(place, name=name, table_schema=schema) for name, place in arrivals.items() if is_taken(name)
    )
    state.services.failpoint("drop.after_copy")


def _create_missing(keeper: Keeper, creates: list[Create]) -> None:
    try:
        keeper.multi(creates)
    except (MultiFailed, KeeperConnectionLoss):
        for op in creates:
            with suppress(NodeExists):
                keeper.create(op.path, op.data)
