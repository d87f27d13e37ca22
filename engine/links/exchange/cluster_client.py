"""A linked cluster, as this server asks it: any of its servers answers for all.

Invariants:

- A server is greeted (``hello``) before anything else is asked of it, and again after each failure: a cluster of
  another name or UUID gets and gives nothing.
- After a failure that another server may not have, the others are asked in turn, each once.
- Each method may be called from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from coordination.keeper.interface import Keeper
from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.known_clusters import check_known_cluster, remember_cluster
from coordination.links.link_definition import LinkDefinition
from coordination.links.origin_survey import OriginSurvey, SurveyRequest
from coordination.links.positions import Position
from coordination.links.shard_place import ShardPlace, check_same_shard, check_shard_counts
from coordination.nodes.gate_link import LinkMode
from engine.http_client.response_file import ResponseFile
from engine.http_client.transport import Answer, MakeTransport, Transport
from engine.links.exchange.compressed_answers import accept_compressed, decompress_answer
from engine.links.exchange.fields import (
    MAX_ANSWER_BYTES,
    Document,
    get_numbers,
    get_objects,
    get_text,
    get_texts,
    parse_document,
    to_bytes,
)
from engine.links.exchange.file_transfer import receive_part
from engine.links.exchange.protocol import (
    LEAST_VERSION,
    PAUSE_VERSION,
    SYNC_VERSION,
    VERSION,
    agree_on_version,
    decode_answer,
    decode_identity,
    decode_shard,
    decode_source,
    decode_versions,
    encode_outgoing,
    encode_request,
    encode_shard,
)
from engine.links.exchange.server_ring import ServerRing
from engine.links.exchange.small_blocks import LEAST_VERSION as BLOCKS_VERSION
from engine.links.exchange.small_blocks import decode_blocks
from engine.links.exchange.survey_messages import LEAST_VERSION as SURVEY_VERSION
from engine.links.exchange.survey_messages import decode_survey, encode_survey_request
from engine.links.exchange.sync_messages import ModeMessage, encode_mode_message
from engine.remote.linked_cluster import LinkableTable
from engine.server.links_config import LinkedClusterConfig, is_server_url
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, OutgoingLink, SourceTable
from parts.common.errors import CorruptionError, PandoError, UnavailableError, UnknownOutcomeError, UserError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 30.0
_REGISTER_SECONDS = 90.0
"""The source answers when all its active replicas keep their changes."""
_TRY_ANOTHER = frozenset({"UNKNOWN_TABLE", "UNKNOWN_DATABASE", "NO_SUCH_DATA_PART", "QUERY_WAS_CANCELLED"})
"""Errors, besides those of an unavailable server, that another server of the cluster may not have."""

_Result = TypeVar("_Result")


class ClusterConfigs(Protocol):
    """The configuration of linked clusters."""

    def get(self, name: str) -> LinkedClusterConfig:
        """Returns a cluster. Raises 36 (BAD_ARGUMENTS) if the configuration does not name it."""


class ClusterClient:
    """One cluster of ``linked_clusters``. Implements :class:`engine.remote.linked_cluster.LinkedCluster`."""

    def __init__(
        self,
        name: str,
        clusters: ClusterConfigs,
        make_transport: MakeTransport,
        get_own: Callable[[], ClusterIdentity],
        require_keeper: Callable[[], Keeper],
        monotonic: Callable[[], float],
        get_own_shard: Callable[[], ShardPlace] = ShardPlace,
    ) -> None:
        self.name = name
        self._get_own_shard = get_own_shard
        self._clusters = clusters
        self._make_transport = make_transport
        self._get_own = get_own
        self._require_keeper = require_keeper
        self._lock = threading.Lock()
        self._ring = ServerRing(monotonic)
        self._config: LinkedClusterConfig | None = None
        self._transport: Transport | None = None
        self._greeted: dict[str, int] = {}
        """By server: the version of the protocol that both sides speak."""

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            transport, self._transport, self._config = self._transport, None, None
            self._greeted.clear()
        if transport is not None:
            transport.close()

    def require_configured(self) -> None:
        """Raises 36 (BAD_ARGUMENTS) if the configuration does not name the cluster."""
        self._clusters.get(self.name)

    # -- the requests of a link ---------------------------------------------------------------------------------------

    def get_identity(self) -> ClusterIdentity:
        """Returns the name and the UUID that the cluster gives itself, checked against what was met before."""
        return self._try_servers(lambda transport, url: self._greet(transport, url))

    def describe(self, database: str, table: str) -> SourceTable:
        """Returns what a table is now."""
        return self._describe({"database": database, "table": table})

    def describe_source(self, link: LinkDefinition) -> SourceTable:
        """Returns what the source of a link is now, under whatever name."""
        table = {"database": link.source_database, "table": link.source_table}
        return self._describe({**table, "link": link.at_source(self._get_own().name), "uuid": link.uuid})

    def _describe(self, request: Document) -> SourceTable:
        document = self._ask("describe", request)
        self._ring.learn(list(filter(is_server_url, _checked(lambda: get_texts(document, "servers"), "describe"))))
        return _checked(lambda: decode_source(document), "describe")

    def register(self, database: str, table: str, link: OutgoingLink) -> SourceTable:
        """Makes the table keep its changes for the link from now on. May be repeated."""
        remember_cluster(self._require_keeper(), self._get_own(), self.get_identity())
        request = {"database": database, "table": table, "link": encode_outgoing(link)}
        least = LEAST_VERSION if link.mode is LinkMode.ASYNC else SYNC_VERSION
        document = self._ask("register", request, read_seconds=_REGISTER_SECONDS, least_version=least)
        return _checked(lambda: decode_source(document), "register")

    def unregister(self, database: str, table: str, name: str, uuid: str) -> None:
        """Ends the keeping for the link of this name (``<target cluster>/<name>``) and UUID. May be repeated."""
        self._ask("unregister", {"database": database, "table": table, "name": name, "uuid": uuid})

    def set_mode(self, database: str, table: str, link: OutgoingLink, mode: LinkMode | None) -> None:
        """Asks for the mode of a link at its source, which is this cluster; ``None`` leaves the mode as it is."""
        message = ModeMessage(database, table, link.name, link.uuid, mode, link.is_paused)
        least = PAUSE_VERSION if mode is None else SYNC_VERSION
        self._ask("mode", encode_mode_message(message), least_version=least)

    def list_tables(self, database: str) -> Sequence[LinkableTable]:
        """Lists the tables of a database. Raises 81 (UNKNOWN_DATABASE)."""
        tables = self._ask("tables", {"database": database})
        return _checked(lambda: [_decode_table(each) for each in get_objects(tables, "tables")], "tables")

    def get_position(self, database: str, table: str) -> Position:
        """Returns the position behind everything that is committed now."""
        document = self._ask("position", {"database": database, "table": table})
        return _checked(lambda: Position.parse(get_text(document, "position")), "position")

    def read_changes(
        self, database: str, table: str, request: ChangesRequest, *, silence_seconds: float
    ) -> ChangesAnswer:
        """Returns the next changes. A server silent for ``silence_seconds`` is given up for another."""
        body = encode_request(database, table, request)
        document = self._ask("changes", body, read_seconds=silence_seconds)
        return _checked(lambda: decode_answer(document), "changes")

    def find_news(
        self, links: Sequence[tuple[tuple[str, str], str]], wait_seconds: float, *, silence_seconds: float
    ) -> Sequence[int]:
        """Returns the places, in the list, of tables with something new behind the mark; waits for the first.

        A link is a database's table, and the mark of the last answer.
        """
        body = [{"database": table[0], "table": table[1], "mark": mark} for table, mark in links]
        document = self._ask("news", {"links": body, "wait_seconds": wait_seconds}, read_seconds=silence_seconds)
        return [at for at in _checked(lambda: get_numbers(document, "news"), "news") if at < len(links)]

    def survey_origin(self, request: SurveyRequest) -> OriginSurvey:
        """Asks a table of the cluster what it has of an origin, and those that links join to it.

        Raises 48 (NOT_IMPLEMENTED) if the cluster's servers do not know the question.
        """
        body, seconds = encode_survey_request(request), request.seconds
        document = self._ask("origin", body, read_seconds=seconds, least_version=SURVEY_VERSION)
        return _checked(lambda: decode_survey(document), "origin")

    def fetch_block(
        self,
        table: tuple[str, str],
        position: Position,
        part: PartName,
        directory: Path,
        count: Callable[[int], None],
        *,
        content_hash: str = "",
        may_ask: bool = False,
    ) -> int:
        """Fetches the files of a block of a database's table into an empty directory; see ``receive_part``.

        See ``LinkSource.open_block`` for ``content_hash`` and ``may_ask``.
        """
        body: dict[str, object] = {
            "database": table[0], "table": table[1], "position": str(position), "part": str(part),
        }  # fmt: skip
        if content_hash:
            body["content_hash"] = content_hash
        if may_ask:
            body["may_ask"] = True
        return self.fetch_files("block", body, part, directory, lambda _: None, count)

    def fetch_small_blocks(self, table: tuple[str, str], parts: Sequence[PartName]) -> Mapping[PartName, bytes]:
        """Returns the manifest and files of those blocks that are small and at the server that answers.

        Raises 48 (NOT_IMPLEMENTED) if the cluster's servers do not know the request.
        """
        body = {"database": table[0], "table": table[1], "parts": list(map(str, parts))}
        document = self._ask("blocks", body, least_version=BLOCKS_VERSION)
        return _checked(lambda: decode_blocks(document, parts), "blocks")

    # -- requests in general ------------------------------------------------------------------------------------------

    def fetch_files(
        self,
        name: str,
        document: Document,
        part: PartName,
        directory: Path,
        begin: Callable[[int], object],
        count: Callable[[int], None],
    ) -> int:
        """Asks for a part's files and writes them into an empty directory; returns their size in bytes."""

        def fetch(transport: Transport, url: str) -> int:
            for leftover in directory.iterdir():  # of a server that broke off
                leftover.unlink()
            with transport.post(url, f"/links/{name}", to_bytes(document), read_seconds=_ANSWER_SECONDS) as answer:
                return receive_part(ResponseFile(answer), part, directory, begin, count)

        return self._ask_servers(fetch)

    def ask(
        self,
        name: str,
        document: Document,
        *,
        read_seconds: float = _ANSWER_SECONDS,
        least_version: int = LEAST_VERSION,
    ) -> Document:
        """Sends the request ``/links/<name>`` and returns the answer.

        ``least_version``: servers that speak an older one are not asked.

        Raises 210 (NETWORK_ERROR) if no server answers, and what the other side raises.
        """
        return self._ask(name, document, read_seconds=read_seconds, least_version=least_version)

    def _ask(
        self,
        name: str,
        document: Document,
        *,
        read_seconds: float = _ANSWER_SECONDS,
        least_version: int = LEAST_VERSION,
    ) -> Document:
        body = to_bytes(accept_compressed(document))

        def ask(transport: Transport, url: str) -> Document:
            if self._greeted.get(url, VERSION) < least_version:
                raise UnavailableError(  # another server may be newer
                    "NOT_IMPLEMENTED",
                    f"{url} of cluster {self.name!r} does not know /links/{name}: its version is too old",
                )
            return _post(transport, url, name, body, read_seconds)

        return self._ask_servers(ask)

    def _ask_servers(self, ask: Callable[[Transport, str], _Result]) -> _Result:
        """Asks the servers, each greeted before, until one answers."""

        def ask_greeted(transport: Transport, url: str) -> _Result:
            if url not in self._greeted:
                self._greet(transport, url)
            return ask(transport, url)

        return self._try_servers(ask_greeted)

    def _try_servers(self, ask: Callable[[Transport, str], _Result]) -> _Result:
        transport = self._connect()
        problem: PandoError | None = None
        for url in self._ring.order():
            try:
                result = ask(transport, url)
            except PandoError as error:
                if not _may_another_help(error):
                    raise
                logger.debug("a request to cluster %s failed at %s: %s", self.name, url, error)
                self._ring.note_failure(url)
                self._greeted.pop(url, None)
                problem = _choose_problem(problem, error)
                continue
            self._ring.note_answer(url)
            return result
        raise problem or UnavailableError("NETWORK_ERROR", f"Cluster {self.name!r} has no servers to ask")

    def _connect(self) -> Transport:
        """Returns the connections, made anew when the configuration was read again with other values."""
        config = self._clusters.get(self.name)
        with self._lock:
            if self._transport is None or config != self._config:
                former = self._transport
                is_secure: bool | Path = any(url.startswith("https://") for url in config.urls)
                is_secure = config.ca_file or is_secure if is_secure else False
                self._transport = self._make_transport(config.user, config.password, is_secure)
                self._config = config
                self._ring.configure(config.urls)
                self._greeted.clear()
                if former is not None:
                    former.close()
            return self._transport

    def _greet(self, transport: Transport, url: str) -> ClusterIdentity:
        """Exchanges versions and identities with a server.

        Raises 36 (BAD_ARGUMENTS) if it belongs to another cluster than the name says, or to another shard than this
        server, and 48 for a version that is too old.
        """
        own, own_shard = self._get_own(), self._get_own_shard()
        request = {
            "versions": [LEAST_VERSION, VERSION], "cluster": own.name, "uuid": own.uuid, **encode_shard(own_shard),
        }  # fmt: skip
        document = _post(transport, url, "hello", to_bytes(request), _ANSWER_SECONDS)
        met, (least, most), shard = _checked(
            lambda: (decode_identity(document), decode_versions(document), decode_shard(document)), "hello"
        )
        version = agree_on_version(least, most, f"Cluster {self.name!r} at {url}")
        if met.name != self.name:
            raise UserError(
                "BAD_ARGUMENTS",
                f"{url} belongs to cluster {met.name!r}, and linked_clusters names it {self.name!r}",
            )
        check_known_cluster(self._require_keeper(), own, met)
        check_shard_counts(own_shard, shard, own.name, met.name)
        check_same_shard(own_shard, shard, url)
        self._greeted[url] = version
        return met


