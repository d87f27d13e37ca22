"""Finds a change in a replica's journal by its position.

A cluster that lost a block asks for it by the position of its change: other clusters have it under other numbers.
"""

from __future__ import annotations

from coordination.links.positions import Origin, Position
from coordination.links.stream.carried_changes import read_carried_changes
from coordination.links.stream.change import Block, Change
from coordination.links.stream.change_stream import build_changes
from coordination.log.log_entry import LogEntry
from engine.link_store.journal import Journal
from engine.link_store.journal_segment import RecordKind
from engine.tables.replicated.links.source.journal_records import parse_records

_PAGE_BYTES = 1 << 20


def find_blocks(journal: Journal, own: Origin, position: Position) -> tuple[Block, ...]:
    """Returns the blocks of a change, with the numbers of this table; none if it is not in the journal.

    ``own``: the table's own origin. A change that a link brought is looked for in the whole journal.
    """
    change = _find_own(journal, own, position.zxid) if position.origin == own else _find_carried(journal, position)
    return change.blocks if change is not None else ()


def _find_own(journal: Journal, own: Origin, zxid: int) -> Change | None:
    if zxid <= journal.first_position:
        return None
    records = (record for record in journal.read(zxid - 1, 1).records if record.zxid == zxid)
    return next(iter(build_changes(parse_records(records).reading, own)), None)


def _find_carried(journal: Journal, position: Position) -> Change | None:
    after, is_last = journal.first_position, False
    while not is_last:
        page = journal.read(after, _PAGE_BYTES)
        for record in page.records:
            entry = LogEntry.parse(record.content) if record.kind is RecordKind.LOG_ENTRY else None
            if entry is not None and entry.is_batch:
                for change in read_carried_changes(entry, record.zxid):
                    if change.position == position:
                        return change
        is_last = page.is_last
        after = page.records[-1].zxid if page.records else after
    return None
