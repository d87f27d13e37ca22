"""The messages of a link, as JSON.

A target's server sends each as the body of ``POST /links/<name>``; the answer is JSON too. Both sides name their
versions in the first request (``hello``), and the smaller one counts. A change of 1,000 blocks takes about 100 KB.
Answers may be compressed (``engine.links.exchange.compressed_answers``).

===============  ======================================================================================================
``hello``        {versions: [least, most], cluster, uuid, shard, shards} → the same of the other side
``describe``     {database, table} → a source table, with ``servers``: the HTTP addresses of its replicas
``register``     {database, table, link} → a source table, at a place where the link may begin
``unregister``   {database, table, name, uuid} → {}; a link of another UUID stays
``changes``      {database, table, link, uuid, vector, trim, max_rows, max_bytes, wait_seconds} → changes up to a cut
``news``         {links: [{database, table, mark}], wait_seconds} → {news: […]}: the places in the list of those links
                 of whose tables the server noticed something after it gave the mark, as soon as there is one
``position``     {database, table} → {position}: behind everything that is committed now
``block``        {database, table, position, part} → the files of a block (``engine.interserver.protocol``)
``origin``       what tables have of an origin (``engine.links.exchange.survey_messages``)
``tables``       {database} → {tables: [{table, create_query, problem}]}: those that links can take, and why others not
===============  ======================================================================================================

An answer to ``changes`` also tells up to which commit times the source has every row of each origin (``stable``). There
origins are listed once, and changes name them by their place in the list. A block is a list: part,
content hash, rows, bytes, block id, and 1 if it is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from coordination.links.cluster_identity import ClusterIdentity
from coordination.links.link_names import check_link_name
from coordination.links.positions import Origin, Position
from coordination.links.shard_place import MAX_SHARDS, ShardPlace
from coordination.links.stream.change import Block, Change, Definition, Drop, Mutation
from coordination.links.stream.gap_check import Fork
from coordination.links.switching.lineage import Lineage
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import DEFAULT_SYNC_TAIL_BYTES, DEFAULT_TIMEOUT_SECONDS, LinkMode, SyncState
from engine.links.exchange.fields import (
    Document,
    get_flag,
    get_list,
    get_number,
    get_numbered,
    get_numbers,
    get_object,
    get_objects,
    get_seconds,
    get_text,
    get_texts,
    is_number,
)
from engine.server.links_config import check_cluster_name
from engine.tables.capabilities.sync_answer import NO_SYNC, SyncAnswer
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, OutgoingLink, SourceTable
from parts.common.errors import CorruptionError, PandoError, UserError
from parts.common.part_name import PartName

VERSION = 5
"""1: without ``origin``. 2: without ``blocks``. 3: without synchronous links. 4: a pause comes with a mode."""
SYNC_VERSION = 4
"""The oldest version that knows synchronous links."""
PAUSE_VERSION = 5
"""The oldest version that takes a pause of a link and leaves its mode as it is."""
LEAST_VERSION = 1
"""The oldest version of the other side that this one can speak with."""
MAX_WAIT_SECONDS = 10.0
"""The longest that an answer may wait for something new."""
_LINK_UUID = re.compile(r"[A-Za-z0-9-]{1,64}")
MAX_BATCH_ROWS = 10**12
MAX_BATCH_BYTES = 1 << 40
MAX_TIMEOUT_SECONDS = 600.0


def agree_on_version(least: int, most: int, who: str) -> int:
    """Returns the version that both sides speak. Raises 48 (NOT_IMPLEMENTED) if there is none.

    ``least`` and ``most`` are those of the other side, which ``who`` names.
    """
    version = min(most, VERSION)
    if version < max(least, LEAST_VERSION):
        raise UserError(
            "NOT_IMPLEMENTED",
            f"{who} speaks versions {least} to {most} of the links' protocol, this server {LEAST_VERSION} to "
            f"{VERSION}; update the older side",
        )
    return version


# -- tables and links ---------------------------------------------------------------------------------------------


def encode_source(source: SourceTable) -> dict[str, Any]:
    """Returns a source table as JSON."""
    return {
        "database": source.database,
        "table": source.table,
        "origin": str(source.origin),
        "newest": source.newest,
        "create_query": source.create_query,
        "definition_version": source.definition_version,
        "fingerprint": source.fingerprint,
        "forks": [[str(fork.origin), fork.zxid] for fork in source.forks],
        "columns": source.columns,
        "vector": json.loads(source.vector.to_bytes()),
        "is_empty": source.is_empty,
        "lineage": source.lineage.to_json(),
        "siblings": [encode_outgoing(link) for link in source.siblings],
        "is_target": source.is_target,
    }


def decode_source(document: Document) -> SourceTable:
    """Parses a source table. Raises 36 (BAD_ARGUMENTS)."""
    return SourceTable(
        get_text(document, "database"),
        get_text(document, "table"),
        Origin.parse(get_text(document, "origin")),
        get_number(document, "newest"),
        get_text(document, "create_query"),
        get_number(document, "definition_version"),
        get_text(document, "fingerprint"),
        tuple(Fork(Origin.parse(text), zxid) for text, zxid in get_numbered(document, "forks")),
        get_text(document, "columns", ""),
        decode_vector(get_object(document, "vector")) if "vector" in document else VersionVector(),
        get_flag(document, "is_empty"),
        Lineage.of(get_object(document, "lineage")) if "lineage" in document else Lineage(),
        tuple(map(decode_outgoing, get_objects(document, "siblings"))) if "siblings" in document else (),
        get_flag(document, "is_target"),
    )


def encode_outgoing(link: OutgoingLink) -> dict[str, Any]:
    """Returns a registration as JSON."""
    return {
        "name": link.name,
        "uuid": link.uuid,
        "target_cluster": link.target_cluster,
        "target_cluster_name": link.target_cluster_name,
        "is_two_way": link.is_two_way,
        "is_left_alone": not link.is_tracked,
        "begin": link.begin,
        "mode": link.mode.value,
        "is_paused": link.is_paused,
        "timeout_seconds": link.timeout_seconds,
        "sync_tail_bytes": link.sync_tail_bytes,
    }


def decode_outgoing(document: Document) -> OutgoingLink:
    """Parses a registration. Raises 36 (BAD_ARGUMENTS) also for names that no cluster or link can have.

    They are kept in ZooKeeper, where other links read them.
    """
    target = decode_identity(document, "target_cluster_name", "target_cluster")
    name, uuid = get_text(document, "name"), get_text(document, "uuid")
    if not name.startswith(f"{target.name}/"):
        raise UserError(
            "BAD_ARGUMENTS", f"The link {name[:200]!r} must be named <cluster>/<link>, of its target's cluster"
        )
    check_link_name(name.removeprefix(f"{target.name}/"))
    if _LINK_UUID.fullmatch(uuid) is None:
        raise UserError("BAD_ARGUMENTS", f"'uuid' must be the link's UUID, got {uuid[:100]!r}")
    return OutgoingLink(
        name,
        uuid,
        target.uuid,
        target.name,
        get_flag(document, "is_two_way"),
        get_number(document, "begin", 0),
        is_tracked=not get_flag(document, "is_left_alone"),
        mode=decode_mode(document),
        is_paused=get_flag(document, "is_paused"),
        timeout_seconds=get_seconds(document, "timeout_seconds", MAX_TIMEOUT_SECONDS)
        if "timeout_seconds" in document
        else DEFAULT_TIMEOUT_SECONDS,
        sync_tail_bytes=get_number(document, "sync_tail_bytes", DEFAULT_SYNC_TAIL_BYTES),
    )


def decode_mode(document: Document) -> LinkMode:
    """Parses a link's mode; older versions have ``async`` alone. Raises 36 (BAD_ARGUMENTS)."""
    text = get_text(document, "mode", LinkMode.ASYNC.value)
    try:
        return LinkMode(text)
    except ValueError:
        raise UserError("BAD_ARGUMENTS", f"'mode' must be sync or async, got {text[:100]!r}") from None


