"""Copies the staged blocks of a batch to other replicas before the batch is committed.

A batch is on one disk until its parts are active elsewhere. If that disk were lost just after the commit, the parts
would have to be asked for at the source again. So ``link_quorum`` replicas have them staged before: the server that
runs the link asks its siblings to fetch them, and they find them when they carry out the log entry.

A sibling that cannot do so does not stop the link: the source keeps what too few replicas have. A copy is a cache,
which the sibling removes when neither its queue nor a recent request names it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence

from coordination.keeper.interface import Keeper
from coordination.log.log_entry import StagedPart
from coordination.nodes.replica_activation import read_addresses, read_replica_activity
from engine.interserver.protocol import StagedCopy
from engine.tables.replicated.follow.part_fetcher import FetchSource, PartFetcher
from engine.tables.replicated.replica_state import LINK_STAGING_PREFIX, ReplicaState
from parts.common.errors import CorruptionError, PandoError, UserError
from parts.common.safe_names import is_plain_file_name
from parts.read.part_reader import open_part

logger = logging.getLogger(__name__)

_KEPT_SECONDS = 120.0
"""How long a copy is kept for a log entry that has not come yet."""
_COPIES_IN_A_REQUEST = 50


class StagedCopies:
    """The copies of one replica's table, at either end. Thread-safe."""

    def __init__(self, state: ReplicaState, fetcher: PartFetcher) -> None:
        self._state = state
        self._fetcher = fetcher
        self._lock = threading.Lock()
        self._taken: dict[str, float] = {}
        """By staging, until when its copies are kept."""

    def spread(self, keeper: Keeper, name: str, parts: Sequence[StagedPart], copies: int) -> int:
        """Makes other active replicas fetch the parts that are staged here; returns how many have them all.

        Asks until ``copies`` have them, or all were asked.
        """
        state = self._state
        if not parts or copies <= 0:
            return 0
        own = state.replica.name
        siblings = [each for each, is_up in read_replica_activity(keeper, state.paths).items() if is_up and each != own]
        asked = [StagedCopy(part.place, part.part, part.content_hash) for part in parts]
        done = 0
        for sibling, address in (read_addresses(keeper, state.paths, siblings) if siblings else {}).items():
            if done >= copies:
                break
            try:
                for at in range(0, len(asked), _COPIES_IN_A_REQUEST):
                    state.replication.transport.stage_copies(
                        address.interserver_url, state.paths.replica(sibling).root, own, name,
                        asked[at : at + _COPIES_IN_A_REQUEST],
                    )  # fmt: skip
                done += 1
            except PandoError as error:
                logger.info("replica %s has no copy of batch %s: %s", sibling, name, error)
        return done

    def take(self, source: str, name: str, copies: Sequence[StagedCopy]) -> None:
        """Fetches parts that the replica ``source`` has staged, and stages them here at the same places.

        Raises 36 (BAD_ARGUMENTS) for a staging that is none of a link, ``CorruptionError`` for other content than was
        named, and what fetching raises.
        """
        state = self._state
        if not name.startswith(LINK_STAGING_PREFIX) or not all(map(is_plain_file_name, [name, source])):
            raise UserError("BAD_ARGUMENTS", f"Replica {source!r} asks to stage {name!r}, which is no batch of a link")
        with self._lock:
            self._taken[name] = state.services.monotonic() + _KEPT_SECONDS
        with state.hold_write_access() as (keeper, _):
            address = read_addresses(keeper, state.paths, [source]).get(source)
        if address is None:
            raise UserError("BAD_ARGUMENTS", f"Replica {source!r} has no address")
        for copy in copies:
            if not is_plain_file_name(copy.place):
                raise UserError("BAD_ARGUMENTS", f"{copy.place!r} is no place of a staged part")
            if not state.store.staged.path(name, copy.place).exists():
                self._take_one(FetchSource(source, address.interserver_url, staged=f"{name}/{copy.place}"), name, copy)

    def _take_one(self, source: FetchSource, name: str, copy: StagedCopy) -> None:
        state = self._state
        directory, _ = self._fetcher.fetch_from(copy.part, [source], state.is_cancelled)
        try:
            part = open_part(directory, name=copy.part, table_schema=state.description.schema)
            if part.content_hash != copy.content_hash:
                raise CorruptionError("A replica sent another content than it had staged", part=str(copy.part))
            state.store.staged.move_in(name, [(directory, copy.place)])
        finally:
            state.store.drop_temporary(directory)

    def list_kept(self) -> Collection[str]:
        """Lists the stagings whose log entry may still come."""
        now = self._state.services.monotonic()
        with self._lock:
            self._taken = {name: until for name, until in self._taken.items() if until > now}
            return set(self._taken)
