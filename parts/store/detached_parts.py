"""``detached/``: directories taken out of a table, for whoever looks into it. Only a user's command deletes here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.format.hashed_file import make_directories, sync_directory
from parts.read.part_reader import Part, open_part

DETACHED = "detached"
_TRY = re.compile(r"_try\d+\Z")
_PARTITION = re.compile(r"all|-?\d+(--?\d+)*|[0-9a-f]{32}")
"""The ids that ``parts.blocks.partition_ids`` makes."""


def get_max_block(directory: str) -> int:
    """The largest block number that the part in ``[<reason>_]<name>[_try<n>]`` can have; 0 if that is no part."""
    name = parse_detached_name(directory)[1]
    return name.max_block if name is not None else 0


def parse_detached_name(directory: str) -> tuple[str, PartName | None]:
    """Reason and part of ``[<reason>_]<name>[_try<n>]``; ``None`` if that is no part."""
    fields = _TRY.sub("", directory).split("_")
    for count in (5, 4):
        name = PartName.try_parse("_".join(fields[-count:]))
        if name is not None and _PARTITION.fullmatch(name.partition_id):  # and no reason with a number behind it
            return "_".join(fields[:-count]), name
    return "", None


def list_detached_by_users(directories: Iterable[str]) -> list[PartName]:
    """Those that are the names of parts: somebody wished that they are there, and nobody found anything wrong."""
    found = ((directory, *parse_detached_name(directory)) for directory in directories)
    return sorted(name for directory, _, name in found if name is not None and directory == str(name))


class DetachedParts:
    """The detached directories of the table in ``table_path``. Used under the store's lock."""

    def __init__(self, table_path: Path, should_sync: bool, *, is_owner: bool = True) -> None:
        self._table_path = table_path
        self._path = table_path / DETACHED
        self._should_sync = should_sync
        if is_owner:
            if should_sync:
                make_directories(self._path)
            self._path.mkdir(parents=True, exist_ok=True)

    def take(self, taken: Part | Path, reason: str = "", name: str = "") -> str:
        """Moves a part, or any directory of the table, to ``[<reason>_]<name>``; a taken name gets ``_try1``, ``_try2``
        … Returns the directory's new name. Call :meth:`sync` before it counts."""
        old = taken if isinstance(taken, Path) else taken.path
        name = self._free_name(name or old.name, reason)
        if isinstance(taken, Path):
            os.rename(taken, self._path / name)
        else:
            taken.move(self._path / name)
        return name

    def sync(self) -> None:
        """Makes moves between the table and ``detached/`` durable."""
        if self._should_sync:
            sync_directory(self._path)
            sync_directory(self._table_path)

    def holds(self, part: Part) -> bool:
        """Whether the content of the part is here, under its name."""
        try:
            return open_part(self._path / str(part.name), name=part.name).content_hash == part.content_hash
        except PandoError:  # broken, or of a later version
            return False

    def delete(self, name: str) -> None:
        """Durable when this returns; fine when it is gone."""
        shutil.rmtree(self._path / name, ignore_errors=True)
        self.sync()

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_dir())

    def _free_name(self, name: str, reason: str) -> str:
        base = f"{reason}_{name}" if reason else name
        candidate, attempt = base, 0
        while (self._path / candidate).exists():
            attempt += 1
            candidate = f"{base}_try{attempt}"
        return candidate
