"""Entries of a table's replication log and of the replicas' queues.

An entry is compact JSON with a ``version``. It describes itself: who wrote it, when, and everything a replica (or a
later reader of the log as a stream of changes) needs without asking the writer. Unknown keys are kept and written back;
an unknown version or type is refused, because a replica that skipped an entry would diverge.

=============  =====================================================================================================
GET_PART       the part exists on ``source_replica``; fetch it (from any holder). ``block_id``, ``quorum``, hash.
ATTACH_PART    as GET_PART, but a local detached part of the same content hash may be taken.
MERGE_PARTS    merge ``source_parts`` into ``new_part``; ``deduplicate``, ``deduplicate_by``, ``cleanup``,
               ``merge_type``, ``expire_at``, ``stable_time``.
MUTATE_PART    apply ``mutations`` to the one source part, under definition ``alter_version`` or a later one.
DROP_RANGE     the blocks of ``new_part``'s range are gone; ``detach`` keeps them in detached/.
DROP_PART      the one part ``new_part`` is gone; ``detach`` as above.
REPLACE_RANGE  at once: the blocks of ``drop_ranges`` are gone, and ``replace_parts`` are there; ``commit_time`` and
               ``origin`` of rows that a transaction inserted.
ALTER_METADATA new ``metadata`` and ``columns`` text with ``alter_version``.
=============  =====================================================================================================
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from parts.common.errors import CorruptionError
from parts.common.part_name import MAX_LEVEL, PartName

FORMAT_VERSION = 1


TTL_DROP = "TTLDrop"
"""The ``merge_type`` of a DROP_PART whose rows had all expired: no client's command."""


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


LINK_KEY, LIST_KEY = "link", "list"
"""Keys of entries that links write: the changes of a batch, and the list that stands for a large one."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part that a transaction left on ``replica``, under ``place`` among its staged parts."""

    part: PartName
    content_hash: str
    replica: str
    place: str
    rows: int = 0
    size_bytes: int = 0

    def to_list(self) -> list[object]:
        """Returns the part as a JSON list."""
        return [str(self.part), self.content_hash, self.replica, self.place, self.rows, self.size_bytes]

    @classmethod
    def from_list(cls, items: list[Any]) -> StagedPart:
        """Parses the JSON list."""
        part, content_hash, replica, place, rows, size_bytes = items
        return cls(_part(part), str(content_hash), str(replica), str(place), int(rows), int(size_bytes))


