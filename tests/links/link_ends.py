"""The two ends of links without tables behind them: a stream that tests write, and a target that keeps what it gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordination.links.link_definition import LinkDefinition
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import GateLink
from engine.tables.capabilities.incoming_blocks import RefetchBlock
from engine.tables.capabilities.table_links import (
    AppliedBatch,
    ChangesAnswer,
    ChangesRequest,
    IncomingBatch,
    OutgoingLink,
    SourceTable,
    TargetState,
)
from engine.tables.owned_table import OwnedTable
from engine.tables.replicated.links.source.outgoing_nodes import make_gate_link
from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.store.part_states import Snapshot


@dataclass
class StreamSource:
    """A source whose changes a test adds with :meth:`add`."""

    origin: Origin
    changes: list[Change] = field(default_factory=list)
    links: dict[str, OutgoingLink] = field(default_factory=dict)
    holders: Sequence[str] = ()
    requests: list[ChangesRequest] = field(default_factory=list)
    error: Exception | None = None
    newest: int = 1
    opened: list[PartName] = field(default_factory=list)
    open_files: Callable[[PartName], tuple[Snapshot, Path]] | None = None
    is_hasty: bool = False
    """Answers without waiting."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, change: Change) -> None:
        with self.changed:
            self.changes.append(change)
            self.newest = max(self.newest, change.place)
            self.changed.notify_all()

    def describe(self) -> SourceTable:
        return SourceTable("default", "t", self.origin, self.newest, "CREATE TABLE t …", 0, "same")

    def register(self, link: OutgoingLink) -> SourceTable:
        self.links.setdefault(link.name, link)
        return self.describe()

    def unregister(self, name: str, uuid: str = "") -> None:
        if not uuid or (name in self.links and self.links[name].uuid == uuid):
            self.links.pop(name, None)

    def list_outgoing(self) -> Sequence[OutgoingLink]:
        return list(self.links.values())

    def list_gate_links(self) -> Sequence[GateLink]:
        return list(map(make_gate_link, self.links.values()))

    def read_changes(self, request: ChangesRequest, status: QueryStatus) -> ChangesAnswer:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        after = request.vector.applied(self.origin)
        with self.changed:
            self.changed.wait_for(
                lambda: self.newest > after or status.is_stopped, timeout=0 if self.is_hasty else request.wait_seconds
            )
            found = [each for each in self.changes if each.place > after]
            cuts = sorted({each.place for each in found} | ({self.newest} if self.newest > after else set()))
        return ChangesAnswer(self.describe(), tuple(found), tuple(cuts), self.newest, (), 2000 + self.newest)

    def count_news(self) -> int:
        return self.newest

    def open_block(
        self, position: Position, part: PartName, content_hash: str = "", *, may_ask: bool = False
    ) -> tuple[Snapshot, Path]:
        if self.open_files is None:
            raise UserError("NO_SUCH_DATA_PART", f"No part {part}")
        self.opened.append(part)
        return self.open_files(part)

    def open_block_here(self, part: PartName) -> tuple[Snapshot, Path] | None:
        return self.open_files(part) if self.open_files is not None else None

    def find_block_holders(self, position: Position, part: PartName) -> Sequence[str]:
        return self.holders


@dataclass
class KeptTarget:
    """A target that keeps the changes it gets."""

    own: Origin
    vector: VersionVector = field(default_factory=VersionVector)
    version: int = 0
    applied: list[Change] = field(default_factory=list)
    error: Exception | None = None
    moves_first: int = 0
    """So many commits are lost to another writer."""
    refetch: RefetchBlock | None = None

    def read_target(self) -> TargetState:
        return TargetState(self.vector, self.version, self.own)

    def begin_link(self, link: LinkDefinition, vector: VersionVector) -> bool:
        self.vector = self.vector.join(vector)
        self.version += 1
        return True

    def apply_batch(self, batch: IncomingBatch, status: QueryStatus) -> AppliedBatch:
        if self.error is not None:
            raise self.error
        if self.moves_first or batch.state.vector_version != self.version:
            self.moves_first = max(0, self.moves_first - 1)
            self.version += 1
            return AppliedBatch(False)
        self.applied.extend(batch.changes)
        self.vector = batch.vector.advance(batch.end)
        self.version += 1
        rows, size = sum(each.rows for each in batch.changes), sum(each.size_bytes for each in batch.changes)
        return AppliedBatch(True, rows, size, sum(len(each.blocks) for each in batch.changes))

    def take_marks(self, times: Mapping[Origin, int]) -> None:
        self.marks = dict(times)

    def set_refetch(self, link: str, refetch: RefetchBlock | None) -> None:
        self.refetch = refetch

    def find_trim_position(self, source: Origin, copies: int) -> int:
        return self.vector.applied(source)

    def wait_until_visible(self, timeout_seconds: float, status: QueryStatus) -> None:
        return None

    def explain_uncovered(self, source: SourceTable, settings: Mapping[str, object]) -> Collection[str]:
        return ()


class ReplacedEnds:
    """A table's own links with other ends."""

    def __init__(self, links: Any, source: StreamSource, target: KeptTarget) -> None:
        self._links = links._links if isinstance(links, ReplacedEnds) else links
        self.source, self.target = source, target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._links, name)


def replace_ends(table: OwnedTable, source: StreamSource, target: KeptTarget) -> None:
    """Gives the table other ends for its links; what it keeps and does for real ones goes on."""
    table.links = ReplacedEnds(table.links, source, target)
