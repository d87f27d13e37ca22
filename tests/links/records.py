"""Records of a journal, and what a whole journal holds."""

from __future__ import annotations

from engine.link_store.journal import Journal
from engine.link_store.journal_segment import JournalRecord, RecordKind


def record(zxid: int, name: str = "", size: int = 20, kind: RecordKind = RecordKind.LOG_ENTRY) -> JournalRecord:
    """A record whose content can be told from that of others."""
    text = f"{zxid} {name} ".encode()
    content = (text * (size // len(text) + 1))[:size]
    return JournalRecord(zxid, kind, name or f"log-{zxid:010d}", content, 1_700_000_000_000 + zxid)


def read_everything(journal: Journal, limit_bytes: int = 1 << 20, after: int | None = None) -> list[JournalRecord]:
    """Page by page, from the first position on."""
    found: list[JournalRecord] = []
    position = journal.first_position if after is None else after
    while True:
        page = journal.read(position, limit_bytes)
        found += page.records
        if page.is_last:
            return found
        position = page.records[-1].zxid
