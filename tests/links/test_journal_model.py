"""The journal beside a plain list, in random order of everything that may be done with it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.link_store.journal import Journal, PositionTrimmedError
from engine.link_store.journal_segment import JournalRecord, RecordKind
from parts.format.hashed_file import replace_sync
from tests.links.records import read_everything

KEYS = st.tuples(st.integers(-12, 8), st.sampled_from(["a", "b", "log-0000000007"]))
BATCHES = st.lists(st.tuples(KEYS, st.integers(0, 300), st.sampled_from(list(RecordKind))), max_size=6)


class JournalBesideList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.quiet = replace_sync(lambda descriptor: None)
        self.quiet.__enter__()
        self.home = Path(tempfile.mkdtemp(prefix="pando-journal-"))
        self.records: dict[tuple[int, str], JournalRecord] = {}
        """In the order of appending."""
        self.begin = 0
        self.newest = 0
        self.segment_bytes = 300
        self.journal = Journal(self.home / "link_journal", self.segment_bytes)

    def teardown(self) -> None:
        self.journal.close()
        shutil.rmtree(self.home)
        self.quiet.__exit__(None, None, None)

    @initialize(position=st.integers(0, 5), segment_bytes=st.sampled_from([100, 300, 2000]))
    def begin_first(self, position: int, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.journal = Journal(self.home / "link_journal", segment_bytes)
        self.begin_anew(position)

    @rule(position=st.integers(-5, 10))
    def begin_anew(self, position: int) -> None:
        position = max(0, self.newest + position)
        self.journal.begin_anew(position)
        self.records, self.begin, self.newest = {}, position, position

    @rule(batch=BATCHES)
    def append(self, batch: list[tuple[tuple[int, str], int, RecordKind]]) -> None:
        """Around the newest zxid: some new, some late, some repeated."""
        base = self.newest + 1
        records = [
            JournalRecord(max(1, base + ahead), kind, name, bytes([size % 256]) * size, size)
            for (ahead, name), size, kind in batch
        ]
        fresh = {each.key: each for each in reversed(records)}
        fresh = {key: each for key, each in fresh.items() if each.zxid > self.begin and key not in self.records}
        assert self.journal.append([self.records.get(each.key, fresh.get(each.key, each)) for each in records]) == len(
            fresh
        )
        for each in records:
            if each.key in fresh:
                self.records.setdefault(each.key, fresh[each.key])
        self.newest = max(self.newest, *fresh_zxids) if (fresh_zxids := [key[0] for key in fresh]) else self.newest

    @rule(below=st.integers(-3, 20))
    def trim(self, below: int) -> None:
        position = max(0, self.newest - below)
        first = self.journal.trim(position)
        assert self.begin <= first <= max(position, self.begin)
        self.begin = first

    @rule()
    def restart(self) -> None:
        self.journal.close()
        self.journal = Journal(self.home / "link_journal", self.segment_bytes)
        assert self.journal.load() == 0

    @rule()
    def close(self) -> None:
        self.journal.close()

    @rule(after=st.integers(-3, 30), limit=st.integers(1, 1500))
    def read(self, after: int, limit: int) -> None:
        position = max(0, self.newest - after)
        try:
            found = read_everything(self.journal, limit, position)
        except PositionTrimmedError:
            assert position < self.begin
            return
        assert position >= self.begin
        assert found == self.expected(position)

    @rule(below=st.integers(0, 20), limit=st.integers(1, 1500))
    def read_page(self, below: int, limit: int) -> None:
        position = max(self.begin, self.newest - below)
        page = self.journal.read(position, limit)
        expected = self.expected(position)
        assert list(page.records) == expected[: len(page.records)]
        assert page.is_last == (len(page.records) == len(expected))
        left = expected[len(page.records) :]
        if left:
            assert page.records
            assert page.records[-1].zxid < left[0].zxid
            group = [each for each in left if each.zxid == left[0].zxid]
            assert sum(each.size for each in [*page.records, *group]) > limit
        if len({each.zxid for each in page.records}) > 1:
            assert sum(each.size for each in page.records) <= limit

    def expected(self, after: int) -> list[JournalRecord]:
        return sorted((each for each in self.records.values() if each.zxid > after), key=lambda each: each.zxid)

    @invariant()
    def figures_agree(self) -> None:
        if not self.journal.is_begun:
            return
        facts = self.journal.get_statistics()
        assert facts.first_position == self.begin
        assert facts.last_position == self.newest
        assert facts.records >= len(self.expected(self.begin))
        assert facts.segments == len(list((self.home / "link_journal").iterdir()))


TestJournalBesideList = JournalBesideList.TestCase
TestJournalBesideList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
