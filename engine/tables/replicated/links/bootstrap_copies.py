"""Copies of a source's parts in ``staged/``, by their key, until a bootstrap is committed.

::

    <table>/staged/bootstrap-<link's uuid>-<n>/<part's name at the source>-<content hash>/<files>

A copy is moved to its place when it is whole and durable, so each that is found there is one. A directory that the log
entry of a committed bootstrap names is left alone until the entry is carried out; the next bootstrap takes another n.

A part that stores the source's block numbers loses them: they are numbers of another table.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.bootstrap_plan import HeldPart
from coordination.links.link_definition import LinkDefinition
from engine.tables.replicated.replica_state import BOOTSTRAP_STAGING_PREFIX, ReplicaState
from parts.common.errors import CorruptionError, UserError
from parts.common.part_name import PartName
from parts.format.hashed_file import link_files
from parts.merge.part_merge import merge_parts
from parts.read.part_reader import Part, open_part
from parts.table.block_number_column import BLOCK_NUMBER

logger = logging.getLogger(__name__)


class BootstrapCopies:
    """The copies at one replica."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._in_use: set[str] = set()
        """The links whose bootstrap runs here now."""

    @contextmanager
    def use(self, link_uuid: str) -> Iterator[str]:
        """Yields the name of the directory for a link's copies; there may be some already.

        Call it when the log is pulled.
        """
        names = (f"{BOOTSTRAP_STAGING_PREFIX}{link_uuid}-{number}" for number in itertools.count())
        self._in_use.add(link_uuid)
        try:
            yield next(name for name in names if not self._state.queue.is_queued(name))
        finally:
            self._in_use.discard(link_uuid)

    def list_keys(self, staging: str) -> Collection[str]:
        """Returns the keys of the copies that are there."""
        return frozenset(self._state.store.staged.list_places(staging))

    def remove(self, staging: str, keys: Sequence[str]) -> None:
        """Removes copies that are not needed any more."""
        self._state.store.staged.remove(staging, keys)

    def forget(self, link_uuid: str) -> None:
        """Removes all copies of a link that no queued log entry names."""
        for name in self._state.store.staged.list_transactions():
            if name.startswith(f"{BOOTSTRAP_STAGING_PREFIX}{link_uuid}-") and not self._state.queue.is_queued(name):
                self._state.store.staged.remove(name)

    def list_links(self) -> Sequence[str]:
        """Lists the UUIDs of links of which there are copies here."""
        names = self._state.store.staged.list_transactions()
        found = (
            name.removeprefix(BOOTSTRAP_STAGING_PREFIX) for name in names if name.startswith(BOOTSTRAP_STAGING_PREFIX)
        )
        return sorted({name.rpartition("-")[0] for name in found})

    def select_needless(self, keeper: Keeper, link_uuids: Sequence[str]) -> list[str]:
        """Selects the links that are gone, or do not run a bootstrap now and have their place.

        Call it when the log is pulled.
        """
        table = self._state.paths
        names = (keeper.children_many([table.incoming_links])[0]) or []
        answers = keeper.get_many([table.incoming_link(name) for name in names])
        links = [LinkDefinition.parse(answer[0]) for answer in answers if answer is not None]
        waiting = {link.uuid for link in links if not link.is_begun}
        return [uuid for uuid in link_uuids if uuid not in waiting and uuid not in self._in_use]

    def open(self, staging: str, part: HeldPart) -> Part:
        """Opens a copy."""
        return open_part(
            self._state.store.staged.path(staging, part.key),
            name=part.name,
            table_schema=self._state.description.schema,
        )

    def link(self, staging: str, part: HeldPart, active: PartName) -> bool:
        """Makes a copy of an active part with the same content. Returns false if that is gone."""
        store = self._state.store
        with store.hold_active([active]) as held:
            if not held.parts:
                return False
            directory = store.create_temporary("tmp_bootstrap_")
            try:
                link_files(held.parts[0].path, directory, should_sync=True)
                self._take(staging, part, directory)
            finally:
                store.drop_temporary(directory)
        return True

    def fetch(self, staging: str, part: HeldPart, receive: Callable[[Path], None]) -> None:
        """Makes a copy of what ``receive`` writes into an empty directory.

        Raises ``CorruptionError`` if that is another part than the one that was held.
        """
        store = self._state.store
        with self._state.services.disk.reserve(store.path, part.file_bytes, f"copying {part.name}"):
            directory = store.create_temporary("tmp_bootstrap_")
            try:
                receive(directory)
                found = open_part(directory, name=part.name, table_schema=self._state.description.schema)
                if (found.content_hash, found.rows) != (part.content_hash, part.rows):
                    raise CorruptionError("The source sent another content than it holds", part=str(part.name))
                self._take(staging, part, directory)
            finally:
                store.drop_temporary(directory)

    def _take(self, staging: str, part: HeldPart, directory: Path) -> None:
        """Moves a whole copy to its place, without the source's block numbers."""
        store, description = self._state.store, self._state.description
        copy = open_part(directory, name=part.name, table_schema=description.schema)
        if copy.metadata_version > description.metadata_version:
            raise UserError("METADATA_MISMATCH", f"Part {part.name} was written under a later definition of the table")
        if BLOCK_NUMBER not in copy.schema:
            store.staged.move_in(staging, [(directory, part.key)])
            return
        rewritten = store.create_temporary("tmp_bootstrap_")
        try:
            settings = replace(description.settings, enable_block_number_column=False)
            merge_parts([copy], rewritten, replace(description, settings=settings))
            store.staged.move_in(staging, [(rewritten, part.key)])
        finally:
            store.drop_temporary(rewritten)
