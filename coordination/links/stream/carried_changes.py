"""The changes that a batch of a link carries, as its log entry keeps them.

A batch is one log entry of type REPLACE_RANGE: ``drop_ranges`` and ``replace_parts`` are its net effect. Its key
``link`` says which changes they belong to, so that the table can send them on as what they were::

    "link": {"origins": ["<origin>", …],
             "changes": [[origin, zxid, commit_ms, previous, blocks, drops, mutations, definitions], …]}

``origin`` is an index into ``origins``. Each block is ``[part, block_id, lost]``, the part with its number in this
table; ``lost`` is the number of its lost rows, and -1 if none are lost. Each drop is ``[partition, number]``, each
mutation ``[text, [[partition, number], …]]``, each definition ``[version, metadata, columns]``. Blocks that the same
batch drops again are left out. A change whose ``previous`` is its own zxid is the mark of a bootstrap: the origin's
changes up to there came at once (``bootstrap_plan``). A later version may append items to a change's array; this one
ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordination.links.positions import MAX_ZXID, Origin, Position
from coordination.links.stream.change import Block, Change, Definition, Drop, Mutation
from coordination.log.log_entry import LINK_KEY, LogEntry, StagedPart
from parts.common.errors import CorruptionError, UserError
from parts.common.part_name import PartName

_NOT_LOST = -1
_MUTATIONS = 6
"""Where a change's list has its mutations."""


def carried_document(changes: Sequence[Change]) -> dict[str, object]:
    """Returns the value of the key ``link``.

    The changes have the numbers of the table whose log gets the entry.
    """
    origins = list(dict.fromkeys(change.position.origin for change in changes))
    index = {origin: i for i, origin in enumerate(origins)}
    return {"origins": list(map(str, origins)), "changes": [_to_list(change, index) for change in changes]}


def _to_list(change: Change, index: Mapping[Origin, int]) -> list[object]:
    blocks = [[str(b.part), b.block_id, b.rows if b.is_lost else _NOT_LOST] for b in change.blocks]
    drops = [list(pair) for pair in change.drop_numbers()]
    mutations = [[m.text, list(map(list, m.numbers))] for m in change.mutations]
    definitions = [[d.version, d.metadata, d.columns] for d in change.definitions]
    position = change.position
    head = [index[position.origin], position.zxid, change.commit_ms, change.previous]
    return [*head, blocks, drops, mutations, definitions]


def is_batch(entry: LogEntry) -> bool:
    """Tells whether a link wrote the entry."""
    return entry.is_batch


def has_carried_mutations(entry: LogEntry) -> bool:
    """Tells whether a batch's entry brings mutations, or may: a list that is not read yet."""
    document: Any = dict(entry.extra).get(LINK_KEY)
    return document is None or any(items[_MUTATIONS] for items in document["changes"])


def read_carried_changes(entry: LogEntry, place: int) -> list[Change]:
    """Returns the changes of a batch's entry, whose zxid is ``place``. Raises ``CorruptionError``."""
    try:
        document: Any = dict(entry.extra)[LINK_KEY]
        origins = list(map(Origin.parse, document["origins"]))
        parts = {staged.part: staged for staged in entry.replace_parts}
        return [_from_list(items, place, origins, parts) for items in document["changes"]]
    except (ValueError, KeyError, TypeError, IndexError, UserError) as error:
        raise CorruptionError(f"Cannot read the changes of a batch: {error!r}", name="CORRUPTED_DATA") from error


def _from_list(
    items: Sequence[Any], place: int, origins: Sequence[Origin], parts: Mapping[PartName, StagedPart]
) -> Change:
    origin, zxid, commit_ms, previous, blocks, drops, mutations, definitions = items[:8]
    if origin < 0 or not 0 <= previous <= zxid <= MAX_ZXID:
        raise ValueError(f"origin {origin}, zxid {zxid} after {previous}")
    return Change(
        Position(origins[origin], int(zxid)),
        place,
        int(commit_ms),
        int(previous),
        tuple(_read_block(PartName.parse(part), block_id, lost, parts) for part, block_id, lost in blocks),
        tuple(Drop(partition_id, int(number)) for partition_id, number in drops),
        tuple(Mutation(text, tuple((p, int(number)) for p, number in numbers)) for text, numbers in mutations),
        tuple(Definition(int(version), metadata, columns) for version, metadata, columns in definitions),
    )


def _read_block(part: PartName, block_id: str, lost: int, parts: Mapping[PartName, StagedPart]) -> Block:
    if lost != _NOT_LOST:
        return Block(part, rows=lost, block_id=block_id, is_lost=True)
    staged = parts[part]
    return Block(part, staged.content_hash, staged.rows, staged.size_bytes, block_id)
