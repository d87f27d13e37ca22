"""Entries of a table's replication log and of the replicas' queues: what happened, or is to be made.

An entry is compact JSON with a ``version``. It describes itself: who wrote it, when, and everything a replica (or a
later reader of the log as a stream of changes) needs without asking the writer. Unknown keys are kept and written
back; an unknown version or type is refused, because a replica that skipped an entry would diverge.

=============  =====================================================================================================
GET_PART       the part exists on ``source_replica``; fetch it (from any holder). ``block_id``, ``quorum``, hash.
ATTACH_PART    as GET_PART, but a local detached part of the same content hash may be taken.
MERGE_PARTS    merge ``source_parts`` into ``new_part``; ``deduplicate``, ``deduplicate_by``, ``merge_type``.
MUTATE_PART    apply mutations to the one source part.
DROP_RANGE     the blocks of ``new_part``'s range are gone; ``detach`` keeps them in detached/.
DROP_PART      the one part ``new_part`` is gone; ``detach`` as above.
REPLACE_RANGE  drop the range, attach ``replace_parts`` (names and hashes) instead.
ALTER_METADATA new ``metadata`` and ``columns`` text with ``alter_version``.
=============  =====================================================================================================
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from parts.errors import CorruptionError
from parts.part_name import MAX_LEVEL, PartName

FORMAT_VERSION = 1


class EntryType(Enum):
    """The value is the text of system.replication_queue's ``type``."""

    GET_PART = "GET_PART"
    ATTACH_PART = "ATTACH_PART"
    MERGE_PARTS = "MERGE_PARTS"
    MUTATE_PART = "MUTATE_PART"
    DROP_RANGE = "DROP_RANGE"
    DROP_PART = "DROP_PART"
    REPLACE_RANGE = "REPLACE_RANGE"
    ALTER_METADATA = "ALTER_METADATA"


_PRODUCING = {EntryType.GET_PART, EntryType.ATTACH_PART, EntryType.MERGE_PARTS, EntryType.MUTATE_PART}
_DROPPING = {EntryType.DROP_RANGE, EntryType.DROP_PART, EntryType.REPLACE_RANGE}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry. ``create_time`` is in seconds since the epoch on the writer's clock."""

    type: EntryType
    new_part: PartName | None
    create_time: float
    source_replica: str
    source_parts: tuple[PartName, ...] = ()
    block_id: str = ""
    """Deduplication id of the inserted block, "" for none."""
    quorum: int = 0
    """Replicas that must hold the part before the INSERT is confirmed; below 2 means no quorum."""
    quorum_parallel: bool = False
    content_hash: str = ""
    """Of ``new_part``'s uncompressed content where the writer knows it (GET_PART, ATTACH_PART)."""
    rows: int = 0
    size_bytes: int = 0
    """Size of ``new_part`` where known, of the sources' sum for merges."""
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    merge_type: str = ""
    """``Regular`` or ``Optimize``, as in system.replication_queue."""
    detach: bool = False
    has_leftovers: bool = False
    """DROP_RANGE: who executes it first clears block ids and quorums of the range (``drop_range``)."""
    is_restored: bool = False
    """GET_PART of a part that was confirmed elsewhere before: the replica lost it, or is cloned."""
    replace_parts: tuple[tuple[str, str], ...] = ()
    """REPLACE_RANGE: (part name, content hash)."""
    metadata: str = ""
    columns: str = ""
    alter_version: int = 0
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    """Keys of a later minor format, kept as they are."""

    @property
    def is_producing(self) -> bool:
        """True when executing it adds ``new_part`` to the replica."""
        return self.type in _PRODUCING

    @property
    def is_dropping(self) -> bool:
        """True when ``new_part`` is the range that goes."""
        return self.type in _DROPPING

    def to_bytes(self) -> bytes:
        document: dict[str, object] = {"version": FORMAT_VERSION, "type": self.type.value}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                document[name] = _plain(value)
        document.update(self.extra)
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> LogEntry:
        """Raises ``CorruptionError`` for what is not an entry this version understands."""
        try:
            document = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            return cls(type=EntryType(document.pop("type")), **_arguments(document))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(
                f"Cannot read replication log entry {data[:200]!r}: {error}", name="CORRUPTED_DATA"
            ) from error


_DEFAULTS: dict[str, object] = {
    f.name: (f.default if f.name not in ("new_part", "create_time", "source_replica") else None)
    for f in fields(LogEntry)
    if f.name not in ("type", "extra")
}


def _plain(value: object) -> object:
    if isinstance(value, PartName):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _arguments(document: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = {name: value for name, value in document.items() if name in _DEFAULTS}
    extra = tuple((name, value) for name, value in document.items() if name not in _DEFAULTS)
    part = known.get("new_part")
    known["new_part"] = _part(part) if part is not None else None
    for name in ("create_time", "source_replica"):
        if name not in known:
            raise KeyError(name)
    if "source_parts" in known:
        known["source_parts"] = tuple(_part(text) for text in known["source_parts"])
    if "deduplicate_by" in known:
        known["deduplicate_by"] = tuple(known["deduplicate_by"])
    if "replace_parts" in known:
        known["replace_parts"] = tuple((name, digest) for name, digest in known["replace_parts"])
    return {**known, "extra": extra}


def _part(text: object) -> PartName:
    part = PartName.try_parse(text) if isinstance(text, str) else None
    if part is None:
        raise ValueError(f"bad part name {text!r}")
    return part


def drop_range(partition_id: str, below: int) -> PartName:
    """The range of blocks 0 … ``below`` - 1 of a partition, over every level."""
    return PartName(partition_id, 0, max(below - 1, 0), MAX_LEVEL)
