"""The messages of synchronous links, as JSON.

The source's servers ask the target's::

    stage    {link, uuid, name, parts: [[partition, content hash, rows], …]} → {}, or the refusal's error
    visible  {link, uuid, position, wait_seconds} → {missing}: "" if all active replicas show everything up to there

The target's servers ask the source's::

    mode     {database, table, link, uuid, mode, is_paused} → {}; without a mode it stays as it is

A link is named as its target knows it in the first two, and ``<target cluster>/<name>`` in the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coordination.links.positions import Position
from coordination.nodes.gate_link import LinkMode
from engine.links.exchange.fields import Document, get_flag, get_list, get_seconds, get_text, is_number
from engine.links.exchange.protocol import MAX_WAIT_SECONDS, SYNC_VERSION, decode_mode
from parts.common.errors import UserError

LEAST_VERSION = SYNC_VERSION


@dataclass(frozen=True, slots=True)
class StagedBlock:
    """A part of an INSERT that is not decided yet."""

    partition_id: str
    content_hash: str
    rows: int


@dataclass(frozen=True, slots=True)
class StageRequest:
    """The question whether a target takes the parts of an INSERT."""

    link: str
    uuid: str
    name: str
    """Of the INSERT, at the source."""
    parts: Sequence[StagedBlock]


@dataclass(frozen=True, slots=True)
class VisibleRequest:
    """The question whether a target shows everything up to a position of the source."""

    link: str
    uuid: str
    position: Position
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class ModeMessage:
    """The mode that a link is to have at its source, and whether its target has disabled it."""

    database: str
    table: str
    link: str
    uuid: str
    mode: LinkMode | None
    """``None``: the one that it has."""
    is_paused: bool


def encode_stage(request: StageRequest) -> dict[str, Any]:
    """Returns the request as JSON."""
    parts = [[part.partition_id, part.content_hash, part.rows] for part in request.parts]
    return {"link": request.link, "uuid": request.uuid, "name": request.name, "parts": parts}


def decode_stage(document: Document) -> StageRequest:
    """Parses the request. Raises 36 (BAD_ARGUMENTS)."""
    parts = tuple(map(_decode_part, get_list(document, "parts")))
    return StageRequest(get_text(document, "link"), get_text(document, "uuid"), get_text(document, "name"), parts)


def _decode_part(fields: object) -> StagedBlock:
    match fields:
        case [str(partition_id), str(content_hash), int(rows)] if is_number(rows):
            return StagedBlock(partition_id, content_hash, rows)
    raise UserError("BAD_ARGUMENTS", f"'parts' must hold lists of three fields, got {repr(fields)[:200]}")


def encode_visible(request: VisibleRequest) -> dict[str, Any]:
    """Returns the request as JSON."""
    return {
        "link": request.link,
        "uuid": request.uuid,
        "position": str(request.position),
        "wait_seconds": min(request.wait_seconds, MAX_WAIT_SECONDS),
    }


def decode_visible(document: Document) -> VisibleRequest:
    """Parses the request. Raises 36 (BAD_ARGUMENTS)."""
    return VisibleRequest(
        get_text(document, "link"),
        get_text(document, "uuid"),
        Position.parse(get_text(document, "position")),
        get_seconds(document, "wait_seconds", MAX_WAIT_SECONDS),
    )


def encode_mode_message(message: ModeMessage) -> dict[str, Any]:
    """Returns the request as JSON."""
    document = {
        "database": message.database,
        "table": message.table,
        "link": message.link,
        "uuid": message.uuid,
        "is_paused": message.is_paused,
    }
    return document if message.mode is None else {**document, "mode": message.mode.value}


def decode_mode_message(document: Document) -> ModeMessage:
    """Parses the request. Raises 36 (BAD_ARGUMENTS)."""
    return ModeMessage(
        get_text(document, "database"),
        get_text(document, "table"),
        get_text(document, "link"),
        get_text(document, "uuid"),
        decode_mode(document) if "mode" in document else None,
        get_flag(document, "is_paused"),
    )
