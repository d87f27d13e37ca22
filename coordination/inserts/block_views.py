"""Which materialized views miss an inserted block: a record behind the part's name in ``blocks/<id>``.

The node holds the name of the part as it was inserted, and, until the views have the block, one more line::

    202611_7_7_0
    {"version":1,"token":"5f…","views":["db.view", …]}

``token`` is made up by the INSERT that stores the block, and stands for the block where its views' targets remember
theirs. So a repeat that completes the views gives the targets the same blocks again, and a block that the table takes
anew, because it has forgotten it, is new to the targets too. The record is written by the commit of the block and taken
away by whoever has committed the targets: it never outlives the block's id. A node without it says that nothing is
missing. A version before this one does not understand the second line: it is only written when every replica does
(``replica_activity.VIEWS``).
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
    """``views``: full names of those that have to get the block; ``token`` is what its rows are called there."""

    token: str = ""
    views: tuple[str, ...] = ()

    def without(self, views: Collection[str]) -> MissingViews:
        left = tuple(view for view in self.views if view not in views)
        return MissingViews(self.token, left) if left else NOTHING_MISSING


NOTHING_MISSING = MissingViews()


@dataclass(frozen=True, slots=True)
class BlockNode:
    """The content of ``blocks/<id>``."""

    part: str
    missing: MissingViews = NOTHING_MISSING

    def to_bytes(self) -> bytes:
        if not self.missing.views:
            return self.part.encode()
        record = {"version": 1, "token": self.missing.token, "views": list(self.missing.views)}
        return f"{self.part}\n{json.dumps(record, separators=(',', ':'))}".encode()

    @staticmethod
    def part_of(data: bytes) -> str:
        return data.decode(errors="replace").partition("\n")[0]

    @classmethod
    def parse(cls, data: bytes) -> BlockNode:
        """Raises ``CorruptionError`` when a record is there and cannot be read."""
        part, _, record = data.decode(errors="replace").partition("\n")
        if not record:
            return cls(part)
        try:
            document = json.loads(record)
            return cls(part, MissingViews(document["token"], tuple(document["views"])))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read block id of {data[:200]!r}", name="CORRUPTED_DATA") from error


def find_missing(keeper: Keeper, table: TablePaths, block_ids: Sequence[str]) -> list[MissingViews | None]:
    """For each block what its views miss; ``None`` for a block that the table does not know."""
    answers = keeper.get_many([table.block(block_id) for block_id in block_ids])
    return [None if answer is None else BlockNode.parse(answer[0]).missing for answer in answers]


def views_have(keeper: Keeper, table: TablePaths, tokens: Mapping[str, str], views: Collection[str]) -> None:
    """The named views have the blocks: takes them out of the records. Repeatable.

    ``tokens``: those of the records by block id. A node of another token belongs to rows that came later under the same
    id, and is left alone. The pieces of one block change in one request, up to some 200 partitions: a repeat finds all
    of them missing, or none.
    """
    blocks = [list(pieces) for _, pieces in groupby(tokens.items(), key=lambda item: item[1])]
    for packet in split_into_multis(blocks, lambda pieces: len(pieces) * MAX_MULTI_BYTES // MAX_MULTI_OPERATIONS):
        _settle(keeper, table, dict(chain(*packet)), views)


def _settle(keeper: Keeper, table: TablePaths, tokens: Mapping[str, str], views: Collection[str]) -> None:
    paths = [table.block(block_id) for block_id in tokens]
    for _ in range(_ATTEMPTS):
        sets: list[SetData] = []
        for path, token, answer in zip(paths, tokens.values(), keeper.get_many(paths), strict=True):
            node = BlockNode.parse(answer[0]) if answer is not None else None
            if answer is not None and node is not None and node.missing.token == token:
                left = BlockNode(node.part, node.missing.without(views))
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
