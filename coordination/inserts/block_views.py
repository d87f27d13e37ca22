"""Record which materialized views miss an inserted block, behind the part's name in ``blocks/<id>``.

The node holds the name of the inserted part and, until the views have the block, one more line::

    202611_7_7_0
    {"version":1,"token":"5f…","views":["db.view", …]}

A block that was committed with the targets of synchronous links has that line for good, with their links' UUIDs::

    {"version":1,"token":"","views":[],"sync":["9c…"]}

The INSERT that stores the block makes up ``token``. The views' targets use it as the block's deduplication id. So a
repeat that completes the views sends the targets the same blocks again. A block that is stored anew, because its id was
forgotten, is new to the targets too.

The commit of the block writes the record, and the commit to the targets removes it. A node without a record means that
nothing is missing. Older versions do not understand the second line, so it is written only when every replica does
(``replica_activation.FEATURE_VIEWS``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from coordination.keeper.interface import BadVersion, Keeper, MultiFailed, NoNode, SetData
from coordination.keeper.request_limits import MAX_MULTI_BYTES, MAX_MULTI_OPERATIONS, operation_bytes, split_into_multis
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, CorruptionError

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class MissingViews:
    """The full names of views that still need the block, and the block's ``token`` in their targets."""

    token: str = ""
    views: tuple[str, ...] = ()

    def remove_views(self, views: Collection[str]) -> MissingViews:
        """Returns the record without these views."""
        left = tuple(view for view in self.views if view not in views)
        return MissingViews(self.token, left) if left else NOTHING_MISSING


NOTHING_MISSING = MissingViews()


@dataclass(frozen=True, slots=True)
class BlockNode:
    """The content of ``blocks/<id>``."""

    part: str
    missing: MissingViews = NOTHING_MISSING
    sync_targets: tuple[str, ...] = ()
    """See ``LogEntry.sync_targets``: a repeat waits for them, as the original does."""

    def to_bytes(self) -> bytes:
        """Returns the node's data."""
        if not self.missing.views and not self.sync_targets:
            return self.part.encode()
        record: dict[str, object] = {"version": 1, "token": self.missing.token, "views": list(self.missing.views)}
        if self.sync_targets:
            record["sync"] = list(self.sync_targets)
        return f"{self.part}\n{json.dumps(record, separators=(',', ':'))}".encode()

    @staticmethod
    def parse_part_name(data: bytes) -> str:
        """Returns the part name from a node's data, without parsing the record."""
        return data.decode(errors="replace").partition("\n")[0]

    @classmethod
    def parse(cls, data: bytes) -> BlockNode:
        """Parses a node's data. Raises ``CorruptionError`` if there is a record that cannot be read."""
        part, _, record = data.decode(errors="replace").partition("\n")
        if not record:
            return cls(part)
        try:
            document = json.loads(record)
            views = tuple(document["views"])
            missing = MissingViews(document["token"], views) if views else NOTHING_MISSING
            return cls(part, missing, tuple(map(str, document.get("sync", ()))))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read block id of {data[:200]!r}", name="CORRUPTED_DATA") from error


def find_missing_views(keeper: Keeper, table: TablePaths, block_ids: Sequence[str]) -> list[MissingViews | None]:
    """Returns for each block the views that miss it; ``None`` for an unknown block."""
    answers = keeper.get_many([table.block(block_id) for block_id in block_ids])
    return [None if answer is None else BlockNode.parse(answer[0]).missing for answer in answers]


def views_have(keeper: Keeper, table: TablePaths, tokens: Mapping[str, str], views: Collection[str]) -> None:
    """Removes views that now have the blocks from the records. Repeatable.

    ``tokens``: block id → the token of its record. A node with another token belongs to later rows of the same id and
    stays unchanged. The pieces of one block change in one request, up to some 200 partitions. So a repeat finds all of
    them missing, or none.
    """
    blocks = [list(pieces) for _, pieces in groupby(tokens.items(), key=lambda item: item[1])]
    for packet in split_into_multis(blocks, lambda pieces: len(pieces) * MAX_MULTI_BYTES // MAX_MULTI_OPERATIONS):
        _remove_views(keeper, table, dict(chain(*packet)), views)


def _remove_views(keeper: Keeper, table: TablePaths, tokens: Mapping[str, str], views: Collection[str]) -> None:
    paths = [table.block(block_id) for block_id in tokens]
    for _ in range(_ATTEMPTS):
        sets: list[SetData] = []
        for path, token, answer in zip(paths, tokens.values(), keeper.get_many(paths), strict=True):
            node = BlockNode.parse(answer[0]) if answer is not None else None
            if answer is not None and node is not None and node.missing.token == token:
                left = BlockNode(node.part, node.missing.remove_views(views), node.sync_targets)
                if left != node:
                    sets.append(SetData(path, left.to_bytes(), answer[1].version))
        try:
            for packet in split_into_multis(sets, operation_bytes):
                keeper.multi(packet)
            return
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing block ids of {table.root}; retry")