_OF_LISTS = frozenset({"drop_ranges", "replace_parts", LINK_KEY})
_PRODUCING = {EntryType.GET_PART, EntryType.ATTACH_PART, EntryType.MERGE_PARTS, EntryType.MUTATE_PART}
_DROPPING = {EntryType.DROP_RANGE, EntryType.DROP_PART}


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
    """Hash of ``new_part``'s uncompressed content, where the writer knows it (GET_PART, ATTACH_PART)."""
    rows: int = 0
    size_bytes: int = 0
    """Size of ``new_part`` where known; for merges the sum of the sources' sizes."""
    deduplicate: bool = False
    deduplicate_by: tuple[str, ...] = ()
    cleanup: bool = False
    """A merge of all parts of a partition removes rows that are marked as deleted."""
    merge_type: str = ""
    """``Regular``, ``Optimize``, ``TTLDelete`` or ``TTLRecompress``, as in system.replication_queue; ``TTL_DROP``."""
    expire_at: int = 0
    """MERGE_PARTS: the time, in seconds since the epoch, for which TTL is evaluated; 0: TTL is not applied.
    ``alter_version`` is then the version of the definition that has the TTL."""
    detach: bool = False
    has_leftovers: bool = False
    """Some block ids and quorums of the range are left: each replica deletes them before it executes the drop."""
    is_restored: bool = False
    """GET_PART of a part that was confirmed before: this replica lost it, or is being cloned."""
    drop_ranges: tuple[PartName, ...] = ()
    """REPLACE_RANGE: the ranges to drop, one for each partition."""
    replace_parts: tuple[StagedPart, ...] = ()
    """REPLACE_RANGE: the new parts."""
    transaction: str = ""
    """REPLACE_RANGE: the name of the transaction (``coordination.transactions.transaction_nodes``)."""
    metadata: str = ""
    columns: str = ""
    alter_version: int = 0
    mutations: tuple[str, ...] = ()
    """MUTATE_PART: the ids of the mutations that turn the source into the result."""
    commit_time: int = 0
    """Of a table with ``last_writer_wins``: the largest time among the new rows' versions (``commit_times``)."""
    origin: str = ""
    """REPLACE_RANGE of a transaction: the inserted parts, which have no version yet, get ``commit_time``, this origin
    and their block numbers on each replica (``parts.table.row_version``)."""
    place_origin: str = ""
    """REPLACE_RANGE of a transaction: the new rows were inserted by this origin, in the commit of ``position``."""
    position: int = 0
    """With ``place_origin``: the zxid of the log entry, which the pull writes into the replica's queue."""
    stable_time: int = 0
    """MERGE_PARTS of all parts of a partition: tombstones of this commit time, or an earlier one, go."""
    sync_targets: tuple[str, ...] = ()
    """GET_PART of an INSERT, REPLACE_RANGE of a transaction: the UUIDs of the synchronous links with whose targets it
    was made. It is acknowledged when all of them show it."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    """Keys of a later minor format, kept as they are."""

    @property
    def is_batch(self) -> bool:
        """Whether a link wrote the entry: it is the effect of a batch."""
        return any(key in (LINK_KEY, LIST_KEY) for key, _ in self.extra)

    @property
    def created_parts(self) -> tuple[PartName, ...]:
        """The parts that executing the entry adds to the replica."""
        if self.type is EntryType.REPLACE_RANGE:
            return tuple(staged.part for staged in self.replace_parts)
        return (self.new_part,) if self.type in _PRODUCING and self.new_part is not None else ()

    @property
    def removed_ranges(self) -> tuple[PartName, ...]:
        """The ranges whose parts executing the entry removes from the replica."""
        if self.type is EntryType.REPLACE_RANGE:
            return self.drop_ranges
        return (self.new_part,) if self.type in _DROPPING and self.new_part is not None else ()

    @property
    def content_hashes(self) -> dict[PartName, str]:
        """The content hashes of the added parts, as far as the writer knew them."""
        if self.type is EntryType.REPLACE_RANGE:
            return {staged.part: staged.content_hash for staged in self.replace_parts}
        return dict.fromkeys(self.created_parts, self.content_hash) if self.content_hash else {}

    @property
    def partition_ids(self) -> set[str]:
        """The partitions of the parts it adds or removes."""
        return {part.partition_id for part in (*self.created_parts, *self.removed_ranges)}

    def to_bytes(self, *, is_whole: bool = False) -> bytes:
        """Returns the entry as JSON, without values that are defaults.

        One that has a list (``entry_list``) is written without what its list has, unless ``is_whole``.
        """
        extra = dict(self.extra)
        left_out: frozenset[str] = _OF_LISTS if LIST_KEY in extra and not is_whole else frozenset()
        document: dict[str, object] = {"version": FORMAT_VERSION, "type": self.type.value}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default and name not in left_out:
                document[name] = _plain(value)
        document.update({key: value for key, value in extra.items() if key not in left_out})
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> LogEntry:
        """Parses an entry. Raises ``CorruptionError`` if this version does not understand it."""
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
    if isinstance(value, StagedPart):
        return value.to_list()
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
    for name in ("source_parts", "drop_ranges"):
        if name in known:
            known[name] = tuple(_part(text) for text in known[name])
    for name in ("deduplicate_by", "mutations", "sync_targets"):
        if name in known:
            known[name] = tuple(known[name])
    if "replace_parts" in known:
        known["replace_parts"] = tuple(map(StagedPart.from_list, known["replace_parts"]))
    return {**known, "extra": extra}


def _part(text: object) -> PartName:
    part = PartName.try_parse(text) if isinstance(text, str) else None
    if part is None:
        raise ValueError(f"bad part name {text!r}")
    return part


def drop_range_name(partition_id: str, below: int) -> PartName:
    """Returns the range of blocks 0 … ``below`` - 1 of a partition, over every level."""
    return PartName(partition_id, 0, max(below - 1, 0), MAX_LEVEL)
