"""The outbox beside a plain list, in random order of everything that may be done with it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.link_store.outbox import OUTBOX_FOLDER
from engine.link_store.outbox_retention import RetentionLimits
from parts.format.hashed_file import replace_sync
from tests.links.parts import GIB, Surroundings, link_part, make_part, name

LIMITS = st.builds(
    RetentionLimits,
    st.sampled_from([0, 300]),
    st.sampled_from([0, 200, 600]),
    st.sampled_from([0, 2, 5]),
    st.sampled_from([0, GIB]),
)


class OutboxBesideList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.quiet = replace_sync(lambda descriptor: None)
        self.quiet.__enter__()
        self.home = Path(tempfile.mkdtemp(prefix="pando-outbox-"))
        self.template = make_part(self.home, "template_0_0_0")
        self.size = sum(file.stat().st_size for file in self.template.iterdir())
        self.world = Surroundings()
        self.outbox = self.world.outbox(self.home / OUTBOX_FOLDER)
        self.blocks: dict[int, tuple[str, int, bool]] = {}
        """By position: part, time of the commit, whether the table has it no more."""
        self.released = self.trimmed = 0
        self.lost: tuple[int, int] | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.home)
        self.quiet.__exit__(None, None, None)

    @rule(position=st.integers(1, 40), is_gone=st.booleans())
    def keep(self, position: int, is_gone: bool) -> None:
        part = f"p_{position}_{position}_0"
        source = self.home / part
        if not source.exists():
            shutil.copytree(self.template, source) if is_gone else link_part(self.template, source)
        known = self.blocks.get(position)
        now_ms = self.world.now_ms()
        assert self.outbox.keep(source, name(part), position, now_ms) == (known is None)
        if known is None:
            self.blocks[position] = (part, now_ms, is_gone)
        if is_gone:
            shutil.rmtree(source)

    @rule(seconds=st.integers(1, 400))
    def wait(self, seconds: int) -> None:
        self.world.now += seconds

    @rule(position=st.integers(0, 40))
    def release(self, position: int) -> None:
        self.outbox.release(position)
        self.released = max(self.released, position)
        if self.lost is not None and self.lost[1] <= self.released:
            self.lost = None

    @rule(limits=LIMITS, is_full=st.booleans())
    def trim(self, limits: RetentionLimits, is_full: bool) -> None:
        self.world.free = 0 if is_full else 100 * GIB
        limits = RetentionLimits(
            limits.min_seconds, limits.max_seconds, limits.max_bytes * self.size, limits.min_free_bytes
        )
        before = sorted(self.blocks)
        lost = self.outbox.trim(limits)
        left = [block.zxid for block in self.outbox.list_blocks()]
        gone = before[: len(before) - len(left)]
        assert left == before[len(gone) :]
        assert bool(left) == bool(before)
        known = range(self.lost[0], self.lost[1] + 1) if self.lost is not None else ()
        told = [position for position in gone if position > self.released and position not in known]
        assert (lost.blocks if lost is not None else 0) == len(told)
        if lost is not None:
            assert (lost.first, lost.last, lost.size_bytes) == (told[0], told[-1], len(told) * self.size)
            self.lost = (min([*known, told[0]]), max([*known, told[-1]]))
        is_free = not (limits.min_free_bytes and is_full)
        for position in gone:
            part, time_ms, _ = self.blocks.pop(position)
            if is_free:
                assert self.world.now_ms() - time_ms >= limits.min_seconds * 1000, part
        if gone:
            self.trimmed = max(self.trimmed, gone[-1])
        if limits.max_bytes and limits.min_seconds == 0:
            assert len(left) * self.size <= max(limits.max_bytes, self.size)

    @rule()
    def restart(self) -> None:
        self.outbox = self.world.outbox(self.home / OUTBOX_FOLDER)
        self.outbox.release(self.released)

    @rule(position=st.integers(1, 40))
    def find(self, position: int) -> None:
        found = self.outbox.find(position, name(f"p_{position}_{position}_0"))
        assert (found is not None) == (position in self.blocks)
        if found is not None:
            assert found.commit_time_ms == self.blocks[position][1]

    @invariant()
    def figures_agree(self) -> None:
        facts = self.outbox.get_statistics()
        known = sorted(self.blocks)
        assert [block.zxid for block in self.outbox.list_blocks()] == known
        assert (facts.first_position, facts.last_position) == ((known[0], known[-1]) if known else (0, 0))
        assert (facts.blocks, facts.size_bytes) == (len(known), len(known) * self.size)
        assert facts.needed_blocks == sum(position > self.released for position in known)
        assert facts.trimmed_position == self.trimmed
        assert (None if facts.lost is None else (facts.lost.first, facts.lost.last)) == self.lost
        folder = self.home / OUTBOX_FOLDER
        names = [each.name for each in folder.iterdir()] if folder.exists() else []
        assert len([each for each in names if each != "trimmed"]) == len(known)


TestOutboxBesideList = OutboxBesideList.TestCase
TestOutboxBesideList.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
