"""The nodes of a table's outgoing links: ``links/out/<target cluster>.<name>``.

::

    {"version":1,"name":"west/orders","uuid":"…","target_cluster":"<UUID>","target_cluster_name":"west","two_way":false,
     "begin":0,"trim":120,"applied":131,"last_heartbeat_ms":1700000000000}

A node is made in the multi that names the link in the gate, and goes with it. Positions never go back. Unknown keys are
kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from coordination.keeper.interface import Create, Delete, Keeper, Op, SetData
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState
from coordination.nodes.paths import TablePaths
from engine.tables.capabilities.table_links import OutgoingLink
from parts.common.errors import CorruptionError, UserError
from parts.common.safe_names import is_znode_name

FORMAT_VERSION = 1
_TEXTS = ("name", "uuid", "target_cluster", "target_cluster_name")
_NUMBERS = ("begin", "trim", "applied", "last_heartbeat_ms")


def encode_outgoing(link: OutgoingLink) -> bytes:
    """Returns the node's content."""
    document: dict[str, object] = {**dict(link.extra), "version": FORMAT_VERSION}
    document |= {name: getattr(link, name) for name in _TEXTS} | {"two_way": link.is_two_way}
    document |= {name: getattr(link, name) for name in _NUMBERS}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode_outgoing(data: bytes) -> OutgoingLink:
    """Parses the node's content. Raises ``CorruptionError``."""
    try:
        rest: dict[str, Any] = json.loads(data)
        version = rest.pop("version")
        if version != FORMAT_VERSION:
            raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
        name, uuid, cluster, cluster_name = (str(rest.pop(key)) for key in _TEXTS)
        is_two_way = bool(rest.pop("two_way", False))
        begin, trim, applied, heartbeat = (int(rest.pop(key, 0)) for key in _NUMBERS)
        extra = tuple(rest.items())
        return OutgoingLink(name, uuid, cluster, cluster_name, is_two_way, begin, trim, applied, heartbeat, extra)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"Cannot read the outgoing link {data[:200]!r}: {error}"
        raise CorruptionError(message, name="CORRUPTED_DATA") from error


def find_outgoing_path(table: TablePaths, name: str) -> str:
    """Returns the path of a link's node.

    Raises 36 (BAD_ARGUMENTS) for a name that is not ``<cluster>/<name>``.
    """
    cluster, slash, link = name.partition("/")
    if not slash or not is_znode_name(cluster) or not is_znode_name(link):
        raise UserError("BAD_ARGUMENTS", f"A link is named <target cluster>/<name> at its source, not {name[:200]!r}")
    return table.linked.outgoing_link(cluster, link)


def make_gate_link(link: OutgoingLink) -> GateLink:
    """Returns the link as the gate names it."""
    cluster, name = link.target_cluster, link.target_cluster_name
    state = SyncState.ENABLING if link.mode is LinkMode.SYNC and not link.is_paused else SyncState.DISABLED
    return GateLink(
        link.name,
        LinkDirection.OUT,
        link.uuid,
        cluster,
        name,
        link.is_two_way,
        mode=link.mode,
        state=state,
        is_paused=link.is_paused,
        timeout_seconds=link.timeout_seconds,
        sync_tail_bytes=link.sync_tail_bytes,
        is_tracked=link.is_tracked,
    )


def make_outgoing(link: GateLink) -> OutgoingLink:
    """Returns a link of the gate as it is told to other targets of its source."""
    return OutgoingLink(
        link.name, link.uuid, link.peer, link.peer_name, link.is_two_way, mode=link.mode, is_paused=link.is_paused
    )


def register_ops(keeper: Keeper, table: TablePaths, link: OutgoingLink) -> list[Op]:
    """Returns the operation that makes the link's node, or says anew what the target said of the link."""
    path = find_outgoing_path(table, link.name)
    answer = keeper.get_many([path])[0]
    if answer is None:
        return [Create(path, encode_outgoing(link))]
    known = decode_outgoing(answer[0])
    if known.uuid != link.uuid:  # a former link of this name, whose gate forgot it
        return [SetData(path, encode_outgoing(link), answer[1].version)]
    known = replace(known, is_two_way=link.is_two_way, target_cluster_name=link.target_cluster_name)
    return [SetData(path, encode_outgoing(known), answer[1].version)]


def unregister_ops(keeper: Keeper, table: TablePaths, name: str) -> list[Op]:
    """Returns the operation that removes the link's node."""
    path = find_outgoing_path(table, name)
    return [Delete(path)] if keeper.exists(path) is not None else []


def read_outgoing(keeper: Keeper, table: TablePaths) -> list[OutgoingLink]:
    """Reads the outgoing links, sorted by name."""
    names = keeper.children_many([table.linked.outgoing])[0] or []
    answers = keeper.get_many([f"{table.linked.outgoing}/{name}" for name in names])
    return sorted((decode_outgoing(answer[0]) for answer in answers if answer is not None), key=lambda link: link.name)


def find_released_position(links: Iterable[OutgoingLink]) -> int | None:
    """Returns the zxid up to which no link needs blocks; ``None`` without links."""
    return min((max(link.begin, link.trim) for link in links), default=None)
