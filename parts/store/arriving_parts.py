"""Parts on their way into a store: temporary directories and pre-active parts.

Invariants
- A part that could not be renamed because the disk failed stays in the set as an outdated part: its name is taken until
  it is deleted, and nobody reads it.
- Inserts write, sync and rename without the lock.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from parts.common.errors import ConflictError
from parts.common.part_name import PartName
from parts.format.hashed_file import SharedSync, sync_directory
from parts.read.part_reader import Part, open_part
from parts.store.drop_markers import DropMarkers
from parts.store.exchange_journal import ExchangeJournal
from parts.store.part_states import PartState, StoredPart
from parts.store.parts_in_memory import PartsInMemory
from parts.table.table_description import TableDescription

logger = logging.getLogger(__name__)

_DELETING = "delete_tmp_"


class ArrivingParts(PartsInMemory):
    """The arriving parts of the table in directory ``path``. Thread-safe."""

    def __init__(
        self,
        path: Path,
        description: TableDescription,
        clock: Callable[[], float],
        new_uuid: Callable[[], uuid.UUID],
        *,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        """See :class:`parts.store.part_store.PartStore`."""
        super().__init__(description, clock, monotonic or clock)
        self.path = Path(path)
        self._new_uuid = new_uuid
        self.owner = ""
        """Included in the names of temporary directories, if several processes make them."""
        self._temporary: set[str] = set()
        self._reserved: set[PartName] = set()
        self._sync = SharedSync(self.path)
        self._markers = DropMarkers(self.path, description.settings.fsync_part_directory)
        self._on_disk = ExchangeJournal(self.path, self._markers, description.settings.fsync_part_directory)

    def create_temporary(self, prefix: str) -> Path:
        """Creates a directory ``<prefix><random>``. The prefix starts with ``tmp_``."""
        assert prefix.startswith("tmp_"), prefix
        owner = f"{self.owner}_" if self.owner else ""
        directory = self.path / f"{prefix}{'' if prefix.endswith('_') else '_'}{owner}{self._new_uuid().hex}"
        with self.lock:
            self._temporary.add(directory.name)
        directory.mkdir()
        return directory

    def drop_temporary(self, directory: Path) -> None:
        """Removes a temporary directory, if it exists."""
        shutil.rmtree(directory, ignore_errors=True)
        with self.lock:
            self._temporary.discard(directory.name)

    def add_preactive(self, tmp_dir: Path, name: PartName, *, is_synced: bool = False, written: bytes = b"") -> Part:
        """Gives the part in ``tmp_dir`` its name. Raises ``ConflictError`` 235 if the name is taken.

        ``is_synced``: the directory is fsynced already, as ``write_part`` leaves it. ``written``: ``WrittenPart.meta``
        of the part, if the caller wrote it; it is not read again then.
        """
        return self.add_preactive_all({name: tmp_dir}, is_synced=is_synced, written=written)[0]

    def add_preactive_all(
        self, directories: Mapping[PartName, Path], *, is_synced: bool = False, written: bytes = b""
    ) -> list[Part]:
        """Adds all parts or none as :meth:`add_preactive`, with one fsync of the parent directory."""
        should_sync = self.description.settings.fsync_part_directory
        if should_sync and not is_synced:
            for directory in directories.values():
                sync_directory(directory)
        with self.lock:
            self.settle()
            for name in directories:
                self._require_free(name)
            for name in directories:
                self._markers.make_way_for(name, self._entries)
            self._reserved.update(directories)
        try:  # without the lock: others must not wait for the disk
            schema = self.description.schema
            opened = [open_part(d, name=name, table_schema=schema, written=written) for name, d in directories.items()]
            self._refuse_newer(opened)
            moved: list[Part] = []
            try:
                for part in opened:
                    part.rename_directory(self.path / str(part.name))
                    moved.append(part)
                if should_sync:
                    self._sync()
            except BaseException:  # a restart would load them as parts of the table
                self._take_back_all(moved, directories)
                raise
            with self.lock:
                for part in opened:
                    self._admit(StoredPart(part, PartState.PRE_ACTIVE))
                    self._temporary.discard(directories[part.name].name)
                return [self._entries[name].part for name in directories]
        finally:
            with self.lock:
                self._reserved.difference_update(directories)

    def _take_back_all(self, moved: Iterable[Part], directories: Mapping[PartName, Path]) -> None:
        """Renames parts back to their temporary directories.

        A part that the disk does not let rename stays as an outdated part, so that its name is free when it is deleted.
        """
        for part in moved:
            try:
                part.rename_directory(directories[part.name])
            except OSError as error:
                logger.warning("part %s of %s could not be renamed back: %s", part.name, self.path, error)
                with self.lock:
                    self._admit(StoredPart(part, PartState.OUTDATED))

    def take_back(self, part: Part) -> Path:
        """Makes a pre-active part that was certainly not committed temporary again. Returns its directory.

        When the disk fails (``OSError``), the part becomes outdated.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.PRE_ACTIVE)
            directory = self.path / f"tmp_insert_{self._new_uuid().hex}"
            try:
                part.rename_directory(directory)
            except OSError:
                self._outdate(entry)
                raise
            self._temporary.add(directory.name)
            del self._entries[part.name]
            return directory

    def commit(self, part: Part) -> list[Part]:
        """Makes a pre-active part active. Returns the active parts it covered, which are outdated now.

        When an active part covers it already (a merge or fetch was faster), it becomes outdated at once.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.PRE_ACTIVE)
            rivals = [self._entries[name] for name in self._active.find_overlapping(part.name)]
            if any(other.part.name.covers(part.name) for other in rivals):
                self._outdate(entry)
                return []
            for other in rivals:
                if not part.name.covers(other.part.name):
                    message = f"Part {part.name} intersects the active part {other.part.name}"
                    raise ConflictError("DUPLICATE_DATA_PART", message)
            for other in rivals:
                self._outdate(other)
            entry.state = PartState.ACTIVE
            self._active.add(part.name)
            return [other.part for other in rivals]

    def rollback(self, part: Part) -> None:
        """Deletes a pre-active part that was certainly not committed.

        When the disk fails, the part becomes outdated and is deleted later.
        """
        with self.lock:
            entry = self._entry(part.name, PartState.PRE_ACTIVE)
            try:
                doomed = self._unlink(part.name)
            except OSError as error:
                logger.warning("part %s of %s could not be taken back: %s", part.name, self.path, error)
                self._outdate(entry)
                return
        shutil.rmtree(doomed, ignore_errors=True)

    def settle(self) -> None:
        """Finishes an exchange whose last steps failed, before anything else changes.

        Raises ``OSError`` while they still fail; a restart may do better then.
        """
        with self.lock:
            self._on_disk.finish_or_undo()

    # Helpers; the lock is held

    def _require_free(self, name: PartName) -> None:
        if name in self._entries or name in self._reserved or (self.path / str(name)).exists():
            raise ConflictError("DUPLICATE_DATA_PART", f"Part {name} already exists in {self.path.name}")

    def _unlink(self, name: PartName) -> Path:
        """Removes the part from the set and renames its directory, so that a restart deletes it.

        The caller removes the directory. After an ``OSError`` the part is in the set as before.
        """
        entry = self._entries[name]
        doomed = self.path / f"{_DELETING}{name}_{self._new_uuid().hex[:8]}"
        os.rename(entry.part.path, doomed)
        del self._entries[name]
        entry.state = PartState.DELETING
        return doomed
