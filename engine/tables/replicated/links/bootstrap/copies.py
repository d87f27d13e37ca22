"""Copies of a source's parts in ``staged/``, by their key, until a bootstrap is committed.

::

    <table>/staged/bootstrap-<link's uuid>-<n>/<part's name at the source>-<content hash>/<files>
    <table>/staged/bootstrap-<link's uuid>-<n>/<name>-<hash>~<variant>.<i>-<count>/<files>

The first form holds the source's files, the second the rows of a part that were written anew, as the i-th of some
parts. A copy is moved to its place when it is whole and durable, so each that is found there is one. A directory that
the log entry of a committed bootstrap names is left alone until the entry is carried out; the next bootstrap takes
another n.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.bootstrap_plan import HeldPart
from coordination.links.link_definition import LinkDefinition
from engine.tables.replicated.decide.command_source import goes_by_sources
from engine.tables.replicated.links.bootstrap.copied_places import CopiedPlaces
from engine.tables.replicated.links.bootstrap.copy_writers import CopyWriter, FileKeeper
from engine.tables.replicated.replica_state import BOOTSTRAP_STAGING_PREFIX, ReplicaState
from parts.blocks.partition_ids import compute_partition_id
from parts.common.part_name import PartName
from parts.format.hashed_file import link_files
from parts.read.part_reader import open_part

_NO_NAME = PartName("all", 0, 0, 0)
"""A copy is opened before its name is known."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A part of this table that is ready to be committed."""

    place: str
    partition_id: str
    content_hash: str
    rows: int
    size_bytes: int


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
        """Returns the keys of the copies that are there, all pieces of each."""
        pieces: dict[str, int] = {}
        wanted: dict[str, int] = {}
        for place in self._state.store.staged.list_places(staging):
            key, _, number = place.partition(".")
            pieces[key] = pieces.get(key, 0) + 1
            wanted[key] = int(number.partition("-")[2] or 1)
        return frozenset(key for key, count in pieces.items() if count == wanted[key])

    def remove(self, staging: str, keys: Collection[str]) -> None:
        """Removes copies that are not needed any more."""
        store = self._state.store
        store.staged.remove(staging, self._places_of(staging, keys))

    def _places_of(self, staging: str, keys: Collection[str]) -> list[str]:
        """Lists the places of copies, each copy's in the order of its pieces."""
        places = [p for p in self._state.store.staged.list_places(staging) if p.partition(".")[0] in keys]
        return sorted(places, key=lambda place: (place.partition(".")[0], _piece_number(place)))

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
        names = (keeper.children_many([table.linked.incoming])[0]) or []
        answers = keeper.get_many([table.linked.incoming_link(name) for name in names])
        links = [LinkDefinition.parse(answer[0]) for answer in answers if answer is not None]
        waiting = {link.uuid for link in links if not link.is_begun}
        return [uuid for uuid in link_uuids if uuid not in waiting and uuid not in self._in_use]

    def find(self, staging: str, key: str) -> list[Copy]:
        """Returns what a part became here."""
        return [self._describe(staging, place) for place in self._places_of(staging, [key])]

    def _describe(self, staging: str, place: str) -> Copy:
        directory = self._state.store.staged.path(staging, place)
        part = open_part(directory, name=_NO_NAME, table_schema=self._state.description.schema)
        values = [array[0] for _, _, array in part.partition_arrays]
        partition_id = compute_partition_id(values, [type_ for _, type_, _ in part.partition_arrays])
        return Copy(place, partition_id, part.content_hash, part.rows, part.data_uncompressed_bytes)

    def link(self, staging: str, part: HeldPart, active: PartName) -> bool:
        """Makes a copy of an active part with the same content. Returns false if that is gone."""
        store = self._state.store
        with store.hold_active([active]) as held:
            if not held.parts or goes_by_sources(self._state):
                return False
            if held.parts[0].row_version.has_places is not bool(part.origin) and not held.parts[0].row_version.is_mixed:
                return False
            directory = store.create_temporary("tmp_bootstrap_")
            try:
                link_files(held.parts[0].path, directory, should_sync=True)
                self._take(
                    staging, part.key(), FileKeeper(self._state, CopiedPlaces(self._state, None)).take(directory, part)
                )
            finally:
                store.drop_temporary(directory)
        return True

    def fetch(self, staging: str, part: HeldPart, writer: CopyWriter, receive: Callable[[Path], None]) -> None:
        """Makes a copy of what ``receive`` writes into an empty directory.

        Raises ``CorruptionError`` if that is another part than the one that was held.
        """
        store = self._state.store
        with self._state.services.disk.reserve(store.path, part.file_bytes, f"copying {part.name}"):
            directory = store.create_temporary("tmp_bootstrap_")
            try:
                receive(directory)
                self._take(staging, part.key(writer.variant), writer.take(directory, part))
            finally:
                store.drop_temporary(directory)

    def _take(self, staging: str, key: str, written: Sequence[Path]) -> None:
        """Moves whole parts to their places."""
        store, count = self._state.store, len(written)
        try:
            self.remove(staging, [key])
            places = [key] if "~" not in key else [f"{key}.{i}-{count}" for i in range(count)]
            store.staged.move_in(staging, list(zip(written, places, strict=True)))
        finally:
            for directory in written:
                store.drop_temporary(directory)


def _piece_number(place: str) -> int:
    return int(place.partition(".")[2].partition("-")[0] or 0)