def decode_identity(document: Document, name: str = "cluster", uuid: str = "uuid") -> ClusterIdentity:
    """Parses what a cluster calls itself, from fields of these names. Raises 36 (BAD_ARGUMENTS)."""
    cluster = get_text(document, name)
    try:
        return ClusterIdentity(check_cluster_name(cluster), str(UUID(get_text(document, uuid))))
    except ValueError as error:
        raise UserError("BAD_ARGUMENTS", f"{cluster[:100]!r} is no cluster's identity: {error}") from None


def encode_shard(place: ShardPlace) -> dict[str, Any]:
    """Returns the fields of a greeting that tell a server's shard."""
    return {"shard": place.number, "shards": place.count}


def decode_shard(document: Document) -> ShardPlace:
    """Parses a server's shard; older versions do not tell it. Raises 36 (BAD_ARGUMENTS)."""
    return ShardPlace(
        get_number(document, "shard", 0, most=MAX_SHARDS), get_number(document, "shards", 0, most=MAX_SHARDS)
    )


def decode_versions(document: Document) -> tuple[int, int]:
    """Parses the least and the most version that the other side speaks. Raises 36 (BAD_ARGUMENTS)."""
    versions = get_numbers(document, "versions")
    if len(versions) != 2:
        raise UserError("BAD_ARGUMENTS", f"'versions' must be the least and the most, got {list(versions)[:10]}")
    return versions[0], versions[1]


