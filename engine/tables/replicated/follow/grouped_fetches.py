"""Fetches many small inserted parts together, with a few requests for all.

Another replica's INSERTs come as entries of one small part each. Entries that wait together share what each would cost
alone: reading its listing, a request to the other replica, an fsync of the table's directory, a multi. This is an
optimization only. Whatever fails here is tried again entry by entry, as other fetches are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from coordination.keeper.interface import Keeper, KeeperConnectionLoss, MultiFailed
from coordination.log.queue_rules import Action
from coordination.replicas.part_commit import ContentAgreement, commit_agreed_parts
from engine.interserver.replication import PartTransport
from engine.tables.part_log import PartEventType
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.replicated.follow.row_positions import fill_fetched_position_in
from engine.tables.replicated.replica_state import ReplicaState, make_part_record
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.read.part_reader import Part

logger = logging.getLogger(__name__)

MAX_PARTS_PER_GROUP = 64
"""The most parts in one group."""
CommitOne = Callable[[Keeper, Action, Part, ContentAgreement | None], None]


class GroupedFetches:
    """The grouped fetches of one replica."""

    def __init__(self, state: ReplicaState, fetcher: PartFetcher, commit_one: CommitOne) -> None:
        """``commit_one`` commits one pre-active part and ends its entry, whatever the outcome."""
        self._state = state
        self._table = state.definition.full_name
        self._fetcher = fetcher
        self._commit_one = commit_one

    def fetch_and_commit(self, keeper: Keeper, actions: list[Action]) -> list[Action]:
        """Fetches and commits the parts of several actions.

        Returns the actions that remain to be executed. The INSERTs are of one replica;
        ``ReplicationQueue.take_along_inserts`` grouped them.
        """
        by_name = {action.entry.new_part: action for action in actions if action.entry.new_part is not None}
        try:
            with self._state.services.fetches.try_take() as is_taken:
                if not is_taken:
                    return actions
                parts, sources = self._fetch(keeper, actions[0].entry.source_replica, by_name)
            return self._commit(keeper, by_name, parts, sources)
        except Exception as error:
            level = logging.INFO if isinstance(error, PandoError) else logging.ERROR
            logger.log(level, "%d parts of %s could not be brought together: %r", len(actions), self._table, error)
            return actions

    def _fetch(
        self, keeper: Keeper, replica_name: str, wanted: Mapping[PartName, Action]
    ) -> tuple[list[Part], dict[PartName, FetchSource]]:
        """Returns the received parts, pre-active, and where they came from."""
        store = self._state.store
        sources = self._fetcher.find_parts_on(
            keeper, replica_name, [name for name in wanted if store.get(name) is None]
        )
        directories: dict[PartName, Path] = {}
        try:
            for name in sources:
                directories[name] = store.create_temporary("tmp_fetch_")
            if not directories:
                return [], sources
            transport: PartTransport = self._state.replication.transport
            endpoint = self._state.paths.replica(replica_name).root
            url = next(iter(sources.values())).url
            first, directory = next(iter(directories.items()))
            with self._fetcher.track_transfer(first, directory, endpoint, url, self._is_cancelled) as transfer:
                came = transport.fetch_parts(url, endpoint, directories, transfer)
            for name in came:
                fill_fetched_position_in(self._state, keeper, replica_name, name, directories[name])
            arrived = {name: directories.pop(name) for name in came}
            parts = store.add_preactive_all(arrived, is_synced=True) if arrived else []
            return parts, sources
        finally:
            for directory in directories.values():
                store.drop_temporary(directory)

    def _is_cancelled(self) -> bool:
        return self._state.is_cancelled() or StoppableAction.FETCHES in self._state.stopped

    def _commit(
        self, keeper: Keeper, wanted: dict[PartName, Action], parts: list[Part], sources: Mapping[PartName, FetchSource]
    ) -> list[Action]:
        """Commits the parts in one multi; returns the remaining actions."""
        state = self._state
        agreed: list[tuple[Action, Part, ContentAgreement]] = []
        for part in parts:
            action, agreement = wanted[part.name], sources[part.name].agreement
            is_good = agreement is not None and agreement.content_hash == part.content_hash
            if agreement is None or not is_good or state.queue.is_cancelled(action.name):
                state.store.rollback(part)
            else:
                agreed.append((action, part, agreement))
                del wanted[part.name]
        left = list(wanted.values())
        if not agreed:
            return left
        state.services.failpoint("produced.after_rename")
        try:
            records = [
                (action.name, part.name, make_part_record(part), agreement) for action, part, agreement in agreed
            ]
            commit_agreed_parts(keeper, state.replica, records)
        except (MultiFailed, KeeperConnectionLoss):
            for action, part, agreement in agreed:
                self._commit_one(keeper, action, part, agreement)
            return left
        except PandoError:
            for _, part, _ in agreed:
                state.store.rollback(part)
            raise
        state.services.failpoint("produced.after_commit")
        for action, part, _ in agreed:
            state.store.commit(part)
            state.services.part_log.note(PartEventType.DOWNLOAD, state.definition, part, state.services.clock())
            state.queue.add_active(part.name)
            state.queue.finish(action.name)
        return left
