"""The source of one link: what it is, and its changes, checked against what it was.

Invariant: nothing is taken from a table that is not the one from which the link has taken changes so far.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkStopped
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Origin
from coordination.links.stream.change import Block, Change
from coordination.links.stream.gap_check import require_same_source
from coordination.links.switching.lineage import EpochFork, find_heard_fork, find_own_fork
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from engine.interserver.transfer import Throttle
from engine.links.bootstrap.held_source import RemoteSource
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.exchange.file_transfer import receive_part
from engine.links.sync.link_registration import make_registration
from engine.tables.capabilities.incoming_blocks import WriteBlock
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, SourceTable
from parts.common.errors import CancelledError, PandoError, UserError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

SILENT_HEARTBEATS = 4
"""After so many without an answer another server is asked."""


class SourceForked(LinkStopped):
    """The epoch that the link follows has ended: it goes on with the table that began the next one."""

    def __init__(self, fork: EpochFork) -> None:
        super().__init__(f"The source's epoch ended at the fork {fork.describe()}")
        self.fork = fork


def require_same_epoch(gate: Gate | None, definition: LinkDefinition) -> None:
    """Raises ``SourceForked`` if this cluster was told that the epoch of the link's source ended."""
    if (fork := find_heard_fork(gate, definition.source_origin)) is not None:
        raise SourceForked(fork)


class LinkUpstream:
    """The source of a link. Used by one thread at a time."""

    def __init__(
        self,
        definition: LinkDefinition,
        client: ClusterClient,
        own_cluster: tuple[str, str],
        throttles: tuple[Throttle, ...],
        is_cancelled: Callable[[], bool],
    ) -> None:
        """``own_cluster``: name and UUID of the target's."""
        self.definition = self._definition = definition
        self._client = client
        self._own_name, self._own_uuid = own_cluster
        self._throttles = throttles
        self._table = definition.source_database, definition.source_table
        self._is_cancelled = is_cancelled
        self.settings = self._settings = LinkSettings.parse(definition.settings)
        self.name = definition.at_source(self._own_name)
        self.known = Origin.parse(definition.source_origin) if definition.source_origin else None
        """What the source was when the link began, or is to be when it has copied it."""

    def describe(self) -> SourceTable:
        """Returns what the source is. Raises ``LinkStopped`` if it is another than before."""
        return self.check(self._client.describe_source(self._definition), 0, VersionVector())

    def register(self) -> SourceTable:
        """Makes the source keep its changes for the link. May be repeated.

        The answer names a place at which the link may begin, and what the source has there.
        """
        link = make_registration(self._definition, self._own_name, self._own_uuid)
        return self._client.register(*self._table, link)

    def read_changes(self, vector: VersionVector, trim: int, wait_seconds: float) -> ChangesAnswer:
        """Returns what comes next. Raises ``LinkStopped`` if the source is another than before."""
        settings = self._settings
        request = ChangesRequest(
            self.name,
            self._definition.uuid,
            vector,
            trim,
            settings.link_max_batch_rows,
            settings.link_max_batch_bytes,
            wait_seconds,
        )
        silence = max(SILENT_HEARTBEATS * settings.replication_timeout, wait_seconds + 1.0)
        try:
            answer = self._client.read_changes(*self._table, request, silence_seconds=silence)
        except UserError as error:
            if error.name != "BAD_ARGUMENTS":
                raise
            name = self._definition.name  # the source does not know the link, or is not what it was
            raise LinkStopped(
                f"The source refuses the link: {error.message}. SYSTEM BOOTSTRAP REPLICATION LINK {name} copies the "
                f"source anew, DROP REPLICATION LINK {name} ends the link"
            ) from error
        self.check(answer.source, answer.frontier, vector)
        return answer

    def make_cut_request(self, vector: VersionVector) -> tuple[tuple[str, str], ChangesRequest]:
        """Returns the source's table, and what is asked of it for a cut. It acknowledges nothing."""
        settings = self._settings
        limits = settings.link_max_batch_rows, settings.link_max_batch_bytes
        return self._table, ChangesRequest(self.name, self._definition.uuid, vector, 0, *limits)

    def fetch(self, change: Change, block: Block, directory: Path) -> None:
        """Fetches the files of a block into an empty directory, checked and durable.

        A source that has lost it asks its own sources.
        """
        self._fetch(change, block, directory, may_ask=True)

    def fetch_small(self, changes: Sequence[tuple[Change, Block]]) -> Mapping[PartName, WriteBlock]:
        """Fetches small blocks together; those that are missing in the answer are fetched by themselves."""
        asked = [block.part for _, block in changes]
        try:
            found = self._client.fetch_small_blocks(self._table, asked)
        except PandoError as error:
            logger.debug("link %s fetches its blocks one by one: %s", self.name, error)
            return {}
        self._count(sum(map(len, found.values())))
        return {part: partial(_write_block, data, part) for part, data in found.items()}

    def refetch(self, change: Change, block: Block, directory: Path, *, may_ask: bool = True) -> None:
        """Fetches a block that the target has committed and lost, whatever its number at this source."""
        self._fetch(change, block, directory, content_hash=block.content_hash, may_ask=may_ask)

    def _fetch(
        self, change: Change, block: Block, directory: Path, *, content_hash: str = "", may_ask: bool = False
    ) -> None:
        self._client.fetch_block(
            self._table,
            change.position,
            block.part,
            directory,
            self._count,
            content_hash=content_hash,
            may_ask=may_ask,
        )

    def _count(self, size: int) -> None:
        """Waits until so many bytes may have come."""
        self._require_running()
        for throttle in self._throttles:
            throttle.spend(size, self._require_running)

    def open_held(self) -> RemoteSource:
        """Returns the source as one that is copied."""
        database, table = self._table
        document = {"database": database, "table": table, "link": self.name}
        return RemoteSource(self._client, document, self._definition.uuid, self._throttles, self._require_running)

    def _require_running(self) -> None:
        if self._is_cancelled():
            raise CancelledError("The link does not run here any more")

    def check(self, source: SourceTable, frontier: int, vector: VersionVector) -> SourceTable:
        if self.known is not None:
            fork = find_own_fork(self.known, source.origin, source.lineage)
            if fork is not None:
                raise SourceForked(fork)
        if self.known is not None and self._definition.is_begun:  # one that copies its source anew takes any
            try:
                require_same_source(
                    self._definition.source_cluster,
                    source.origin,
                    max(source.newest, frontier),
                    vector,
                    self.known,
                    source.forks,
                )
            except UserError as error:
                name = self._definition.name
                raise LinkStopped(
                    f"{error.message}. DROP REPLICATION LINK {name} and make it anew, or copy the source again with "
                    f"SYSTEM BOOTSTRAP REPLICATION LINK {name}"
                ) from error
        self._table = source.database, source.table  # it may have been renamed
        return source


def _write_block(data: bytes, part: PartName, directory: Path) -> None:
    receive_part(io.BytesIO(data), part, directory, lambda _: None, lambda _: None)
