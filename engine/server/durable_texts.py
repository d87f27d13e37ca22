"""Small text files that change together, or not at all.

One text changes by a rename. A change of several is first written to a *journal*, with the former texts::

    {"definitions": {"<path>": "<new text>" or null, …}, "former": {"<path>": "<former text>" or null, …}}

Paths are relative to the directory above the journal's; ``null`` means no file. The change is made when the journal is
deleted. A start that finds a journal restores the former texts: nobody was told that the change had been made.

Invariants

- While a journal exists, or may come back after a power cut, no other change begins (:meth:`TextJournal.settle`).
- When :meth:`TextJournal.changing` raises before its block, either the texts are unchanged or the journal that restores
  them exists; in both cases a restart gives the former state.
- When its block runs, a restart gives the new state.

Journals of former versions have no ``former``: a start that finds one completes its change, as those versions did.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, convert_resource_error
from parts.format.durable_files import remove_durably, replace_file_durably
from parts.format.hashed_file import make_directories, sync_directory

logger = logging.getLogger(__name__)

Texts = Mapping[Path, str | None]


def write_durably(file: Path, text: str) -> None:
    """Replaces a file's text as :func:`parts.format.durable_files.replace_file_durably` does."""
    replace_file_durably(file, text.encode("utf-8", "surrogateescape"), file.with_suffix(".sql.tmp"))


def put_durably(file: Path, text: str | None) -> None:
    """Writes a file durably, or deletes it if the text is ``None``."""
    if text is None:
        remove_durably(file)
    else:
        write_durably(file, text)


def read_text(file: Path) -> str | None:
    """Returns a file's text, or ``None`` if there is no such file.

    Bytes that are not UTF-8 survive reading and writing back.
    """
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


