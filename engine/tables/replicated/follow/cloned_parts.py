"""Reuses parts that a clone moved to ``detached/clone_…`` and that the queue wants under new names.

They are linked instead of fetched, unless only their former listing told the position of their rows
(``follow.row_positions``). Source: ClickHouse's ATTACH_PART, which looks for a part's checksums in
``detached/``.
"""

from __future__ import annotations

import logging
from pathlib import Path

from coordination.log.log_entry import LogEntry
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.format.hashed_file import link_files
from parts.read.part_reader import Part, open_part
from parts.store.detached_parts import DETACHED, parse_detached_name
from parts.store.part_store import PartStore

logger = logging.getLogger(__name__)

CLONED = "clone"
"""The reason in the names of such directories."""


class ClonedParts:
    """The cloned parts in ``detached/`` of one table.

    After a crash the directory is in ``detached/``, or the part is active, or both.
    """

    def __init__(self, store: PartStore) -> None:
        self._store = store
        self._hashes: dict[str, str] = {}
        """By directory in ``detached/``, the content hash of a part that may be reused, or ``""``."""

    def link(self, entry: LogEntry) -> Path | None:
        """Links the entry's part into a temporary directory; returns ``None`` if it is not here."""
        if not entry.is_restored or entry.new_part is None or not entry.content_hash:
            return None
        store = self._store
        name = self._find(entry.content_hash)
        if name is None or not self._is_same(name, entry.new_part, entry.content_hash):
            return None
        directory = store.create_temporary("tmp_attach_")
        try:
            link_files(
                store.path / DETACHED / name, directory, should_sync=store.description.settings.fsync_part_directory
            )
        except BaseException:
            store.drop_temporary(directory)
            raise
        return directory

    def drop(self, entry: LogEntry) -> None:
        """Removes the copy in ``detached/`` once the part is active under its new name."""
        name = self._find(entry.content_hash)
        if name is not None:
            self._store.detached_parts.delete(name)

    def _find(self, content_hash: str) -> str | None:
        directories = [name for name in self._store.list_detached() if parse_detached_name(name)[0] == CLONED]
        for directory in directories:
            if directory not in self._hashes:
                part = self._open(directory, parse_detached_name(directory)[1])
                may_be_taken = part is not None and part.reads_alike_always() and not part.row_version.lacks_position
                self._hashes[directory] = part.content_hash if part is not None and may_be_taken else ""
        return next((name for name in directories if self._hashes[name] == content_hash), None)

    def _open(self, directory: str, name: PartName | None) -> Part | None:
        store = self._store
        try:
            return open_part(store.path / DETACHED / directory, name=name, table_schema=store.description.schema)
        except PandoError as error:
            logger.info("detached part %s in %s is left: %s", directory, store.path, error)
            return None

    def _is_same(self, directory: str, name: PartName, content_hash: str) -> bool:
        """Tells whether the directory holds this content; reads every byte of it."""
        part = self._open(directory, name)
        try:
            if part is not None:
                part.verify()
        except PandoError as error:
            logger.warning("detached part %s is broken: %s", directory, error)
            return False
        return part is not None and part.content_hash == content_hash
