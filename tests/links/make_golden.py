"""Writes ``golden/journal_1``, once, by version 1: ``python -m tests.links.make_golden``."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.link_store.journal import Journal
from engine.link_store.journal_segment import JournalRecord, RecordKind

GOLDEN = Path(__file__).parent / "golden" / "journal_1"
POSITION = 4_294_967_300
SEGMENT_BYTES = 500
RECORDS = [
    JournalRecord(4_294_967_301, RecordKind.LOG_ENTRY, "log-0000000041", b'{"type":"get","part":"202611_0_0_0"}', 1),
    JournalRecord(4_294_967_303, RecordKind.LOG_ENTRY, "log-0000000042", bytes(range(256)), 1_800_000_000_001),
    JournalRecord(4_294_967_302, RecordKind.MUTATION, "0000000007", "DELETE WHERE s = 'ä'".encode(), 1_800_000_000_000),
    JournalRecord(4_294_967_303, RecordKind.DEFINITION, "5", b"", 1_800_000_000_001),
    JournalRecord(8_589_934_593, RecordKind.FAILED_QUORUM, "202611_0_0_0", b"\x00" * 7, 1_800_000_000_003),
    JournalRecord(8_589_934_594, RecordKind.LOSS, "größer", b"x" * 120, 1_800_000_000_004),
]


def write_journal(folder: Path) -> None:
    """Two records at a time."""
    journal = Journal(folder, SEGMENT_BYTES)
    journal.begin_anew(POSITION)
    for start in range(0, len(RECORDS), 2):
        journal.append(RECORDS[start : start + 2])
    journal.close()


if __name__ == "__main__":
    shutil.rmtree(GOLDEN, ignore_errors=True)
    write_journal(GOLDEN)
