"""What this server answers to other clusters: the requests of :mod:`engine.links.exchange.protocol`.

Runs in the process that owns the tables, on threads of the HTTP interface. Each answer is about this cluster as a
whole, so any server may be asked; a block that is not here is offered by the servers that have it.

Other modules add their own requests with :meth:`LinkService.add`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.known_clusters import check_known_cluster, remember_cluster
from coordination.links.positions import Position
from coordination.links.shard_place import check_shard_counts
from coordination.nodes.gate_link import LinkMode
from engine.catalog.databases import Databases
from engine.interserver.replication import Replication
from engine.links.exchange.fields import Document, get_flag, get_object, get_objects, get_seconds, get_text
from engine.links.exchange.protocol import (
    LEAST_VERSION,
    MAX_WAIT_SECONDS,
    VERSION,
    agree_on_version,
    decode_identity,
    decode_outgoing,
    decode_request,
    decode_shard,
    decode_versions,
    encode_answer,
    encode_shard,
    encode_source,
    get_table_name,
    parse_part_name,
)
from engine.links.exchange.server_addresses import list_http_urls
from engine.links.exchange.small_blocks import answer_blocks
from engine.links.linkable_tables import describe_tables, find_link_source, never_had_rows, require_linkable
from engine.queries.server_links import ServerLinks
from engine.remote.cluster_membership import ClusterMembership
from engine.remote.linked_clusters import LinkedClusters
from engine.tables.capabilities.table_links import LinkSource
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_NEWS_SECONDS = 0.02
"""How often a request that waits for news of many tables looks whether there is any of any table."""
_LOOK_SECONDS = 1.0
"""How often it looks at each table all the same: what the tracker observes has news by the clock."""
MAX_WAITING_REQUESTS = 32
"""More requests for changes than these are answered at once, with what there is."""


class LinkHost(Protocol):
    """The server, as links see it."""

    replication: Replication
    cluster_membership: ClusterMembership
    services: TableServices
    linked_clusters: LinkedClusters

    @property
    def links(self) -> ServerLinks:
        """The links that the server runs."""

    @property
    def catalog(self) -> Databases[OwnedTable]:
        """The tables of the server."""

    def current_position(self, database: str, table: str) -> str:
        """Returns the position behind the newest commit of a replicated table."""


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """A directory of files, held until it is released."""

    directory: Path
    release: Callable[[], object]


@dataclass(frozen=True, slots=True)
class ElsewhereFiles:
    """The HTTP addresses of servers of this cluster that may have what is asked for."""

    urls: tuple[str, ...]


Answer = dict[str, Any] | OpenedFiles | ElsewhereFiles
"""A JSON object, or files."""
AnswerRequest = Callable[[Document, QueryStatus], Answer]


class LinkAnswers(Protocol):
    """A server's answers to other clusters, in any of its processes."""

    def answer(self, name: str, document: Document, status: QueryStatus, *, is_read_only: bool) -> Answer:
        """Answers ``/links/<name>``. The caller releases files."""