def _post(transport: Transport, url: str, name: str, body: bytes, read_seconds: float) -> Document:
    with transport.post(url, f"/links/{name}", body, read_seconds=read_seconds) as answer:
        data = _read(answer)
    what = f"answer of {url} to /links/{name}"
    return _checked(lambda: parse_document(decompress_answer(data, MAX_ANSWER_BYTES), what), name)


def _read(answer: Answer) -> bytes:
    pieces, size = [], 0
    for piece in answer:
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise UnavailableError("NETWORK_ERROR", f"{answer.url} answers with more than {MAX_ANSWER_BYTES} bytes")
    return b"".join(pieces)


def _checked(decode: Callable[[], _Result], name: str) -> _Result:
    """Decodes an answer; one that is malformed is the other side's fault, not the caller's."""
    try:
        return decode()
    except UserError as error:
        raise UnavailableError("NETWORK_ERROR", f"The answer to /links/{name} is malformed: {error.message}") from None


def _decode_table(document: Document) -> LinkableTable:
    return LinkableTable(get_text(document, "table"), get_text(document, "create_query"), get_text(document, "problem"))


def _may_another_help(error: PandoError) -> bool:
    is_of_server = isinstance(error, UnavailableError | UnknownOutcomeError | CorruptionError)
    return is_of_server or error.name in _TRY_ANOTHER


def _choose_problem(former: PandoError | None, error: PandoError) -> PandoError:
    """Returns the failure to raise: a server that says what is wrong tells more than one that does not answer."""
    is_silent = error.name in ("NETWORK_ERROR", "SOCKET_TIMEOUT")
    return former if former is not None and is_silent else error