# -- changes ------------------------------------------------------------------------------------------------------


def encode_request(database: str, table: str, request: ChangesRequest) -> dict[str, Any]:
    """Returns a request for changes as JSON."""
    return {
        "database": database,
        "table": table,
        "link": request.link,
        "uuid": request.uuid,
        "vector": json.loads(request.vector.to_bytes()),
        "trim": request.trim,
        "max_rows": request.max_rows,
        "max_bytes": request.max_bytes,
        "wait_seconds": request.wait_seconds,
        **({"stopped_at_gate": request.stopped_at_gate} if request.stopped_at_gate >= 0 else {}),
    }


def decode_request(document: Document) -> ChangesRequest:
    """Parses a request for changes. Raises 36 (BAD_ARGUMENTS)."""
    return ChangesRequest(
        get_text(document, "link"),
        get_text(document, "uuid"),
        decode_vector(get_object(document, "vector")),
        get_number(document, "trim"),
        get_number(document, "max_rows", most=MAX_BATCH_ROWS),
        get_number(document, "max_bytes", most=MAX_BATCH_BYTES),
        get_seconds(document, "wait_seconds", MAX_WAIT_SECONDS),
        get_number(document, "stopped_at_gate") if "stopped_at_gate" in document else -1,
    )


def decode_vector(document: Document) -> VersionVector:
    """Parses a vector. Raises 36 (BAD_ARGUMENTS)."""
    try:
        return VersionVector.parse(json.dumps(document).encode())
    except CorruptionError as error:
        raise UserError("BAD_ARGUMENTS", error.message) from None


def encode_answer(answer: ChangesAnswer) -> dict[str, Any]:
    """Returns changes as JSON."""
    places: dict[Origin, int] = {}
    changes = [
        _encode_change(change, places.setdefault(change.position.origin, len(places))) for change in answer.changes
    ]
    return {
        "source": encode_source(answer.source),
        "origins": list(map(str, places)),
        "changes": changes,
        "cuts": list(answer.cuts),
        "frontier": answer.frontier,
        "waits": list(answer.waits),
        "clock_ms": answer.clock_ms,
        "rows_behind": answer.rows_behind,
        "bytes_behind": answer.bytes_behind,
        "mark": answer.mark,
        "stable": [[str(origin), time] for origin, time in answer.stable.items()],
        **_encode_sync(answer.sync),
    }


def _encode_sync(sync: SyncAnswer) -> dict[str, Any]:
    if sync == NO_SYNC:
        return {}
    return {
        "mode": sync.mode.value,
        "state": sync.state.value,
        "gate_version": sync.gate_version,
        "is_lease_renewed": sync.is_lease_renewed,
    }