class TextJournal:
    """The changes to one directory's texts. One at a time: the caller holds a lock."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._unsynced: set[Path] = set()
        """Directories whose last fsync failed."""

    # -- changes --------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, texts: Texts) -> Iterator[None]:
        """Makes a change like :meth:`change`, then runs the block, which updates memory.

        The error that :meth:`change` returns is raised after the block.
        """
        unfinished = self.change(texts)
        yield
        if unfinished is not None:
            raise unfinished

    def change(self, texts: Texts) -> UnknownOutcomeError | None:
        """Changes the texts; raises if nothing was changed.

        Returns 341 (UNFINISHED) if the change was made and cannot be undone, but is perhaps not durable. The caller
        raises it after it has updated memory.
        """
        change = _Change.to(texts)
        try:
            change.make(self.file)
        except Exception as error:
            if not self._is_made_after(change):
                raise
            return UnknownOutcomeError(
                "UNFINISHED",
                f"The change is made and is seen, but a power cut may take it back: {error}. Mend the disk; the next "
                "statement that changes tables tries again to make it durable",
            )
        return None

    def _is_made_after(self, change: _Change) -> bool:
        """Undoes a failed change. Returns whether that failed and a restart would find the change made."""
        try:
            change.undo(self.file)
        except Exception as error:
            logger.error("a change of table definitions that failed cannot be undone now: %s", error)
            self._unsynced.update(path.parent for path in (self.file, *change.texts))
            return not self.file.exists() and change.is_made()
        return False

    def settle(self) -> list[Path]:
        """Undoes a failed change that could not be undone before; to be called before any other change.

        Returns the files that it named. Raises ``UnavailableError`` while undoing fails.
        """
        try:
            for directory in list(self._unsynced):
                sync_directory(directory)
                self._unsynced.discard(directory)
            return self.finish()
        except (OSError, PandoError) as error:
            raise _make_unsettled_error(self.file, error) from error

    # -- what a journal says --------------------------------------------------------------------------------------

    def finish(self, kept: Callable[[str], str] = lambda text: text) -> list[Path]:
        """Applies a journal, if there is one, and returns the files that it names.

        ``kept`` transforms each text first. Raises ``OSError``, and ``PandoError`` for an unreadable journal.
        """
        content = read_text(self.file)
        if content is None:
            return []
        root = self.file.parent.parent
        try:
            step, named = _parse_journal(json.loads(content), root, kept)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UnavailableError("INCORRECT_DATA", f"it cannot be read ({error})") from error
        step()
        remove_durably(self.file)
        return named

    def named(self) -> list[Path]:
        """Returns the files that the journal names; none if it cannot be read."""
        try:
            return _parse_journal(json.loads(read_text(self.file) or ""), self.file.parent.parent, str)[1]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return []


def _make_unsettled_error(journal: Path, error: Exception) -> UnavailableError:
    told = convert_resource_error(error) if isinstance(error, OSError) else error
    name = told.name if isinstance(told, PandoError) else "CANNOT_WRITE_TO_FILE_DESCRIPTOR"
    return UnavailableError(
        name,
        f"A change of tables that failed before is not undone yet, as {journal} says: {error}. Mend the disk or, where "
        "this file is damaged, compare the definitions beside it and move it away; then try again",
    )


@dataclass(frozen=True)
class _Change:
    """A change from the former texts to the new ones."""

    texts: Texts
    former: Texts

    @classmethod
    def to(cls, texts: Texts) -> _Change:
        """Makes the change from the texts now on disk to these."""
        former = {path: read_text(path) for path in texts}
        return cls({path: text for path, text in texts.items() if former[path] != text}, former)

    @property
    def needs_journal(self) -> bool:
        return len(self.texts) > 1

    def make(self, journal: Path) -> None:
        """Writes the new texts, through the journal if there are several."""
        if self.needs_journal:
            self._write_journal(journal)
        for path, text in self.texts.items():
            put_durably(path, text)
        if self.needs_journal:
            remove_durably(journal)

    def undo(self, journal: Path) -> None:
        """Restores the former texts, from any point of :meth:`make`.

        If the journal is deleted already it is written again first: a crash between two texts would leave half a
        change.
        """
        changed = [path for path in self.texts if read_text(path) != self.former[path]]
        if len(changed) > 1 and not journal.exists():
            self._write_journal(journal)
        for path in changed:
            put_durably(path, self.former[path])
        if self.needs_journal:
            remove_durably(journal)

    def is_made(self) -> bool:
        return all(read_text(path) == text for path, text in self.texts.items())

    def _write_journal(self, journal: Path) -> None:
        root = journal.parent.parent
        content = {
            key: {os.path.relpath(path, root): text for path, text in texts.items()}
            for key, texts in (
                ("definitions", self.texts),
                ("former", {path: self.former[path] for path in self.texts}),
            )
        }
        write_durably(journal, json.dumps(content))


def _parse_journal(
    content: dict[str, object], root: Path, kept: Callable[[str], str]
) -> tuple[Callable[[], None], list[Path]]:
    """Returns the function that applies a journal's content, and the files that it names."""
    if "paths" in content:
        paths = [root / str(path) for path in list(content["paths"])]  # type: ignore[call-overload]
        text = str(content["text"])
        return lambda: _move_table(paths[0], paths[1], paths[2], paths[3], text), paths[:2]
    texts = content["former"] if "former" in content else content["definitions"]
    if not isinstance(texts, dict) or not all(isinstance(text, str | None) for text in texts.values()):
        raise TypeError(f"texts by path are expected, not {texts!r}")
    wanted = {root / path: text if text is None else kept(text) for path, text in texts.items()}

    def put_all() -> None:
        for path, text in wanted.items():
            put_durably(path, text)

    return put_all, list(wanted)


def _move_table(old_definition: Path, new_definition: Path, old_data: Path, new_data: Path, text: str) -> None:
    """Applies RENAME TABLE of former versions, which moved the data too.

    Repeatable, because the old definition is deleted last.
    """
    if old_definition.exists():
        make_directories(new_data.parent)
        if old_data.exists():
            old_data.rename(new_data)
        sync_directory(new_data.parent)
        sync_directory(old_data.parent)
        write_durably(new_definition, text)
        remove_durably(old_definition)
