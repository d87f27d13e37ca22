"""Small texts on disk that change together, or not at all.

One text changes by a rename. A change of several is first written down in a *journal*, with the texts of before::

    {"definitions": {"<path>": "<new text>" or null, …}, "former": {"<path>": "<text of before>" or null, …}}

Paths are relative to the directory above the journal's; ``null`` is no file. The change is made when the journal has
gone. A start that finds a journal puts the texts of before back: nobody has been told that the change was made.

Invariants
- While a journal is there, or may come back after a power cut, no other change begins (:meth:`TextJournal.settle`).
- When :meth:`TextJournal.changing` raises before its block, the texts are as they were, or the journal that puts them
  back is there: in both cases a restart gives the state of before.
- When its block runs, a restart gives the new state.

Journals of former versions have no ``former``: the start that finds one makes its change, as those versions did.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError, convert_resource_error
from parts.format.hashed_file import make_directories, sync_descriptor, sync_directory

logger = logging.getLogger(__name__)

Texts = Mapping[Path, str | None]


def write_durably(file: Path, text: str) -> None:
    """After a crash the file has the old text or the new one. After an error too, and no draft is left."""
    draft = file.with_suffix(".sql.tmp")
    try:
        with open(draft, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            sync_descriptor(stream.fileno())
        draft.rename(file)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_directory(file.parent)


def remove_durably(file: Path) -> None:
    """A file that is gone already is fine."""
    file.unlink(missing_ok=True)
    sync_directory(file.parent)


def put_durably(file: Path, text: str | None) -> None:
    """The file has the text; ``None``: it is gone."""
    if text is None:
        remove_durably(file)
    else:
        write_durably(file, text)


def read_text(file: Path) -> str | None:
    """``None`` when there is no such file. What is no UTF-8 comes back as it was when it is written again."""
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


class TextJournal:
    """The changes of one directory's texts. One at a time: the caller has a lock."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._unsynced: set[Path] = set()
        """Directories of which an fsync failed last."""

    # -- changes --------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, texts: Texts) -> Iterator[None]:
        """As :meth:`change`; the block follows the change in memory, and what is returned there is raised after it."""
        unfinished = self.change(texts)
        yield
        if unfinished is not None:
            raise unfinished

    def change(self, texts: Texts) -> UnknownOutcomeError | None:
        """Raises when nothing is changed. Returns 341 (UNFINISHED), which is to be raised when memory has followed,
        where the change is made and cannot be undone, but the disk did not say that it is durable."""
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
        """Undoes the change that failed. Whether this was not possible and a restart would find it made."""
        try:
            change.undo(self.file)
        except Exception as error:
            logger.error("a change of table definitions that failed cannot be undone now: %s", error)
            self._unsynced.update(path.parent for path in (self.file, *change.texts))
            return not self.file.exists() and change.is_made()
        return False

    def settle(self) -> list[Path]:
        """Before any other change: undoes the one that failed and could not be undone, and returns whose texts it
        names. Raises ``UnavailableError`` while that fails."""
        try:
            for directory in list(self._unsynced):
                sync_directory(directory)
                self._unsynced.discard(directory)
            return self.finish()
        except (OSError, PandoError) as error:
            raise _unsettled(self.file, error) from error

    # -- what a journal says --------------------------------------------------------------------------------------

    def finish(self, kept: Callable[[str], str] = lambda text: text) -> list[Path]:
        """Carries out what a journal says, if there is one, and returns whose texts it names. ``kept``: what to make of
        each text. Raises ``OSError``, and ``PandoError`` for a journal that cannot be read."""
        content = read_text(self.file)
        if content is None:
            return []
        root = self.file.parent.parent
        try:
            step, named = _read(json.loads(content), root, kept)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UnavailableError("INCORRECT_DATA", f"it cannot be read ({error})") from error
        step()
        remove_durably(self.file)
        return named

    def named(self) -> list[Path]:
        """The files that the journal names; none where it cannot be read."""
        try:
            return _read(json.loads(read_text(self.file) or ""), self.file.parent.parent, str)[1]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return []


def _unsettled(journal: Path, error: Exception) -> UnavailableError:
    told = convert_resource_error(error) if isinstance(error, OSError) else error
    name = told.name if isinstance(told, PandoError) else "CANNOT_WRITE_TO_FILE_DESCRIPTOR"
    return UnavailableError(
        name,
        f"A change of tables that failed before is not undone yet, as {journal} says: {error}. Mend the disk or, where "
        "this file is damaged, compare the definitions beside it and move it away; then try again",
    )


@dataclass(frozen=True)
class _Change:
    """From the texts of before to the new ones."""

    texts: Texts
    former: Texts

    @classmethod
    def to(cls, texts: Texts) -> _Change:
        former = {path: read_text(path) for path in texts}
        return cls({path: text for path, text in texts.items() if former[path] != text}, former)

    @property
    def needs_journal(self) -> bool:
        return len(self.texts) > 1

    def make(self, journal: Path) -> None:
        if self.needs_journal:
            self._write_down(journal)
        for path, text in self.texts.items():
            put_durably(path, text)
        if self.needs_journal:
            remove_durably(journal)

    def undo(self, journal: Path) -> None:
        """From any point of :meth:`make`. The journal may have gone: it must be there again first, because a crash
        between two texts would leave half a change."""
        changed = [path for path in self.texts if read_text(path) != self.former[path]]
        if len(changed) > 1 and not journal.exists():
            self._write_down(journal)
        for path in changed:
            put_durably(path, self.former[path])
        if self.needs_journal:
            remove_durably(journal)

    def is_made(self) -> bool:
        return all(read_text(path) == text for path, text in self.texts.items())

    def _write_down(self, journal: Path) -> None:
        root = journal.parent.parent
        content = {
            key: {os.path.relpath(path, root): text for path, text in texts.items()}
            for key, texts in (
                ("definitions", self.texts),
                ("former", {path: self.former[path] for path in self.texts}),
            )
        }
        write_durably(journal, json.dumps(content))


def _read(content: dict[str, object], root: Path, kept: Callable[[str], str]) -> tuple[Callable[[], None], list[Path]]:
    """What is to be done about a journal, and the files that it names."""
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
    """RENAME TABLE of former versions, which moved the data too. Repeatable: the old definition goes last."""
    if old_definition.exists():
        make_directories(new_data.parent)
        if old_data.exists():
            old_data.rename(new_data)
        sync_directory(new_data.parent)
        sync_directory(old_data.parent)
        write_durably(new_definition, text)
        remove_durably(old_definition)