def _decode_sync(document: Document) -> SyncAnswer:
    if "state" not in document:
        return NO_SYNC
    try:
        state = SyncState(get_text(document, "state"))
    except ValueError as error:
        raise UserError("BAD_ARGUMENTS", f"'state' is unknown: {error}") from None
    is_renewed = get_flag(document, "is_lease_renewed")
    return SyncAnswer(decode_mode(document), state, get_number(document, "gate_version"), is_renewed)


def decode_answer(document: Document) -> ChangesAnswer:
    """Parses changes. Raises 36 (BAD_ARGUMENTS)."""
    origins = list(map(Origin.parse, get_texts(document, "origins")))
    changes = tuple(_decode_change(change, origins) for change in get_objects(document, "changes"))
    cuts, frontier = get_numbers(document, "cuts"), get_number(document, "frontier")
    if list(cuts) != sorted(set(cuts)):
        raise UserError("BAD_ARGUMENTS", f"'cuts' must ascend, got {list(cuts)[:20]}")
    if changes and (not cuts or max(change.place for change in changes) > cuts[-1]):
        raise UserError("BAD_ARGUMENTS", "'changes' go beyond the last cut")
    return ChangesAnswer(
        decode_source(get_object(document, "source")),
        changes,
        cuts,
        frontier,
        get_texts(document, "waits"),
        get_number(document, "clock_ms"),
        get_number(document, "rows_behind", 0),
        get_number(document, "bytes_behind", 0),
        get_text(document, "mark", ""),
        {Origin.parse(origin): time for origin, time in get_numbered(document, "stable")},
        _decode_sync(document),
    )


def _encode_change(change: Change, origin: int) -> dict[str, Any]:
    document: dict[str, Any] = {
        "origin": origin,
        "zxid": change.position.zxid,
        "place": change.place,
        "commit_ms": change.commit_ms,
        "previous": change.previous,
    }
    if change.blocks:
        document["blocks"] = [
            [str(each.part), each.content_hash, each.rows, each.size_bytes, each.block_id, int(each.is_lost)]
            for each in change.blocks
        ]
    if change.drops:
        document["drops"] = [[each.partition_id, each.number] for each in change.drops]
    if change.mutations:
        document["mutations"] = [
            {"text": each.text, "numbers": list(map(list, each.numbers))} for each in change.mutations
        ]
    if change.definitions:
        document["definitions"] = [
            {"version": each.version, "metadata": each.metadata, "columns": each.columns} for each in change.definitions
        ]
    return document


def _decode_change(document: Document, origins: Sequence[Origin]) -> Change:
    origin = get_number(document, "origin")
    if origin >= len(origins):
        raise UserError("BAD_ARGUMENTS", f"'origin' is {origin}, and 'origins' lists {len(origins)}")
    return Change(
        Position(origins[origin], get_number(document, "zxid")),
        get_number(document, "place"),
        get_number(document, "commit_ms"),
        get_number(document, "previous"),
        tuple(map(_decode_block, get_list(document, "blocks"))),
        tuple(Drop(*pair) for pair in get_numbered(document, "drops")),
        tuple(
            Mutation(get_text(each, "text"), get_numbered(each, "numbers"))
            for each in get_objects(document, "mutations")
        ),
        tuple(
            Definition(get_number(each, "version"), get_text(each, "metadata"), get_text(each, "columns"))
            for each in get_objects(document, "definitions")
        ),
    )


def _decode_block(fields: object) -> Block:
    match fields:
        case [str(part), str(content_hash), int(rows), int(size), str(block_id), int(lost)] if is_number(
            rows
        ) and is_number(size):
            return Block(parse_part_name(part), content_hash, rows, size, block_id, bool(lost))
    raise UserError("BAD_ARGUMENTS", f"'blocks' must hold lists of six fields, got {repr(fields)[:200]}")


def parse_part_name(text: str) -> PartName:
    """Parses a part's name from a message. Raises 36 (BAD_ARGUMENTS)."""
    try:
        return PartName.parse(text)
    except (PandoError, ValueError) as error:
        raise UserError("BAD_ARGUMENTS", f"'part' is no part's name: {error}") from None


def get_table_name(document: Document) -> tuple[str, str]:
    """Returns the database and the table that a request names."""
    return get_text(document, "database"), get_text(document, "table")