class LinkService:
    """The answers of one server. Thread-safe."""

    def __init__(self, host: LinkHost) -> None:
        self._host = host
        self.instance = f"{host.services.new_uuid()}"
        """Tells the marks of this process from those of others."""
        self._waiting = threading.BoundedSemaphore(MAX_WAITING_REQUESTS)
        self._answers: dict[str, tuple[AnswerRequest, bool]] = {}
        self.add("hello", self._hello)
        self.add("describe", self._describe)
        self.add("tables", self._tables)
        self.add("changes", self._changes, changes=True)  # it acknowledges, so that the source trims
        self.add("news", self._news)
        self.add("position", self._position)
        self.add("block", self._block)
        self.add("blocks", self._blocks)
        self.add("register", self._register, changes=True)
        self.add("unregister", self._unregister, changes=True)

    def add(self, name: str, answer: AnswerRequest, *, changes: bool = False) -> None:
        """Adds the request ``/links/<name>``. One that ``changes`` something is refused to read-only users."""
        self._answers[name] = answer, changes

    def answer(self, name: str, document: Document, status: QueryStatus, *, is_read_only: bool) -> Answer:
        """Answers ``/links/<name>``. The caller releases files.

        Raises 36 (BAD_ARGUMENTS) for an unknown request, 164 (READONLY), and the errors of what it does.
        """
        if name not in self._answers:
            raise UserError("BAD_ARGUMENTS", f"This server knows no request /links/{name[:100]}")
        answer, changes = self._answers[name]
        if changes and is_read_only:
            raise UserError(
                "READONLY",
                f"Cannot carry out /links/{name} in readonly mode: it changes a table's links. `may_link: true` in the "
                "configuration of the user allows it",
            )
        return answer(document, status)

    # -- clusters -----------------------------------------------------------------------------------------------------

    def get_identity(self) -> ClusterIdentity:
        """Returns this cluster's identity. Raises 36 (BAD_ARGUMENTS) without ``cluster_name``."""
        return self._host.cluster_membership.get_identity(self._host.replication.require_keeper())

    def _hello(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        own, shard = self.get_identity(), self._host.cluster_membership.shard
        met = decode_identity(document)
        agree_on_version(*decode_versions(document), f"Cluster {met.name!r}")
        check_known_cluster(self._host.replication.require_keeper(), own, met)
        check_shard_counts(shard, decode_shard(document), own.name, met.name)
        return {"versions": [LEAST_VERSION, VERSION], "cluster": own.name, "uuid": own.uuid, **encode_shard(shard)}

    # -- tables -------------------------------------------------------------------------------------------------------

    def _describe(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        table = self._find_linked(document, get_text(document, "link", ""), get_text(document, "uuid", ""))
        return {**encode_source(require_linkable(table).source.describe()), "servers": list(list_http_urls(table))}

    def _tables(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        return {"tables": describe_tables(self._host.catalog, get_text(document, "database"))}

    def _position(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        require_linkable(self._table(document))
        return {"position": self._host.current_position(*get_table_name(document))}

    def _table(self, document: Document) -> OwnedTable:
        return self._host.catalog.table(*get_table_name(document))

    def _find_linked(self, document: Document, link: str, uuid: str) -> OwnedTable:
        return find_link_source(self._host.catalog, *get_table_name(document), link, uuid)

    # -- links --------------------------------------------------------------------------------------------------------

    def _register(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        link = decode_outgoing(get_object(document, "link"))
        table = self._find_linked(document, link.name, link.uuid)
        source = require_linkable(table).source
        if link.mode is LinkMode.SYNC and link.target_cluster_name not in self._host.linked_clusters.names():
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {link.name!r} cannot be synchronous: INSERTs at the source would wait for cluster "
                f"{link.target_cluster_name!r}, which its servers do not know. Add it to linked_clusters in their "
                "configuration",
            )
        remember_cluster(
            self._host.replication.require_keeper(),
            self.get_identity(),
            ClusterIdentity(link.target_cluster_name, link.target_cluster),
        )
        found = source.register(link)
        if link.mode is LinkMode.SYNC:
            self._host.links.wake()
        return encode_source(replace(found, is_empty=never_had_rows(table)))

    def _unregister(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        name, uuid = get_text(document, "name"), get_text(document, "uuid", "")
        require_linkable(self._find_linked(document, name, uuid)).source.unregister(name, uuid)
        return {}

    def _changes(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        request = decode_request(document)
        source = require_linkable(self._find_linked(document, request.link, request.uuid)).source
        with self.limit_waiting(request.wait_seconds) as seconds:
            mark = self._make_mark(source)
            answer = source.read_changes(replace(request, wait_seconds=seconds), status)
            return encode_answer(replace(answer, mark=mark))

    def _make_mark(self, source: LinkSource) -> str:
        return f"{self.instance}:{source.count_news()}"

    def _parse_mark(self, document: Document) -> int:
        """Returns what was noticed when the mark was given; -1 if another process gave it, or the table is gone."""
        instance, _, count = get_text(document, "mark").partition(":")
        return int(count) if instance == self.instance and count.isdecimal() else -1

    def _news(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        """Answers for many links with one thread, so that idle links cost little."""
        asked = [(self._find_source(each), self._parse_mark(each)) for each in get_objects(document, "links")]
        services, never = self._host.services, threading.Event()
        with self.limit_waiting(get_seconds(document, "wait_seconds", MAX_WAIT_SECONDS)) as seconds:
            deadline = services.monotonic() + seconds
            counted, look_at = -1, -math.inf
            news: Sequence[int] = ()
            while True:
                count, now = services.link_news.count, services.monotonic()
                if count != counted or now >= look_at:
                    news = _find_news(asked)
                    counted, look_at = count, now + _LOOK_SECONDS
                left = deadline - now
                if news or left <= 0:
                    return {"news": news}
                status.check()
                services.wait(never, min(left, _NEWS_SECONDS))

    def _find_source(self, document: Document) -> LinkSource | None:
        """Returns a table's source; ``None`` if there is none, which its link is told when it asks for changes."""
        try:
            return require_linkable(self._table(document)).source
        except PandoError:
            return None

    @contextmanager
    def limit_waiting(self, seconds: float) -> Iterator[float]:
        """Gives the time that a request may wait: none while too many others wait.

        Each of them holds a thread.
        """
        if not seconds:
            yield 0.0
        elif self._waiting.acquire(blocking=False):
            try:
                yield seconds
            finally:
                self._waiting.release()
        else:
            yield 0.0

    def _blocks(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        return dict(answer_blocks(require_linkable(self._table(document)).source, document))

    def _block(self, document: Document, _: QueryStatus) -> OpenedFiles | ElsewhereFiles:
        table = self._table(document)
        source = require_linkable(table).source
        position, part = Position.parse(get_text(document, "position")), parse_part_name(get_text(document, "part"))
        content_hash, may_ask = get_text(document, "content_hash", ""), get_flag(document, "may_ask")
        try:
            snapshot, directory = source.open_block(position, part, content_hash, may_ask=may_ask)
        except UserError as error:
            others: Sequence[str] = ()
            if error.name == "NO_SUCH_DATA_PART" and not get_flag(document, "is_forwarded"):
                others = source.find_block_holders(position, part)
            if not others:
                raise
            return ElsewhereFiles(tuple(others))
        return OpenedFiles(directory, snapshot.release)


def _find_news(asked: Sequence[tuple[LinkSource | None, int]]) -> list[int]:
    """Returns which tables have noticed something since their marks were given, or are gone."""
    return [at for at, (source, seen) in enumerate(asked) if source is None or source.count_news() != seen]
