"""The source of a bootstrap over HTTP: what its server answers, and how a target asks.

===================  ==================================================================================================
``bootstrap/begin``  {database, table, link, uuid} → a held table: its parts, vector, ids and definition as of a place
``bootstrap/part``   {database, table, link, lease, part} → the files of a held part
``bootstrap/end``    {database, table, link} → {}
===================  ==================================================================================================

A hold is one server's. Another one answers 232 to a request about it, and the target asks on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.links.positions import Origin
from engine.catalog.databases import Databases
from engine.interserver.transfer import Throttle
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.exchange.fields import Document, get_list, get_number, get_object, get_text, is_number
from engine.links.exchange.link_service import LinkService, OpenedFiles
from engine.links.exchange.protocol import decode_vector, get_table_name, parse_part_name
from engine.links.linkable_tables import require_linkable
from engine.tables.capabilities.table_links import TableLinks
from engine.tables.owned_table import OwnedTable
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

_BEGIN_SECONDS = 90.0
"""The source looks for a place for some 20 seconds, and may wait for what it has to carry out."""


# -- at the source ------------------------------------------------------------------------------------------------


def add_bootstrap_answers(service: LinkService, catalog: Databases[OwnedTable]) -> None:
    """Adds the requests of bootstraps to those that a server answers."""
    answers = _BootstrapAnswers(catalog)
    service.add("bootstrap/begin", answers.begin, changes=True)
    service.add("bootstrap/part", answers.open_part)
    service.add("bootstrap/end", answers.end, changes=True)


class _BootstrapAnswers:
    def __init__(self, catalog: Databases[OwnedTable]) -> None:
        self._catalog = catalog

    def _links(self, document: Document) -> TableLinks:
        return require_linkable(self._catalog.table(*get_table_name(document)))

    def begin(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        """Holds the table for a link that is registered under this UUID."""
        links, link, uuid = self._links(document), get_text(document, "link"), get_text(document, "uuid")
        if not any((each.name, each.uuid) == (link, uuid) for each in links.source.list_outgoing()):
            raise UserError("BAD_ARGUMENTS", f"Link {link[:200]!r} is not registered here with UUID {uuid[:100]!r}")
        return encode_held(links.bootstrap.giver.hold(link, status))

    def open_part(self, document: Document, _: QueryStatus) -> OpenedFiles:
        """Opens the files of a held part."""
        giver, part = self._links(document).bootstrap.giver, parse_part_name(get_text(document, "part"))
        snapshot, path = giver.open_held_part(get_text(document, "link"), get_text(document, "lease"), part)
        return OpenedFiles(path, snapshot.release)

    def end(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        """Ends the hold of a link."""
        if not self._links(document).bootstrap.giver.release(get_text(document, "link")):
            raise UserError("NO_SUCH_DATA_PART", "Nothing is held for the link here")
        return {}


def encode_held(held: HeldTable) -> dict[str, Any]:
    """Returns a held table as JSON."""
    return {
        "lease": held.lease,
        "origin": str(held.origin),
        "place": held.place,
        "vector": json.loads(held.vector.to_bytes()),
        "fingerprint": held.fingerprint,
        "definition_version": held.definition_version,
        "create_query": held.create_query,
        "columns": held.columns,
        "commit_time": held.commit_time,
        "parts": list(map(_encode_part, held.parts)),
        "block_ids": [[block_id, str(part)] for block_id, part in held.block_ids],
    }


def _encode_part(part: HeldPart) -> list[object]:
    place = [part.origin, part.position] if part.origin else []
    return [str(part.name), part.content_hash, part.rows, part.size_bytes, part.file_bytes, *place]


# -- at the target ------------------------------------------------------------------------------------------------


def decode_held(document: Document) -> HeldTable:
    """Parses a held table. Raises 36 (BAD_ARGUMENTS)."""
    return HeldTable(
        get_text(document, "lease"),
        Origin.parse(get_text(document, "origin")),
        get_number(document, "place"),
        decode_vector(get_object(document, "vector")),
        get_text(document, "fingerprint"),
        tuple(map(_decode_part, get_list(document, "parts"))),
        tuple(map(_decode_id, get_list(document, "block_ids"))),
        get_number(document, "definition_version", 0),
        get_text(document, "create_query", ""),
        get_text(document, "columns", ""),
        get_number(document, "commit_time", 0),
    )


def _decode_part(items: Sequence[Any]) -> HeldPart:
    if not isinstance(items, list) or len(items) < 5 or not all(map(is_number, items[2:5])):
        raise UserError("BAD_ARGUMENTS", f"A held part is [name, hash, rows, bytes, file bytes], got {items!r:.200}")
    name, content_hash, rows, size_bytes, file_bytes = items[:5]
    if not isinstance(content_hash, str) or not content_hash.isalnum():  # it becomes the name of a directory
        raise UserError("BAD_ARGUMENTS", f"The hash of a held part is {content_hash!r:.200}")
    origin, position = items[5:7] if len(items) >= 7 else ("", 0)
    if not isinstance(origin, str) or not is_number(position):
        raise UserError("BAD_ARGUMENTS", f"The place of a held part is {items[5:7]!r:.200}")
    return HeldPart(_decode_name(name), content_hash, rows, size_bytes, file_bytes, origin, position)


def _decode_id(items: Sequence[Any]) -> tuple[str, PartName]:
    if not isinstance(items, list) or len(items) < 2 or not isinstance(items[0], str):
        raise UserError("BAD_ARGUMENTS", f"A block id is [id, part], got {items!r:.200}")
    return items[0], _decode_name(items[1])


def _decode_name(name: object) -> PartName:
    if not isinstance(name, str):
        raise UserError("BAD_ARGUMENTS", f"A part's name is a string, got {name!r:.200}")
    return parse_part_name(name)


class RemoteSource:
    """Implements ``engine.tables.capabilities.table_bootstrap.HeldSource`` over HTTP. Thread-safe."""

    def __init__(
        self,
        client: ClusterClient,
        table: Document,
        uuid: str,
        throttles: Sequence[Throttle],
        check: Callable[[], object],
    ) -> None:
        """``table`` names database, table and link. ``check`` raises when the link does not run here any more."""
        self._client = client
        self._table = table
        self._uuid = uuid
        self._throttles = throttles
        self._check = check

    def hold(self, status: QueryStatus) -> HeldTable:
        """Takes the place anew."""
        answer = self._client.ask("bootstrap/begin", {**self._table, "uuid": self._uuid}, read_seconds=_BEGIN_SECONDS)
        try:
            return decode_held(answer)
        except (UserError, CorruptionError) as error:
            message = f"The answer to /links/bootstrap/begin is malformed: {error.message}"
            raise UnavailableError("NETWORK_ERROR", message) from error

    def fetch(self, held: HeldTable, part: HeldPart, directory: Path, status: QueryStatus) -> None:
        """Writes the part's files into an empty directory, checked against their checksums, and durable."""

        def check() -> None:
            self._check()
            status.check()

        def count(size: int) -> None:
            check()
            for throttle in self._throttles:
                throttle.spend(size, check)

        document = {**self._table, "lease": held.lease, "part": str(part.name)}
        self._client.fetch_files("bootstrap/part", document, part.name, directory, lambda _: None, count)

    def release(self) -> None:
        """Ends the hold."""
        self._client.ask("bootstrap/end", self._table)
