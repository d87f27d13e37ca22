"""Texts that change together: all or none, on a disk that fails, for a process that is killed, over a power cut."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from engine.server.durable_texts import TextJournal
from parts.common.errors import UnavailableError, UnknownOutcomeError
from parts.format.hashed_file import replace_sync
from tests.failing_disk.disk import Killed, failing
from tests.power_cut import power_cut

OLD = {"a.sql": "one", "b.sql": "two", "c.sql": None}
NEW = {"a.sql": "two", "b.sql": None, "c.sql": "three"}


class Texts:
    """Three files, one of them not there yet, and their journal."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = TextJournal(root / "metadata" / "journal")

    def write(self) -> Texts:
        (self.root / "metadata" / "d").mkdir(parents=True)
        for name, text in OLD.items():
            if text is not None:
                (self.root / "metadata" / "d" / name).write_text(text)
        return self

    def change(self) -> UnknownOutcomeError | None:
        return self.journal.change({self.root / "metadata" / "d" / name: text for name, text in NEW.items()})

    def read(self) -> dict[str, str | None]:
        paths = {name: self.root / "metadata" / "d" / name for name in OLD}
        return {name: path.read_text() if path.exists() else None for name, path in paths.items()}

    def after_start(self) -> dict[str, str | None]:
        TextJournal(self.journal.file).finish()
        return self.read()


def test_the_change_is_made(tmp_path: Path) -> None:
    texts = Texts(tmp_path).write()
    assert texts.change() is None
    assert texts.read() == NEW
    assert texts.after_start() == NEW


@pytest.mark.parametrize("times", [1, 2, 3, 1000])
def test_a_failure_at_every_operation(tmp_path: Path, times: int) -> None:
    for number in range(1, 200):
        texts = Texts(tmp_path / str(number)).write()
        expected = OLD
        with failing(number, times=times) as disk:
            try:
                unfinished = texts.change()
                expected = NEW
            except OSError:
                unfinished = None
        if times == 1:  # then it can be undone at once
            assert unfinished is None
            assert not texts.journal.file.exists()
        assert Texts(texts.root).after_start() == expected, (number, disk.done)
        texts.journal.undo_failed_change()
        assert texts.read() == expected
        assert list(texts.root.rglob("*.tmp")) == [] or times > 1
        if not disk.has_failed:
            return
    pytest.fail("the change has no end")


def test_killed_while_it_undoes(tmp_path: Path) -> None:
    """At every operation after the one that failed."""
    cases = 0
    for number in range(1, 40):
        for killed_at in range(number + 1, number + 40):
            texts = Texts(tmp_path / "case").write()
            with failing(number, killed_at=killed_at) as disk, suppress(OSError, Killed):
                texts.change()
            was_killed = len(disk.done) >= killed_at
            assert Texts(texts.root).after_start() in (OLD, NEW), (number, disk.done)
            shutil.rmtree(texts.root)
            cases += was_killed
            if not was_killed:
                break
    assert cases > 100


def test_the_power_goes_after_a_failure(tmp_path: Path) -> None:
    """What the caller was told is so: an error says that the old texts are there."""
    for number in range(1, 40):
        root, image = tmp_path / f"{number}", tmp_path / f"{number}_image"
        texts = Texts(root).write()
        left = [number]
        with power_cut(root, image):
            from parts.format import hashed_file as disk

            sync = disk._sync

            def fail(descriptor: int, sync=sync, left=left) -> None:  # type: ignore[no-untyped-def]
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(28, "No space left on device")
                sync(descriptor)

            expected = OLD
            with replace_sync(fail), suppress(OSError):
                texts.change()
                expected = NEW
        assert Texts(image).after_start() == expected, number
        if left[0] > 0:
            return
    pytest.fail("the change has no end")


def test_no_other_change_begins_while_one_is_not_undone(tmp_path: Path) -> None:
    texts = Texts(tmp_path).write()
    with failing(8, times=1000):
        with pytest.raises(OSError, match="No space"):
            texts.change()
        with pytest.raises(UnavailableError, match="not undone yet") as refused:
            texts.journal.undo_failed_change()
        assert refused.value.code == 243
    assert len(texts.journal.undo_failed_change()) == 3
    assert texts.read() == OLD
